import zipfile

import numpy as np
import pytest

from tnlpad.data.own import arrays as module
from tnlpad.data.own.arrays import listing_of_arrays, one_label_each
from tnlpad.data.own.dataset import ReadOptions
from tnlpad.errors import DataError


def read_npz(path, **options):
    return module.read_npz(path, ReadOptions(**options))


def listing(*content, labels=None):
    ids = [str(row) for row in range(sum(len(array) for array in content))]
    return listing_of_arrays(content, labels, where="data", ids=ids)


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        ((4, 5, 6), (4, 1, 5, 6)),
        ((4, 5, 6, 3), (4, 3, 5, 6)),
        ((4, 3, 5, 6), (4, 3, 5, 6)),
        ((4, 5, 6, 4), (4, 3, 5, 6)),
    ],
)
def test_images_of_every_order(shape, found):
    images = np.arange(np.prod(shape)).reshape(shape).astype(np.uint8)
    assert listing(images).images.shape == found


def test_fractions_become_bytes():
    assert listing(np.array([[[0, 0.5], [1, 0]]])).images.tolist() == [[[[0, 128], [255, 0]]]]


def test_true_is_white_and_one():
    bits = np.array([[[False, True], [True, False]]])
    assert listing(bits).images.tolist() == [[[[0, 255], [255, 0]]]]
    assert listing(bits[0]).features.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("kind", "white", "assumed"), [("uint8", 1, "1 of 255"), ("int64", 1, "1 of 255"), ("float32", 255, "1 is taken")]
)
def test_zeros_and_ones_are_ambiguous(kind, white, assumed):
    images = np.zeros((3, 4, 4), kind)
    assert listing(images).notes == ()
    images[1, 2, 2] = 1
    found = listing(images)
    assert found.images.max() == white
    (note,) = found.notes
    assert assumed in note
    images[2, 0, 0] = 2
    assert listing(images).notes == ()


def test_fractions_are_not_ambiguous():
    assert listing(np.array([[[0, 0.5], [1, 0]]])).notes == ()


def test_parts_have_one_scale():
    images = np.full((2, 4, 4), 0.5)
    with pytest.raises(DataError, match=r"reach 0\.5, 127\.5"):
        listing(images, 255 * images)
    assert listing(255 * images, np.zeros((1, 4, 4))).images.max() == 128


def test_rows_are_features_with_numbered_columns():
    found = listing(np.ones((2, 3)), np.zeros((1, 3)), labels=[["a", "b"], ["a"]])
    assert found.features.dtype == np.float32
    assert found.columns == ("column 0", "column 1", "column 2")
    assert found.labels == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 3, 3)) - 1, "pixels range from -1 to -1"),
        (np.full((2, 3, 3), 300), "pixels range from 300 to 300"),
        (np.full((2, 3, 3), np.nan), "NaN or infinity"),
        (np.array(["a", "b"]), "samples are <U1; they must be numbers"),
        (np.ones((2, 3), complex), "samples are complex128; they must be numbers"),
        (np.zeros((2, 5, 5, 7)), "1, 3 or 4 channels"),
        (np.zeros((2, 0)), r"samples have shape \(2, 0\): images are N×H×W"),
        (np.zeros(2), r"samples have shape \(2,\)"),
        (np.zeros((2, 1, 1, 1, 1)), r"samples have shape \(2, 1, 1, 1, 1\)"),
    ],
)
def test_arrays_that_are_no_samples(array, message):
    with pytest.raises(DataError, match=message):
        listing(array)


def test_parts_are_alike():
    with pytest.raises(DataError, match=r"data: the samples of its parts differ in shape or type"):
        listing(np.ones((2, 3)), np.ones((2, 4)))
    with pytest.raises(DataError, match="differ in shape or type"):
        listing(np.ones((2, 3)), np.zeros((2, 3, 3), np.uint8))


