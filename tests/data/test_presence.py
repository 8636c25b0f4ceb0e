import shutil

import pytest

from tests.data.small_data import shared_file, tiny_mnist, write_idx
from tnlpad.data.presence import status, status_of


@pytest.fixture
def tiny(tmp_path):
    write_idx(tmp_path)
    return tiny_mnist()[0], tmp_path


def test_status(tiny, tmp_path_factory):
    info, root = tiny
    assert status_of(info, root).state == "present"
    assert status_of(info, tmp_path_factory.mktemp("empty")).state == "missing"
    path = root / "MNIST" / "raw" / "t10k-labels-idx1-ubyte"
    path.write_bytes(b"short")
    found = status_of(info, root)
    assert (found.state, found.detail) == ("incomplete", "wrong size: t10k-labels-idx1-ubyte")
    path.unlink()
    found = status_of(info, root)
    assert (found.state, found.detail) == ("incomplete", "lacks t10k-labels-idx1-ubyte")
    assert found.folder == root / "MNIST" / "raw"


def test_what_comes_with_a_package_is_there():
    found = status("digits")
    assert (found.state, found.folder) == ("bundled", None)


def test_labels_without_their_images_say_how_to_get_those(tmp_path):
    shutil.copy(shared_file("cifar100n.npz"), tmp_path)
    found = status("cifar100n", tmp_path)
    assert found.state == "present"
    assert found.detail.startswith("the images are missing: tnlpad data get cifar100 --root")


def test_lists_that_make_no_sense_are_not_there(tmp_path):
    meta = tmp_path / "food-101" / "meta"
    meta.mkdir(parents=True)
    (tmp_path / "food-101" / "images").mkdir()
    for name in ("classes.txt", "train.txt", "test.txt"):
        (meta / name).write_bytes(b"\xff\xff")
    found = status("food101", tmp_path)
    assert (found.state, "not a text file in UTF-8" in found.detail) == ("incomplete", True)
