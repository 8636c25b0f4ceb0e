from pathlib import Path

import pytest

from tnlpad.data.errors import DataError
from tnlpad.data.own.columns import LABEL_COLUMNS, column_called, label_column, listed

WHERE = Path("table")


def test_capitals_and_spaces_do_not_matter_and_the_first_counts():
    assert column_called(LABEL_COLUMNS, ["a", " Label "]) == " Label "
    assert column_called(LABEL_COLUMNS, ["target", "labels"]) == "labels"
    assert column_called(LABEL_COLUMNS, ["label", "Label"]) == "label"
    assert column_called(LABEL_COLUMNS, ["a"]) is None


def test_a_column_that_was_named():
    names = ["kind", "Kind", "label"]
    assert label_column("Kind", names, WHERE) == "Kind"
    assert label_column(" KIND", names, WHERE) == "kind"
    assert label_column(None, names, WHERE) == "label"
    assert label_column("sort", names, WHERE, labelled=False) is None
    with pytest.raises(DataError, match=r"table has no column 'sort'; it has kind, Kind, label\. .*--label label "):
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
        (["path", "split"], r"it has path, split\. Add one with the classes, beside `path`"),
        ([], r"it has none at all\. Add one with the classes"),
        (["a:b:label"], r"it has a:b:label\. If that is more than one column, separate them with commas"),
        (["a b"], "separate them with commas, semicolons, tabs or |"),
        (["# made by a program"], "If that is a remark, remove it"),
        (["5.1", "3.5", "setosa"], "If that is a row of data, write a first line that names the columns"),
    ],
)
def test_where_no_column_can_be_that_of_the_classes_none_is_named(columns, way_out):
    with pytest.raises(DataError, match=way_out) as error:
        label_column(None, columns, WHERE)
    assert "--label" not in str(error.value)


def test_of_many_columns_the_last_are_named_too():
    names = [f"f{number}" for number in range(12)]
    assert listed([*names, "Cover_Type"]) == "f0, f1, f2, f3, …, f9, f10, f11, Cover_Type"
