"""The kind of each column of a table, the text column, and the content that is trained on."""

import datetime
from pathlib import Path

import numpy as np
import pytest

from tests.counted_names import CountedName
from tnlpad.data.own.column_kinds import content_of, embedding_of, kinds_of, text_column, texts_of, wanted_content
from tnlpad.data.own.columns import TextColumn, without
from tnlpad.errors import DataError

WHERE = Path("table")
SENTENCES = [f"this is sentence number {row}" for row in range(10)]


def kind(values, name="a"):
    return kinds_of({name: values}, WHERE)[name]


def found_text(table, given=None):
    return text_column(table, kinds_of(table, WHERE), given, WHERE)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "2.5", "", "NA"], "number"),
        (["true", "false"], "number"),
        (np.array([True, False]), "number"),
        ([[1.0, 2], [3, 4]], "embedding"),
        ([None, np.array([1.0, 2.0])], "embedding"),
        (["[1, 2.5]", "[3, 4]"], "embedding"),
        (["red", "blue", "red", "blue", ""], "category"),
        (["36", "38", "M", "L", "M", "L", "M", "L"], "category"),
        ([f"c{row % 30}" for row in range(150)], "category"),
        ([f"c{row % 30}" for row in range(149)], "different"),
        (["Berlin", "Paris", "Rome"], "different"),
        (SENTENCES, "text"),
        (["我喜欢这部电影", "这个产品质量很差", "服务态度非常好"], "text"),
        (["2024-03-01", "2024-03-02", ""], "date"),
        (["01.02.2024", "3.4.2023"], "date"),
        (["1 March 2024", "Apr 2, 2023 10:00"], "date"),
        (["10:30", "9:15:02"], "date"),
        ([datetime.date(2024, 1, 2), None], "date"),
        (np.array(["2024-03-01"], "datetime64[D]"), "date"),
        (["web", "web"], "constant"),
        (["web", "web", ""], "category"),
        (["", None, "NA"], "empty"),
        ([{"a": 1}, {"a": 2}], "other"),
    ],
)
def test_the_kind_of_a_column(values, expected):
    assert kind(values) == expected


@pytest.mark.parametrize("name", ["customer_id", "CUSTOMER ID", "userId", "uuid", "id"])
def test_words_in_a_column_called_an_id_are_no_categories(name):
    assert kind(["a1", "b2", "a1", "b2"], name) == "different"
    assert kind(["1", "2", "1", "2"], name) == "number"


@pytest.mark.parametrize("name", ["valid", "paid", "musical key"])
def test_other_names_may_end_so(name):
    assert kind(["a1", "b2", "a1", "b2"], name) == "category"


def test_a_typing_error_among_numbers_is_reported():
    table = {"a": ["1", "2", "x"]}
    assert kinds_of(table, WHERE) == {"a": "number"}
    with pytest.raises(DataError, match=r"row 2 \(counted from 0\): 'x' in column 'a' is not a number"):
        content_of(table, {"a": "number"}, WHERE)


def test_text_by_a_usual_name_or_alone():
    words = ["red", "blue", "red"] * 4
    assert found_text({"n": ["1"] * 10, "Text": SENTENCES}) == "Text"
    assert found_text({"n": ["1"] * 10, "title": SENTENCES}) is None
    assert found_text({"colour": words[:10], "title": SENTENCES}) == "title"
    assert found_text({"what": SENTENCES}) == "what"
    assert found_text({"what": SENTENCES, "colour": words[:10]}) is None
    assert found_text({"what": SENTENCES, "n": ["1"] * 10}) is None
    assert found_text({"message": ["ok", "error"] * 5, "n": ["1"] * 10}) is None
    assert found_text({"text": ["a"]}) == "text"
    with pytest.raises(DataError, match=r"2 columns of free text: 'what', 'why'\. .*--text what \(text= in Python\)"):
        found_text({"what": SENTENCES, "why": SENTENCES})


def test_texts_are_text():
    assert texts_of(["a", None, float("nan"), 3, "\ud800x"], "a", WHERE) == ["a", "", "", "3", "?x"]
    with pytest.raises(DataError, match=r"row 1 .* column 'a' is a list, not a text.*--text"):
        texts_of(["a", ["b"]], "a", WHERE)


