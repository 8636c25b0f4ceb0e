"""Read a table with a row per sample: `path,label[,id,split]` for images, or columns of numbers and a label.

Paths are relative to the table's folder, or to a given one, and must not lead out of it.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tnlpad.data.own.columns import (
    ID_COLUMNS,
    PATH_COLUMNS,
    SPLIT_COLUMNS,
    Table,
    features_of,
    find_column,
    label_column,
    listed,
    without,
)
from tnlpad.data.own.dataset import Listing, Part, Problem, ReadOptions, given_ids, part_named, unique
from tnlpad.data.own.folder import reason_not_below
from tnlpad.data.own.labels import Label, label_as_given
from tnlpad.data.own.tables import TextForm, arrow_columns, parquet_table, read_csv
from tnlpad.errors import DataError

TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
SUFFIXES = (*TEXT_SUFFIXES, ".parquet")


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Columns of a table that are not features, by their role; None where there is no such column."""

    label: str | None
    path: str | None
    id: str | None
    split: str | None


def read_manifest(path: Path, images: Path | None = None, options: ReadOptions = ReadOptions()) -> Listing:
    """Read the samples of a file with one of SUFFIXES; `images` is the folder of its paths."""
    table, _ = read_table(path)
    table = {name: table[name] for name in without(options.ignored, table, path)}
    if images is not None and find_column(PATH_COLUMNS, table) is None:
        raise DataError(f"--images {images}: {path} has no column of paths. Leave --images out.")
    return listing_of(table, path, images or path.parent, options)


def read_table(path: Path) -> tuple[Table, TextForm]:
    """Return the columns of a file, and the form in which to write a CSV file like it."""
    if path.suffix.lower() == ".parquet":
        return arrow_columns(parquet_table(path), path), TextForm()
    return read_csv(path)


def roles_of(table: Table, where: Path, options: ReadOptions = ReadOptions()) -> Roles:
    """Find the columns that are not features."""
    label = label_column(options.label, table, where, labelled=options.labelled)
    taken = {label, *options.columns}
    free = [name for name in table if name not in taken]
    path, sample, split = (find_column(known, free) for known in (PATH_COLUMNS, ID_COLUMNS, SPLIT_COLUMNS))
    return Roles(label=label, path=None if options.columns else path, id=sample, split=split)


def ids_of(table: Table, roles: Roles, where: Path, *, must_differ: bool = True) -> Sequence[str]:
    """Return the ids of the rows: given ids, else paths, else row numbers."""
    if roles.id is not None:
        return given_ids(table[roles.id], where, must_differ=must_differ)
    if roles.path is not None:
        return unique([str(value) for value in table[roles.path]])
    return [str(row) for row in range(_row_count(table))]


def listing_of(
    table: Table,
    where: Path,
    folder: Path,
    options: ReadOptions,
    *,
    labels: Sequence[Label | None] | None = None,
    ids: Sequence[str] | None = None,
    parts: Sequence[Part] | None = None,
) -> Listing:
    """List the samples of a table in memory.

    Args:
        table: Its columns.
        where: Name of the table in messages.
        folder: Folder that paths are relative to.
        options: How to read it.
        labels, parts: Labels and parts of the rows, instead of those in the table.
        ids: Ids of the rows if the table has neither ids nor paths.
    """
    labelled = options.labelled
    roles = roles_of(table, where, replace(options, labelled=labelled and labels is None))
    rows = _row_count(table)
    if rows == 0:
        raise DataError(f"{where} has no rows.")
    if labels is None:
        given = table[roles.label] if roles.label is not None and labelled else [None] * rows
        labels = [label_as_given(value, where) for value in given]
    if parts is None and roles.split is not None and labelled:
        parts = [part_named(value, where) for value in table[roles.split]]
    if ids is None or roles.id is not None or roles.path is not None:
        ids = ids_of(table, roles, where, must_differ=labelled)
    if roles.path is not None:
        return _list_images(table[roles.path], ids, labels, parts, folder, where)
    used = {roles.id} if options.columns else {roles.label, roles.id, roles.split}
    features = features_of({name: table[name] for name in table if name not in used}, where, options.columns)
    if features is None:
        raise DataError(
            f"{where} has neither a column `path` nor columns of numbers; it has {listed(table)}. Write `path,label` "
            "for images, or a label and columns of numbers; for text see examples/text.py."
        )
    return Listing(
        ids=ids,
        labels=labels,
        parts=parts,
        features=features.numbers,
        columns=features.columns,
        notes=features.notes,
    )


def _row_count(table: Table) -> int:
    return len(next(iter(table.values()), ()))


def _list_images(
    paths: Sequence[Any],
    ids: Sequence[str],
    labels: Sequence[Label | None],
    parts: Sequence[Part] | None,
    folder: Path,
    where: Path,
) -> Listing:
    root = os.path.realpath(folder)
    if not os.path.isdir(root):
        raise DataError(f"{folder} is not a folder. Name the one that the paths of {where} are relative to.")
    files: list[str] = []
    kept: list[int] = []
    problems: list[Problem] = []
    for row, value in enumerate(paths):
        file = _resolve(root, str(value or ""))
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            reason: str | None = "has no path"
        else:
            reason = reason_not_below(file, root)
        if reason:
            problems.append(Problem(id=ids[row], reason=reason))
        else:
            files.append(file)
            kept.append(row)
    if not any(map(os.path.exists, files)):
        first = f"{files[0][:200]} does not exist" if files else f"{problems[0].id[:200]} {problems[0].reason}"
        slashes = " Write / between folders." if files and "\\" in files[0] else ""
        raise DataError(
            f"{where}: none of its {len(paths):,} paths can be used; {first}. Paths are relative to the folder of the "
            f"table, or to the one given with --images.{slashes}"
        )
    return Listing(
        ids=[ids[row] for row in kept],
        labels=[labels[row] for row in kept],
        parts=[parts[row] for row in kept] if parts is not None else None,
        files=files,
        problems=tuple(problems),
    )


def _resolve(root: str, path: str) -> str:
    """Join the path to its folder, without outer spaces unless there is a file with them."""
    file = os.path.join(root, path)
    return file if path == path.strip() or os.path.exists(file) else os.path.join(root, path.strip())
