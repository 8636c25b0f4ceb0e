"""The samples of a run on own data: their ids, labels and parts, where they lie, and earlier decisions about them.

samples.parquet   a row per sample, with id, path, label, label_name, part, and its row in the data as given. Training
                  and validation samples come first, in the order of the dataset's index, then the test part
data.json         path, fingerprint, class names and normalisation of the data
decided.csv       labels that a person decided on in an earlier round, by id
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from tnlpad.records.columns import as_array, read_columns
from tnlpad.records.store import RESTORE, Record, RecordError, RunFolder, damaged, read_json, to_json
from tnlpad.regular_files import open_regular
from tnlpad.schema import Optional, Schema, problem

SAMPLES_FILE, DATA_FILE, DECIDED_FILE = "samples.parquet", "data.json", "decided.csv"
SAMPLES_AT_ONCE = 1 << 17
DATA: Schema = {
    "path": str,
    "fingerprint": str,
    "class_names": list[str],
    "kind": Literal["images", "files", "features", "text", "table"],
    "normalisation": {"mean": list[float], "std": list[float]},
    **dict.fromkeys(("images", "label_column", "text_column", "group_column", "id_column"), Optional(str | None)),
    **dict.fromkeys(("backbone", "backbone_weights"), Optional(str | None)),
    **dict.fromkeys(("ignored", "columns"), Optional(list[str])),
    "categories": Optional(list[str] | None),
    "left_out": Optional(list[dict[str, str]]),  # the first of them, all in older versions
    "left_out_count": Optional(int),
    "groups": Optional(str | None),  # a digest of the groups that stay in one fold
}


@dataclass(frozen=True, kw_only=True, eq=False)
class SampleNames:
    """Stable ids of samples, the paths of those that are image files, and their rows in the data as given.

    Without `rows`, these are the places in the dataset.
    """

    ids: Sequence[str]
    paths: Sequence[str | None]
    rows: NDArray[np.int64] | None = None


def write_samples(folder: Path, columns: Mapping[str, Sequence[Any]], about: Mapping[str, Any]) -> None:
    """Write `samples.parquet` and `data.json`. Columns may be any sequences; they are read a part at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {name: pa.string() for name in ("id", "path", "label", "label_name", "part")} | {"label": pa.int64()}
    types |= {"row": pa.int64()} if "row" in columns else {}  # records of older versions have no rows

    def write_table(file: BinaryIO) -> None:
        with pq.ParquetWriter(file, pa.schema(types.items())) as writer:
            for start in range(0, len(columns["id"]), SAMPLES_AT_ONCE):
                part = {name: columns[name][start : start + SAMPLES_AT_ONCE] for name in types}
                writer.write_table(pa.table({name: pa.array(part[name], kind) for name, kind in types.items()}))

    RunFolder(folder).replace_artefacts({DATA_FILE: _writer(to_json(about)), SAMPLES_FILE: write_table})


def _writer(content: bytes) -> Callable[[BinaryIO], None]:
    def write(file: BinaryIO) -> None:
        file.write(content)

    return write


def has_columns(folder: Path, columns: Mapping[str, Sequence[Any]]) -> bool:
    """Return whether `samples.parquet` has these columns with these values."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open_regular(folder / SAMPLES_FILE) as stream, pq.ParquetFile(stream) as file:
            if not columns.keys() <= {*file.schema_arrow.names}:
                return False
            start = 0
            for batch in file.iter_batches(SAMPLES_AT_ONCE, columns=list(columns)):
                stop = start + len(batch)
                if any(batch.column(name).to_pylist() != list(columns[name][start:stop]) for name in columns):
                    return False
                start = stop
            return all(len(values) == start for values in columns.values())
    except (OSError, ValueError, pa.ArrowException):  # damaged, or gone
        return False


def read_data_file(folder: Path) -> Record | None:
    """Read `data.json`; return None for a run on a published dataset."""
    path = _of_own_data(folder, DATA_FILE)
    if path is None:
        return None
    about = read_json(path)
    if found := problem(about, DATA) or _path_problem(about) or _normalisation_problem(about["normalisation"]):
        raise damaged(path, found)
    return about


def _path_problem(about: Mapping[str, Any]) -> str | None:
    wrong = [name for name in ("path", "images") if "\0" in (about.get(name) or "")]
    return f"{wrong[0]} has a null character, which no path has" if wrong else None


def _of_own_data(folder: Path, name: str) -> Path | None:
    """Return the path of a file that every finished run on own data has; None for a run on a published dataset."""
    run = RunFolder(folder)
    path = run.artefact(name)
    if path is None and run.finished and run.begun and "data" in run.config():
        raise RecordError(f"{folder / name} is missing, and the run is on own data. {RESTORE}")
    return path


def _normalisation_problem(numbers: Mapping[str, Sequence[float]]) -> str | None:
    fits = len(numbers["mean"]) == len(numbers["std"]) > 0 and min(numbers["std"]) > 0
    return None if fits else "normalisation needs as many means as standard deviations, which are positive"


def write_decided(folder: Path, labels: Mapping[str, str]) -> None:
    """Write `decided.csv`; it is not touched if nothing changed, and there is none if there never were decisions."""
    with suppress(RecordError):  # a damaged file is written again
        if labels == read_decided(folder):
            return
    text = io.StringIO(newline="")
    csv.writer(text).writerows([("id", "label"), *labels.items()])
    RunFolder(folder).replace_artefacts({DECIDED_FILE: _writer(text.getvalue().encode())})


def read_decided(folder: Path) -> dict[str, str]:
    """Read the labels of `decided.csv` by id; return none if there is no such file."""
    path = RunFolder(folder).artefact(DECIDED_FILE)
    if path is None:
        return {}
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        decided = {row["id"]: row["label"] for row in rows}
        if any(not isinstance(each, str) for row in decided.items() for each in row):
            raise ValueError("a row without id or label")
    except (OSError, KeyError, ValueError, csv.Error) as error:
        raise RecordError(f"{path} is damaged ({error!r}). Repeat the `tnlpad train` command to restore it.") from error
    return decided


def read_samples(folder: Path) -> dict[str, list[Any]]:
    """Read the columns of `samples.parquet`; return no columns for a run on a published dataset."""
    path = _of_own_data(folder, SAMPLES_FILE)
    if path is None:
        return {}
    table = read_columns(path, ("id", "path", "label", "label_name", "part"), ("row",))
    columns: dict[str, list[Any]] = table.to_pydict()
    return columns


def read_names(folder: Path, index: NDArray[np.int64]) -> SampleNames:
    """Read ids, paths and rows of the samples at these places of the dataset; without a record, ids are the places."""
    import pyarrow as pa

    path = _of_own_data(folder, SAMPLES_FILE)
    if path is None:
        return SampleNames(ids=[str(place) for place in index.tolist()], paths=[None] * len(index), rows=index)
    table = read_columns(path, ("id", "path"), ("row",))
    if len(index) and index.max() >= len(table):
        raise damaged(path, f"it lacks some samples: it has {len(table):,} of {index.max() + 1:,} or more")
    first = np.array_equal(index, np.arange(len(index)))
    table = table.slice(0, len(index)) if first else table.take(pa.array(index))
    ids, paths = (table.column(name).to_pylist() for name in ("id", "path"))
    rows = as_array(table.column("row")) if "row" in table.column_names else index
    return SampleNames(ids=ids, paths=paths, rows=rows)
