"""Read the columns of CSV and JSON Lines files.

Text is UTF-8, or UTF-16 if the file starts with its byte order mark, as the Unicode text of spreadsheets does. The
separator is the one in a first line `sep=;`, else the one of `, ; tab |` that splits the header into the most columns.
"""

import codecs
import csv
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from tnlpad.data.files import readable
from tnlpad.data.own.columns import TextColumn, require_different
from tnlpad.errors import DataError
from tnlpad.json_text import parse_json
from tnlpad.memory import require_memory

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
MAX_FIELD_CHARACTERS = 1 << 20
ROW_BYTES, CELL_BYTES = 200, 8  # of memory that a row of a table and each of its values take at least
COPIES = 2  # of a value in memory: as it is read, and as it is used
MAX_CELLS_IF_SPARSE, MAX_CELLS_PER_VALUE = 1 << 26, 1000  # of a larger table, for each value in it
CHECKED_GROWTH = 1.1  # of a table until its size is checked again
SMALLER_TABLE = "Use a part of it, or a machine with more memory."
Rows = Iterator[tuple[int, list[str]]]  # each with the number of its last line


@dataclass(frozen=True, kw_only=True)
class TextForm:
    """Encoding, as a Python codec that reads and writes the byte order mark, and separator of a CSV file."""

    encoding: str = "utf-8"
    separator: str = ","


def read_csv(path: Path) -> tuple[dict[str, list[str]], TextForm]:
    """Return the columns of a CSV file by name, and its encoding and separator."""
    previous = csv.field_size_limit(MAX_FIELD_CHARACTERS)
    encoding = "utf-8"
    try:
        with readable(path):
            encoding = _encoding(path)
            with open(path, encoding=encoding, newline="") as file:
                separator = _separator(file, path)
                columns = _columns(_rows(file, separator, whole=True), path, separator)
                return columns, TextForm(encoding=encoding, separator=separator)
    except UnicodeDecodeError as error:
        raise _not_text(path, encoding, f"{error.reason} at byte {error.start}") from error
    except csv.Error as error:
        raise DataError(f"{path} cannot be read as CSV: {error}. Is a quote not closed?") from error
    finally:
        csv.field_size_limit(previous)


def _encoding(path: Path) -> str:
    with open(path, "rb") as file:
        start = file.read(max(map(len, BYTE_ORDER_MARKS)))
    return next((encoding for mark, encoding in BYTE_ORDER_MARKS.items() if start.startswith(mark)), "utf-8")


def _separator(file: TextIO, path: Path) -> str:
    given = SEPARATOR_LINE.fullmatch(file.readline(len('"sep=;"\r\n')))
    if given and given[1] in SEPARATORS:
        return given[1]
    columns = {each: len(_header(_rows(file, each))) for each in SEPARATORS}
    most = max(columns.values())
    first, *others = [each for each, count in columns.items() if count == most]
    if most > 1 and others:
        raise DataError(
            f"{path}: {SEPARATORS[first]} and {SEPARATORS[others[0]]} split the header into equally many columns. Put "
            f"names that contain one of them in quotes, or write `sep={first}` as the first line."
        )
    return "\t" if most == 1 else first  # a single column, whose fields may contain the others


def _rows(file: TextIO, separator: str, *, whole: bool = False) -> Rows:
    """Yield the rows from the start of the file, without empty lines and a first line `sep=;`.

    Args:
        file: The file.
        separator: What separates its fields.
        whole: Whether to raise csv.Error where the quotes of a row of several lines do not match, since a quote that is
            not closed swallows the rows after it.
    """
    file.seek(0)
    lines: list[str] = []  # of a row
    reader = csv.reader(_noting(file, lines), delimiter=separator)
    for row in reader:
        if whole and len(lines) > 1:
            _require_closed(lines, separator, reader.line_num)
        lines.clear()
        empty = not row or (len(row) == 1 and not row[0].strip())
        if not empty and not (reader.line_num == 1 and row[0].lower().startswith("sep=")):
            yield reader.line_num, row


def _noting(file: TextIO, lines: list[str]) -> Iterator[str]:
    """Yield the lines of a file, and add them to `lines`, the end of the file as an empty one."""
    for line in file:
        lines.append(line)
        yield line
    lines.append("")


def _require_closed(lines: Sequence[str], separator: str, last: int) -> None:
    quoted, plain = r'"(?:[^"]++|"")*+" *+', rf'(?!")[^{re.escape(separator)}\r\n]*+'
    field = f"(?:{quoted}|{plain})"
    if not re.fullmatch(rf"{field}(?:{re.escape(separator)}{field})*+[\r\n]*", "".join(lines)):
        first = last + 1 - sum(map(bool, lines))
        raise csv.Error(
            f"quotes do not match in the row from line {first} on (behind a closing quote comes a separator)"
        )


