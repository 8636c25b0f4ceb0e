import numpy as np
import pytest

from tnlpad.data.own.mixed import MixedTable


def table(numbers=((1, 2), (3, np.nan)), values=("x", None)):
    return MixedTable(
        number_columns=("a", "b"),
        numbers=np.array(numbers, np.float32),
        category_columns=("c",),
        categories=(list(values),),
    )


def test_rows_are_taken_in_order():
    found = table().take([1, 0, 1])
    assert len(found) == 3
    assert found.columns == ("a", "b", "c")
    assert found.numbers[:, 0].tolist() == [3, 1, 3]
    assert found.categories == ([None, "x", None],)


def test_digests_tell_rows_apart_and_no_more():
    rows = [*table(values=("x", "")).digests(), *table(values=("xx", None)).digests()]
    assert len(set(rows)) == 4
    other_nan = np.array([[1, 2], [3, 0]], np.float32)
    other_nan.view(np.uint32)[1, 1] = 0xFFC00001
    assert list(table(other_nan).digests()) == list(table().digests())


def test_columns_fit_the_names():
    with pytest.raises(ValueError, match="a column for each name"):
        table(numbers=((1,), (2,)))
    with pytest.raises(ValueError, match="must have 2 values"):
        table(values=("x",))
