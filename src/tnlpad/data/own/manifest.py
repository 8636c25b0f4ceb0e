"""Read a table with a row per sample: images by their paths, texts, or numbers and categories; with a label.

Paths are relative to the table's folder, or to a given one, and must not lead out of it. Where a table has paths and
numbers of the same samples, the numbers are trained on and the paths lead to pictures to show.
"""

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from tnlpad.data.own.arrow_tables import arrow_columns, parquet_table
from tnlpad.data.own.column_kinds import (
    IMAGE_FACTS,
    Content,
    as_text,
    content_of,
    how_to_name,
    kinds_of,
    text_column,
    text_column_named,
    text_notes,
    texts_of,
    wanted_content,
)
from tnlpad.data.own.columns import (
    ID_COLUMNS,
    PATH_COLUMNS,
    SPLIT_COLUMNS,
    Table,
    find_column,
    id_column,
    label_column,
    listed,
    named_column,
    require_wanted,
    rows_of,
    without,
)
from tnlpad.data.own.dataset import (
    IN_MEMORY,
    Listing,
    Part,
    Problem,
    ReadOptions,
    given_ids,
    groups_of,
    part_named,
    unique,
)
from tnlpad.data.own.folder import NOT_UTF8, Boundary
from tnlpad.data.own.labels import Label, label_as_given
from tnlpad.data.own.tables import TextForm, read_csv, read_jsonl
from tnlpad.data.own.workbooks import read_workbook
from tnlpad.data.paths import PathList
from tnlpad.errors import DataError, as_utf8

TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
JSON_SUFFIXES = (".jsonl", ".ndjson")
WORKBOOK_SUFFIX = ".xlsx"
SUFFIXES = (*TEXT_SUFFIXES, *JSON_SUFFIXES, WORKBOOK_SUFFIX, ".parquet")


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Columns of a table that are not features, by their role; None where there is no such column."""

    label: str | None
    path: str | None
    id: str | None
    split: str | None
    group: str | None = None


def read_manifest(path: Path, images: Path | None = None, options: ReadOptions = ReadOptions()) -> Listing:
    """Read the samples of a file with one of SUFFIXES; `images` is the folder of its paths."""
    table, _, notes = _read(path)
    table = {name: table[name] for name in without(options.ignored, table, path)}
    if images is not None and find_column(PATH_COLUMNS, table) is None:
        raise DataError(f"--images {images}: {path} has no column of paths. Leave --images out.")
    listing = listing_of(table, path, images or path.parent, options)
    return replace(listing, notes=(*notes, *listing.notes))


def read_table(path: Path) -> tuple[Table, TextForm]:
    """Return the columns of a file, and the form in which to write a CSV file like it."""
    table, form, _ = _read(path)
    return table, form


def _read(path: Path) -> tuple[Table, TextForm, tuple[str, ...]]:
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return arrow_columns(parquet_table(path), path), TextForm(), ()
    if suffix in JSON_SUFFIXES:
        return read_jsonl(path), TextForm(), ()
    if suffix == WORKBOOK_SUFFIX:
        table, notes = read_workbook(path)
        return table, TextForm(), notes
    return *read_csv(path), ()


def roles_of(table: Table, where: Path, options: ReadOptions = ReadOptions()) -> Roles:
    """Find the columns that are not features."""
    label = label_column(options.label, table, where, labelled=options.labelled)
    group = named_column(options.group, "--group", table, where) if options.group and options.labelled else None
    given = id_column(options.id, table, where, labelled=options.labelled)
    taken = {label, group, given, *options.columns}
    free = [name for name in table if name not in taken]
    path, usual, split = (find_column(known, free) for known in (PATH_COLUMNS, ID_COLUMNS, SPLIT_COLUMNS))
    sample = usual if given is None else given
    return Roles(label=label, path=None if options.columns else path, id=sample, split=split, group=group)


def ids_of(table: Table, roles: Roles, where: Path, *, must_differ: bool = True) -> Sequence[str]:
    """Return the ids of the rows: given ids, else paths, else row numbers."""
    if roles.id is not None:
        column = shlex.quote(roles.id)
        way_out = (
            f"Make ids different. If equal ones mark rows of one thing, use the column as --group {column}; if it says "
            f"nothing, --ignore {column} (group= and ignore= in Python)."
        )
        return given_ids(table[roles.id], where, must_differ=must_differ, way_out=way_out)
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
        parts = [part_named(value, where, roles.split) for value in table[roles.split]]
    if ids is None or roles.id is not None or roles.path is not None:
        ids = ids_of(table, roles, where, must_differ=labelled)
    groups = groups_of(table[roles.group]) if roles.group is not None else None
    samples = _Samples(ids=ids, labels=labels, rows=rows_of(table), parts=parts, groups=groups)
    return _list_content(table, roles, samples, folder, where, options)


@dataclass(frozen=True, kw_only=True)
class _Samples:
    """All about the rows of a table except their content, as in `Listing`."""

    ids: Sequence[str]
    labels: Sequence[Label | None]
    rows: Sequence[int]
    parts: Sequence[Part] | None
    groups: Sequence[str] | None

    def listing(self, **content: Any) -> Listing:
        about = {field.name: getattr(self, field.name) for field in fields(self)}
        return Listing(**about, **content)


def _named_text(options: ReadOptions, free: Table, where: Path) -> str | None:
    """Return the text column that the user or a run names."""
    if options.text is None:
        return None
    if not options.labelled and find_column((options.text.strip().lower(),), free) is None:
        require_wanted(free, where, [options.text])
    return named_column(options.text, "--text", free, where)


def _list_content(
    table: Table, roles: Roles, samples: _Samples, folder: Path, where: Path, options: ReadOptions
) -> Listing:
    """List texts, rows of numbers and categories, or images by their paths."""
    used = {roles.id} if options.columns else {roles.label, roles.id, roles.split, roles.group, roles.path}
    if options.id is not None:
        used.add(find_column(ID_COLUMNS, table))  # names samples as well, and says nothing about their classes
    free = {name: table[name] for name in table if name not in used}
    if options.columns:
        return _with_content(samples, wanted_content(free, options.columns, options.categories, where))
    given = _named_text(options, free, where)
    kinds = kinds_of(free, where) if given is None else {}
    if roles.path is not None and given is None:
        numbers = [name for name, kind in kinds.items() if kind in ("number", "embedding")]
        if not [name for name in numbers if name.strip().lower() not in IMAGE_FACTS]:
            return _list_images(table[roles.path], samples, folder, where, text_column_named(kinds))
    else:
        text = text_column(free, kinds, given, where)
        if text is not None:
            texts = texts_of(free[text], text, where)
            notes = text_notes(texts, text, free, given=given is not None)
            return samples.listing(texts=texts, text_column=text, notes=tuple(notes))
    content = content_of(free, kinds, where)
    if content is None:
        way_out = "Name a column of text with --text (text= in Python)."
        if "printed list" in kinds.values():
            way_out = "Write lists of numbers as JSON, such as [0.1, 0.2], or save the table as Parquet."
        raise DataError(
            f"{where} has no column to train on: neither `path`, nor text, numbers or categories; it has "
            f"{listed(table)}. {way_out}"
        )
    listing = _with_content(samples, content)
    pictures = _pictures(table[roles.path], folder) if roles.path is not None else []
    if not any(pictures):
        return listing
    note = (
        f"the columns beside {roles.path!r} are trained on, and the pictures are shown. To train on the pictures, "
        "exclude the columns of numbers with --ignore (ignore= in Python)."
    )
    return replace(listing, pictures=pictures, notes=(note, *listing.notes))


def _with_content(samples: _Samples, content: Content) -> Listing:
    return samples.listing(features=content.features, table=content.table, columns=content.columns, notes=content.notes)


def _pictures(paths: Sequence[Any], folder: Path) -> list[str | None]:
    """Return the files of pictures to show; None where there is none below the folder."""
    found = _resolved(paths, Boundary(folder))
    return [file if reason is None and os.path.isfile(file) else None for file, reason in found]


def _row_count(table: Table) -> int:
    return len(next(iter(table.values()), ()))


def _list_images(paths: Sequence[Any], samples: _Samples, folder: Path, where: Path, text: str | None) -> Listing:
    """List images by their paths; `text` is a column of texts, which the user may have meant instead."""
    boundary = Boundary(folder)
    if not os.path.isdir(boundary.folder):
        raise DataError(f"{folder} is not a folder. Name the one that the paths of {where} are relative to.")
    files: list[str] = []
    kept: list[int] = []
    problems: list[Problem] = []
    for row, (file, reason) in enumerate(_resolved(paths, boundary)):
        if reason:
            problems.append(Problem(id=as_text(samples.ids[row]), reason=reason))
        else:
            files.append(file)
            kept.append(row)
    if not any(map(os.path.exists, files)):
        first = f"{files[0][:200]} does not exist" if files else f"{problems[0].id[:200]} {problems[0].reason}"
        others = f" To train on the texts instead: {how_to_name(text)}." if text is not None else ""
        slashes = " Write / between folders." if files and "\\" in files[0] else ""
        rule = "Paths are relative to the folder of the table, or to the one given with --images."
        if (where, folder) == (IN_MEMORY, Path()):
            rule = "Paths lead into the current folder. For others, save the table beside the images and give its path."
        raise DataError(f"{where}: none of its {len(paths):,} paths can be used; {first}. {rule}{slashes}{others}")
    parts, groups = samples.parts, samples.groups
    return Listing(
        ids=PathList([as_utf8(samples.ids[row], "the id") for row in kept]),
        labels=[samples.labels[row] for row in kept],
        rows=[samples.rows[row] for row in kept],
        parts=[parts[row] for row in kept] if parts is not None else None,
        groups=[groups[row] for row in kept] if groups is not None else None,
        files=PathList([file.encode() for file in files]),
        problems=tuple(problems),
    )


def _resolved(paths: Sequence[Any], boundary: Boundary) -> Iterator[tuple[str, str | None]]:
    """Yield the file of each path, and why it cannot be used, or None."""
    for value in paths:
        file = _resolve(boundary.folder, str(value or ""))
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            yield file, "has no path"
        elif as_text(value) != value:
            yield file, NOT_UTF8
        else:
            yield file, boundary.reason(file)


def _resolve(root: str, path: str) -> str:
    """Join the path to its folder, without outer spaces unless there is a file with them."""
    file = os.path.join(root, path)
    return file if path == path.strip() or os.path.exists(file) else os.path.join(root, path.strip())
