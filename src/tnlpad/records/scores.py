"""Per-sample scores of a run.

scores.parquet    a row per training or validation sample, with index, part, the given label, and the columns that
                  `tnlpad.training.sample_scores` computes
pred_probs.npy    mean probabilities, in the same order as scores.parquet
"""

import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.array_files import read_array
from tnlpad.atomic_files import replacing
from tnlpad.errors import DataError
from tnlpad.json_text import parse_json
from tnlpad.memory import row_slices
from tnlpad.records.columns import as_array, read_columns
from tnlpad.records.samples import DATA_FILE
from tnlpad.records.store import RESTORE, Record, RecordError, RunFolder, damaged
from tnlpad.schema import Optional, Schema, problem

SCORES_FILE, PROBABILITIES_FILE = "scores.parquet", "pred_probs.npy"
METADATA_KEY = b"tnlpad"
MAX_SUM_ERROR = 0.01  # of the probabilities of a sample
SCORES: Schema = {
    "class_names": list[str],
    "views": list[str],
    "facts": Optional({"run_id": Optional(str), "epochs_until_chosen": Optional(int), "folds": Optional(int | None)}),
}


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
    run = RunFolder(folder)
    path = run.artefact(SCORES_FILE)
    if path is None:
        raise RecordError(
            f"{folder} has no per-sample scores. Train it again with --scores and another --out{_command(folder)}."
        )
    about = _about_scores(path)
    table = read_columns(path, ("index", "part", "given", *_needed(about)))
    columns = {name: as_array(table.column(name)) for name in table.column_names}
    if found := _place_problem(columns, len(about["class_names"])):
        raise damaged(path, found)
    return SampleScores(
        columns=columns,
        probabilities=_probabilities(run, table.num_rows, len(about["class_names"])),
        class_names=tuple(about["class_names"]),
        views=tuple(about["views"]),
        facts=about.get("facts", {}),
    )


def _about_scores(path: Path) -> Record:
    """Return the names of classes and views and further facts in `scores.parquet`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        about: Record = parse_json((pq.read_schema(path).metadata or {}).get(METADATA_KEY, b"null"))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise damaged(path, str(error)) from error
    if found := problem(about, SCORES):
        raise damaged(path, f"in its metadata, {found}")
    return about


def _needed(about: Record) -> list[str]:
    """Return the columns that explain why a label is suspect."""
    views = about["views"]
    needed = [f"margin_{view}_to_end" for view in views] if views == ["sigma", "w"] else []
    return needed if about.get("facts", {}).get("folds") else [*needed, *(f"agreed_{view}" for view in views[:1])]


def _place_problem(columns: Mapping[str, NDArray[Any]], classes: int) -> str | None:
    for name, limit in {"index": None, "given": classes}.items():
        values = columns[name]
        if len(values) and (values.min() < 0 or (limit is not None and values.max() >= limit)):
            return f"column {name} has {values.min()} to {values.max()}, and there are {classes} classes"
    if len(np.unique(columns["index"])) < len(columns["index"]):
        return "column index has a sample twice"
    return None


def _probabilities(run: RunFolder, samples: int, classes: int) -> NDArray[np.float32]:
    """Map the probabilities into memory, and check that each row has those of all classes."""
    path = run.artefact(PROBABILITIES_FILE)
    if path is None:
        raise RecordError(f"{run.path / PROBABILITIES_FILE} is missing, and {SCORES_FILE} needs it. {RESTORE}")
    try:
        found: NDArray[np.float32] = read_array(path, mapped=True)
    except DataError as error:
        raise damaged(path, str(error)) from error
    if found.shape != (samples, classes):
        raise RecordError(
            f"{path} has the shape {found.shape}, but {SCORES_FILE} lists {samples} samples of {classes} classes. They "
            "belong to different runs: restore them."
        )
    if found.dtype.kind != "f":
        raise damaged(path, f"it holds {found.dtype}, not probabilities")
    for part in row_slices(samples, classes):
        rows = found[part]
        wrong = ~((rows >= 0).all(1) & (abs(rows.sum(1) - 1) <= MAX_SUM_ERROR))  # NaN is wrong too
        if wrong.any():
            row = part.start + int(wrong.argmax())
            raise damaged(path, f"row {row} has no probabilities: from {found[row].min()} to {found[row].max()}")
    return found


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
    for part in row_slices(len(array), math.prod(array.shape[1:])):
        file.write(np.ascontiguousarray(array[part]).tobytes())
