import zipfile

import numpy as np
import pytest

from tnlpad.data.arrays import read_npz
from tnlpad.data.errors import DataError


def npz(tmp_path, **arrays):
    np.savez(tmp_path / "x.npz", **arrays)
    return tmp_path / "x.npz"


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        ((4, 5, 6), (4, 1, 5, 6)),
        ((4, 5, 6, 3), (4, 3, 5, 6)),
        ((4, 3, 5, 6), (4, 3, 5, 6)),
        ((4, 5, 6, 4), (4, 3, 5, 6)),
    ],
)
def test_images_of_every_order(tmp_path, shape, found):
    images = np.arange(np.prod(shape)).reshape(shape).astype(np.uint8)
    listing = read_npz(npz(tmp_path, images=images, labels=np.arange(4)))
    assert listing.images.shape == found
    assert listing.labels == [0, 1, 2, 3]
    assert listing.ids == ["0", "1", "2", "3"]


def test_fractions_become_bytes(tmp_path):
    listing = read_npz(npz(tmp_path, x=np.array([[[0, 0.5], [1, 0]]]), y=["a"]))
    assert listing.images.tolist() == [[[[0, 128], [255, 0]]]]
    assert listing.labels == ["a"]


def test_rows_are_features(tmp_path):
    listing = read_npz(
        npz(tmp_path, X=np.ones((3, 2)), y=np.arange(3), ids=["p", "q", "r"], split=["train", "test", ""])
    )
    assert listing.features.dtype == np.float32
    assert listing.ids == ["p", "q", "r"]
    assert listing.parts == ["train", "test", "train"]


def test_parts_by_name_as_keras_saves_them(tmp_path):
    pixels = np.zeros((3, 4, 4), np.uint8)
    path = npz(tmp_path, x_test=pixels[:1], y_test=[1], x_train=pixels, y_train=[0, 1, 2])
    listing = read_npz(path)
    assert listing.ids == ["train/0", "train/1", "train/2", "test/0"]
    assert listing.parts == ["train", "train", "train", "test"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"pictures": np.zeros((2, 3))}, "holds pictures. Save `images`"),
        ({"x": np.zeros((2, 3)), "y": np.zeros(3)}, "one label per sample"),
        ({"x": np.zeros((2, 3)), "y": np.zeros((2, 5))}, "one label per sample"),
        ({"x": np.zeros((2, 3, 3)) - 1, "y": np.zeros(2)}, "pixels reach from -1 to -1"),
        ({"x": np.full((2, 3, 3), np.nan), "y": np.zeros(2)}, "NaN or infinity"),
        ({"x": np.array(["a", "b"]), "y": np.zeros(2)}, "must be numbers"),
        ({"x": np.zeros((2, 5, 5, 7)), "y": np.zeros(2)}, "one, three or four channels"),
        ({"x": np.zeros((2, 3)), "y": np.array([{}, {}], dtype=object)}, "Python objects"),
    ],
)
def test_mistakes_are_named(tmp_path, arrays, message):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(DataError, match=message):
        read_npz(tmp_path / "x.npz")


def test_damaged_and_endless_files(tmp_path, monkeypatch):
    (tmp_path / "x.npz").write_bytes(b"PK no")
    with pytest.raises(DataError, match=r"cannot be read as \.npz"):
        read_npz(tmp_path / "x.npz")
    monkeypatch.setattr("tnlpad.data.arrays.MOST_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "y.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", b"\0" * (1 << 21))
    assert (tmp_path / "y.npz").stat().st_size < 1 << 15
    with pytest.raises(DataError, match="unpacks to 2,097,152 bytes"):
        read_npz(tmp_path / "y.npz")


def test_labels_may_be_a_column(tmp_path):
    listing = read_npz(npz(tmp_path, x_train=np.zeros((3, 8, 8), np.uint8), y_train=np.array([[2], [0], [1]])))
    assert listing.labels == [2, 0, 1]


def test_to_predict_on_samples_have_the_same_ids_and_need_no_labels(tmp_path):
    named = npz(tmp_path, features=np.ones((2, 3)), labels=[0, 1], ids=["p", "q"], class_names=["a", "b"])
    assert read_npz(named, labelled=False).ids == read_npz(named).ids == ["p", "q"]
    parts = npz(tmp_path, x_test=np.ones((1, 3)), x_train=np.ones((2, 3)))
    listing = read_npz(parts, labelled=False)
    assert (listing.ids, listing.parts) == (["train/0", "train/1", "test/0"], ["train", "train", "test"])
    assert listing.labels == [None, None, None]
    with pytest.raises(DataError, match="holds y\\. Save `images`, or `features`"):
        read_npz(npz(tmp_path, y=[1]), labelled=False)
    with pytest.raises(DataError, match="a single number"):
        read_npz(npz(tmp_path, x=3.0), labelled=False)


def test_the_array_of_labels_may_have_any_name(tmp_path):
    with pytest.raises(DataError, match="say --label NAME"):
        read_npz(npz(tmp_path, x=np.zeros((2, 3)), fine=[4, 5]))
    assert read_npz(tmp_path / "x.npz", label="fine").labels == [4, 5]
    with pytest.raises(DataError, match="holds x, fine"):
        read_npz(tmp_path / "x.npz", label="coarse")
    parts = {"x_train": np.zeros((1, 3)), "x_test": np.zeros((1, 3)), "fine_train": [1], "fine_test": [2]}
    listing = read_npz(npz(tmp_path, **parts), label="fine")
    assert (listing.labels, listing.parts) == ([1, 2], ["train", "test"])
