"""A table with a row per sample, as CSV or Parquet: `path,label[,id,split]` for images, or numbers and a label.

Paths are relative to the folder of the table, or to one that is named, and must not lead out of it. In a table without
paths the other columns are features.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tnlpad.data.own.columns import (
    ID_COLUMNS,
    PATH_COLUMNS,
    SPLIT_COLUMNS,
    Table,
    column_called,
    features_of,
    label_column,
    listed,
    without,
)
from tnlpad.data.own.dataset import Listing, Part, Problem, given_ids, part_named, unique
from tnlpad.data.own.folder import reason_not_below
from tnlpad.data.own.labels import Label, label_as_given
from tnlpad.data.own.tables import TextForm, arrow_columns, parquet_table, read_csv
from tnlpad.errors import DataError

TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
SUFFIXES = (*TEXT_SUFFIXES, ".parquet")


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The columns of a table that are no features, by what they hold; None where there is none."""

    label: str | None
    path: str | None
    id: str | None
    split: str | None


def read_manifest(
    path: Path,
    images: Path | None = None,
    *,
    label: str | None = None,
    labelled: bool = True,
    columns: Sequence[str] = (),
    ignored: Sequence[str] = (),
) -> Listing:
    """The table's samples.

    Args:
        path: A file whose name ends in .csv, .tsv, .txt or .parquet.
        images: The folder that paths are relative to and stay in; that of the table when not given.
        label: The column of the classes; one with a usual name when not given.
        labelled: Whether there must be labels; a column of them is ignored otherwise.
        columns: The features to take, whatever else there is; all that there are when not given.
        ignored: Columns to read as if they were not there.
    """
    table, _ = read_table(path)
    table = {name: table[name] for name in without(ignored, table, path)}
    if images is not None and column_called(PATH_COLUMNS, table) is None:
        raise DataError(f"--images {images} is for tables with a column of paths, and {path} has none: leave it out.")
    return listing_of(table, path, images or path.parent, label=label, labelled=labelled, columns=columns)


def read_table(path: Path) -> tuple[Table, TextForm]:
    """Its columns, and how text is written that is like it."""
    if path.suffix.lower() == ".parquet":
        return arrow_columns(parquet_table(path), path), TextForm()
    return read_csv(path)


def roles_of(
    table: Table, where: Path, *, label: str | None = None, labelled: bool = True, columns: Sequence[str] = ()
) -> Roles:
    """Which column holds what, features apart; arguments as in `listing_of`."""
    classes = label_column(label, table, where, labelled=labelled)
    taken = {classes, *columns}
    free = [name for name in table if name not in taken]
    path, sample, split = (column_called(known, free) for known in (PATH_COLUMNS, ID_COLUMNS, SPLIT_COLUMNS))
    return Roles(label=classes, path=None if columns else path, id=sample, split=split)


def ids_of(table: Table, roles: Roles, where: Path, *, must_differ: bool = True) -> Sequence[str]:
    """Of the rows, by what they are called there, else by their numbers."""
    if roles.id is not None:
        return given_ids(table[roles.id], where, must_differ=must_differ)
    if roles.path is not None:
        return unique([str(value) for value in table[roles.path]])
    return [str(row) for row in range(_rows_of(table))]


def listing_of(
    table: Table,
    where: Path,
    folder: Path,
    *,
    label: str | None = None,
    labelled: bool = True,
    columns: Sequence[str] = (),
    labels: Sequence[Label | None] | None = None,
    ids: Sequence[str] | None = None,
    parts: Sequence[Part] | None = None,
) -> Listing:
    """The samples of a table that is already in memory.

    Args:
        table: Its columns.
        where: What messages call it.
        folder: What paths are relative to and stay in.
        label, labelled, columns: As in `read_manifest`.
        labels: Of the rows, whatever the table says.
        ids: Of the rows, unless the table has ids or paths; their numbers when not given.
        parts: Of the rows, whatever the table says.
    """
    roles = roles_of(table, where, label=label, labelled=labelled and labels is None, columns=columns)
    rows = _rows_of(table)
    if rows == 0:
        raise DataError(f"{where} has no rows: there is nothing to look at.")
    if labels is None:
        given = table[roles.label] if roles.label is not None and labelled else [None] * rows
        labels = [label_as_given(value, where) for value in given]
    if parts is None and roles.split is not None and labelled:
        parts = [part_named(value, where) for value in table[roles.split]]
    if ids is None or roles.id is not None or roles.path is not None:
        ids = ids_of(table, roles, where, must_differ=labelled)
    if roles.path is not None:
        return _of_images(table[roles.path], ids, labels, parts, folder, where)
    used = {roles.id} if columns else {roles.label, roles.id, roles.split}
    features = features_of({name: table[name] for name in table if name not in used}, where, columns)
    if features is None:
        beside = f" beside {roles.label!r}" if roles.label is not None else ""
        raise DataError(
            f"{where} has neither a column `path` nor columns of numbers{beside}; it has {listed(table)}. Write "
            "`path,label` for images, or a label beside columns of numbers; for text see examples/text.py."
        )
    return Listing(
        ids=ids,
        labels=labels,
        parts=parts,
        features=features.numbers,
        columns=features.columns,
        notes=features.notes,
    )


def _rows_of(table: Table) -> int:
    return len(next(iter(table.values()), ()))


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
