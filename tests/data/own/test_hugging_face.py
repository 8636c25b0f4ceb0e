import json
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.own_files import picture, save, write_arrow
from tnlpad.data.own import hugging_face, open_dataset
from tnlpad.data.own.dataset import ReadOptions
from tnlpad.data.own.hugging_face import (
    Pictures,
    in_order,
    is_hugging_face,
    listing_of_tables,
    picture_column,
)
from tnlpad.data.own.objects import open_samples
from tnlpad.errors import DataError


def read_hugging_face(folder, **options):
    return hugging_face.read_hugging_face(folder, ReadOptions(**options))


def read_picture_table(path, **options):
    return hugging_face.read_picture_table(path, ReadOptions(**options))


NAMES = {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}, "image": {"_type": "Image"}}


def pictures(tmp_path, labels):
    contents = [save(tmp_path / "p" / f"{n}.png", picture(n)).read_bytes() for n in range(len(labels))]
    rows = [{"bytes": content, "path": None} for content in contents]
    return pa.table({"image": rows, "label": labels}), contents


def test_what_save_to_disk_writes(tmp_path):
    table, contents = pictures(tmp_path, [1, 0, -1])
    folder = write_arrow(tmp_path / "data", table, NAMES)
    assert is_hugging_face(folder)
    listing = read_hugging_face(folder)
    assert listing.class_names == ("cat", "dog")
    assert listing.labels == [1, 0, None]
    assert list(listing.files) == contents
    assert (listing.ids, listing.parts) == (["0", "1", "2"], None)


def test_splits_are_parts(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dataset_dict.json").write_text(json.dumps({"splits": ["test", "train"]}))
    for name, labels in (("train", [0, 1]), ("test", [1])):
        write_arrow(tmp_path / "data" / name, pictures(tmp_path, labels)[0], NAMES)
    listing = read_hugging_face(tmp_path / "data")
    assert listing.parts == ["train", "train", "test"]
    assert list(listing.ids) == ["train/0", "train/1", "test/0"]
    assert listing.class_names == ("cat", "dog")


def test_parquet_files_as_on_the_hub(tmp_path):
    (tmp_path / "data").mkdir()
    table, _ = pictures(tmp_path, [1, 0])
    about = {b"huggingface": json.dumps({"info": {"features": NAMES}}).encode()}
    pq.write_table(table.replace_schema_metadata(about), tmp_path / "data" / "train-00000-of-00001.parquet")
    pq.write_table(table.slice(1), tmp_path / "data" / "test-00000-of-00001.parquet")
    listing = read_hugging_face(tmp_path)
    assert listing.parts == ["train", "train", "test"]
    assert listing.class_names == ("cat", "dog")


def test_columns_of_numbers_are_features(tmp_path):
    folder = write_arrow(tmp_path / "data", pa.table({"a": [1.0, 2.0], "b": [3, 4], "label": ["x", "y"]}))
    listing = read_hugging_face(folder)
    assert listing.columns == ("a", "b")
    assert listing.features.tolist() == [[1, 3], [2, 4]]
    assert listing.labels == ["x", "y"]


def test_columns_that_are_named_come_before_text(tmp_path):
    beside = write_arrow(tmp_path / "more", pa.table({"text": ["a"], "width": [2]}))
    assert read_hugging_face(beside, labelled=False, columns=("width",)).features.tolist() == [[2]]


def test_names_in_files_do_not_lead_elsewhere(tmp_path):
    folder = write_arrow(tmp_path / "data", pa.table({"a": [1.0], "label": [0]}))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "../../etc/passwd"}]}))
    with pytest.raises(DataError, match="not the name of a file in its folder"):
        read_hugging_face(folder)


@pytest.mark.parametrize("content", ["no json", "[]", '{"_data_files": []}'])
def test_damage_is_reported(tmp_path, content):
    folder = write_arrow(tmp_path / "data", pa.table({"a": [1.0], "label": [0]}))
    (folder / "state.json").write_text(content)
    with pytest.raises(DataError, match=r"state\.json"):
        read_hugging_face(folder)


def test_a_damaged_table(tmp_path):
    folder = write_arrow(tmp_path / "data", pa.table({"a": [1.0], "label": [0]}))
    (folder / "data-00000-of-00001.arrow").write_bytes(b"\xff\xff\xff\xff\x10\0\0\0")
    with pytest.raises(DataError, match="cannot be read"):
        read_hugging_face(folder)


