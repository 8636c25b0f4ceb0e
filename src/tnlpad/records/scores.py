"""Per-sample records of a run: which samples it used, and how they scored.

samples.parquet   own data: a row per sample, with id, path, label, label_name, part, and its row in the data as given.
                  Training and validation samples come first, in the order of the dataset's index, then the test part
data.json         own data: their path, fingerprint, class names and normalisation
decided.csv       own data: labels that a person decided on in an earlier round, by id
scores.parquet    a row per training or validation sample, with index, part, the given label, and the columns that
                  `tnlpad.training.sample_scores` computes
pred_probs.npy    mean probabilities, in the same order as scores.parquet
"""

import csv
import io
import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.atomic_files import replacing, write_by_rename
from tnlpad.records.store import Record, RecordError, read_json, to_json

SAMPLES_FILE, DATA_FILE, DECIDED_FILE = "samples.parquet", "data.json", "decided.csv"
SCORES_FILE, PROBABILITIES_FILE = "scores.parquet", "pred_probs.npy"
METADATA_KEY = b"tnlpad"
ROWS_AT_ONCE = 16_384
SAMPLES_AT_ONCE = 1 << 17


@dataclass(frozen=True, kw_only=True, eq=False)
class SampleScores:
    """The content of `scores.parquet` and `pred_probs.npy`.

    Args:
        columns: One value per sample under each name; `part` holds texts.
        probabilities: Samples × classes, means over `views` and epochs; a memory map when read from disk.
        class_names: Names by label.
        views: Names of the evaluated networks; the first is the one to ship.
        facts: Further facts about the evaluation, as plain data.
    """

    columns: Mapping[str, NDArray[Any]]
    probabilities: NDArray[np.float32]
    class_names: tuple[str, ...]
    views: tuple[str, ...]
    facts: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.probabilities)


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
    with replacing(folder / SAMPLES_FILE) as file, pq.ParquetWriter(file, pa.schema(types.items())) as writer:
        for start in range(0, len(columns["id"]), SAMPLES_AT_ONCE):
            part = {name: columns[name][start : start + SAMPLES_AT_ONCE] for name in types}
            writer.write_table(pa.table({name: pa.array(part[name], kind) for name, kind in types.items()}))
    write_by_rename(folder / DATA_FILE, to_json(about))


def has_columns(folder: Path, columns: Mapping[str, Sequence[Any]]) -> bool:
    """Return whether `samples.parquet` has these columns with these values."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(folder / SAMPLES_FILE) as file:
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
    path = folder / DATA_FILE
    return read_json(path) if path.exists() else None


def write_decided(folder: Path, labels: Mapping[str, str]) -> None:
    """Write `decided.csv`, or remove it if there are no decisions; it is not touched if nothing changed."""
    with suppress(RecordError):  # a damaged file is written again
        if labels == read_decided(folder):
            return
    if not labels:
        (folder / DECIDED_FILE).unlink()
        return
    text = io.StringIO(newline="")
    csv.writer(text).writerows([("id", "label"), *labels.items()])
    write_by_rename(folder / DECIDED_FILE, text.getvalue().encode())


def read_decided(folder: Path) -> dict[str, str]:
    """Read the labels of `decided.csv` by id; return none if there is no such file."""
    path = folder / DECIDED_FILE
    if not path.exists():
        return {}
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return {row["id"]: row["label"] for row in csv.DictReader(file)}
    except (OSError, KeyError, UnicodeDecodeError, csv.Error) as error:
        raise RecordError(f"{path} is damaged ({error!r}). Repeat the `tnlpad train` command to restore it.") from error


def read_samples(folder: Path) -> dict[str, list[Any]]:
    """Read the columns of `samples.parquet`; return no columns for a run on a published dataset."""
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


def read_names(folder: Path, index: NDArray[np.int64]) -> SampleNames:
    """Read ids, paths and rows of the samples at these places of the dataset; without a record, ids are the places."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / SAMPLES_FILE
    if not path.exists():
        return SampleNames(ids=[str(place) for place in index.tolist()], paths=[None] * len(index), rows=index)
    try:
        with pq.ParquetFile(path) as file:
            wanted = [name for name in ("id", "path", "row") if name in file.schema_arrow.names]
            table = file.read(wanted, use_threads=False)
            first = len(index) <= len(table) and np.array_equal(index, np.arange(len(index)))
            table = table.slice(0, len(index)) if first else table.take(pa.array(index))
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise RecordError(f"{path} is damaged, or lacks some samples ({error}). Restore it.") from error
    ids, paths = (table.column(name).to_pylist() for name in ("id", "path"))
    rows = _array(table.column("row")) if "row" in table.column_names else index
    return SampleNames(ids=[str(each) for each in ids], paths=paths, rows=rows)


