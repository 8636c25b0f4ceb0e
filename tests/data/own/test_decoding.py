from tests.data.own_files import picture, save
from tnlpad.data.own import open_dataset
from tnlpad.data.own.decoding import decoded
from tnlpad.data.stream import decode


def test_mixed_modes_become_colours_and_gray_alone_stays_gray(tmp_path):
    for number, mode in enumerate(("L", "LA", "1")):
        save(tmp_path / "gray" / "ab"[number % 2] / f"{number}.png", picture(number, mode=mode))
    gray = open_dataset(tmp_path / "gray")
    assert gray.shape.channels == 1
    assert decoded(gray.files, 8, 1).shape == (3, 1, 8, 8)
    save(tmp_path / "gray" / "a" / "colour.jpg", picture(9, mode="CMYK"))
    mixed = open_dataset(tmp_path / "gray")
    assert mixed.shape.channels == 3
    assert decoded(mixed.files, 8, 3).shape == (4, 3, 8, 8)


def test_images_keep_their_order_and_progress_is_told(tmp_path):
    class Heard:
        def say(self, message):
            pass

        def progress(self, task, done, total):
            self.told = (task, done, total)

    files = [str(save(tmp_path / f"{number}.png", picture(number))) for number in range(5)]
    heard = Heard()
    pixels = decoded(files, 6, 3, reporter=heard)
    assert all((pixels[row] == decode(file, 6, 6)).all() for row, file in enumerate(files))
    assert heard.told == ("Decoding images", 5, 5)