def test_numbers_without_gaps_are_features():
    table = {"a": ["1", "2"], "name": ["x", "y"]}
    found = content_of(table, kinds_of(table, WHERE), WHERE)
    assert (found.columns, found.table, found.features.tolist()) == (("a",), None, [[1], [2]])
    assert found.notes == ("columns of ids or names, whose values hardly repeat, are not trained on: 'name'.",)


def test_gaps_and_categories_make_a_table_of_which_no_row_is_left_out():
    table = {"c": ["x", "y", "x", "n/a", "y"], "a": ["1", "", "3", "1e60", "5"], "target": list("01010")}
    found = content_of(table, kinds_of(table, WHERE), WHERE)
    assert found.features is None
    assert found.columns == found.table.columns == ("a", "c")
    np.testing.assert_array_equal(found.table.numbers[:, 0], np.array([1, np.nan, 3, np.nan, 5], np.float32))
    assert found.table.categories == (["x", "y", "x", None, "y"],)
    other, gaps = found.notes
    assert "other labels are not trained on: 'target'" in other
    assert gaps.startswith("columns with gaps: 2, the most in 'a' with 2 of 5 rows")


def test_lists_of_numbers_are_features_by_element():
    table = {"e": [[1, 2], [3, 4]], "a": ["5", "6"]}
    found = content_of(table, kinds_of(table, WHERE), WHERE)
    assert found.columns == ("e[0]", "e[1]", "a")
    assert found.features.tolist() == [[1, 2, 5], [3, 4, 6]]
    again = wanted_content({"a": ["6"], "e": ["[3, 4]"], "z": ["?"]}, found.columns, None, WHERE)
    assert (again.columns, again.features.tolist()) == (found.columns, [[3, 4, 6]])
    assert again.notes == ("columns that this run was not trained on are ignored: 'z'.",)
    with pytest.raises(DataError, match=r"no column 'e\[1\]', .* another length"):
        wanted_content({"a": ["6"], "e": ["[3]"]}, found.columns, None, WHERE)
    with pytest.raises(DataError, match=r"no column 'e\[0\]' \(and 1 others\)"):
        wanted_content({"a": ["6"]}, found.columns, None, WHERE)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1, 2], [1, 2, 3]], r"row 1 \(counted from 0\): the list in column 'e' has 3 numbers, .* first one has 2"),
        ([[1, 2], None], r"row 1 .*'None' in column 'e' is not a list of numbers.*--ignore e"),
        ([[1, 2], [1, "x"]], r"row 1 .* is not a list of numbers"),
        ([[1, 2], [[1, 2]]], r"row 1 .* is not a list of numbers"),
        ([[1, 2], [10**400, 2]], r"row 1 .*'\[1000.* is not a list of numbers"),
        (["[1, 2]", f"[{'9' * 400}, 2]"], r"row 1 .*'\[9999.* is not a list of numbers"),
    ],
)
def test_lists_that_do_not_fit_are_named(values, message):
    with pytest.raises(DataError, match=message):
        embedding_of(values, "e", WHERE)


def test_the_line_of_a_list_that_does_not_fit_is_named():
    column = TextColumn([2, 5])
    column += ["[1, 2]", "[1]"]
    with pytest.raises(DataError, match=r"table, line 5: the list in column 'e' has 1 numbers"):
        embedding_of(column, "e", WHERE)


def test_wanted_columns_with_their_kinds():
    table = {"c": ["x", None], "a": ["", "2"], "d": ["?", "?"]}
    found = wanted_content(table, ("a", "c"), ("c",), WHERE)
    assert (found.columns, found.features) == (("a", "c"), None)
    assert found.table.categories == (["x", None],)
    assert np.isnan(found.table.numbers[0, 0])
    with pytest.raises(DataError, match="no column 'b'"):
        wanted_content(table, ("a", "b"), ("b",), WHERE)


def features_of(table):
    return content_of(table, kinds_of(table, WHERE), WHERE)


@pytest.mark.parametrize("names", [["cat/0.JPG", "cat/1.png"], ["cat/0.JPG", None]])
def test_a_column_of_paths_under_another_name(names):
    with pytest.raises(DataError, match="column 'image' holds names of image files: call it `path`"):
        features_of({"image": names, "a": ["1", "2"]})


