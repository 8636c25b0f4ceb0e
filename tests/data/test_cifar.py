import os
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.small_data import cifar_arrays, real_root
from tnlpad.data import CATALOGUE, load
from tnlpad.data.cifar import read_cifar_binary, read_cifar_python
from tnlpad.errors import DataError

COUNT = 7


def binary_bytes(images, labels, coarse=None):
    columns = [] if coarse is None else [coarse[:, None]]
    columns += [labels[:, None], images.reshape(len(images), -1)]
    return np.concatenate(columns, axis=1).astype(np.uint8).tobytes()


def python_bytes(images, labels, coarse=None, changes=None):
    batch = {"data": images.reshape(len(images), -1), "batch_label": "testing", "filenames": ["x.png"] * len(images)}
    if coarse is None:
        batch["labels"] = labels.tolist()
    else:
        batch |= {"fine_labels": labels.tolist(), "coarse_labels": coarse.tolist()}
    return pickle.dumps(batch | (changes or {}), protocol=2)


@pytest.mark.parametrize("hundred", [False, True])
@pytest.mark.parametrize("reader", [read_cifar_binary, read_cifar_python])
def test_batches_are_read_one_after_the_other(tmp_path, reader, hundred):
    write = binary_bytes if reader is read_cifar_binary else python_bytes
    num_classes = 100 if hundred else 10
    parts = [cifar_arrays(COUNT, num_classes, seed) for seed in (0, 1)]
    paths = [tmp_path / str(seed) for seed in (0, 1)]
    for path, (images, labels, coarse) in zip(paths, parts, strict=True):
        path.write_bytes(write(images, labels, coarse if hundred else None))
    read = reader(paths, num_classes=num_classes, coarse=hundred)
    assert np.array_equal(read.images, np.concatenate([part[0] for part in parts]))
    assert np.array_equal(read.labels, np.concatenate([part[1] for part in parts]))
    assert read.labels.dtype == np.int64
    assert read.images.flags.writeable
    if hundred:
        assert np.array_equal(read.coarse_labels, np.concatenate([part[2] for part in parts]))
    else:
        assert read.coarse_labels is None


@pytest.mark.parametrize("lost", [1, 3072, 3074, 3073 * COUNT])
def test_a_truncated_binary_batch(tmp_path, lost):
    path = tmp_path / "data_batch_1.bin"
    content = binary_bytes(*cifar_arrays(COUNT, 10)[:2])
    path.write_bytes(content[: len(content) - lost])
    with pytest.raises(DataError, match=r"data_batch_1\.bin .*not a whole number of records"):
        read_cifar_binary([path], num_classes=10, coarse=False)


@pytest.mark.parametrize("reader", [read_cifar_binary, read_cifar_python])
def test_a_label_out_of_range(tmp_path, reader):
    images, labels, _ = cifar_arrays(COUNT, 10)
    labels[3] = 10
    path = tmp_path / "batch"
    path.write_bytes((binary_bytes if reader is read_cifar_binary else python_bytes)(images, labels))
    with pytest.raises(DataError, match="batch: label 10 of image 3 is out of range; with 10 classes"):
        reader([path], num_classes=10, coarse=False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labels": [1]}, "one label for each"),
        ({"labels": None}, "one label for each"),
        ({"labels": ["cat"] * COUNT}, "out of range"),
        ({"labels": [10**400] * COUNT}, "out of range"),
        ({"labels": [True] * COUNT}, "out of range"),
        ({"data": np.zeros((COUNT, 10), np.uint8)}, "`data` must be"),
        ({"data": np.zeros((COUNT, 3072), np.int64)}, "`data` must be"),
        ({"data": "no pixels"}, "`data` must be"),
    ],
)
def test_a_python_batch_that_is_none(tmp_path, changes, words):
    path = tmp_path / "data_batch_1"
    path.write_bytes(python_bytes(*cifar_arrays(COUNT, 10)[:2], changes=changes))
    with pytest.raises(DataError, match=f"data_batch_1.*{words}"):
        read_cifar_python([path], num_classes=10, coarse=False)


def test_the_batch_of_another_dataset(tmp_path):
    path = tmp_path / "train"
    path.write_bytes(python_bytes(*cifar_arrays(COUNT, 10)[:2]))
    with pytest.raises(DataError, match="no entry 'fine_labels'"):
        read_cifar_python([path], num_classes=100, coarse=True)
    path.write_bytes(pickle.dumps([1, 2], protocol=2))
    with pytest.raises(DataError, match="holds a list"):
        read_cifar_python([path], num_classes=100, coarse=True)


class Hostile:
    def __reduce__(self):
        return os.system, ("exit 1",)


def test_a_hostile_batch_does_not_run(tmp_path, monkeypatch):
    path = tmp_path / "data_batch_1"
    path.write_bytes(python_bytes(*cifar_arrays(COUNT, 10)[:2], changes={"filenames": Hostile()}))
    monkeypatch.setattr(os, "system", lambda _: pytest.fail("the pickle ran"))
    with pytest.raises(DataError, match=r"data_batch_1 contains .*do not trust"):
        read_cifar_python([path], num_classes=10, coarse=False)


def test_a_changed_python_batch_is_refused_before_it_is_unpickled(tmp_path, monkeypatch):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for file in CATALOGUE["cifar10"].layouts[1].files:
        (folder / file.path).write_bytes(python_bytes(*cifar_arrays(COUNT, 10)[:2]))
    monkeypatch.setattr("tnlpad.data.cifar.unpickle", lambda *_, **__: pytest.fail("the file was unpickled"))
    with pytest.raises(DataError, match=r"data_batch_1 has md5 .* expected c99cafc1.*tnlpad data get cifar10"):
        load("cifar10", tmp_path)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "random"


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300) | st.binary(min_size=3073, max_size=3073), st.booleans())
def test_random_bytes_give_our_error_or_images(fuzzed, content, coarse):
    fuzzed.write_bytes(content)
    for reader in (read_cifar_binary, read_cifar_python):
        try:
            images = reader([fuzzed], num_classes=10, coarse=coarse).images
        except DataError:
            images = np.empty((1, 3, 32, 32))
        assert images.shape == (1, 3, 32, 32)


def test_real_cifar10():
    root = real_root("cifar-10-batches-bin")
    train, test = load("cifar10", root), load("cifar10", root, "test")
    assert train.labels[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert np.bincount(train.labels).tolist() == [5000] * 10
    assert np.bincount(test.labels).tolist() == [1000] * 10
    # Mean over all training pixels and channels, as everyone normalises by: the planes are in the right order.
    means = train.images.mean(axis=(0, 2, 3)) / 255
    assert np.allclose(means, [0.4914, 0.4822, 0.4465], atol=5e-5)


def test_real_cifar100():
    root = real_root("cifar-100-binary")
    train, test = load("cifar100", root), load("cifar100", root, "test")
    assert np.bincount(train.labels).tolist() == [500] * 100
    assert np.bincount(test.labels).tolist() == [100] * 100
    assert np.allclose(train.images.mean(axis=(0, 2, 3)) / 255, [0.5071, 0.4865, 0.4409], atol=5e-5)