@pytest.mark.parametrize("value", [{"bytes": b"x", "path": None}, [{"bytes": b"x", "path": None}]])
def test_a_name_within_a_column_that_is_not_utf8(tmp_path, value):
    folder = write_arrow(tmp_path / "data", pa.table({"image": [value], "label": [0]}))
    file = folder / "data-00000-of-00001.arrow"
    file.write_bytes(file.read_bytes().replace(b"path", b"p\xe1th"))
    with pytest.raises(DataError, match="cannot be read as Arrow"):
        read_hugging_face(folder)


def test_one_parquet_file_with_the_pictures_within(tmp_path):
    contents = [save(tmp_path / f"{n}.png", picture(n)).read_bytes() for n in range(4)]
    table = pa.table(
        {
            "image": [{"bytes": content, "path": None} for content in contents],
            "label": ["cat", "dog", "cat", "dog"],
            "id": list("abcd"),
            "split": ["test", "train", "train", "test"],
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")
    listing = read_picture_table(tmp_path / "x.parquet")
    found = zip(listing.ids, listing.labels, listing.parts, listing.files, strict=True)
    assert {name: rest for name, *rest in found} == {
        "a": ["cat", "test", contents[0]],
        "b": ["dog", "train", contents[1]],
        "c": ["cat", "train", contents[2]],
        "d": ["dog", "test", contents[3]],
    }
    unlabelled = read_picture_table(tmp_path / "x.parquet", labelled=False)
    assert set(unlabelled.labels) == {None}
    pq.write_table(table.drop_columns(["image"]), tmp_path / "x.parquet")
    assert read_picture_table(tmp_path / "x.parquet") is None


def test_columns_of_a_table_of_pictures_are_ignored(tmp_path):
    columns = {"id": ["a", "a"], "image": [b"x", b"y"], "label": ["cat", "cat"], "class": ["red", "blue"]}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    listing = read_picture_table(tmp_path / "x.parquet", ignored=["id", "label"])
    assert (listing.ids, listing.labels) == (["0", "1"], ["red", "blue"])
    assert read_picture_table(tmp_path / "x.parquet", ignored=["image"]) is None
    with pytest.raises(DataError, match="no column 'place' to ignore"):
        read_picture_table(tmp_path / "x.parquet", ignored=["place"])


def test_columns_of_a_table_of_pictures_may_be_ignored(tmp_path):
    table, _ = pictures(tmp_path, ["ant", "bee"])
    numbers = table.append_column("a", pa.array([1.0, 2.0])).append_column("b", pa.array([3.0, 4.0]))
    pq.write_table(numbers, tmp_path / "x.parquet")
    assert read_picture_table(tmp_path / "x.parquet", ignored=["b"]).further.column_names == ["a"]
    own = open_dataset(tmp_path / "x.parquet", ignored=[table.column_names[0]])
    assert (own.kind, own.columns) == ("features", ("a", "b"))
    with pytest.raises(DataError, match="has no column 'c' to ignore"):
        open_dataset(tmp_path / "x.parquet", ignored=["c"])


def test_columns_of_a_dataset_may_be_ignored_as_its_notes_say(tmp_path):
    table = pa.table({"n": range(12), "a": np.arange(12) % 5 / 2, "label": ["x", "y"] * 6})
    write_arrow(tmp_path / "data", table, {})
    assert "--ignore n" in open_dataset(tmp_path / "data").notes[0]
    own = open_dataset(tmp_path / "data", ignored=["n"])
    assert (own.columns, own.notes, own.ignored) == (("a",), (), ("n",))
    datasets = pytest.importorskip("datasets", reason="pip install 'tnlpad[integrations]'")
    held = open_samples(datasets.Dataset(table), ignored=["n"])
    assert held.shape == own.shape
    with pytest.raises(DataError, match="data has no column 'm' to ignore"):
        open_samples(datasets.Dataset(table), ignored=["m"])


def test_what_lies_beside_a_table_says_nothing_about_it(tmp_path):
    table, _ = pictures(tmp_path, ["ant", "bee"])
    pq.write_table(table, tmp_path / "x.parquet")
    write_arrow(tmp_path / "another", pictures(tmp_path, [0])[0], NAMES)
    listing = read_picture_table(tmp_path / "x.parquet")
    assert (listing.labels, listing.class_names) == (["ant", "bee"], None)


def test_capitals_do_not_matter(tmp_path):
    table, _ = pictures(tmp_path, ["ant", "bee"])
    named = table.append_column("ID", pa.array(["a", "b"])).append_column("Split", pa.array(["test", "train"]))
    pq.write_table(named.rename_columns(["Image", "Label", "ID", "Split"]), tmp_path / "x.parquet")
    listing = read_picture_table(tmp_path / "x.parquet")
    found = zip(listing.ids, listing.labels, listing.parts, strict=True)
    assert set(found) == {("a", "ant", "test"), ("b", "bee", "train")}


def test_a_table_of_paths_in_the_folder_of_the_pictures(tmp_path):
    save(tmp_path / "p" / "0.png", picture(0))
    pq.write_table(pa.table({"file_name": ["p/0.png", "../x.png"], "label": ["cat", "dog"]}), tmp_path / "t.parquet")
    listing = read_hugging_face(tmp_path)
    assert (list(listing.ids), listing.labels) == (["p/0.png"], ["cat"])
    assert list(listing.files) == [str(tmp_path / "p" / "0.png")]
    assert [each.id for each in listing.problems] == ["../x.png"]


def test_tables_of_different_data_do_not_go_together(tmp_path):
    pq.write_table(pa.table({"a": [1.0], "label": [0]}), tmp_path / "x.parquet")
    pq.write_table(pa.table({"a": [1.0], "label": ["b"]}), tmp_path / "y.parquet")
    with pytest.raises(DataError, match=r"its tables have different columns .* Name one of the files"):
        read_hugging_face(tmp_path)


def test_columns_beside_the_pictures_are_named(tmp_path):
    table, _ = pictures(tmp_path, ["ant", "bee"])
    pq.write_table(table, tmp_path / "x.parquet")
    assert read_picture_table(tmp_path / "x.parquet").notes == ()
    numbers = pa.table({"width": [1.0, 2.0], "blob": [b"1", b"2"], "label": [0, 1]})
    pq.write_table(numbers, tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"not an image .* those of the column 'blob'; .* not used: width\."):
        open_dataset(tmp_path / "x.parquet")


def test_a_picture_without_bytes_is_told_of(tmp_path):
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pictures_elsewhere = pa.array([{"bytes": None, "path": "/etc/passwd"}] * 2, kind)
    pq.write_table(pa.table({"image": pictures_elsewhere, "label": [0, 1]}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match="there are no bytes of an image"):
        open_dataset(tmp_path / "x.parquet")


def test_a_column_of_classes_may_have_any_name_and_names(tmp_path):
    table, _ = pictures(tmp_path, [1, 0])
    table = table.rename_columns(["img", "fine_label"]).append_column("coarse_label", pa.array([4, 5]))
    folder = write_arrow(tmp_path / "data", table, {"fine_label": {"names": ["cat", "dog"]}})
    with pytest.raises(DataError, match=r"it has fine_label, coarse_label\. .*--label fine_label"):
        read_hugging_face(folder)
    listing = read_hugging_face(folder, label="fine_label")
    assert (listing.labels, listing.class_names) == ([1, 0], ("cat", "dog"))
    assert "not used: coarse_label" in listing.notes[0]
    coarse = read_hugging_face(folder, label="coarse_label")
    assert (coarse.labels, coarse.class_names) == ([4, 5], None)
    assert read_hugging_face(folder, label="fine_label", labelled=False).labels == [None, None]
    pq.write_table(table, tmp_path / "x.parquet")
    assert read_picture_table(tmp_path / "x.parquet", label="coarse_label").labels == [4, 5]


def test_a_column_of_classes_beside_numbers(tmp_path):
    folder = write_arrow(tmp_path / "data", pa.table({"a": [1.0, 2.0], "kind": ["x", "y"]}))
    listing = read_hugging_face(folder, label="kind")
    assert (listing.labels, listing.columns) == (["x", "y"], ("a",))


def test_several_names_of_one_part_go_together(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "val", "valid"]}))
    for number, name in enumerate(("train", "val", "valid")):
        write_arrow(tmp_path / "data" / name, pa.table({"a": [1.0, 2.0], "label": [number, number]}))
    listing = read_hugging_face(tmp_path / "data")
    assert listing.parts == ["train"] * 2 + ["validation"] * 4
    assert listing.labels == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        (("mnist_train.parquet", "mnist_test.parquet"), ["train", "test"]),
        (("TRAIN.PARQUET", "Validation-0.Parquet"), ["train", "validation"]),
        (("train-00000-of-00002.parquet", "train-00001-of-00002.parquet"), None),
        (("mine.parquet", "test.parquet"), ["train", "test"]),
        (("part1.parquet", "part2.parquet"), None),
    ],
)
def test_the_name_of_a_file_says_which_part_it_is(tmp_path, names, parts):
    for number, name in enumerate(names):
        pq.write_table(pa.table({"a": [float(number)], "label": [number]}), tmp_path / name)
    assert is_hugging_face(tmp_path)
    assert read_hugging_face(tmp_path).parts == parts


