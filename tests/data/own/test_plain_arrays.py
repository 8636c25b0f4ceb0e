import numpy as np
import pytest
import torch

from tnlpad.data.errors import DataError
from tnlpad.data.own.in_memory import open_samples

IMAGES = np.random.default_rng(0).integers(0, 255, (20, 8, 8), dtype=np.uint8)
LABELS = np.arange(20) % 2


@pytest.mark.parametrize("labels", [{0, 1}, {0: 1}, 3])
def test_labels_have_an_order(labels):
    with pytest.raises(DataError, match=rf"labels are a {type(labels).__name__}: give a list or an array"):
        open_samples(IMAGES, labels)


def test_what_a_mask_hides_is_missing():
    rows = np.ma.array(np.arange(40.0).reshape(20, 2), mask=False)
    rows[3, 1] = np.ma.masked
    own = open_samples(rows, LABELS)
    assert [(each.id, each.reason) for each in own.problems] == [("3", "has no finite number in column 'column 1'")]


def test_numbers_of_half_precision():
    rows = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    for kind in (torch.bfloat16, torch.float16):
        assert open_samples(rows.to(kind), LABELS).shape == open_samples(rows.to(kind).float(), LABELS).shape


def test_gaps_of_pandas():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": pandas.array([1, None, 3], dtype="Int64"), "b": [True, False, True]})
    own = open_samples(table, pandas.Series([None, "x", "y"], dtype="string"))
    assert {each.id: each.reason for each in own.problems} == {
        "0": "has no label",
        "1": "has no finite number in column 'a'",
    }
    assert own.features.tolist() == [[3, 1]]


@pytest.mark.parametrize("column", [["x", "y"], np.array(["2020-01-01", "2020-01-02"], "datetime64[ns]")])
def test_columns_of_pandas_that_are_no_numbers(column):
    pandas = pytest.importorskip("pandas")
    own = open_samples(pandas.DataFrame({"a": [1.0, 2.0], "c": column}), [0, 1])
    assert (own.columns, own.features.tolist()) == (("a",), [[1], [2]])
    assert "no number in them: 'c'" in own.notes[0]
    with pytest.raises(DataError, match="data has neither a column `path` nor columns of numbers; it has c"):
        open_samples(pandas.DataFrame({"c": column}), [0, 1])
