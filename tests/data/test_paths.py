import numpy as np
import pytest

from tnlpad.data.paths import PathList


def test_it_is_a_sequence_of_the_texts():
    names = ["a/1", "", "ü/日本", "b" * 300]
    paths = PathList([name.encode() for name in names], prefix="/data/", suffix=".jpg")
    expected = [f"/data/{name}.jpg" for name in names]
    assert list(paths) == expected
    assert [paths[place] for place in (0, 2, -1, np.int64(3))] == [expected[place] for place in (0, 2, -1, 3)]
    assert (paths[1:3], paths[::-2], paths[5:]) == (expected[1:3], expected[::-2], [])
    assert (len(paths), expected[2] in paths, "/data/c.jpg" in paths) == (4, True, False)
    assert list(PathList([])) == []


@pytest.mark.parametrize("place", [4, -5])
def test_places_out_of_range(place):
    with pytest.raises(IndexError):
        PathList([b"a", b"b", b"c", b"d"])[place]
