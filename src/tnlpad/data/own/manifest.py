"""A table with a row per sample, as CSV or Parquet: `path,label[,id,split]` for images, or numbers and a label.

Paths are relative to the folder of the table, or to one that is named, and must not lead out of it. In a table without
paths every other column is a feature and must hold numbers, but for those that hold labels or number the rows.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tnlpad.data.errors import DataError
from tnlpad.data.own.columns import (
    ID_COLUMNS,
    PATH_COLUMNS,
    SPLIT_COLUMNS,
    column_called,
    is_no_feature,
    label_column,
    listed,
)
from tnlpad.data.own.csv_table import read_csv
from tnlpad.data.own.labels import Label, label_as_given
from tnlpad.data.own.listing import Listing, Problem, given_ids, unique
from tnlpad.data.own.numbers import numbers_of
from tnlpad.data.own.parquet import arrow_columns, parquet_table
from tnlpad.data.own.parts import Part, part_named
from tnlpad.data.own.paths import reason_not_below

Table = Mapping[str, Any]  # columns: lists, or arrays of numbers
SUFFIXES = (".csv", ".tsv", ".parquet")


def read_manifest(
    path: Path, images: Path | None = None, *, label: str | None = None, labelled: bool = True
) -> Listing:
    """The table's samples.

    Args:
        path: A file whose name ends in .csv, .tsv or .parquet.
        images: The folder that paths are relative to and stay in; that of the table when not given.
        label: The column of the classes; one with a usual name when not given.
        labelled: Whether there must be labels; a column of them is ignored otherwise.
    """
    table = arrow_columns(parquet_table(path), path) if path.suffix.lower() == ".parquet" else read_csv(path)
    if images is not None and column_called(PATH_COLUMNS, table) is None:
        raise DataError(f"--images {images} is for tables with a column of paths, and {path} has none: leave it out.")
    return listing_of(table, path, images or path.parent, label=label, labelled=labelled)


def listing_of(
    table: Table,
    where: Path,
    folder: Path,
    *,
    label: str | None = None,
    labelled: bool = True,
    ids: Sequence[str] | None = None,
    parts: Sequence[Part] | None = None,
) -> Listing:
    """The samples of a table that is already in memory.

    Args:
        table: Its columns.
        where: What messages call it.
        folder: What paths are relative to and stay in.
        label, labelled: As in `read_manifest`.
        ids: Of the rows, unless the table has ids or paths; their numbers when not given.
        parts: Of the rows, whatever the table says.
    """
    classes = label_column(label, table, where, labelled=labelled)
    rest = [name for name in table if name != classes]
    path, sample, split = (column_called(known, rest) for known in (PATH_COLUMNS, ID_COLUMNS, SPLIT_COLUMNS))
    rows = len(next(iter(table.values())))
    if rows == 0:
        raise DataError(f"{where} has no rows: there is nothing to train on.")
    given = table[classes] if classes is not None and labelled else [None] * rows
    labels = [label_as_given(value, where) for value in given]
    if parts is None and split is not None:
        parts = [part_named(value, where) for value in table[split]]
    if sample is not None:
        ids = given_ids(table[sample], where)
    elif path is not None:
        ids = unique([str(value) for value in table[path]])
    elif ids is None:
        ids = [str(row) for row in range(rows)]
    if path is not None:
        return _of_images(table[path], ids, labels, parts, folder, where)
    others = [name for name in rest if name not in {sample, split}]
    columns = [name for name in others if not is_no_feature(name)]
    if not columns:
        beside = f" beside {classes!r}" if classes is not None else ""
        raise DataError(
            f"{where} has neither a column `path` nor columns of numbers{beside}; it has {listed(table)}. Write "
            "`path,label` for images, or a label beside columns of numbers."
        )
    features = np.stack([numbers_of(table[name], name, where) for name in columns], axis=1)
    notes = _note([name for name in others if name not in columns])
    return Listing(ids=ids, labels=labels, parts=parts, features=features, columns=tuple(columns), notes=notes)


def _note(ignored: Sequence[str]) -> tuple[str, ...]:
    if not ignored:
        return ()
    names = ", ".join(repr(name[:80]) if name else "one without a name" for name in ignored)
    return (f"columns that are not trained on, since they number the rows or hold other labels: {names}.",)


def _of_images(
    paths: Sequence[Any],
    ids: Sequence[str],
    labels: Sequence[Label | None],
    parts: Sequence[Part] | None,
    folder: Path,
    where: Path,
) -> Listing:
    root = os.path.realpath(folder)
    if not os.path.isdir(root):
        raise DataError(f"{folder} is not a folder: name the one that the paths of {where} are relative to.")
    files: list[str] = []
    kept: list[int] = []
    problems: list[Problem] = []
    for row, value in enumerate(paths):
        file = _file(root, str(value or ""))
        if reason := _reason_not_used(value, file, root):
            problems.append(Problem(id=ids[row], reason=reason))
        else:
            files.append(file)
            kept.append(row)
    if not any(map(os.path.exists, files)):
        raise DataError(f"{where}: none of its {len(paths):,} paths can be used; {_first_reason(files, problems)}")
    return Listing(
        ids=[ids[row] for row in kept],
        labels=[labels[row] for row in kept],
        parts=[parts[row] for row in kept] if parts is not None else None,
        files=files,
        problems=tuple(problems),
    )


def _file(root: str, path: str) -> str:
    """Where a path leads; spaces around it are no part of it, unless there is such a file."""
    file = os.path.join(root, path)
    return file if path == path.strip() or os.path.exists(file) else os.path.join(root, path.strip())


def _reason_not_used(value: Any, file: str, root: str) -> str | None:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        return "has no path"
    return reason_not_below(file, root)


def _first_reason(files: Sequence[str], problems: Sequence[Problem]) -> str:
    first = f"there is no such file as {files[0][:200]}" if files else f"{problems[0].id[:200]} {problems[0].reason}"
    slashes = " Write / between folders." if files and "\\" in files[0] else ""
    return f"{first}. Paths are relative to the folder of the table, or to the one given with --images.{slashes}"
