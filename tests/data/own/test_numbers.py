import decimal

import numpy as np
import pytest

from tnlpad.data.errors import DataError
from tnlpad.data.own.numbers import holds_numbers, numbers_of


def test_what_is_missing_is_not_a_number():
    values = ["", " ", None, "NA", "n/a", "#N/A", "<NA>", "NaN", "null", "None"]
    found = numbers_of(values, "a", "table")
    assert found.dtype == np.float32
    assert np.isnan(found).all()


def test_numbers_and_yes_and_no_of_every_kind():
    values = ["1", " 2.5 ", "1e3", "True", "false", 4, True, decimal.Decimal("0.25")]
    assert numbers_of(values, "a", "table").tolist() == [1, 2.5, 1000, 1, 0, 4, 1, 0.25]
    assert numbers_of(np.array([True, False]), "a", "table").tolist() == [1, 0]
    assert numbers_of(np.array([1, 300], np.int64), "a", "table").tolist() == [1, 300]


def test_what_is_too_large_is_not_finite():
    assert np.isinf(numbers_of(["1e60", "-1e400"], "a", "table")).all()


@pytest.mark.parametrize("value", ["red", "1,5", "1_0", "12%", [1.0], b"x"])
def test_what_is_no_number_is_named_with_the_way_out(value):
    with pytest.raises(
        DataError, match=r"in column 'a', row 1 .*, is no number\. .*encode the column, or leave it out: --ignore"
    ):
        numbers_of(["1", value], "a", "table")


@pytest.mark.parametrize("values", [["red", "1"], ["", "1,5"], ["red", "12 %"], ["true"], [1.0], [], np.array([1, 2])])
def test_a_column_with_a_number_or_what_is_meant_as_one(values):
    assert holds_numbers(values)


@pytest.mark.parametrize(
    "values",
    [["red", ""], ["2024-03-01"], ["1_0"], ["NA"], [None], [[1.0]], np.array(["2024-03-01"], "datetime64[D]")],
)
def test_a_column_without_numbers(values):
    assert not holds_numbers(values)