def test_labels_may_be_a_column():
    assert one_label_each(np.array([[2], [0]]), range(2), "data") == [2, 0]
    assert one_label_each(["x", 1], range(2), "data") == ["x", 1]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(3), "data: there are 2 samples and 3 labels"),
        (
            np.eye(2),
            r"data: labels have shape \(2, 2\).* labels.argmax\(1\)",
        ),
        (np.array(1), r"labels have shape \(\)"),
    ],
)
def test_labels_that_do_not_fit(labels, message):
    with pytest.raises(DataError, match=message):
        one_label_each(labels, range(2), "data")


def npz(tmp_path, **arrays):
    np.savez(tmp_path / "x.npz", **arrays)
    return tmp_path / "x.npz"


def test_rows_are_features(tmp_path):
    listing = read_npz(
        npz(tmp_path, X=np.ones((3, 2)), y=np.arange(3), ids=["p", "q", "r"], split=["train", "test", ""])
    )
    assert listing.features.dtype == np.float32
    assert listing.ids == ["p", "q", "r"]
    assert listing.parts == ["train", "test", "train"]


def test_texts_as_bytes(tmp_path):
    about = {"ids": [b"p", "é".encode()], "split": [b"train", b"test"], "class_names": [b"cat", b"dog"]}
    bytes_of = {name: np.array(values, "S") for name, values in about.items()}
    path = npz(tmp_path, X=np.ones((2, 2)), y=[0, 1], columns=np.array([b"u", b"v"]), **bytes_of)
    found = read_npz(path, group="ids")
    assert (found.ids, found.parts, found.class_names) == (["p", "é"], ["train", "test"], ("cat", "dog"))
    assert (found.columns, found.groups) == (("u", "v"), ["=p", "=é"])
    with pytest.raises(DataError, match="ids has bytes that are not text"):
        read_npz(npz(tmp_path, X=np.ones((1, 2)), y=[0], ids=np.array([b"\xff"])))


def test_parts_by_name_as_keras_saves_them(tmp_path):
    pixels = np.zeros((3, 4, 4), np.uint8)
    path = npz(tmp_path, x_test=pixels[:1], y_test=[1], x_train=pixels, y_train=[0, 1, 2])
    listing = read_npz(path)
    assert listing.ids == ["train/0", "train/1", "train/2", "test/0"]
    assert listing.parts == ["train", "train", "train", "test"]


def test_files_that_only_look_like_arrays(tmp_path):
    """What NumPy makes of them differs: an error of its own, of the zip file, or of the text of a header."""
    header = b"\x93NUMPY\x01\x00\x10\x00" + b"{'descr': ('<f8'".ljust(16)
    for content in (b"", b"no array", header):
        with zipfile.ZipFile(tmp_path / "y.npz", "w") as archive:
            archive.writestr("images.npy", content)
        with pytest.raises(DataError, match=r"y\.npz"):
            read_npz(tmp_path / "y.npz")
    locked = bytearray((tmp_path / "y.npz").read_bytes())
    for place in (6, locked.index(b"PK\x01\x02") + 8):
        locked[place] |= 1  # says that a password is needed
    (tmp_path / "y.npz").write_bytes(locked)
    with pytest.raises(DataError, match=r"cannot be read as \.npz: .*password required .*Save plain arrays"):
        read_npz(tmp_path / "y.npz")


