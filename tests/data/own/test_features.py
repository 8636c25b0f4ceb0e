from pathlib import Path

import numpy as np
import pytest

from tnlpad.data.errors import DataError
from tnlpad.data.own.features import features_of

WHERE = Path("table")


def test_columns_without_a_number_are_named_and_not_trained_on():
    found = features_of({"a": ["1", ""], "name": ["x", "y"], "day": ["2024-01-01", ""], "none": ["", "NA"]}, WHERE)
    assert found.columns == ("a",)
    assert np.isnan(found.numbers[1, 0])
    assert found.notes[0].startswith("columns that are not trained on, since there is no number in them: 'name', 'day'")
    assert "'none'. Encode them" in found.notes[0]


def test_a_column_of_numbers_with_a_slip_is_refused():
    with pytest.raises(DataError, match=r"'3,5' in column 'a', row 1 \(the first is 0\), is no number"):
        features_of({"a": ["1", "3,5"], "b": ["1", "2"]}, WHERE)


def test_without_a_column_of_numbers_there_are_no_features():
    assert features_of({"name": ["x", "y"], "target": ["1", "2"]}, WHERE) is None


@pytest.mark.parametrize("names", [["cat/0.JPG", "cat/1.png"], ["cat/0.JPG", None]])
def test_a_column_of_paths_under_another_name(names):
    with pytest.raises(DataError, match="column 'image' holds the names of image files: call it `path`"):
        features_of({"image": names, "a": ["1", "2"]}, WHERE)


def test_a_column_that_counts_the_rows_is_named():
    counter = [str(row + 1) for row in range(10)]
    found = features_of({"passenger": counter, "age": counter[::-1]}, WHERE)
    assert found.columns == ("passenger", "age")
    assert found.notes == (
        "columns that count the rows one by one are trained on: 'passenger'. Unless that says something about the "
        "classes, leave them out: --ignore passenger (ignore= in Python).",
    )
    assert features_of({"few": counter[:9]}, WHERE).notes == ()


def test_wanted_columns_are_taken_by_name_and_in_their_order():
    table = {"b": ["2"], "label": ["x"], "name": ["y"], "a": ["1"]}
    found = features_of(table, WHERE, ("a", "b"))
    assert (found.columns, found.numbers.tolist()) == (("a", "b"), [[1, 2]])
    assert found.notes == ("columns that this run was not trained on are ignored: 'label', 'name'.",)
    assert features_of(table, WHERE, ("a",)).columns == ("a",)
    assert features_of({"a": ["1"]}, WHERE, ("a",)).notes == ()


def test_wanted_columns_that_are_missing_or_no_numbers_are_named():
    with pytest.raises(DataError, match=r"table has no column 'b' \(and 1 others\), .*; it has a, name\."):
        features_of({"a": ["1"], "name": ["x"]}, WHERE, ("a", "b", "c"))
    with pytest.raises(DataError, match=r"'x' in column 'name', row 0 \(the first is 0\), is no number"):
        features_of({"a": ["1"], "name": ["x"]}, WHERE, ("a", "name"))


def test_rows_that_lack_a_number_are_counted_with_the_column_that_costs_most():
    found = features_of({"a": ["1", "", "3"], "ca bin": ["", "", "7"], "b": ["1", "2", "3"]}, WHERE)
    assert found.notes == (
        "2 of 3 rows lack a number and are left out, 2 of them for want of 'ca bin': fill in what is missing, or leave "
        "the column out: --ignore 'ca bin' (ignore= in Python).",
    )
