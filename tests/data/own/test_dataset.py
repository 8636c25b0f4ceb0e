import numpy as np

from tests.data.own_files import class_folders
from tnlpad.data.own import open_dataset


def test_the_name_is_the_beginning_of_the_fingerprint(tmp_path):
    shape = open_dataset(class_folders(tmp_path)).shape
    assert shape.name == f"own-{shape.fingerprint[:10]}"


def test_the_samples_of_parts(tmp_path):
    for part in ("train", "test"):
        class_folders(tmp_path / part, count=1)
    own = open_dataset(tmp_path)
    assert [own.ids[row] for row in own.indices("test")] == ["test/cat/0.png", "test/dog/0.png"]
    assert len(own.indices("train", "test")) == 4
    assert own.indices("validation").tolist() == []


def test_rows_have_no_files(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.eye(3), y=["a", "b", "b"])
    own = open_dataset(tmp_path / "x.npz")
    assert own.paths == (None, None, None)
    assert own.indices("train", "validation").tolist() == [0, 1, 2]
