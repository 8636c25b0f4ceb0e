import io
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import ExifTags, Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from tests.data.own_files import class_folders, picture
from tnlpad.data.own import open_dataset
from tnlpad.data.own.objects import arrow_table, holds_labels, open_samples
from tnlpad.data.pixels import open_pixels
from tnlpad.errors import DataError

IMAGES = np.random.default_rng(0).integers(0, 255, (20, 8, 8), dtype=np.uint8)
LABELS = np.arange(20) % 2


@pytest.mark.parametrize("labels", [{0, 1}, {0: 1}, 3])
def test_labels_have_an_order(labels):
    with pytest.raises(DataError, match=rf"labels are a {type(labels).__name__}: give a list or an array"):
        open_samples(IMAGES, labels)


def test_what_a_mask_hides_is_missing():
    rows = np.ma.array(np.arange(40.0).reshape(20, 2), mask=False)
    rows[3, 1] = np.ma.masked
    own = open_samples(rows, LABELS)
    assert (own.kind, own.problems) == ("table", ())
    assert np.argwhere(np.isnan(own.table.numbers)).tolist() == [[3, 1]]


def test_numbers_of_half_precision():
    rows = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    for kind in (torch.bfloat16, torch.float16):
        assert open_samples(rows.to(kind), LABELS).shape == open_samples(rows.to(kind).float(), LABELS).shape


def test_gaps_of_pandas():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": pandas.array([1, None, 3], dtype="Int64"), "b": [True, False, True]})
    own = open_samples(table, pandas.Series([None, "x", "y"], dtype="string"))
    assert {each.id: each.reason for each in own.problems} == {"0": "the label is missing"}
    assert np.isnan(own.table.numbers).tolist() == [[True, False], [False, False]]


@pytest.mark.parametrize(
    "column", [["x", "y"], np.array(["2020-01-01", "2020-01-02"], "datetime64[ns]"), np.array([1 + 1j, 2 + 2j])]
)
def test_columns_of_pandas_that_are_no_numbers(column):
    pandas = pytest.importorskip("pandas")
    own = open_samples(pandas.DataFrame({"a": [1.0, 2.0], "c": column}), [0, 1])
    assert (own.columns, own.features.tolist()) == (("a",), [[1], [2]])
    assert "are not trained on: 'c'" in own.notes[0]
    with pytest.raises(DataError, match=r"data has no column to train on: .*; it has c"):
        open_samples(pandas.DataFrame({"c": column}), [0, 1])


class Pairs(Dataset):
    """As torchvision's are: images of Pillow and numbers, with the names of the classes."""

    classes = ["cat", "dog"]  # noqa: RUF012

    def __init__(self, samples=24):
        self.samples = samples

    def __len__(self):
        return self.samples

    def __getitem__(self, row):
        return picture(row), row % 2


def test_bad_datasets_are_told():
    class Alone(Pairs):
        def __getitem__(self, row):
            return picture(row)

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(())

    class StreamOfLength(Stream):
        def __len__(self):
            return 2

    with pytest.raises(DataError, match=r"data\[0\] is a Image: it must be a pair"):
        open_samples(Alone())
    for stream in (Stream(), StreamOfLength()):
        with pytest.raises(DataError, match=f"data is a {type(stream).__name__} without a length or indices"):
            open_samples(stream)
    with pytest.raises(DataError, match="class_names are given, and a Pairs has its own"):
        open_samples(Pairs(), class_names=["a", "b"])
    with pytest.raises(DataError, match="data holds no sample"):
        open_samples(Pairs(samples=0))


def test_a_dataset_of_pictures_has_names_and_sizes():
    own = open_samples(Pairs())
    assert own.class_names == ("cat", "dog")
    assert own.labels.tolist() == [0, 1] * 12
    assert (own.shape.kind, own.shape.height) == ("files", 10)
    assert holds_labels(Pairs())


