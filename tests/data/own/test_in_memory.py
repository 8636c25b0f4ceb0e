import numpy as np
import pytest
import torch
from PIL import Image

from tests.data.own_files import class_folders, picture
from tnlpad.data.errors import DataError
from tnlpad.data.own import open_dataset
from tnlpad.data.own.in_memory import open_samples

IMAGES = np.random.default_rng(0).integers(0, 255, (20, 8, 8), dtype=np.uint8)
LABELS = np.arange(20) % 2


@pytest.mark.parametrize("shape", ["hw", "hwc", "chw", "tensor", "fractions"])
def test_every_order_of_an_image_s_axes_gives_the_same_data(tmp_path, shape):
    images = np.random.default_rng(0).integers(0, 255, (40, 9, 11, 3), dtype=np.uint8)
    labels = np.arange(40) % 2
    if shape == "hw":
        images = images[..., 0]
    given = {
        "hw": images,
        "hwc": images,
        "chw": images.transpose(0, 3, 1, 2) if images.ndim == 4 else images,
        "tensor": torch.from_numpy(images),
        "fractions": (images / 255).astype(np.float32),
    }[shape]
    np.savez(tmp_path / "x.npz", images=images, labels=labels)
    assert open_samples(given, torch.from_numpy(labels)).shape == open_dataset(tmp_path / "x.npz").shape


@pytest.mark.parametrize(
    ("data", "labels", "said"),
    [
        (IMAGES, None, "labels are missing: give one for each sample"),
        (IMAGES, LABELS[:7], "there are 20 samples and 7 labels: give one label for each"),
        (IMAGES, np.eye(2)[LABELS], r"labels have the shape \(20, 2\): give one class for each sample"),
        (IMAGES, LABELS + 0.5, "the label 0.5 is a number with a fraction"),
        (IMAGES, [None] * 20, "none of its 20 samples can be used; 0: has no label"),
        (IMAGES * 1.0 - 9, LABELS, "pixels reach from -9 to .*: make them 8-bit numbers"),
        (np.full((20, 8, 8), np.nan), LABELS, "images hold NaN or infinity. Make them 8-bit"),
        (np.full((20, 3), np.nan), LABELS, "none of its 20 samples can be used; 0: has no finite number in column"),
        (np.arange(20), LABELS, r"samples have shape \(20,\): images are N×H×W"),
        (np.ones((20, 2, 2, 2, 2)), LABELS, "images are N×H×W, N×H×W×C or N×C×H×W, features N×D"),
        (np.ones((20, 5, 5, 7), np.uint8), LABELS, "one, three or four channels come first or last"),
        (np.ones((20, 3), complex), LABELS, "samples are complex128; they must be numbers"),
        (np.array([["a"] * 3] * 20), LABELS, "samples are <U1; they must be numbers"),
        (np.ones((20, 3), bool), LABELS, "samples are bool; they must be numbers"),
        (np.array([object()] * 20), LABELS, "of things that are no numbers"),
        (np.empty((0, 8, 8), np.uint8), [], "data holds no sample"),
        ([], [], "data holds no sample"),
        (np.float32(3), [], "images are N×H×W"),
        (None, LABELS, "data is None: give images"),
        ([np.ones((3, 8, 8)), np.ones((3, 9, 8))], [0, 1], r"sample 1 has the shape \(3, 9, 8\)"),
        ("nowhere.npz", None, "nowhere.npz does not exist"),
        ("nowhere.npz", LABELS, "labels are given, and the path nowhere.npz has its own: leave them out"),
    ],
)
def test_bad_input_is_told(data, labels, said):
    with pytest.raises(DataError, match=said):
        open_samples(data, labels)


@pytest.mark.parametrize(("ids", "said"), [(["a"] * 20, "the id 'a' is there twice"), (["a"], "20 samples and 1 ids")])
def test_an_id_is_one_sample_s(ids, said):
    with pytest.raises(DataError, match=said):
        open_samples(IMAGES, LABELS, ids=ids)


