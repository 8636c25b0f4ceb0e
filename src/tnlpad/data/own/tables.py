"""The columns of a CSV file, and how its text is written: by rules, not by what is likely.

Text is in UTF-8, or in UTF-16 where the file begins with the mark of that, as what spreadsheets call Unicode text does.
Fields are separated by what a first line `sep=;` says, else by that of `, ; tab |` which makes the most columns of the
heading.

The columns of a Parquet file, and of any table of Arrow.
"""

import codecs
import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from tnlpad.data.files import readable, readable_as
from tnlpad.data.own.columns import require_different
from tnlpad.errors import DataError

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SAID = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
MOST_FIELD_CHARACTERS = 1 << 20
Rows = Iterator[tuple[int, list[str]]]  # each with the line where it ends


@dataclass(frozen=True, kw_only=True)
class TextForm:
    """How a table is written as text; a codec of Python's, which reads and writes the mark of its encoding."""

    encoding: str = "utf-8"
    separator: str = ","


def read_csv(path: Path) -> tuple[dict[str, list[str]], TextForm]:
    """The columns of a text file by their headings, and how it is written."""
    previous = csv.field_size_limit(MOST_FIELD_CHARACTERS)
    encoding = "utf-8"
    try:
        with readable(path):
            encoding = _encoding(path)
            with open(path, encoding=encoding, newline="") as file:
                separator = _separator(file, path)
                return _columns(_rows(file, separator), path), TextForm(encoding=encoding, separator=separator)
    except UnicodeDecodeError as error:
        raise _not_text(path, encoding, f"{error.reason} at byte {error.start}") from error
    except csv.Error as error:
        raise DataError(f"{path} cannot be read as CSV: {error}. Is a quote not closed?") from error
    finally:
        csv.field_size_limit(previous)


def _encoding(path: Path) -> str:
    with open(path, "rb") as file:
        start = file.read(max(map(len, MARKS)))
    return next((encoding for mark, encoding in MARKS.items() if start.startswith(mark)), "utf-8")


def _separator(file: TextIO, path: Path) -> str:
    said = SAID.fullmatch(file.readline(len('"sep=;"\r\n')))
    if said and said[1] in SEPARATORS:
        return said[1]
    columns = {each: len(_heading(_rows(file, each))) for each in SEPARATORS}
    most = max(columns.values())
    first, *others = [each for each, count in columns.items() if count == most]
    if most > 1 and others:
        raise DataError(
            f"{path}: what makes the most columns of the heading separates them, and {SEPARATORS[first]} make as many "
            f"as {SEPARATORS[others[0]]}. Put quotes around names that hold one, or write `sep={first}` above them."
        )
    return "\t" if most == 1 else first  # a single column, whose fields may hold the others


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
        raise _not_text(path, "utf-8", "it has zero bytes, which such text has not")
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


def _not_text(path: Path, encoding: str, reason: str) -> DataError:
    kind = "UTF-16, which its first bytes announce" if encoding == "utf-16" else "UTF-8"
    return DataError(
        f"{path} is not a text file in {kind} ({reason}). Save it as UTF-8, which spreadsheets offer as a kind of CSV, "
        "or as Unicode text."
    )


def parquet_file(path: Path) -> Any:
    """A Parquet file of which only the description has been read, and makes sense."""
    from pyarrow import parquet as pq

    with readable_as("Parquet", path):
        file = pq.ParquetFile(path)
        require_different(file.schema_arrow.names, path)
        return file


def parquet_table(path: Path) -> Any:
    """The whole of it, as an Arrow table."""
    with readable_as("Parquet", path):
        return sound(parquet_file(path).read(), path)


def sound(table: Any, path: Path) -> Any:
    """The table, if each of its columns is what it says; what is not can crash whoever looks at its values."""
    table.validate(full=True)
    require_different(table.column_names, path)
    return table


def arrow_columns(table: Any, where: Path) -> dict[str, Any]:
    """The columns of an Arrow table by their names."""
    return {name: values_of(table, name, where) for name in table.column_names}


def values_of(table: Any, name: str, where: Path) -> Any:
    """The values of a column: numbers without gaps as an array, the rest as a list."""
    from pyarrow import types

    column = table.column(name)
    numeric = types.is_floating(column.type) or types.is_integer(column.type)
    try:
        return column.to_numpy() if numeric and not column.null_count else _as_text(column).to_pylist()
    # Damaged text, a date that Python has not, a place in a dictionary that is not there.
    except (ValueError, ArithmeticError, LookupError, NotImplementedError) as error:
        raise DataError(f"{where}: a value in column {name[:80]!r} cannot be read: {error}. Correct it.") from error


def is_bytes(kind: Any) -> bool:
    """Whether a column of this type holds plain bytes."""
    from pyarrow import types

    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _as_text(column: Any) -> Any:
    """Bytes that are all text, as some programs write it, become text."""
    import pyarrow as pa

    try:
        return column.cast(pa.large_string()) if is_bytes(column.type) else column
    except pa.ArrowInvalid:
        return column


def joined(tables: Sequence[Any], folder: Path) -> Any:
    """Tables of the same columns as one."""
    import pyarrow as pa

    try:
        return pa.concat_tables(tables, promote_options="default")
    except pa.ArrowException as error:
        raise DataError(
            f"{folder}: its tables have different columns ({error}). Name one of the files if they are different data."
        ) from error
