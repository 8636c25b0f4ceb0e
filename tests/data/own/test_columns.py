import decimal
import math
from pathlib import Path

import numpy as np
import pytest

from tnlpad.data.own.columns import (
    LABEL_COLUMNS,
    TextColumn,
    find_column,
    is_number,
    label_column,
    listed,
    numbers_of,
)
from tnlpad.errors import DataError

WHERE = Path("table")


def test_capitals_and_spaces_do_not_matter_and_the_first_counts():
    assert find_column(LABEL_COLUMNS, ["a", " Label "]) == " Label "
    assert find_column(LABEL_COLUMNS, ["target", "labels"]) == "labels"
    assert find_column(LABEL_COLUMNS, ["label", "Label"]) == "label"
    assert find_column(LABEL_COLUMNS, ["a"]) is None


def test_a_column_that_was_named():
    names = ["kind", "Kind", "label"]
    assert label_column("Kind", names, WHERE) == "Kind"
    assert label_column(" KIND", names, WHERE) == "kind"
    assert label_column(None, names, WHERE) == "label"
    assert label_column("sort", names, WHERE, labelled=False) is None
    with pytest.raises(
        DataError, match=r"table has no column 'sort'; it has kind, Kind, label\. Leave --label out: 'label' "
    ):
        label_column("sort", names, WHERE)


@pytest.mark.parametrize(
    ("columns", "likely"),
    [
        ("id,a,Cover_Type,Soil_Type1", "Cover_Type"),
        ("fine_label,coarse_label,a", "fine_label"),
        ("a,type,my_labels", "my_labels"),
        ("y,a,b", "y"),
        ("age,workclass,income", "income"),
        ("a,b,split,Is it wet?", "'Is it wet\\?'"),
        ("a,quality,split", "quality"),
        ("a,original_label,kind,clean_label", "kind"),
        ("species", "species"),
    ],
)
def test_the_likely_column_of_classes_is_named(columns, likely):
    with pytest.raises(DataError, match=rf"such as --label {likely} \(label= in Python\)"):
        label_column(None, columns.split(","), WHERE)


@pytest.mark.parametrize(
    ("columns", "way_out"),
    [
        (["path", "split"], r"it has path, split\. Add one with the classes"),
        ([], r"it has none at all\. Add one with the classes"),
        (["a:b:label"], r"it has a:b:label\. If that is more than one column, separate them with commas"),
        (["a b"], "separate them with commas, semicolons, tabs or |"),
        (["# made by a program"], "If that is a comment, remove it"),
        (["5.1", "3.5", "setosa"], "If these are values, add a first line"),
    ],
)
def test_where_no_column_can_be_that_of_the_classes_none_is_named(columns, way_out):
    with pytest.raises(DataError, match=way_out) as error:
        label_column(None, columns, WHERE)
    assert "--label" not in str(error.value)


def test_of_many_columns_the_last_are_named_too():
    names = [f"f{number}" for number in range(12)]
    assert listed([*names, "Cover_Type"]) == "f0, f1, f2, f3, …, f9, f10, f11, Cover_Type"


def test_what_is_missing_is_not_a_number():
    values = ["", " ", None, "NA", "n/a", "#N/A", "<NA>", "NaN", "null", "None"]
    found = numbers_of(values, "a", WHERE)
    assert found.dtype == np.float32
    assert np.isnan(found).all()


def test_numbers_and_yes_and_no_of_every_kind():
    values = ["1", " 2.5 ", "1e3", "True", "false", 4, True, decimal.Decimal("0.25")]
    assert numbers_of(values, "a", WHERE).tolist() == [1, 2.5, 1000, 1, 0, 4, 1, 0.25]
    assert numbers_of(np.array([True, False]), "a", WHERE).tolist() == [1, 0]
    assert numbers_of(np.array([1, 300], np.int64), "a", WHERE).tolist() == [1, 300]


def test_what_is_too_large_is_not_finite():
    assert np.isinf(numbers_of(["1e60", "-1e400"], "a", WHERE)).all()
    assert numbers_of([10**400, -(10**400), "9" * 400], "a", WHERE).tolist() == [np.inf, -np.inf, np.inf]
    assert is_number(10**400)


@pytest.mark.parametrize("value", ["red", "1,5", "1_0", "12%", [1.0], b"x"])
def test_what_is_no_number_is_named_with_the_way_out(value):
    with pytest.raises(DataError, match=r"row 1 .* in column 'a' is not a number.*encode the column.*--ignore a"):
        numbers_of(["1", value], "a", WHERE)


@pytest.mark.parametrize("value", ["1", "1,5", "12 %", "true", 1.0, True, np.int64(1)])
def test_a_number_or_what_is_meant_as_one(value):
    assert is_number(value)


@pytest.mark.parametrize(
    "value", ["red", "", "2024-03-01", "1_0", "NA", None, [1.0], np.datetime64("2024-03-01"), math.nan]
)
def test_what_is_no_number(value):
    assert not is_number(value)


def with_commas(*values):
    column = TextColumn(range(2, 2 + len(values)), may_have_commas=True)
    column += values
    return column


def test_commas_are_decimal_marks_where_they_do_not_separate_columns():
    values = with_commas("1,5", "2", "-0,25", "", "1.234,5", "1,5e3", ",5")
    assert numbers_of(values, "a", WHERE)[[0, 1, 2, 4, 5, 6]].tolist() == [1.5, 2, -0.25, 1234.5, 1500, 0.5]
    assert np.isnan(numbers_of(values, "a", WHERE)[3])
    assert numbers_of(with_commas("0,123", "1,234"), "a", WHERE).tolist() == pytest.approx([0.123, 1.234])
    assert numbers_of(with_commas("1.5", "2"), "a", WHERE).tolist() == [1.5, 2]


def test_a_comma_that_may_separate_thousands_is_refused():
    with pytest.raises(DataError, match=r"line 3: '1,500' in column 'a' may mean 1\.500 or 1500\. Write numbers"):
        numbers_of(with_commas("2", "1,500", "2,000"), "a", WHERE)
    with pytest.raises(DataError, match=r"line 3: '2\.5' in column 'a' is not a number.*decimal comma as in"):
        numbers_of(with_commas("1,5", "2.5"), "a", WHERE)
    with pytest.raises(DataError, match=r"line 2: '1,234,567' in column 'a' is not a number"):
        numbers_of(with_commas("1,234,567"), "a", WHERE)