def test_pictures_of_any_mode():
    modes = ["RGB", "L", "RGBA", "CMYK", "P", "1"]
    pictures = [picture(row).convert(modes[row % len(modes)]) for row in range(24)]
    pictures[0] = Image.new("F", (12, 10), 3.0)
    own = open_samples(pictures, [row % 2 for row in range(24)])
    assert (own.kind, len(own.ids), own.problems) == ("files", 24, ())


def test_labels_may_be_of_any_kind():
    texts = np.array(["b", "a"])[LABELS]
    expected = open_samples(IMAGES, texts).shape
    for same in (texts.tolist(), texts.astype(object), texts.astype("S1")):
        assert open_samples(IMAGES, same).shape == expected
    whole = open_samples(IMAGES, LABELS).shape
    for same in (LABELS.astype(np.uint8), LABELS.astype(float), LABELS.astype(bool), torch.from_numpy(LABELS)):
        assert open_samples(IMAGES, same).shape == whole


def test_names_of_classes():
    own = open_samples(IMAGES, LABELS, class_names=["zebra", "ant", "nobody"])
    assert own.class_names == ("zebra", "ant", "nobody")
    assert [own.class_names[label] for label in own.labels[:2]] == ["zebra", "ant"]
    own = open_samples(IMAGES, np.arange(20) % 3, class_names=["a", "b"])
    assert len(own.problems) == 6
    assert own.problems[0].reason == "has the label 2, and there are 2 classes"


def test_unlabelled_samples_need_no_labels(tmp_path):
    assert open_samples(IMAGES, labelled=False).labels.tolist() == [-1] * 20
    folder = class_folders(tmp_path / "data")
    assert len(open_samples(folder, labelled=False).ids) == 6


def test_a_path_is_opened_as_ever(tmp_path):
    folder = class_folders(tmp_path / "data")
    assert open_samples(str(folder)).shape == open_dataset(folder).shape


def test_a_column_of_a_table_may_hold_the_labels():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [1.0, 2.0], "kind": ["x", "y"], "b": [3, 4]})
    own = open_samples(table, label="kind")
    assert own.shape == open_samples(table[["a", "b"]], ["x", "y"]).shape
    assert (own.columns, own.class_names) == (("a", "b"), ("x", "y"))
    for same in (table, table[["a", "b"]]):
        assert open_samples(same, label="kind", labelled=False).columns == ("a", "b")
    with pytest.raises(DataError, match="data has no column 'sort'; it has a, kind, b"):
        open_samples(table, label="sort")
    with pytest.raises(DataError, match="labels are given, and so is label='kind'"):
        open_samples(table, [0, 1], label="kind")


def test_a_table_of_pandas_is_read_as_its_file_is(tmp_path):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"Id": [3, 4], "a": [1.0, 2.0], "name": ["x", "y"], "label": ["p", "q"]})
    table["split"] = ["train", "test"]
    table.to_csv(tmp_path / "x.csv", index=False)
    own, file = open_samples(table), open_dataset(tmp_path / "x.csv")
    assert (own.shape, own.columns, own.notes) == (file.shape, ("a",), file.notes)
    assert open_samples(table, ids=["r", "s"]).ids == ("r", "s")
    beside = open_samples(table.drop(columns="label"), ["p", "q"])
    assert beside.shape == own.shape


def test_a_table_without_columns_or_rows_has_no_samples():
    pandas = pytest.importorskip("pandas")
    for table in (pandas.DataFrame(), pandas.DataFrame({"a": []})):
        with pytest.raises(DataError, match="data has no rows"):
            open_samples(table, [])


def test_arrays_have_no_column_of_labels():
    with pytest.raises(DataError, match="label='kind' names a column, and a ndarray has none"):
        open_samples(IMAGES, LABELS, label="kind")
    assert len(open_samples(IMAGES, label="kind", labelled=False).ids) == 20


def test_names_of_classes_may_be_the_labels():
    own = open_samples(IMAGES, np.array(["dog", "cat"])[LABELS], class_names=["cat", "dog"])
    assert own.shape == open_samples(IMAGES, 1 - LABELS, class_names=["cat", "dog"]).shape
