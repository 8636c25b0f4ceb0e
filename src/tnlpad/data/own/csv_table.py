"""The columns of a CSV file."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from tnlpad.data.errors import DataError
from tnlpad.data.files import readable
from tnlpad.data.own.columns import require_different

SEPARATORS = "\t;,"
MOST_FIELD_CHARACTERS = 1 << 20
Rows = Iterator[tuple[int, list[str]]]  # each with the line where it ends


def read_csv(path: Path) -> dict[str, list[str]]:
    """The columns of a text file in UTF-8 by their headings; fields are separated by commas, semicolons or tabs."""
    previous = csv.field_size_limit(MOST_FIELD_CHARACTERS)
    try:
        with readable(path), open(path, encoding="utf-8-sig", newline="") as file:
            separator = max(SEPARATORS, key=lambda each: len(_heading(_rows(file, each))))
            return _columns(_rows(file, separator), path)
    except UnicodeDecodeError as error:
        raise _not_utf8(path, f"{error.reason} at byte {error.start}") from error
    except csv.Error as error:
        raise DataError(f"{path} cannot be read as CSV: {error}. Is a quote not closed?") from error
    finally:
        csv.field_size_limit(previous)


def _rows(file: TextIO, separator: str) -> Rows:
    """The file from its beginning, without empty lines and the `sep=;` that is for spreadsheets."""
    file.seek(0)
    reader = csv.reader(file, delimiter=separator)
    for row in reader:
        empty = not row or (len(row) == 1 and not row[0].strip())
        if not empty and not (reader.line_num == 1 and row[0].lower().startswith("sep=")):
            yield reader.line_num, row


def _heading(rows: Rows) -> list[str]:
    _, row = next(rows, (0, []))
    return [name.strip() for name in row]


def _columns(rows: Rows, path: Path) -> dict[str, list[str]]:
    names = _heading(rows)
    if not any(names):
        raise DataError(f"{path} is empty: its first line must name the columns, such as `path,label`.")
    if any("\0" in name for name in names):
        raise _not_utf8(path, "it has zero bytes, which such text has not")
    require_different(names, path)
    columns: dict[str, list[str]] = {name: [] for name in names}
    for line, row in rows:
        if not any(field.strip() for field in row):
            continue
        if len(row) != len(names):
            counts = f"{len(row)} fields, and the first line names {len(names)} columns"
            raise DataError(f"{path}, line {line}: {counts}. {_way_out(row)}")
        for name, field in zip(names, row, strict=True):
            columns[name].append(field)
    return columns


def _way_out(row: list[str]) -> str:
    """What to do about a row that does not fit."""
    if any("\n" in field for field in row):
        return "Is a quote not closed?"
    return "Fill the line in, and put quotes around a field that holds a separator."


def _not_utf8(path: Path, reason: str) -> DataError:
    return DataError(
        f"{path} is not a text file in UTF-8 ({reason}). Save it as UTF-8, which spreadsheets offer as a kind of CSV."
    )
