"""A table with a row per sample, as CSV or Parquet: `path,label[,id,split]` for images, or numbers and a label.

Paths are relative to the folder of the table, or to one that is named, and must not lead out of it. In a table without
paths every other column is a feature and must hold numbers, but for those that hold labels or number the rows.
"""

import csv
import math
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.errors import DataError
from tnlpad.data.files import readable
from tnlpad.data.listing import (
    Listing,
    Part,
    Problem,
    label_as_given,
    part_named,
    reason_not_below,
    require_unique,
    unique,
)

Table = Mapping[str, Any]  # columns: lists, or arrays of numbers
PATH_COLUMNS = ("path", "file", "filename", "file_name", "image_path")
LABEL_COLUMNS = ("label", "labels", "class", "target")
ID_COLUMNS = ("id", "sample_id")
SPLIT_COLUMNS = ("split", "part")
# How a column of classes ends that is called otherwise, the surest first.
LABEL_ENDINGS = (re.compile(r".*labels?"), re.compile(r".*(class|target|category|type|species|outcome)|y"))
OTHER_LABELS = ("clean_label", "original_label")  # the truth or its past, beside the label to train on
ROW_NUMBERS = re.compile(
    r"(unnamed: \d+|__index_level_\d+__)?"
)  # what pandas calls its index in a file; in CSV nothing
MOST_FIELD_CHARACTERS = 1 << 20
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
    table = arrow_columns(parquet_table(path)) if path.suffix.lower() == ".parquet" else read_csv(path)
    return listing_of(table, path, images, label=label, labelled=labelled)


def listing_of(
    table: Table, where: Path, images: Path | None = None, *, label: str | None = None, labelled: bool = True
) -> Listing:
    """The samples of a table that is already in memory."""
    classes = label_column(label, table, where, labelled=labelled)
    rest = [name for name in table if name != classes]
    path, sample, split = (column_called(known, rest) for known in (PATH_COLUMNS, ID_COLUMNS, SPLIT_COLUMNS))
    rows = len(next(iter(table.values())))
    if rows == 0:
        raise DataError(f"{where} has no rows: there is nothing to train on.")
    given = table[classes] if classes is not None and labelled else [None] * rows
    labels = [label_as_given(value, where) for value in given]
    parts = [part_named(value, where) for value in table[split]] if split is not None else None
    ids = _ids(table, sample, path, where)
    if path is not None:
        return _of_images(table[path], ids, labels, parts, (images or where.parent), where)
    others = [name for name in rest if name not in {sample, split}]
    # Beside a column that was named, one that would have been taken without that is another label.
    ignored = [name for name in others if _is_no_feature(name) or (label is not None and _is_called_label(name))]
    columns = [name for name in others if name not in ignored]
    return _of_features(table, columns, ids, labels, parts, where, _note(ignored))


def _is_no_feature(name: str) -> bool:
    word = name.strip().lower()
    return word in OTHER_LABELS or ROW_NUMBERS.fullmatch(word) is not None


def _is_called_label(name: str) -> bool:
    return name.strip().lower() in LABEL_COLUMNS


def _note(ignored: Sequence[str]) -> tuple[str, ...]:
    if not ignored:
        return ()
    names = ", ".join(repr(name[:80]) if name else "one without a name" for name in ignored)
    return (f"columns that are not trained on, since they number the rows or hold other labels: {names}.",)


def _ids(table: Table, sample: str | None, path: str | None, where: Path) -> list[str]:
    if sample is not None:
        ids = [str(value) for value in table[sample]]
        require_unique(ids, where)
        return ids
    if path is not None:
        return unique([str(value) for value in table[path]])
    return [str(row) for row in range(len(next(iter(table.values()))))]


def _of_images(
    paths: Sequence[Any],
    ids: Sequence[str],
    labels: Sequence[str | int | None],
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
        file = os.path.join(root, str(value or ""))
        if reason := _reason_not_used(value, file, root):
            problems.append(Problem(id=ids[row], reason=reason))
        else:
            files.append(file)
            kept.append(row)
    if not files:
        raise DataError(
            f"{where}: none of its {len(paths):,} paths can be used; {problems[0].id[:200]} {problems[0].reason}. "
            "Paths are relative to the folder of the table, or to the one given with --images."
        )
    return Listing(
        ids=[ids[row] for row in kept],
        labels=[labels[row] for row in kept],
        parts=[parts[row] for row in kept] if parts is not None else None,
        files=files,
        problems=tuple(problems),
    )


def _reason_not_used(value: Any, file: str, root: str) -> str | None:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        return "has no path"
    return reason_not_below(file, root)


def _of_features(
    table: Table,
    columns: Sequence[str],
    ids: Sequence[str],
    labels: Sequence[str | int | None],
    parts: Sequence[Part] | None,
    where: Path,
    notes: tuple[str, ...],
) -> Listing:
    if not columns:
        raise DataError(
            f"{where} has neither a column `path` nor columns of numbers; it has {listed(table)}. Write `path,label` "
            "for images, or a label beside columns of numbers."
        )
    features = np.stack([_numbers(table[name], name, where) for name in columns], axis=1)
    return Listing(ids=ids, labels=labels, parts=parts, features=features, columns=tuple(columns), notes=notes)


def _numbers(values: Any, name: str, where: Path) -> NDArray[np.float32]:
    """A column as numbers; what is missing becomes NaN, and what is no number is refused."""
    if isinstance(values, np.ndarray) and np.issubdtype(values.dtype, np.number):
        numbers = values.astype(np.float64)
    else:
        numbers = np.array([_number(value, name, row, where) for row, value in enumerate(values)], dtype=np.float64)
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)


