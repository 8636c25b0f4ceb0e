import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tnlpad.data.errors import DataError
from tnlpad.data.own.parquet import arrow_columns, joined, parquet_file, parquet_table


def test_columns_of_every_kind():
    columns = arrow_columns(
        pa.table(
            {
                "whole": [1, 2],
                "gaps": pa.array([None, 2]),
                "names": pa.array(["x", "y"]).dictionary_encode(),
                "text as bytes": [b"x", b"\xc3\xa4"],
                "bytes": [b"x", b"\xff"],
            }
        ),
        "table",
    )
    assert isinstance(columns["whole"], np.ndarray)
    assert columns["gaps"] == [None, 2]
    assert columns["names"] == ["x", "y"]
    assert columns["text as bytes"] == ["x", "ä"]
    assert columns["bytes"] == [b"x", b"\xff"]


@pytest.mark.parametrize("content", [b"", b"PAR1 no", b"PAR1" + b"\0" * 100 + b"PAR1"])
def test_bytes_that_are_no_table(tmp_path, content):
    (tmp_path / "x.parquet").write_bytes(content)
    for read in (parquet_file, parquet_table):
        with pytest.raises(DataError, match=r"x\.parquet cannot be read"):
            read(tmp_path / "x.parquet")


def test_a_name_stands_for_one_column(tmp_path):
    twice = pa.table([pa.array([1.0]), pa.array([2.0]), pa.array([0])], names=["a", "a", "label"])
    pq.write_table(twice, tmp_path / "x.parquet")
    with pytest.raises(DataError, match="two columns of one name: they are a, a, label"):
        parquet_table(tmp_path / "x.parquet")


def test_tables_of_different_data_do_not_go_together(tmp_path):
    tables = [pa.table({"a": [1.0]}), pa.table({"a": ["b"]})]
    with pytest.raises(DataError, match=r"its tables have different columns .* Name one of the files"):
        joined(tables, tmp_path)


def test_a_file_that_is_damaged_in_the_middle(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [float(row) for row in range(1000)]}), path)
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"x\.parquet cannot be read"):
        parquet_table(path)


@pytest.mark.parametrize(
    "column",
    [
        pa.StringArray.from_buffers(1, pa.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0])), pa.py_buffer(b"\xff")),
        pa.array([1 << 60], pa.timestamp("s")),
        pa.DictionaryArray.from_arrays(pa.array([5]), pa.array(["x"]), safe=False),
    ],
)
def test_values_that_python_cannot_hold(column):
    with pytest.raises(DataError, match=r"table: a value in column 'a' cannot be read: .* Correct it"):
        arrow_columns(pa.table({"a": column}), "table")