@pytest.mark.parametrize("splits", [{}, {"splits": "train"}, {"splits": [1]}, {"splits": []}])
def test_a_dictionary_without_splits(tmp_path, splits):
    (tmp_path / "dataset_dict.json").write_text(json.dumps(splits))
    with pytest.raises(DataError, match=r"names no splits|holds no table of a dataset"):
        read_hugging_face(tmp_path)


def test_a_selection_of_rows_is_to_be_made_plain(tmp_path):
    folder = write_arrow(tmp_path / "data", pa.table({"a": [1.0], "label": [0]}))
    (folder / "indices.arrow").write_bytes(b"")
    with pytest.raises(DataError, match=r"is a selection of rows\. Save it with flatten_indices\(\) first"):
        read_hugging_face(folder)


def test_names_of_classes_may_be_the_labels(tmp_path):
    table, _ = pictures(tmp_path, ["dog", "cat"])
    own = open_dataset(write_arrow(tmp_path / "data", table, NAMES))
    assert (own.class_names, own.labels.tolist()) == (("cat", "dog"), [1, 0])


@pytest.mark.parametrize("about", ["no json", "[]", '{"info": null}', '{"info": {"features": 3}}'])
def test_a_description_that_makes_no_sense_is_none(tmp_path, about):
    table = pa.table({"a": [1.0], "label": [0]}).replace_schema_metadata({"huggingface": about})
    pq.write_table(table, tmp_path / "train.parquet")
    assert read_hugging_face(tmp_path).class_names is None