def test_a_dataset_of_tensors_is_arrays():
    own = open_samples(TensorDataset(torch.from_numpy(IMAGES)[:, None], torch.from_numpy(LABELS)))
    assert own.shape == open_samples(IMAGES, LABELS).shape


def test_parts_of_one_name_go_together_and_none_at_all_are_told_of():
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"a": [1.0, 2.0], "label": [0, 1]})
    own = open_samples(datasets.DatasetDict(train=rows, val=rows, valid=rows))
    assert (own.shape.samples, own.shape.validation) == (6, 4)
    with pytest.raises(DataError, match="data holds no sample"):
        open_samples(datasets.DatasetDict())


def test_datasets_that_are_read_once_or_empty_are_told_of():
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"a": [1.0, 2.0], "label": [0, 1]})
    with pytest.raises(DataError, match="data is a IterableDataset, which can be read only once"):
        open_samples(rows.to_iterable_dataset())
    with pytest.raises(DataError, match="data holds no sample in test"):
        open_samples(datasets.DatasetDict(train=rows, test=rows.select([])))


def test_a_dataset_to_predict_on_needs_no_labels():
    class Alone(Pairs):
        def __getitem__(self, row):
            return picture(row)

    for dataset in (Pairs(), Alone()):
        assert open_samples(dataset, labelled=False).labels.tolist() == [-1] * 24


def test_the_wanted_columns_of_a_hugging_face_dataset():
    datasets = pytest.importorskip("datasets", reason="pip install 'tnlpad[integrations]'")
    data = datasets.Dataset.from_dict({"text": ["p", "q"], "b": [3, 4], "a": [1, 2]})
    own = open_samples(data, labelled=False, columns=("a", "b"))
    assert (own.columns, own.features.tolist()) == (("a", "b"), [[1, 3], [2, 4]])


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
        (IMAGES, None, "labels are missing"),
        (IMAGES, LABELS[:7], "there are 20 samples and 7 labels"),
        (
            IMAGES,
            np.eye(2)[LABELS],
            r"labels have shape \(20, 2\)",
        ),
        (IMAGES, LABELS + 0.5, "the label 0.5 is a number with a fraction"),
        (IMAGES, [None] * 20, "none of the 20 samples .* Sample 0: the label is missing"),
        (IMAGES * 1.0 - 9, LABELS, "pixels range from -9 to "),
        (np.full((20, 8, 8), np.nan), LABELS, "images contain NaN or infinity"),
        (
            np.full((20, 3), np.nan),
            LABELS,
            "none of the 20 samples .* Sample 0: the value in column",
        ),
        (np.arange(20), LABELS, r"samples have shape \(20,\): images are N×H×W"),
        (np.ones((20, 2, 2, 2, 2)), LABELS, "images are N×H×W, N×H×W×C or N×C×H×W, features N×D"),
        (np.ones((20, 5, 5, 7), np.uint8), LABELS, "1, 3 or 4 channels"),
        (np.ones((20, 3), complex), LABELS, "samples are complex128; they must be numbers"),
        (np.array([["a"] * 3] * 20), LABELS, "samples are <U1; they must be numbers"),
        (np.array([object()] * 20), LABELS, "of objects that are not numbers"),
        (np.empty((0, 8, 8), np.uint8), [], "data holds no sample"),
        ([], [], "data holds no sample"),
        (np.float32(3), [], "images are N×H×W"),
        (None, LABELS, "data is None: give images"),
        ([np.ones((3, 8, 8)), np.ones((3, 9, 8))], [0, 1], r"sample 1 has shape \(3, 9, 8\)"),
        ("nowhere.npz", None, "nowhere.npz does not exist"),
        ("nowhere.npz", LABELS, "labels are given, and the path nowhere.npz has its own: leave them out"),
    ],
)
def test_bad_input_is_told(data, labels, said):
    with pytest.raises(DataError, match=said):
        open_samples(data, labels)


