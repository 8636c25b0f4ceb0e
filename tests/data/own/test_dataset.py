import numpy as np
import pytest

from tests.data.own_files import class_folders, picture, save
from tnlpad.data.own import open_dataset
from tnlpad.data.own.dataset import fingerprint, given_ids, groups_of, numbered_columns, part_named, unique
from tnlpad.errors import DataError


def test_the_name_is_the_beginning_of_the_fingerprint(tmp_path):
    shape = open_dataset(class_folders(tmp_path)).shape
    assert shape.name == f"own-{shape.fingerprint[:10]}"


def test_the_samples_of_parts(tmp_path):
    for part in ("train", "test"):
        class_folders(tmp_path / part, count=1)
    own = open_dataset(tmp_path)
    assert [own.ids[row] for row in own.indices("test")] == ["test/cat/0.png", "test/dog/0.png"]
    assert len(own.indices("train", "test")) == 4
    assert own.indices("validation").tolist() == []


def test_rows_have_no_files(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.eye(3), y=["a", "b", "b"])
    own = open_dataset(tmp_path / "x.npz")
    assert own.paths == (None, None, None)
    assert own.indices("train", "validation").tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("word", "part"),
    [
        ("Train", "train"),
        ("training", "train"),
        (" valid ", "validation"),
        ("VAL", "validation"),
        ("dev", "validation"),
        ("testing", "test"),
        ("", "train"),
        (None, "train"),
    ],
)
def test_the_words_that_people_use(word, part):
    assert part_named(word, "table") == part


@pytest.mark.parametrize("word", ["fold1", 0, "holdout"])
def test_another_word_is_named_with_the_ones_to_use(word):
    with pytest.raises(DataError, match=rf"table: '{word}' is not a split. Write train, validation or test"):
        part_named(word, "table")


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), ""])
def test_a_missing_group_is_one_of_its_own_and_an_id_is_never_missing(missing):
    assert groups_of(["a", missing, missing, " a"]) == ["=a", "row 1", "row 2", "=a"]
    with pytest.raises(DataError, match=r"row 1 .* has no id"):
        given_ids(["a", missing], "table")


def test_what_comes_again_gets_a_number():
    assert unique(["a", "b", "a", "a#2", "a"]) == ["a", "b", "a#3", "a#2", "a#4"]


def test_ids_as_given():
    assert given_ids([3, "x", 1.5], "data") == ["3", "x", "1.5"]
    with pytest.raises(DataError, match=r"data: the id '3' occurs twice"):
        given_ids([3, "3"], "data")
    with pytest.raises(DataError, match="the id 'a' occurs 3 times, and 1 other id"):
        given_ids(["a", "b", "a", "b", "a", "c"], "data")
    for missing in (None, ""):
        with pytest.raises(DataError, match=r"data: row 1 \(counted from 0\) has no id"):
            given_ids(["a", missing], "data")


def test_columns_without_names_are_numbered():
    assert numbered_columns(2) == ("column 0", "column 1")
    assert numbered_columns(0) == ()


def test_the_fingerprint_tells_data_apart_and_not_their_place(tmp_path):
    def fingerprint(name, change=lambda folder: None):
        folder = class_folders(tmp_path / name)
        change(folder)
        return open_dataset(folder).shape.fingerprint

    first = fingerprint("one")
    assert fingerprint("two") == first
    assert fingerprint("relabelled", lambda f: (f / "cat" / "0.png").rename(f / "dog" / "9.png")) != first
    assert fingerprint("changed", lambda f: save(f / "cat" / "0.png", picture(77))) != first
    assert fingerprint("renamed", lambda f: (f / "cat" / "2.png").rename(f / "cat" / "3.png")) != first
    assert fingerprint("more", lambda f: save(f / "cat" / "4.png", picture(78))) != first


def test_where_a_text_ends_is_part_of_it():
    def of(ids, class_names, parts):
        return fingerprint("files", ids, np.array([0, 1]), class_names, parts, (b"0", b"1"))

    lists = [
        (("ab", "c"), ("x", "y"), None),
        (("a", "bc"), ("x", "y"), None),
        (("ab", "c"), ("xy", ""), None),
        (("ab", "c"), ("x", "y"), ("train", "test")),
    ]
    assert len({of(*each) for each in lists}) == len(lists)