def test_names_may_come_by_their_numbers(tmp_path):
    table, _ = pictures(tmp_path, [1, 0])
    folder = write_arrow(tmp_path / "data", table, {"label": {"names": {"0": "cat", "1": "dog"}}})
    assert read_hugging_face(folder).class_names == ("cat", "dog")


def test_a_text_that_claims_to_lie_beyond_the_file(tmp_path):
    """Looked at, it would end this process."""
    folder = write_arrow(tmp_path / "data", pa.table({"a": [1.0, 2.0], "label": ["left", "right"]}))
    path = folder / "data-00000-of-00001.arrow"
    begins, content = struct.pack("<iii", 0, 4, 9), path.read_bytes()
    assert content.count(begins) == 1
    path.write_bytes(content.replace(begins, struct.pack("<iii", 0, 4, 0x7FFFFFF0)))
    with pytest.raises(DataError, match=r"\.arrow cannot be read as Arrow: .* Write it again"):
        read_hugging_face(folder)


def test_a_name_stands_for_one_column(tmp_path):
    table = pa.table([pa.array([1.0]), pa.array([2.0]), pa.array([0])], names=["a", "a", "label"])
    with pytest.raises(DataError, match="two columns of the same name: a, a, label"):
        read_hugging_face(write_arrow(tmp_path / "data", table))


WHERE = Path("table")


@pytest.fixture
def contents(tmp_path):
    return [save(tmp_path / f"{number}.png", picture(number)).read_bytes() for number in range(4)]


def listing(table, **options):
    return listing_of_tables(WHERE, {None: pa.table(table)}, {}, ReadOptions(**options))


def test_tables_of_a_part_go_together_and_those_to_train_on_come_first():
    tables = [pa.table({"a": [number]}) for number in range(4)]
    pieces = in_order(zip(("test", "validation", "train", "validation"), tables, strict=True), WHERE)
    assert list(pieces) == ["train", "validation", "test"]
    assert pieces["validation"].column("a").to_pylist() == [1, 3]


def test_a_column_names_the_parts(contents):
    columns = {"image": contents, "label": [0, 1, 0, 1], "split": ["test", "train", "train", "validation"]}
    found = listing(columns)
    assert (found.ids, found.parts) == (
        ["test/0", "train/0", "train/1", "validation/0"],
        ["test", "train", "train", "validation"],
    )
    assert list(found.files) == contents
    assert found.notes == ()
    with pytest.raises(DataError, match="table: 'fold' is not a split"):
        listing(columns | {"split": ["fold"] * 4})


def test_to_predict_neither_parts_nor_ids_need_make_sense(contents):
    columns = {"image": contents, "id": [7, 7, 8, None], "split": ["test", "fold 1", "train", None]}
    found = listing(columns, labelled=False)
    assert (found.ids, found.parts) == (["7", "7#2", "8", ""], None)
    assert list(found.files) == contents


