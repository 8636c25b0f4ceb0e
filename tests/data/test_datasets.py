import gzip
import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.data.small_data import TEST, TRAIN, idx_bytes, idx_contents, real_root, tiny_mnist, write_idx
from tnlpad.data import CATALOGUE, check, load, status
from tnlpad.data.datasets import read, read_idx
from tnlpad.data.verify import check_of, status_of
from tnlpad.errors import DataError


@pytest.fixture
def tiny(tmp_path):
    write_idx(tmp_path)
    return tiny_mnist()[0], tmp_path


@pytest.mark.parametrize("compressed", [False, True])
def test_idx_files_are_read_compressed_or_not(tiny, compressed):
    info, root = tiny
    if compressed:
        for path in list((root / "MNIST" / "raw").iterdir()):
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
    train, test = read(info, root, "train"), read(info, root, "test")
    contents = idx_contents()
    assert train.images.tobytes() == contents["train-images-idx3-ubyte"][16:]
    assert test.labels.tolist() == list(contents["t10k-labels-idx1-ubyte"][8:])
    assert train.images.shape == (TRAIN, 1, 28, 28)
    assert test.images.shape == (TEST, 1, 28, 28)
    assert (train.images.dtype, train.labels.dtype) == (np.uint8, np.int64)
    assert check_of(info, root).ok


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "train-labels-idx1-ubyte",
            idx_bytes([10] + [0] * 11),
            r"train-labels-idx1-ubyte: label 10 of image 0 is out of",
        ),
        ("train-labels-idx1-ubyte", idx_bytes([0] * 11), r"12 images and 11 labels of the train split; mnist has 12"),
        (
            "train-images-idx3-ubyte",
            idx_bytes(np.zeros((12, 27, 28))),
            r"train-images-idx3-ubyte has shape \(12, 27, 28\)",
        ),
        ("train-images-idx3-ubyte", idx_bytes(np.zeros(12)), r"train-images-idx3-ubyte has shape \(12,\)"),
        ("train-images-idx3-ubyte", idx_contents()["train-images-idx3-ubyte"][:-1], r"truncated or damaged"),
        ("train-images-idx3-ubyte", idx_contents()["train-images-idx3-ubyte"] + b"x", r"more than 9,424 bytes"),
    ],
)
def test_damaged_files_are_named_with_the_way_out(tiny, name, content, words):
    info, root = tiny
    (root / "MNIST" / "raw" / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"{words}.*Get it with `tnlpad data get mnist --root"):
        read(info, root, "train")


