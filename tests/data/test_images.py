from tests.data.own_files import bomb, picture, save
from tnlpad.data.images import undecodable


def test_only_what_cannot_be_decoded_is_named_in_the_order_given(tmp_path):
    class Heard:
        def say(self, message):
            pass

        def progress(self, task, done, total):
            self.told = (task, done, total)

    good = save(tmp_path / "good.png", picture())
    half = tmp_path / "half.png"
    half.write_bytes(good.read_bytes()[:60])
    paths = [str(path) for path in (half, good, bomb(tmp_path / "bomb.png"), tmp_path / "nowhere.png")]
    heard = Heard()
    found = dict(undecodable(paths, reporter=heard))
    assert list(found) == [paths[0], paths[2], paths[3]]
    assert all(found.values())
    assert heard.told == ("Decoding images", 4, 4)
    assert list(undecodable([])) == []
