import pytest

from tnlpad.data.errors import DataError
from tnlpad.data.own.listing import given_ids, numbered_columns, unique


def test_what_comes_again_gets_a_number():
    assert unique(["a", "b", "a", "a#2", "a"]) == ["a", "b", "a#3", "a#2", "a#4"]


def test_ids_as_given():
    assert given_ids([3, "x", 1.5], "data") == ["3", "x", "1.5"]
    with pytest.raises(DataError, match=r"data: the id '3' is there twice, .* Make ids different, or leave them out"):
        given_ids([3, "3"], "data")
    for missing in (None, ""):
        with pytest.raises(DataError, match=r"data: row 1 \(the first is 0\) has no id"):
            given_ids(["a", missing], "data")


def test_columns_without_names_are_numbered():
    assert numbered_columns(2) == ("column 0", "column 1")
    assert numbered_columns(0) == ()