def test_what_is_missing_is_said(tiny, tmp_path_factory):
    info, root = tiny
    (root / "MNIST" / "raw" / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(
        DataError, match=r"raw lacks t10k-labels-idx1-ubyte of mnist. Get it with `tnlpad data get mnist --root"
    ):
        read(info, root, "train")
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(DataError, match=r"cifar10 is not in .*cifar-10-batches-bin or .*cifar-10-batches-py"):
        load("cifar10", empty)
    assert not check("cifar10", empty).ok


def test_a_folder_that_may_not_be_looked_into(tiny):
    info, root = tiny
    if os.geteuid() == 0:
        pytest.skip("the administrator may look into every folder")
    (root / "MNIST").chmod(0)
    try:
        assert status_of(info, root).state == "missing"
        assert not check_of(info, root).ok
    finally:
        (root / "MNIST").chmod(0o755)


def test_a_wrong_split(tmp_path):
    with pytest.raises(ValueError, match="split='valid': mnist has train, test"):
        load("mnist", tmp_path, "valid")


def test_digits():
    from sklearn.datasets import load_digits

    train, test = load("digits"), load("digits", split="test")
    info = CATALOGUE["digits"]
    assert train.images.shape == (info.train_size, 1, 8, 8)
    assert test.images.shape == (info.test_size, 1, 8, 8)
    images = np.concatenate([train.images, test.images])[:, 0]
    assert np.array_equal(np.concatenate([train.labels, test.labels]), load_digits().target)
    assert np.abs(images / 255 - load_digits().images / 16).max() <= 0.5 / 255  # the nearest byte
    assert len(np.unique(images)) == 17
    assert np.allclose(train.images.mean() / 255, info.normalisation.mean, atol=5e-5)
    assert np.allclose(train.images.std() / 255, info.normalisation.std, atol=5e-5)
    assert check("digits").ok
    assert (status("digits").state, status("digits").folder) == ("bundled", None)


@pytest.mark.parametrize(("name", "folder"), [("mnist", "MNIST/raw"), ("fashion_mnist", "FashionMNIST/raw")])
def test_real_idx(name, folder):
    root = real_root(folder)
    train, test = load(name, root), load(name, root, "test")
    assert train.images.shape == (60_000, 1, 28, 28)
    assert len(test.labels) == 10_000
    mean, std = {"mnist": (0.1307, 0.3081), "fashion_mnist": (0.2860, 0.3530)}[name]
    assert abs(train.images.mean() / 255 - mean) < 1e-4
    assert abs(train.images.std() / 255 - std) < 1e-4


def test_the_count_of_images_is_checked(tiny):
    info, root = tiny
    with pytest.raises(DataError, match="12 images and 12 labels of the train split; mnist has 13"):
        read(replace(info, train_size=13), root, "train")


MOST = 1 << 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("idx")


@settings(max_examples=50, deadline=None)
@given(hnp.arrays(np.uint8, hnp.array_shapes(max_dims=4, max_side=6, min_side=0)), st.booleans())
def test_what_was_written_is_read(folder, array, compressed):
    path = folder / ("file.gz" if compressed else "file")
    content = idx_bytes(array)
    path.write_bytes(gzip.compress(content) if compressed else content)
    read = read_idx(path, max_bytes=MOST)
    assert np.array_equal(read, array)
    assert read.shape == array.shape
    assert read.flags.writeable


@pytest.mark.parametrize("compressed", [False, True])
def test_every_truncation_is_noticed(folder, compressed):
    whole = idx_bytes(np.arange(40).reshape(10, 4))
    whole = gzip.compress(whole) if compressed else whole
    path = folder / ("short.gz" if compressed else "short")
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match="short"):
            read_idx(path, max_bytes=MOST)


def test_more_data_than_announced(folder):
    path = folder / "long"
    path.write_bytes(idx_bytes(np.zeros(10)) + b"\0")
    with pytest.raises(DataError, match="announces 10 = 10 bytes of data but holds 11"):
        read_idx(path, max_bytes=MOST)


def test_a_compressed_bomb_is_not_unpacked(folder):
    path = folder / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(50_000_000)))
    with pytest.raises(DataError, match="more than 65,536 bytes"):
        read_idx(path, max_bytes=MOST)


def test_another_type_of_number(folder):
    path = folder / "floats"
    path.write_bytes(b"\0\0\x0d\x01\0\0\0\x01" + bytes(4))
    with pytest.raises(DataError, match="0x00000d01"):
        read_idx(path, max_bytes=MOST)


def test_a_missing_file_and_a_folder_in_its_place(folder):
    with pytest.raises(DataError, match="nowhere cannot be read: No such file"):
        read_idx(folder / "nowhere", max_bytes=MOST)
    with pytest.raises(DataError, match="cannot be read"):
        read_idx(folder, max_bytes=MOST)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=64), st.booleans())
@example(b"\0\0\x08\x04" + b"\xff" * 16, False)  # announces more than any memory holds
def test_random_bytes_give_our_error_or_an_array(folder, content, compressed):
    path = folder / ("random.gz" if compressed else "random")
    path.write_bytes(content)
    try:
        size, message = read_idx(path, max_bytes=MOST).size, None
    except DataError as error:
        size, message = 0, str(error)
    assert size <= len(content)
    assert message is None or path.name in message