def test_damaged_and_endless_files(tmp_path, monkeypatch):
    (tmp_path / "x.npz").write_bytes(b"PK no")
    with pytest.raises(DataError, match=r"cannot be read as \.npz"):
        read_npz(tmp_path / "x.npz")
    np.savez_compressed(tmp_path / "y.npz", images=np.zeros((1 << 15, 8, 8), np.uint8), labels=np.zeros(1 << 15))
    assert (tmp_path / "y.npz").stat().st_size < 1 << 15
    monkeypatch.setattr("tnlpad.memory.memory_limits", lambda: [1 << 21])
    with pytest.raises(DataError, match=r"y\.npz takes at least 4\.2 MB of memory.* has 2\.1 MB"):
        read_npz(tmp_path / "y.npz")


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
    with pytest.raises(DataError, match="--label NAME"):
        read_npz(npz(tmp_path, x=np.zeros((2, 3)), fine=[4, 5]))
    assert read_npz(tmp_path / "x.npz", label="fine").labels == [4, 5]
    with pytest.raises(DataError, match=r"holds x, fine\. None of them is called 'coarse'"):
        read_npz(tmp_path / "x.npz", label="coarse")
    parts = {"x_train": np.zeros((1, 3)), "x_test": np.zeros((1, 3)), "fine_train": [1], "fine_test": [2]}
    listing = read_npz(npz(tmp_path, **parts), label="fine")
    assert (listing.labels, listing.parts) == ([1, 2], ["train", "test"])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"pictures": np.zeros((2, 3))}, "holds pictures. Save `images`"),
        ({}, "holds nothing. Save `images`"),
        ({"x": np.zeros((2, 3)), "y": np.zeros(3)}, "there are 2 samples and 3 labels"),
        (
            {"x": np.zeros((2, 3)), "y": np.array([{}, {}], dtype=object)},
            r"'y' holds Python objects\. .*texts with .astype\(str\)",
        ),
        (
            {"x": np.zeros((2, 3)), "y": [0, 1], "ids": [7]},
            r"ids has shape \(1,\); it must be a list of 2\. Correct it",
        ),
        ({"x": np.zeros((2, 3)), "y": [0, 1], "split": [["test"], [""]]}, r"split has shape \(2, 1\); it must be"),
        ({"x": np.zeros((2, 3)), "y": [0, 1], "ids": ["", "a"]}, r"row 0 \(counted from 0\) has no id"),
        (
            {"x": np.zeros((2, 3)), "y": [0, 1], "classes": 2},
            r"classes has shape \(\); it must be a list with a name",
        ),
    ],
)
def test_mistakes_are_named(tmp_path, arrays, message):
    with pytest.raises(DataError, match=message):
        read_npz(npz(tmp_path, **arrays))


def test_samples_without_the_word_of_a_part_are_those_to_train_on(tmp_path):
    rows = np.arange(6.0).reshape(3, 2)
    listing = read_npz(npz(tmp_path, images=rows, labels=[0, 1, 0], x_test=rows[:1], y_test=[1]))
    assert listing.parts == ["train", "train", "train", "test"]
    assert (listing.labels, listing.ids[-1]) == ([0, 1, 0, 1], "test/0")


def test_a_part_without_labels_is_left_out_with_a_note(tmp_path):
    path = npz(tmp_path, x_train=np.ones((2, 3)), y_train=[0, 1], x_test=np.ones((1, 3)))
    assert (read_npz(path).parts, read_npz(path).notes) == (
        ["train", "train"],
        ("the samples of test have no labels and are left out.",),
    )
    assert read_npz(path, labelled=False).parts == ["train", "train", "test"]


def test_features_may_have_names(tmp_path):
    rows = np.arange(6.0).reshape(2, 3)
    for word in ("columns", "feature_names"):
        np.savez(tmp_path / "x.npz", features=rows, labels=[0, 1], **{word: ["a", "b", "c"]})
        assert read_npz(tmp_path / "x.npz").columns == ("a", "b", "c")
        wanted = read_npz(tmp_path / "x.npz", labelled=False, columns=("c", "a"))
        assert (wanted.columns, wanted.features.tolist()) == (("c", "a"), [[2, 0], [5, 3]])
        with pytest.raises(DataError, match="has no column 'd'"):
            read_npz(tmp_path / "x.npz", labelled=False, columns=("d",))
    np.savez(tmp_path / "x.npz", features=rows, labels=[0, 1], columns=["a", "b"])
    with pytest.raises(DataError, match=r"columns has shape \(2,\); it must be a list of 3"):
        read_npz(tmp_path / "x.npz")
    np.savez(tmp_path / "x.npz", features=rows, labels=[0, 1], columns=["a", "b", "b"])
    with pytest.raises(DataError, match="two columns of the same name"):
        read_npz(tmp_path / "x.npz")