def _header(rows: Rows) -> list[str]:
    _, row = next(rows, (0, []))
    return [name.strip() for name in row]


def _columns(rows: Rows, path: Path, separator: str) -> dict[str, list[str]]:
    names = _header(rows)
    if not any(names):
        raise DataError(f"{path} is empty: its first line must name the columns, such as `path,label`.")
    if any("\0" in name for name in names):
        raise _not_text(path, "utf-8", "it contains zero bytes")
    require_different(names, path)
    lines: list[int] = []
    numbers: list[int] = []
    commas = separator != ","
    columns: dict[str, list[str]] = {name: TextColumn(lines, numbers, may_have_commas=commas) for name in names}
    for number, (line, row) in enumerate(rows):
        if not any(field.strip() for field in row):
            continue
        if len(row) != len(names):
            advice = "Fill the line in, and put quotes around a field that contains a separator."
            if any("\n" in field for field in row):
                advice = "Is a quote not closed?"
            raise DataError(f"{path}, line {line}: {len(row)} fields, but {len(names)} columns. {advice}")
        lines.append(line)
        numbers.append(number)
        for name, field in zip(names, row, strict=True):
            columns[name].append(field)
    return columns


def _not_text(path: Path, encoding: str, reason: str) -> DataError:
    kind = "UTF-16, which its byte order mark announces" if encoding == "utf-16" else "UTF-8"
    return DataError(
        f"{path} is not a text file in {kind} ({reason}). Save it as UTF-8, which spreadsheets offer as a kind of CSV, "
        "or as Unicode text."
    )


def read_jsonl(path: Path) -> dict[str, list[Any]]:
    """Return the columns of a file with a JSON object per line; a field that a line lacks is None."""
    lines: list[int] = []
    columns: dict[str, list[Any]] = {}
    given, unchecked = 0, 0.0
    for number, record in json_records(path):
        _add_record(record, columns, lines)
        lines.append(number)
        given += len(record)
        if (cells := len(lines) * len(columns)) > unchecked:
            require_cells(cells, given, path, f"{len(lines):,} lines with {len(columns):,} different fields in all")
            unchecked = CHECKED_GROWTH * cells
    if not columns:
        raise DataError(f'{path} is empty: each line must be a JSON object, such as {{"text": …, "label": …}}.')
    for values in columns.values():
        values += [None] * (len(lines) - len(values))
    return columns


def require_cells(cells: int, values: int, path: Path, reason: str) -> None:
    """Raise DataError if so many cells do not fit into memory, or are too many for the values in them."""
    if cells > max(MAX_CELLS_IF_SPARSE, MAX_CELLS_PER_VALUE * values):
        raise DataError(
            f"{path} has {reason}, and a value in fewer than one of {MAX_CELLS_PER_VALUE:,} cells. Put values of one "
            "kind into the same column."
        )
    require_memory(COPIES * CELL_BYTES * cells, f"{path} has {reason}. It", SMALLER_TABLE)


def json_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON object of each line that is not empty, with the number of the line."""
    encoding = "utf-8"
    try:
        with readable(path):
            encoding = _encoding(path)
            with open(path, encoding=encoding) as file:
                for number, line in enumerate(file, 1):
                    if line.strip():
                        yield number, _record(line, number, path)
    except UnicodeDecodeError as error:
        raise _not_text(path, encoding, f"{error.reason} at byte {error.start}") from error


def _record(line: str, number: int, path: Path) -> dict[str, Any]:
    try:
        record = parse_json(line)
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise DataError(
            f"{path}, line {number}: this is not JSON ({reason}). Write one JSON object per line."
        ) from error
    if not isinstance(record, dict):
        raise DataError(
            f"{path}, line {number}: this is a JSON {type(record).__name__}, not an object. Write one JSON object per "
            'line, such as {"text": …, "label": …}.'
        )
    named = {valid_text(name).strip(): value for name, value in record.items()}
    if len(named) < len(record):
        raise DataError(f"{path}, line {number}: two fields have the same name. Rename one.")
    return named


def _add_record(record: dict[str, Any], columns: dict[str, list[Any]], lines: list[int]) -> None:
    """Append a value to each column; `lines` are those read before."""
    for name, value in record.items():
        column = columns.setdefault(name, TextColumn(lines))
        column += [None] * (len(lines) - len(column))
        column.append(valid_text(value) if isinstance(value, str) else value)


def valid_text(text: str) -> str:
    """Replace halves of surrogate pairs, which JSON can have and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()