def _number(value: Any, name: str, row: int, where: Path) -> float:
    if value is None or (isinstance(value, str) and not value.strip()):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{where}: {str(value)[:80]!r} in column {name!r}, row {row}, is no number. Features are numbers, with a "
            "point before decimals: encode the column, or remove it."
        ) from error


def read_csv(path: Path) -> dict[str, list[str]]:
    """The columns of a text file in UTF-8 by their headings; fields are separated by commas, semicolons or tabs."""
    previous = csv.field_size_limit(MOST_FIELD_CHARACTERS)
    try:
        with readable(path), open(path, encoding="utf-8-sig", newline="") as file:
            heading = file.readline()
            file.seek(0)
            separator = max("\t;,", key=heading.count) if heading.strip() else ","
            rows = csv.reader(file, delimiter=separator)
            names = [name.strip() for name in next(rows, [])]
            return _columns(names, rows, path)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not a text file in UTF-8 ({error.reason} at byte {error.start}). Save it as UTF-8, which "
            "spreadsheets offer as a kind of CSV."
        ) from error
    except csv.Error as error:
        raise DataError(f"{path} cannot be read as CSV: {error}.") from error
    finally:
        csv.field_size_limit(previous)


def _columns(names: list[str], rows: Any, path: Path) -> dict[str, list[str]]:
    if not any(names):
        raise DataError(f"{path} is empty: its first line must name the columns, such as `path,label`.")
    _require_different(names, path)
    columns: dict[str, list[str]] = {name: [] for name in names}
    for row in rows:
        if not any(field.strip() for field in row):
            continue
        if len(row) != len(names):
            raise DataError(
                f"{path}, line {rows.line_num}: {len(row)} fields, and the first line names {len(names)} columns."
            )
        for name, field in zip(names, row, strict=True):
            columns[name].append(field)
    return columns


def _require_different(names: Sequence[str], path: Path) -> None:
    if len(set(names)) < len(names):
        raise DataError(f"{path} has two columns of one name: they are {', '.join(names)[:200]}.")


def parquet_file(path: Path) -> Any:
    """A Parquet file of which only the description has been read, and makes sense."""
    from pyarrow import ArrowException
    from pyarrow import parquet as pq

    with readable(path):
        try:
            file = pq.ParquetFile(path)
        except ArrowException as error:
            raise DataError(f"{path} cannot be read as Parquet: {error}.") from error
    _require_different(file.schema_arrow.names, path)
    return file


def parquet_table(path: Path) -> Any:
    """The whole of it, as an Arrow table."""
    from pyarrow import ArrowException

    with readable(path):
        try:
            return parquet_file(path).read()
        except ArrowException as error:
            raise DataError(f"{path} cannot be read as Parquet: {error}.") from error


def arrow_columns(table: Any) -> dict[str, Any]:
    """The columns of an Arrow table; numbers without gaps as arrays, the rest as lists."""
    from pyarrow import types

    columns: dict[str, Any] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        numeric = types.is_floating(column.type) or types.is_integer(column.type)
        columns[name] = column.to_numpy() if numeric and not column.null_count else column.to_pylist()
    return columns


def column_called(known: Sequence[str], columns: Iterable[str]) -> str | None:
    """The column with the first of these names, whatever its capitals; None if there is none."""
    names = {name.strip().lower(): name for name in columns}
    return next((names[name] for name in known if name in names), None)


def label_column(said: str | None, columns: Iterable[str], where: Path, *, labelled: bool = True) -> str | None:
    """The column of the classes: the one that was named, else one with a usual name.

    Where labels are needed and there is no such column, an error says which one it may be; else there is none.
    """
    names = list(columns)
    found = column_called(LABEL_COLUMNS, names) if said is None else _column_named(said, names)
    if found is None and labelled:
        missing, likely = "no column `label`" if said is None else f"no column {said[:80]!r}", _likely_label(names)
        raise DataError(
            f"{where} has {missing}; it has {listed(names)}. "
            + (
                f"Say which one has the classes, such as --label {shlex.quote(likely)} (label= in Python)."
                if likely
                else "Add one with the classes, beside `path` for images or columns of numbers."
            )
        )
    return found


def _column_named(said: str, names: Sequence[str]) -> str | None:
    return said if said in names else column_called((said.strip().lower(),), names)


def _likely_label(names: Sequence[str]) -> str | None:
    """The column that probably has the classes: by how its name ends, else the last of those without a use."""
    taken = (*PATH_COLUMNS, *ID_COLUMNS, *SPLIT_COLUMNS)
    free = [name for name in names if name.strip().lower() not in taken and not _is_no_feature(name)]
    telling = (name for ending in LABEL_ENDINGS for name in free if ending.fullmatch(name.strip().lower()))
    return next(telling, free[-1] if free else None)


def listed(columns: Iterable[str]) -> str:
    """Of many columns the first and the last, where labels tend to be."""
    names = [name[:80] for name in columns] or ["none at all"]
    return ", ".join(names if len(names) <= 8 else [*names[:4], "…", *names[-4:]])
