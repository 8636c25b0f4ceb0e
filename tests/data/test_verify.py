import shutil

import numpy as np
import pytest

from tests.data.small_data import real_root, shared_file, tiny_mnist, write_idx
from tnlpad.data import CATALOGUE, check
from tnlpad.data.verify import check_of, status, status_of


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("mnist", "MNIST/raw"),
        ("fashion_mnist", "FashionMNIST/raw"),
        ("cifar10", "cifar-10-batches-bin"),
        ("cifar100", "cifar-100-binary"),
    ],
)
def test_real_data_are_as_published(name, folder):
    root = real_root(folder)
    assert status(name, root).state == "present"
    report = check(name, root)
    assert report.ok, report.problems
    assert len(report.verified) == len(CATALOGUE[name].layouts[0].files)


def test_check_of_human_labels(tmp_path):
    shutil.copy(shared_file("cifar100n.npz"), tmp_path)
    report = check("cifar100n", tmp_path)
    assert report.ok
    assert "The images of cifar100 are missing" in report.notes[1]
    assert "the images are missing" in status("cifar100n", tmp_path).detail
    folder = "cifar-100-binary"
    (tmp_path / folder).symlink_to(real_root(folder) / folder)
    report = check("cifar100n", tmp_path)
    assert report.ok
    assert len(report.notes) == 1
    assert "no checksum is published for this form" in report.notes[0]
    assert "the clean labels equal those of cifar100 on disk, image by image" in report.verified


def test_human_labels_that_were_changed(tmp_path):
    with np.load(shared_file("cifar100n.npz")) as stored:
        labels = dict(stored)
    labels["noisy_label"][:3] = labels["clean_label"][:3]
    (tmp_path / "cifar-n").mkdir()
    np.savez(tmp_path / "cifar-n" / "cifar100n.npz", **labels)
    report = check("cifar100n", tmp_path)
    assert not report.ok
    assert "labels of 'noisy' are wrong, 20,100 as published" in report.problems[0]


def test_human_labels_for_images_in_another_order(tmp_path):
    """Two images change places: the labels would be wrong in silence."""
    folder = "cifar-100-binary"
    root = real_root(folder)
    shutil.copy(shared_file("cifar100n.npz"), tmp_path)
    records = np.fromfile(root / folder / "train.bin", np.uint8).reshape(-1, 3074)
    assert records[0, 1] != records[1, 1]
    records[[0, 1]] = records[[1, 0]]
    (tmp_path / folder).mkdir()
    records.tofile(tmp_path / folder / "train.bin")
    (tmp_path / folder / "test.bin").symlink_to(root / folder / "test.bin")
    problems = check("cifar100n", tmp_path).problems
    assert len(problems) == 1
    assert "differ from those of the images on disk for 2 of 50,000 images, first for image 0" in problems[0]


def test_changed_bytes_are_named_with_the_way_out(tmp_path):
    write_idx(tmp_path)
    info = tiny_mnist()[0]
    assert check_of(info, tmp_path).ok
    path = tmp_path / "MNIST" / "raw" / "t10k-labels-idx1-ubyte"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    problems = check_of(info, tmp_path).problems
    assert len(problems) == 1
    assert f"{path} has sha256" in problems[0]
    assert "Get it with `tnlpad data get mnist" in problems[0]
    path.unlink()
    path.with_name(f"{path.name}.gz").write_bytes(b"no gzip")
    assert "cannot be read" in check_of(info, tmp_path).problems[0]


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