def test_to_predict_columns_of_numbers_are_taken_beside_pictures_and_text(contents):
    columns = {"image": contents, "text": list("pqrs"), "b": [5, 6, 7, 8], "label": [0] * 4, "a": [1, 2, 3, 4]}
    found = listing(columns, labelled=False, columns=("a", "b"))
    assert (found.files, found.features.tolist()) == (None, [[1, 5], [2, 6], [3, 7], [4, 8]])
    assert found.notes == ("columns that this run was not trained on are ignored: 'image', 'text', 'label'.",)


def test_a_column_of_parts_may_be_that_of_the_classes(contents):
    found = listing({"image": contents, "split": ["left", "right"] * 2}, label="split")
    assert (found.labels, found.parts) == (["left", "right"] * 2, None)


def test_text_that_was_written_as_bytes_is_no_picture(contents):
    columns = {"id": [b"p", b"q", b"r", b"s"], "label": [b"x", b"y"] * 2, "split": [b"train"] * 4}
    found = listing(columns | {"image": contents})
    assert (found.ids, found.labels, found.parts) == (["p", "q", "r", "s"], ["x", "y"] * 2, ["train"] * 4)
    assert list(found.files) == contents
    numbers = listing(columns | {"a": [1.0, 2.0, 3.0, 4.0]})
    assert (numbers.ids, numbers.labels, numbers.columns) == (["p", "q", "r", "s"], ["x", "y"] * 2, ("a",))


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (pa.array([b"x"]), True),
        (pa.array([b"x"], pa.large_binary()), True),
        (pa.array([{"bytes": b"x", "path": None}]), True),
        (pa.array([{"bytes": 1}]), False),  # a number would be opened as a file of this process
        (pa.array([{"path": "x"}]), False),
        (pa.array(["x"]), False),
    ],
)
def test_the_type_of_a_column_says_whether_it_has_pictures(column, found):
    schema = pa.table({"label": [0], "thing": column}).schema
    assert picture_column(schema, None, WHERE) == ("thing" if found else None)


def test_pictures_are_no_labels(contents):
    with pytest.raises(DataError, match="table: a label is bytes that are not text"):
        listing({"image": contents, "label": [0, 1, 0, 1]}, label="image")


def test_the_name_of_a_part_does_not_take_the_place_of_a_label():
    table = pa.table({"a": [1.0, 2.0], "part": ["left", "right"]})
    found = listing_of_tables(WHERE, {"train": table, "test": table}, {}, ReadOptions(label="part"))
    assert (found.labels, found.parts) == (["left", "right"] * 2, ["train", "train", "test", "test"])
    assert list(found.ids) == ["train/0", "train/1", "test/0", "test/1"]


def test_messages_name_what_was_given():
    with pytest.raises(DataError, match=r"^table: the label 0\.5 is a number with a fraction"):
        listing({"a": [1.0, 2.0], "label": [0.5, 1.0]})


def test_a_picture_is_its_bytes_or_where_that_is_asked_for_its_path():
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    column = pa.chunked_array([pa.array([{"bytes": b"x", "path": "p"}, {"bytes": None, "path": "q"}, None], kind)])
    assert list(Pictures(column)) == [b"x", b"", b""]
    assert Pictures(column, follow_paths=True)[:2] == [b"x", "q"]


def test_text_is_found(tmp_path):
    texts = ["a fine film", "what a bore", "我喜欢"]
    table = pa.table({"text": texts, "stars": [5, 1, 4], "label": [0, 1, 0]})
    features = {"label": {"names": ["good", "bad"]}}
    folder = write_arrow(tmp_path / "data", table, features)
    found = read_hugging_face(folder)
    assert (found.texts, found.text_column, found.class_names) == (texts, "text", ("good", "bad"))
    assert "'stars'" in found.notes[0]
    assert read_hugging_face(folder, text="text").texts == texts


def test_text_that_is_named_comes_before_pictures_and_groups_are_read(tmp_path):
    table, _ = pictures(tmp_path, [1, 0])
    table = table.append_column("caption", [["a dog", "a cat"]]).append_column("who", [["x", "x"]])
    folder = write_arrow(tmp_path / "data", table, NAMES)
    found = read_hugging_face(folder, group="who")
    assert (found.texts, found.groups[0]) == (None, found.groups[1])
    found = read_hugging_face(folder, group="who", text="caption")
    assert (found.texts, found.files, len(set(found.groups))) == (["a dog", "a cat"], None, 1)


def test_columns_of_lists_are_embeddings(tmp_path):
    table = pa.table({"embedding": [[1.0, 2.0], [3.0, 4.0]], "label": [0, 1]})
    found = read_hugging_face(write_arrow(tmp_path / "data", table))
    assert (found.columns, found.features.tolist()) == (("embedding[0]", "embedding[1]"), [[1, 2], [3, 4]])
