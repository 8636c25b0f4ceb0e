from pathlib import Path

import pyarrow as pa
import pytest

from tests.data.own_files import picture, save
from tnlpad.data.errors import DataError
from tnlpad.data.own.pictures import Pictures, in_order, listing_of_tables, picture_column

WHERE = Path("table")


@pytest.fixture
def contents(tmp_path):
    return [save(tmp_path / f"{number}.png", picture(number)).read_bytes() for number in range(4)]


def listing(table, **options):
    return listing_of_tables(WHERE, {None: pa.table(table)}, {}, **options)


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
    with pytest.raises(DataError, match="table: 'fold' is no part of a dataset"):
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
    with pytest.raises(DataError, match="table: a label is bytes that are no text"):
        listing({"image": contents, "label": [0, 1, 0, 1]}, label="image")


def test_the_name_of_a_part_does_not_take_the_place_of_a_label():
    table = pa.table({"a": [1.0, 2.0], "part": ["left", "right"]})
    found = listing_of_tables(WHERE, {"train": table, "test": table}, {}, label="part")
    assert (found.labels, found.parts) == (["left", "right"] * 2, ["train", "train", "test", "test"])
    assert found.ids == ["train/0", "train/1", "test/0", "test/1"]


def test_messages_name_what_was_given():
    with pytest.raises(DataError, match=r"^table: the label 0\.5 is a number with a fraction"):
        listing({"a": [1.0, 2.0], "label": [0.5, 1.0]})


def test_a_picture_is_its_bytes_or_where_that_is_asked_for_its_path():
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    column = pa.chunked_array([pa.array([{"bytes": b"x", "path": "p"}, {"bytes": None, "path": "q"}, None], kind)])
    assert list(Pictures(column)) == [b"x", b"", b""]
    assert Pictures(column, follow_paths=True)[:2] == [b"x", "q"]
