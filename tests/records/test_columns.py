"""Columns of Parquet records, of which a small file may hold more than memory."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tnlpad.records import columns
from tnlpad.records.columns import read_columns
from tnlpad.records.store import RecordError

LIMIT = 20_000_000


@pytest.fixture
def limited(monkeypatch):
    for place in ("memory", "records.columns"):
        monkeypatch.setattr(f"tnlpad.{place}.memory_limits", lambda: [LIMIT])


def write(path, texts, **options):
    pq.write_table(pa.table({"id": [str(row) for row in range(len(texts))], "label_name": texts}), path, **options)
    return path


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_long_text_that_repeats_is_refused_before_it_is_read(tmp_path, limited, monkeypatch, kind):
    path = write(tmp_path / "samples.parquet", pa.array(["x" * 2_000_000] * 300, kind))
    assert path.stat().st_size < 1_000_000
    monkeypatch.setattr(pq.ParquetFile, "read", lambda *_, **__: pytest.fail("read"))
    with pytest.raises(RecordError, match=r"samples\.parquet takes at least .* of memory, and this machine"):
        read_columns(path, ("id", "label_name"))


def test_an_encoding_that_hides_the_size_is_refused(tmp_path, limited):
    options = {"use_dictionary": False, "column_encoding": {"label_name": "DELTA_BYTE_ARRAY", "id": "PLAIN"}}
    path = write(tmp_path / "samples.parquet", ["x" * 2_000_000] * 300, **options)
    with pytest.raises(RecordError, match=r"samples\.parquet is damaged \(.*DeltaByteArray"):
        read_columns(path, ("id", "label_name"))


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"row_group_size": 700}])
def test_texts_that_fit_are_read_as_they_are(tmp_path, limited, monkeypatch, options):
    path = write(tmp_path / "samples.parquet", [f"class {row % 7}, " + "y" * 1000 for row in range(2000)], **options)
    measured = []
    size = columns._bytes_of_texts
    monkeypatch.setattr(columns, "_bytes_of_texts", lambda column: measured.append(size(column)) or measured[-1])
    table = read_columns(path, ("id", "label_name"))
    assert table.equals(pq.read_table(path))
    assert sum(measured) == sum(len(text) for column in table.columns for text in column.to_pylist())
