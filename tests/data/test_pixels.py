import numpy as np
import pytest
from PIL import Image

from tests.data.own_files import bomb, picture, save
from tests.data.small_data import Recorder
from tnlpad.data.pixels import open_pixels, probe, undecodable
from tnlpad.data.storage import FileImages
from tnlpad.errors import DataError


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "1", "LA"])
def test_every_mode_of_png_is_read(tmp_path, mode):
    path = save(tmp_path / "x.png", picture(mode=mode))
    seen = probe(str(path))
    assert (seen.width, seen.height, seen.mode) == (12, 10, mode)
    assert open_pixels(str(path), 64).mode == "RGB"


def test_cmyk_is_read(tmp_path):
    path = save(tmp_path / "x.jpg", picture(mode="CMYK"))
    assert probe(str(path)).mode == "CMYK"
    assert open_pixels(str(path), 64).mode == "RGB"


def test_sixteen_bits_keep_their_upper_half(tmp_path):
    values = np.array([[0, 256 * 100, 65535]], dtype=np.uint16)
    path = save(tmp_path / "x.png", Image.fromarray(values))
    assert probe(str(path)).gray
    assert np.asarray(open_pixels(str(path), 64, 1)).tolist() == [[0, 100, 255]]


@pytest.mark.parametrize(("kind", "high"), [(np.float32, 4095), (np.float32, np.inf), (np.int32, 70000)])
def test_more_than_eight_or_sixteen_bits_are_refused(tmp_path, kind, high):
    path = tmp_path / "x.tiff"
    Image.fromarray(np.array([[0, high]], dtype=kind)).save(path)
    with pytest.raises(DataError, match=r"its pixels reach .*with 8 or 16 bits"):
        open_pixels(str(path), 8)
    assert "its pixels reach" in probe(str(path))


@pytest.mark.parametrize(("most", "size"), [((1, 1000), (1, 1001)), ((2000, 2), (2002, 2)), ((9, 9), (3, 70_000))])
def test_an_image_that_is_too_long_to_resize(tmp_path, most, size):
    assert probe(str(save(tmp_path / "x.png", Image.new("L", most)))).mode == "L"
    path = save(tmp_path / "y.png", Image.new("L", size))
    assert "1,000 times" in probe(str(path))
    with pytest.raises(DataError, match="1,000 times"):
        open_pixels(str(path), 64)


def test_transparency_lies_on_white(tmp_path):
    path = save(tmp_path / "x.png", Image.new("RGBA", (4, 4), (0, 0, 0, 0)))
    assert np.asarray(open_pixels(str(path), 64)).min() == 255


def test_photographs_are_turned_as_their_exif_says(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    path = save(tmp_path / "x.jpg", picture(size=(40, 20)), exif=exif)
    seen = probe(str(path))
    assert (seen.width, seen.height) == (20, 40)
    assert open_pixels(str(path), 64).size == (20, 40)


def test_the_first_picture_of_an_animation_counts(tmp_path):
    frames = [Image.new("RGB", (4, 4), color) for color in ("red", "blue")]
    path = save(tmp_path / "x.gif", frames[0], save_all=True, append_images=frames[1:])
    assert np.asarray(open_pixels(str(path), 64))[0, 0].tolist() == [255, 0, 0]


def test_what_cannot_be_read_has_a_reason(tmp_path):
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "text.png").write_text("no image")
    whole = save(tmp_path / "whole.jpg", picture(size=(200, 200))).read_bytes()
    (tmp_path / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    bomb(tmp_path / "bomb.png")
    reasons = {
        name: probe(str(tmp_path / name)) for name in ("empty.png", "text.png", "cut.jpg", "bomb.png", "none.png")
    }
    assert reasons["empty.png"] == "the file is empty"
    assert reasons["text.png"] == "not an image of a known format"
    assert "truncated" in reasons["cut.jpg"]
    assert "unpacks to more than 67,108,864 pixels" in reasons["bomb.png"]
    assert reasons["none.png"] == "there is no such file"


def test_an_image_that_only_we_find_too_large(tmp_path):
    assert "unpacks to more than 67,108,864 pixels" in probe(str(bomb(tmp_path / "x.png", side=9000)))


def test_a_jpeg_is_shrunk_while_it_is_decoded_and_others_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr("tnlpad.data.pixels.MAX_PIXELS", 12_000)
    monkeypatch.setattr("tnlpad.data.pixels.MAX_JPEG_PIXELS", 200_000)
    large = picture(size=(600, 300))
    seen = probe(str(save(tmp_path / "x.jpg", large)))
    assert (seen.width, seen.height) == (600, 300)
    assert open_pixels(str(tmp_path / "x.jpg"), 64).size == (150, 75)
    assert "unpacks to more than" in probe(str(save(tmp_path / "x.png", large)))
    assert "unpacks to more than" in probe(str(save(tmp_path / "y.jpg", picture(size=(600, 400)))))
    with pytest.raises(DataError, match="unpacks to more than"):
        open_pixels(str(tmp_path / "x.jpg"), 300)  # too large at the size that is wanted


def test_a_jpeg_larger_than_pillow_opens(tmp_path):
    save(tmp_path / "x.jpg", Image.new("L", (20_000, 9_500), 128))
    with pytest.raises(Image.DecompressionBombError):
        Image.open(tmp_path / "x.jpg")
    assert probe(str(tmp_path / "x.jpg")).width == 20_000


def test_a_damaged_image_names_itself(tmp_path):
    (tmp_path / "x.png").write_bytes(b"x")
    with pytest.raises(DataError, match=r"x\.png: cannot be read as an image"):
        open_pixels(str(tmp_path / "x.png"), 64)


def test_one_content_has_one_digest_wherever_it_lies(tmp_path):
    one, two = save(tmp_path / "1.png", picture(1)), save(tmp_path / "2.png", picture(2))
    assert probe(str(one)).digest == probe(one.read_bytes()).digest != probe(str(two)).digest


def test_only_what_cannot_be_decoded_is_named_in_the_order_given(tmp_path):
    good = save(tmp_path / "good.png", picture())
    half = tmp_path / "half.png"
    half.write_bytes(good.read_bytes()[:60])
    paths = [str(path) for path in (half, good, bomb(tmp_path / "bomb.png"), tmp_path / "nowhere.png")]
    recorder = Recorder()
    found = dict(undecodable([(FileImages(paths), place) for place in range(len(paths))], reporter=recorder))
    assert list(found) == [paths[0], paths[2], paths[3]]
    assert all(found.values())
    assert recorder.steps == [("Decoding images", 4, 4)]
    assert list(undecodable([])) == []
