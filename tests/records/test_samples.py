import pytest

from tnlpad.records.samples import read_data_file, read_samples, write_samples
from tnlpad.records.store import RecordError

COLUMNS = {
    "id": ["a", "b"],
    "path": ["/x/a.png", None],
    "label": [1, 0],
    "label_name": ["кот", "dog"],
    "part": ["train", "test"],
}


def test_what_was_written_is_read(tmp_path):
    write_samples(tmp_path, COLUMNS, {"kind": "files"})
    assert read_samples(tmp_path) == COLUMNS
    assert read_data_file(tmp_path) == {"kind": "files"}


def test_runs_on_published_data_have_none(tmp_path):
    assert read_samples(tmp_path) == {}
    assert read_data_file(tmp_path) is None


def test_damage_is_said(tmp_path):
    (tmp_path / "samples.parquet").write_bytes(b"PAR1")
    with pytest.raises(RecordError, match="is damaged"):
        read_samples(tmp_path)
