"""Which samples a run on a person's own data was about, and where they lay.

samples.parquet   a row per sample: those trained on or held out in the order of the dataset's index, then the test
                  part; columns id, path, label, label_name, part
data.json         where the data lay, their fingerprint, the names of classes, and how inputs are normalised

What a run leaves about every sample: one row each in `scores.parquet`, and mean probabilities in `pred_probs.npy`.

Rows of both are in the same order, that of the dataset's index. Columns are plain numbers with the names that
`tnlpad.training.sample_scores` gives them, beside `index`, `part` (train or validation) and `given`, the label as
it was given. A sample's id and path stand in `samples.parquet`, where there is one, in the same order as `index`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.atomic_files import replacing, write_by_rename
from tnlpad.records.store import Record, RecordError, read_json, to_json

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


SCORES_FILE, PROBABILITIES_FILE, SCORES_SAMPLES_FILE = "scores.parquet", "pred_probs.npy", "samples.parquet"
METADATA_KEY = b"tnlpad"
ROWS_AT_ONCE = 16_384


@dataclass(frozen=True, kw_only=True, eq=False)
class SampleScores:
    """The two files of a run.

    Args:
        columns: A number per sample under each name; `part` is an array of words.
        probabilities: Samples × classes, means over these networks and over epochs; read from disk when asked for.
        class_names: By label.
        views: Names of the networks that were asked; the first is the one to ship.
        facts: Whatever else is known of the census, as plain data.
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
    """How samples are called: an id that stays the same, and where the image lies if it is a file."""

    ids: Sequence[str]
    paths: Sequence[str | None]


def write_scores(folder: Path, scores: SampleScores) -> None:
    """Write both files by rename; the table comes last, so that its presence means that both are there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with replacing(folder / PROBABILITIES_FILE) as file:
        write_array(file, scores.probabilities)
    about = {"class_names": list(scores.class_names), "views": list(scores.views), "facts": dict(scores.facts)}
    table = pa.table({name: pa.array(column) for name, column in scores.columns.items()})
    with replacing(folder / SCORES_FILE) as file:
        pq.write_table(table.replace_schema_metadata({METADATA_KEY: json.dumps(about).encode()}), file)


def read_scores(folder: Path) -> SampleScores:
    """Read both files, the probabilities as a memory map; refuse what does not belong together."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / SCORES_FILE
    if not path.exists():
        raise RecordError(
            f"{path} does not exist: this run kept no scores of its samples, or has not come so far. `tnlpad train` "
            "keeps them; a finished run must be run again, with another --out."
        )
    try:
        table = pq.read_table(path)
        about = json.loads((table.schema.metadata or {})[METADATA_KEY])
        columns = {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}
        probabilities = np.load(folder / PROBABILITIES_FILE, mmap_mode="r")
        names, views = tuple(about["class_names"]), tuple(about["views"])
    except (OSError, EOFError, ValueError, KeyError, pa.ArrowException) as error:
        raise RecordError(f"{path} or {PROBABILITIES_FILE} beside it is damaged ({error}). Restore them.") from error
    if probabilities.shape != (table.num_rows, len(names)):
        raise RecordError(
            f"{folder / PROBABILITIES_FILE} has the shape {probabilities.shape}, and {path} is about {table.num_rows} "
            f"samples of {len(names)} classes: they belong to different runs. Restore them."
        )
    return SampleScores(
        columns=columns, probabilities=probabilities, class_names=names, views=views, facts=about["facts"]
    )


def read_names(folder: Path, index: NDArray[np.int64]) -> SampleNames:
    """Ids and paths of the samples at these places of the dataset; without a list of them the place is the id."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / SCORES_SAMPLES_FILE
    if not path.exists():
        return SampleNames(ids=[str(place) for place in index.tolist()], paths=[None] * len(index))
    try:
        table = pq.read_table(path, columns=["id", "path"]).take(pa.array(index))
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise RecordError(f"{path} is damaged, or does not list every sample ({error}). Restore it.") from error
    ids, paths = (table.column(name).to_pylist() for name in ("id", "path"))
    return SampleNames(ids=[str(each) for each in ids], paths=paths)


def write_array(file: Any, array: NDArray[Any]) -> None:
    """A `.npy` file, a few rows at a time: what is read from a memory map never lies in memory as a whole."""
    header = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(file, header)
    for start in range(0, len(array), ROWS_AT_ONCE):
        file.write(np.ascontiguousarray(array[start : start + ROWS_AT_ONCE]).tobytes())