@pytest.mark.parametrize(("ids", "said"), [(["a"] * 20, "the id 'a' occurs 20 times"), (["a"], "20 samples and 1 ids")])
def test_an_id_is_one_sample_s(ids, said):
    with pytest.raises(DataError, match=said):
        open_samples(IMAGES, LABELS, ids=ids)


def test_pictures_of_any_mode():
    modes = ["RGB", "L", "RGBA", "CMYK", "P", "1"]
    pictures = [picture(row).convert(modes[row % len(modes)]) for row in range(24)]
    pictures[0] = Image.new("F", (12, 10), 3.0)
    own = open_samples(pictures, [row % 2 for row in range(24)])
    assert (own.kind, len(own.ids), own.problems) == ("files", 24, ())


@pytest.mark.parametrize("name", ["F.tiff", "I.tiff", "I;16B.tiff", "RGBA.png", "turned.jpg"])
def test_pictures_are_read_as_their_files_are(tmp_path, name):
    fractions = np.linspace(0, 1, 96, dtype=np.float32).reshape(8, 12)
    kinds = {"F": np.float32, "I": np.int32, "I;16B": ">u2"}
    mode = name.split(".")[0]
    exif = Image.Exif()
    if mode in kinds:
        image = Image.fromarray((fractions if mode == "F" else 65535 * fractions).astype(kinds[mode]))
    else:
        image = picture(1).convert(mode if mode == "RGBA" else "RGB")
        exif[ExifTags.Base.Orientation] = 6 if mode == "turned" else 1
    image.save(tmp_path / name, exif=exif)
    with Image.open(tmp_path / name) as opened:
        own = open_samples([opened], ["x"])
    file = open_dataset(tmp_path / name, labelled=False)
    assert own.shape.channels == file.shape.channels
    expected = np.asarray(open_pixels(file.files[0], 64))
    assert expected.std() > 10
    assert np.array_equal(np.asarray(open_pixels(own.files[0], 64)), expected)


def test_a_damaged_picture_is_left_out(tmp_path):
    content = io.BytesIO()
    picture(0).resize((64, 64)).save(content, "PNG")
    pictures = [picture(1), Image.open(io.BytesIO(content.getvalue()[:-500])), picture(2), picture(3)]
    own = open_samples(pictures, ["a", "b", "a", "b"], ids="pqrs", group=[1, 2, 2, 1])
    assert (own.ids, own.rows.tolist(), own.groups) == (("p", "r", "s"), [0, 2, 3], ("=1", "=2", "=1"))
    assert [own.class_names[label] for label in own.labels] == ["a", "a", "b"]
    (problem,) = own.problems
    assert (problem.id, "truncated" in problem.reason) == ("q", True)


