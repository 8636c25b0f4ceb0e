import decimal

import numpy as np
import pytest

from tnlpad.data.errors import DataError
from tnlpad.data.own.numbers import numbers_of


def test_what_is_missing_is_not_a_number():
    values = ["", " ", None, "NA", "n/a", "NaN", "null", "None"]
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
    with pytest.raises(DataError, match=r"in column 'a', row 1, is no number\. .*encode the column, or remove it"):
        numbers_of(["1", value], "a", "table")


def test_a_column_of_paths_under_another_name():
    with pytest.raises(DataError, match=r"'cat/0\.JPG' in column 'image', row 0, .*call it `path`"):
        numbers_of(["cat/0.JPG"], "image", "table")
