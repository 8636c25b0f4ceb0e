"""Which samples a run on a person's own data was about, and where they lay.

samples.parquet   a row per sample: those trained on or held out in the order of the dataset's index, then the test
                  part; columns id, path, label, label_name, part
data.json         where the data lay, their fingerprint, the names of classes, and how inputs are normalised
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tnlpad.records.store import Record, RecordError, read_json, replacing, to_json, write_by_rename

SAMPLES_FILE, DATA_FILE = "samples.parquet", "data.json"


def write_samples(folder: Path, columns: Mapping[str, Sequence[Any]], about: Mapping[str, Any]) -> None:
    """Write both files by rename."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"id": pa.string(), "path": pa.string(), "label": pa.int64(), "label_name": pa.string()}
    types["part"] = pa.string()
    table = pa.table({name: pa.array(columns[name], kind) for name, kind in types.items()})
    with replacing(folder / SAMPLES_FILE) as file:
        pq.write_table(table, file)
    write_by_rename(folder / DATA_FILE, to_json(about))


def read_data_file(folder: Path) -> Record | None:
    """What a run remembers of the data that it was about; None if they are not a person's own."""
    path = folder / DATA_FILE
    return read_json(path) if path.exists() else None


def read_samples(folder: Path) -> dict[str, list[Any]]:
    """The columns of the list of samples; no columns if the data are not a person's own."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / SAMPLES_FILE
    if not path.exists():
        return {}
    try:
        columns: dict[str, list[Any]] = pq.read_table(path).to_pydict()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise RecordError(f"{path} is damaged ({error}). Restore it.") from error
    return columns