def write_scores(folder: Path, scores: SampleScores) -> None:
    """Write both files. The table comes last, so its presence means that both are complete."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with replacing(folder / PROBABILITIES_FILE) as file:
        write_array(file, scores.probabilities)
    about = {"class_names": list(scores.class_names), "views": list(scores.views), "facts": dict(scores.facts)}
    table = pa.table({name: pa.array(column) for name, column in scores.columns.items()})
    with replacing(folder / SCORES_FILE) as file:
        pq.write_table(table.replace_schema_metadata({METADATA_KEY: json.dumps(about).encode()}), file)


def read_scores(folder: Path) -> SampleScores:
    """Read both files; raise `RecordError` if one is missing or damaged, or if they are of different runs."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / SCORES_FILE
    if not path.exists():
        raise RecordError(
            f"{folder} has no per-sample scores. Train it again with --scores and another --out{_command(folder)}."
        )
    try:
        with pq.ParquetFile(path) as file:  # threads are no faster here, and each takes memory of its own
            table = file.read(use_threads=False)
        about = json.loads((table.schema.metadata or {})[METADATA_KEY])
        columns = {name: _array(table.column(name)) for name in table.column_names}
        probabilities = np.load(folder / PROBABILITIES_FILE, mmap_mode="r")
        names, views = tuple(about["class_names"]), tuple(about["views"])
    except (OSError, EOFError, ValueError, KeyError, pa.ArrowException) as error:
        raise RecordError(f"{path} or {PROBABILITIES_FILE} beside it is damaged ({error}). Restore them.") from error
    if probabilities.shape != (table.num_rows, len(names)):
        raise RecordError(
            f"{folder / PROBABILITIES_FILE} has the shape {probabilities.shape}, but {path} lists {table.num_rows} "
            f"samples of {len(names)} classes. They belong to different runs: restore them."
        )
    return SampleScores(
        columns=columns, probabilities=probabilities, class_names=names, views=views, facts=about["facts"]
    )


def _array(column: Any) -> NDArray[Any]:
    """Return an Arrow column as an array; texts that repeat are one object.

    Numbers go through DLPack where they can: `to_numpy` imports pandas if it is installed, which takes 40 MB.
    """
    from pyarrow import types

    values = column.combine_chunks()
    if types.is_string(values.type):
        encoded = values.dictionary_encode()
        texts: NDArray[Any] = np.array(encoded.dictionary.to_pylist(), dtype=object)[np.from_dlpack(encoded.indices)]
        return texts
    plain = (types.is_integer(values.type) or types.is_floating(values.type)) and not values.null_count
    return np.from_dlpack(values) if plain else np.asarray(values.to_numpy(zero_copy_only=False))


def _command(folder: Path) -> str:
    """Return the command that trains a run on a published dataset again; nothing if more than the config is needed."""
    config = folder / "config.json"
    if not config.exists() or (folder / DATA_FILE).exists():
        return ""
    words = ["tnlpad", "train", "--config", str(config), "--scores", "--out", f"{folder.parent}2"]
    return f": {shlex.join(words)}"


def write_array(file: Any, array: NDArray[Any]) -> None:
    """Write a `.npy` file a few rows at a time, so that a memory map is never loaded as a whole."""
    header = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(file, header)
    for start in range(0, len(array), ROWS_AT_ONCE):
        file.write(np.ascontiguousarray(array[start : start + ROWS_AT_ONCE]).tobytes())