def test_groups_are_those_of_the_rows_that_are_kept(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    picture(0).save(tmp_path / "x.png")
    table = pandas.DataFrame({"path": [None, "x.png"], "label": ["a", "b"]})
    monkeypatch.chdir(tmp_path)
    own = open_samples(table, group=["u", "v"])
    assert (len(own.ids), own.groups) == (1, ("=v",))


def test_paths_of_a_table_in_memory_lead_into_the_current_folder(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    picture(0).save(tmp_path / "x.png")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    table = pandas.DataFrame({"path": [str(tmp_path / "x.png")], "label": ["a"]})
    with pytest.raises(
        DataError, match=r"lies out of the folder .*work\. Paths lead into the current folder\. .* beside"
    ):
        open_samples(table)


def test_paths_and_ids_of_a_table_in_memory_that_are_not_utf8(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    names = ["x.png", os.fsdecode(b"\xff.png")]
    for name in names:
        picture(0).save(name)
    table = pandas.DataFrame({"path": names, "label": ["a", "b"]}, dtype=object)
    (problem,) = open_samples(table).problems
    assert (problem.id, problem.reason) == ("?.png", "has a name that is not UTF-8")
    with pytest.raises(DataError, match=r"the id '\\ud800' is not UTF-8"):
        open_samples(table.assign(id=pandas.Series(["\ud800", "y"], dtype=object)))


def test_what_can_be_read_only_once(tmp_path):
    own = open_samples(IMAGES, iter(LABELS), ids=map(str, range(20)), group=iter(LABELS), class_names=iter("ab"))
    assert (own.ids[:2], own.groups[:2], own.class_names) == (("0", "1"), ("=0", "=1"), ("a", "b"))
    assert open_samples(IMAGES, LABELS, ids=torch.arange(20)).ids == own.ids


@pytest.mark.parametrize("rows", [torch.eye(2), np.eye(2)])
def test_a_label_is_one_number(rows):
    with pytest.raises(DataError, match=r"has shape \(2,\).*argmax\(1\)"):
        open_samples(IMAGES, [rows[label] for label in LABELS])


@pytest.mark.parametrize("names", [{0: "a", 1: "b"}, "ab", {"a", "b"}])
def test_names_of_classes_have_an_order(names):
    with pytest.raises(DataError, match=f"class_names are a {type(names).__name__}: give a list"):
        open_samples(IMAGES, LABELS, class_names=names)


def test_two_classes_have_two_names():
    with pytest.raises(DataError, match="2 classes are called 'a'"):
        open_samples(IMAGES, LABELS, class_names=["a", "b", "a"])


def test_labels_may_be_of_any_kind():
    texts = np.array(["b", "a"])[LABELS]
    expected = open_samples(IMAGES, texts).shape
    for same in (texts.tolist(), texts.astype(object), texts.astype("S1")):
        assert open_samples(IMAGES, same).shape == expected
    whole = open_samples(IMAGES, LABELS).shape
    for same in (
        LABELS.astype(np.uint8),
        LABELS.astype(float),
        LABELS.astype(bool),
        torch.from_numpy(LABELS),
    ):
        assert open_samples(IMAGES, same).shape == whole


def test_names_of_classes():
    own = open_samples(IMAGES, LABELS, class_names=["zebra", "ant", "nobody"])
    assert own.class_names == ("zebra", "ant", "nobody")
    assert [own.class_names[label] for label in own.labels[:2]] == ["zebra", "ant"]
    own = open_samples(IMAGES, np.arange(20) % 3, class_names=["a", "b"])
    assert len(own.problems) == 6
    assert own.problems[0].reason == "the label is 2, but there are 2 classes"


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


def test_labels_in_another_order_than_their_table_are_refused():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [1.0, 2.0, 3.0]}, index=["p", "q", "r"])
    labels = pandas.Series(["x", "y", "x"], index=["p", "r", "q"])
    for data in (table, table["a"].astype(str)):
        for name, given in {"labels": (labels, None), "groups": (["x", "y", "x"], labels)}.items():
            with pytest.raises(DataError, match=rf"{name} have .* another order: 'r' is where the data have 'q'"):
                open_samples(data, given[0], group=given[1])
    for right in (labels.loc[table.index], labels.reset_index(drop=True), labels.to_numpy()):
        assert open_samples(table, right).ids == ("p", "q", "r")


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
    with pytest.raises(DataError, match="label='kind': a ndarray has no such column"):
        open_samples(IMAGES, LABELS, label="kind")
    assert len(open_samples(IMAGES, label="kind", labelled=False).ids) == 20


def test_names_of_classes_may_be_the_labels():
    own = open_samples(IMAGES, np.array(["dog", "cat"])[LABELS], class_names=["cat", "dog"])
    assert own.shape == open_samples(IMAGES, 1 - LABELS, class_names=["cat", "dog"]).shape


TEXTS = ["a fine film", "what a bore", None, "我喜欢 🎬"]


def column_of_pandas(texts):
    return pytest.importorskip("pandas").Series(texts)


@pytest.mark.parametrize("make", [list, tuple, lambda texts: np.array(texts, object), column_of_pandas])
def test_texts_in_memory(make):
    own = open_samples(make(TEXTS), ["x", "y", "x", "y"], class_names=["y", "x"], group=[1, 1, 2, 3])
    assert (own.kind, own.texts) == ("text", ("a fine film", "what a bore", "", "我喜欢 🎬"))
    assert (own.class_names, own.labels.tolist()) == (("y", "x"), [1, 0, 1, 0])
    assert own.notes == ("1 of 4 texts are empty.",)
    assert own.groups[0] == own.groups[1] != own.groups[2]
    assert (own.shape.kind, own.shape.channels) == ("text", 1)
    assert open_samples(make(TEXTS), labelled=False, text="comment").texts == own.texts


def test_texts_have_the_same_name_in_memory_and_in_a_file(tmp_path):
    (tmp_path / "x.csv").write_text("text,label\na fine film,x\nwhat a bore,y\n")
    own = open_samples(TEXTS[:2], ["x", "y"])
    assert own.shape == open_dataset(tmp_path / "x.csv", text="text").shape


def mixed_frame():
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(
        {
            "age": [1, None, 3, 4, 5, 6],
            "vip": [True, False, True, False, True, True],
            "city": ["Rome", "Oslo", None, "Rome", "Oslo", "Rome"],
            "kind": pd.Categorical(list("aabbab")),
            "label": list("xyxyxy"),
            "who": list("112233"),
        }
    )


def test_a_pandas_table_with_gaps_and_categories():
    own = open_samples(mixed_frame(), group="who")
    assert (own.kind, own.columns, own.problems) == ("table", ("age", "vip", "city", "kind"), ())
    assert own.table.categories[0] == ["Rome", "Oslo", None, "Rome", "Oslo", "Rome"]
    assert own.table.numbers[:, 1].tolist() == [1, 0, 1, 0, 1, 1]
    assert len(set(own.groups)) == 3


def test_a_column_of_text_in_a_pandas_table():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"review": TEXTS[:2] + TEXTS[3:], "stars": [5, 1, 4]})
    own = open_samples(frame, ["x", "y", "x"])
    assert (own.kind, own.text_column) == ("text", "review")
    assert open_samples(frame, ["x", "y", "x"], ignored=["review"]).columns == ("stars",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group": [1]}, "2 samples and 1 groups"),
        ({"group": "who"}, "group='who': a list has no such column"),
        ({"text": "body"}, "text='body': a list has no such column"),
        ({"labels": ["x"]}, "2 samples and 1 labels"),
    ],
)
def test_options_that_do_not_fit_texts(options, message):
    with pytest.raises(DataError, match=message):
        open_samples(TEXTS[:2], **({"labels": ["x", "y"]} | options))


@pytest.mark.parametrize("parts", [False, True])
def test_what_was_in_memory_is_the_same_when_it_is_read_again(tmp_path, parts):
    frame = mixed_frame().assign(label=[1, 0, 1, 0, 1, None])
    if parts:
        frame["split"] = ["test", "train", "val", "train", "train", "train"]
    table = open_samples(frame, class_names=["no", "yes"], ignored=["who"])
    texts = open_samples(TEXTS, ["x", "y", "x", "y"])
    for name, own, options in (
        ("table", table, {"columns": table.columns, "categories": table.table.category_columns}),
        ("texts", texts, {"text": "text"}),
    ):
        (tmp_path / name).mkdir()
        pq.write_table(arrow_table(own), tmp_path / name / "data.parquet")
        assert open_dataset(tmp_path / name, **options).shape == own.shape


def test_a_table_of_another_package_is_told_how_to_become_one_of_pandas():
    with pytest.raises(DataError, match=r"a Table of pyarrow: give data\.to_pandas\(\)"):
        open_samples(pa.table({"a": [1, 2], "label": [0, 1]}))