def test_a_column_that_counts_the_rows_is_named():
    counter = [str(row + 1) for row in range(10)]
    found = features_of({"passenger": counter, "age": counter[::-1]})
    assert found.columns == ("passenger", "age")
    (note,) = found.notes
    assert note.startswith("column 'passenger' looks like a row number")
    assert note.endswith(": --ignore passenger (ignore= in Python).")
    (note,) = features_of({"a": counter, "b": counter}).notes
    assert note.startswith("columns 'a', 'b' look like row numbers")
    assert note.endswith(": --ignore a --ignore b (ignore= in Python).")
    assert features_of({"few": counter[:9]}).notes == ()


def test_wanted_columns_that_are_missing_or_no_numbers_are_named():
    with pytest.raises(DataError, match=r"table has no column 'b' \(and 1 others\), .*; it has a, name\."):
        wanted_content({"a": ["1"], "name": ["x"]}, ("a", "b", "c"), None, WHERE)
    with pytest.raises(DataError, match=r"row 0 \(counted from 0\): 'x' in column 'name'"):
        wanted_content({"a": ["1"], "name": ["x"]}, ("a", "name"), None, WHERE)


def with_commas(*values):
    column = TextColumn(range(2, 2 + len(values)), may_have_commas=True)
    column += values
    return column


def test_a_point_that_may_separate_thousands_is_refused_beside_decimal_commas():
    thousands = with_commas("950", "1.500")
    assert features_of({"a": thousands}).features.tolist() == [[950], [1.5]]
    with pytest.raises(DataError, match=r"line 3: '1\.500' in column 'a' may mean 1\.500 or 1500"):
        features_of({"a": thousands, "b": with_commas("1,5", "2,5")})


@pytest.mark.parametrize("text", ["[0.1 0.2\n 3.]", "[1, nan]", "tensor([1., 2.])", "[0.1 ... 0.2]", "[-inf, 1e-05]"])
def test_lists_as_programs_print_them_are_no_text(text):
    table = {"e": [text, None, text.replace("1", "7")], "a": ["5", "6", "7"]}
    kinds = kinds_of(table, WHERE)
    assert kinds["e"] == "printed list"
    found = content_of(table, kinds, WHERE)
    assert found.columns == ("a",)
    assert any("printed" in note or "print them" in note for note in found.notes)
    assert kinds_of({"e": ["[sic] 1 2 3", "[2] three more words"]}, WHERE)["e"] != "printed list"


def test_elements_of_lists_are_not_said_to_be_row_numbers():
    table = {"e": [[row, 0.5] for row in range(10)]}
    assert content_of(table, kinds_of(table, WHERE), WHERE).notes == ()


def test_gaps_in_wanted_columns_are_counted_and_no_way_to_ignore_them_is_named():
    found = wanted_content({"a": ["", "2"], "c": ["x", "y"]}, ("a", "c"), ("c",), WHERE)
    assert found.notes[0].startswith("columns with gaps: 1, the most in 'a' with 1 of 2 rows")
    for value in ("two", "[1, 2, 3]"):
        with pytest.raises(DataError, match=r"column 'a'") as error:
            wanted_content({"a": [value]}, ("a",), (), WHERE)
        assert "--ignore" not in str(error.value)


def test_columns_by_name_are_not_searched_for_one_after_the_other():
    names = [CountedName(f"a{place}") for place in range(300)]
    table = {name: np.zeros(2) for name in names}
    CountedName.compared = 0
    wanted_content(table, names[::-1], [], WHERE)
    left = without(names[100:200], names, WHERE)
    assert CountedName.compared < 10 * len(names)
    assert left == [*names[:100], *names[200:]]


def test_infinite_numbers_in_many_rows_give_no_warning(recwarn):
    table = {"a": ["1e400"] * 10 + ["1"], "b": ["1", "2"] * 5 + ["3"]}
    assert np.isnan(content_of(table, kinds_of(table, WHERE), WHERE).table.numbers[:, 0]).sum() == 10
    assert not recwarn


def test_a_column_named_as_an_element_of_an_embedding_is_refused():
    table = {"e": [[1.0, 2.0], [3.0, 4.0]], "e[0]": [5.0, 6.0]}
    with pytest.raises(DataError, match=r"two columns of the same name: e\[0\], e\[1\], e\[0\]"):
        content_of(table, kinds_of(table, WHERE), WHERE)
