"""Read the columns of CSV, JSON Lines, .xlsx and Parquet files and of Arrow tables.

Text is UTF-8, or UTF-16 if the file starts with its byte order mark, as the Unicode text of spreadsheets does. The
separator is the one in a first line `sep=;`, else the one of `, ; tab |` that splits the header into the most columns.
Of a workbook, the first sheet is read; it needs openpyxl, the extra `tables`.
"""

import codecs
import csv
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import filterfalse
from pathlib import Path
from typing import Any, TextIO

from tnlpad.data.files import BLOCK_BYTES, readable, readable_as
from tnlpad.data.own.columns import TextColumn, listed, require_different
from tnlpad.errors import DataError
from tnlpad.json_text import parse_json
from tnlpad.memory import memory_limits, require_memory

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
MAX_FIELD_CHARACTERS = 1 << 20
MAX_WORKBOOK_BYTES = 1 << 31  # unpacked
MAX_MEMBER_BYTES, MAX_ELEMENTS = 1 << 24, 500_000  # unpacked, of parts without cells, which are read as a whole
PARSED = (".xml", ".rels", ".vml")
SHEETS, TEXTS = re.compile(r"xl/worksheets/[^/]+\.xml", re.IGNORECASE), "xl/sharedstrings.xml"  # within a workbook
TEXT_OF_SHEETS = re.compile(rb"<(?:[^<>/?!\s]+:)?si[\s/>]")
TEXT_BYTES = 100  # of memory that a text takes at least as it is read
MAX_SHEET_ROWS = 1 << 20  # that the format has
ROW_BYTES, CELL_BYTES = 200, 8  # of memory that a row of a table and each of its values take at least
COPIES = 2  # of a value in memory: as it is read, and as it is used
MAX_CELLS_IF_SPARSE, MAX_CELLS_PER_VALUE = 1 << 26, 1000  # of a larger table, for each value in it
CHECKED_GROWTH = 1.1  # of a table until its size is checked again
PART_AT_ONCE, MAX_ROWS_TO_MEASURE = 1 / 16, 1 << 16  # of the memory and at most, to measure texts in
OFFSET_BYTES = 4  # of Arrow, for each text
SMALLER_TABLE = "Use a part of it, or a machine with more memory."
TEXT_TYPES = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")  # of Parquet …
REPEATING = {"PLAIN_DICTIONARY", "RLE_DICTIONARY", "DELTA_BYTE_ARRAY"}  # … and the encodings that store one text once
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
            _require_cells(cells, given, path, f"{len(lines):,} lines with {len(columns):,} different fields in all")
            unchecked = CHECKED_GROWTH * cells
    if not columns:
        raise DataError(f'{path} is empty: each line must be a JSON object, such as {{"text": …, "label": …}}.')
    for values in columns.values():
        values += [None] * (len(lines) - len(values))
    return columns


def _require_cells(cells: int, values: int, path: Path, reason: str) -> None:
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


def read_workbook(path: Path) -> tuple[dict[str, list[Any]], tuple[str, ...]]:
    """Return the columns of the first sheet of an .xlsx file, and a remark if there are other sheets."""
    with readable_as("an .xlsx file", path, "Save it again, or as CSV."):
        workbook = open_workbook(path, read_only=True)
        try:
            sheets = visible_sheets(workbook)
            rows = filled_rows(_sheet_rows(sheets[0], path)) if sheets else []
            names = [str(sheet.title) for sheet in sheets]
        finally:
            workbook.close()
    columns = _sheet_columns(rows, path)
    notes = (f"of the workbook, the sheet {names[0][:80]!r} is read, not {listed(names[1:])}.",) if names[1:] else ()
    return columns, notes


def _sheet_rows(sheet: Any, path: Path) -> Iterator[Sequence[Any]]:
    """Yield the rows of a sheet up to the last cell that each has, whatever size the sheet claims."""
    sheet.reset_dimensions()
    cells, values, unchecked = 0, 0, 0.0
    for line, row in enumerate(sheet.iter_rows(values_only=True), 1):
        if line > MAX_SHEET_ROWS:
            raise DataError(f"{path} has more than {MAX_SHEET_ROWS:,} rows in a sheet. Save it as CSV.")
        cells += len(row)
        values += len(row) - row.count(None)
        if cells > unchecked:
            _require_cells(cells, values, path, f"{cells:,} cells in {line:,} rows")
            unchecked = CHECKED_GROWTH * cells
        yield row


def open_workbook(path: Path, *, read_only: bool) -> Any:
    """Open an .xlsx file, with the values of its formulas."""
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise DataError(
            f"{path}: openpyxl, which reads .xlsx files, is not installed: pip install 'tnlpad[tables]'. Or save the "
            "sheet as CSV."
        ) from error
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
        if size > MAX_WORKBOOK_BYTES:
            raise DataError(f"{path} unpacks to {size:,} bytes, more than {MAX_WORKBOOK_BYTES:,}. Save it as CSV.")
        elements = sum(_elements(archive, member, path) for member in archive.infolist())
    if elements > MAX_ELEMENTS:
        raise DataError(
            f"{path} has {elements:,} formats and other elements outside its sheets, more than {MAX_ELEMENTS:,}. Save "
            "the sheet as CSV."
        )
    return load_workbook(path, read_only=read_only, data_only=True)


def _elements(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> int:
    """Return the number of elements in a part without cells, each of which takes hundreds of bytes; 0 for others.

    Raise DataError if the part is too large. Sheets are read row by row, and checked then.
    """
    if SHEETS.fullmatch(member.filename) or not member.filename.lower().endswith(PARSED):  # such as a picture
        return 0
    if member.filename.lower() == TEXTS:
        with archive.open(member) as file:
            texts = sum(len(TEXT_OF_SHEETS.findall(block)) for block in iter(lambda: file.read(BLOCK_BYTES), b""))
        needed = member.file_size + TEXT_BYTES * texts
        require_memory(needed, f"{path} has {texts:,} texts or more in {member.file_size:,} bytes. It", SMALLER_TABLE)
        return 0
    if member.file_size > MAX_MEMBER_BYTES:
        raise DataError(
            f"{path}: its part {member.filename[:80]!r} unpacks to {member.file_size:,} bytes, and only sheets and "
            f"their texts may have more than {MAX_MEMBER_BYTES:,}. Save the sheet as CSV."
        )
    content = archive.read(member)
    return content.count(b"<") - content.count(b"</")


def visible_sheets(workbook: Any) -> list[Any]:
    """Return the sheets of a workbook; the first is the one that is read."""
    return [sheet for sheet in workbook.worksheets if sheet.sheet_state == "visible"]


def filled_rows(rows: Iterable[Sequence[Any]]) -> list[tuple[int, Sequence[Any]]]:
    """Return the rows of a sheet that are not empty, with their numbers from 1; the first has the headings."""
    return [(line, row) for line, row in enumerate(rows, 1) if any(map(_is_filled, row))]


def _sheet_columns(filled: Sequence[tuple[int, Sequence[Any]]], path: Path) -> dict[str, list[Any]]:
    """Return the columns of a sheet from its `filled_rows`."""
    if not filled:
        raise DataError(f"{path} is empty: the first row of its first sheet must name the columns.")
    (top, header), *content = filled
    names = ["" if value is None else str(value).strip() for value in header]
    # Cells that were formatted and never filled in make columns without a name.
    used = {place for _, row in content for place, value in enumerate(row) if _is_filled(value)}
    kept = [place for place, name in enumerate(names) if name or place in used]
    require_different([names[place] for place in kept], path)
    values = sum(len(row) - row.count(None) for _, row in filled)
    _require_cells(len(content) * len(kept), values, path, f"{len(content):,} rows and {len(kept):,} columns")
    lines = [line for line, _ in content]
    numbers = [line - top - 1 for line in lines]
    columns: dict[str, list[Any]] = {}
    for place in kept:
        columns[names[place]] = column = TextColumn(lines, numbers)
        column += [row[place] if place < len(row) else None for _, row in content]
    return columns


def _is_filled(value: Any) -> bool:
    return value is not None and bool(str(value).strip())


def parquet_file(path: Path) -> Any:
    """Open a Parquet file and read its schema."""
    from pyarrow import parquet as pq

    with readable_as("Parquet", path):
        file = pq.ParquetFile(path)
        require_different(file.schema_arrow.names, path)
        return file


def parquet_table(path: Path) -> Any:
    """Read a Parquet file as an Arrow table; raise DataError if it does not fit into memory."""
    require_rows_fit([path], path)
    return parquet_content(path)


def parquet_content(path: Path) -> Any:
    """Read a Parquet file, after `require_rows_fit`, as an Arrow table."""
    with readable_as("Parquet", path):
        return validated(parquet_file(path).read(), path)


def require_rows_fit(paths: Sequence[Path], where: Path) -> None:
    """Raise DataError if the rows of Parquet files, which may be packed a thousand times, do not fit into memory.

    Args:
        paths: The files.
        where: Their folder, or the only file.
    """
    rows, chunks = 0, []
    for path in paths:
        file = parquet_file(path)
        rows += file.metadata.num_rows
        for group in range(file.metadata.num_row_groups):
            _require_readable(file, group, path)
            chunks += _chunks(file.metadata, group)
    what = f"{where} has {rows:,} rows. It"
    needed = ROW_BYTES * rows + sum(CELL_BYTES * chunk.num_values + chunk.total_uncompressed_size for chunk in chunks)
    require_memory(needed, what, SMALLER_TABLE)
    repeating = [chunk for chunk in chunks if _repeats(chunk)]
    limit = min(memory_limits(), default=needed)
    if needed + sum(chunk.num_values * chunk.total_uncompressed_size for chunk in repeating) > limit:
        needed -= sum(chunk.total_uncompressed_size for chunk in repeating)
        for path in paths:
            for size in _sizes_of_texts(path, int(PART_AT_ONCE * limit)):
                needed += size
                if needed > limit:
                    require_memory(needed, what, SMALLER_TABLE)


def _require_readable(file: Any, group: int, path: Path) -> None:
    """Raise DataError if the descriptions of columns are damaged: pyarrow's `column` would end the process.

    Reading a row goes through the same descriptions, and raises.
    """
    size = file.metadata.row_group(group).total_byte_size
    require_memory(size, f"{path} has {size:,} bytes in a group of rows. It", SMALLER_TABLE)
    with readable_as("Parquet", path):
        next(file.iter_batches(1, row_groups=[group], use_threads=False), None)


def _chunks(file: Any, group: int) -> list[Any]:
    """Return the description of each column of a group of rows of a Parquet file."""
    return [file.row_group(group).column(place) for place in range(file.num_columns)]


def _repeats(chunk: Any) -> bool:
    """Whether texts or bytes are encoded so that one which is stored once may be many values."""
    return chunk.physical_type in TEXT_TYPES and not REPEATING.isdisjoint(chunk.encodings)


def _sizes_of_texts(path: Path, most: int) -> Iterator[int]:
    """Yield the bytes of texts that may repeat, some rows after the other, which take at most that memory at once."""
    from pyarrow import parquet as pq

    with readable_as("Parquet", path):
        file = parquet_file(path)
        groups = [[each for each in _chunks(file.metadata, number) if _repeats(each)] for number in _groups(file)]
        once = sorted({each.path_in_schema for group in groups for each in group if _is_listed(each)})
        listing = pq.ParquetFile(path, read_dictionary=once)  # holds each text once, however often it occurs
        for number, found in enumerate(groups):
            for source, chunks in ((listing, filter(_is_listed, found)), (file, filterfalse(_is_listed, found))):
                names, size = [], 0
                for chunk in chunks:
                    names.append(chunk.path_in_schema)
                    size += chunk.total_uncompressed_size
                # Of texts that are not listed, any row may have all.
                rows = most * (file.metadata.row_group(number).num_rows if source is listing else 1) // max(1, size)
                rows = min(max(1, rows), MAX_ROWS_TO_MEASURE)
                if names:
                    for batch in source.iter_batches(rows, row_groups=[number], columns=names, use_threads=False):
                        yield sum(map(_bytes_of_texts, batch.columns))


def _groups(file: Any) -> range:
    return range(file.metadata.num_row_groups)


def _is_listed(chunk: Any) -> bool:
    """Whether each text that repeats is in a list, which pyarrow can return instead of the texts."""
    return chunk.physical_type == TEXT_TYPES[0] and "DELTA_BYTE_ARRAY" not in chunk.encodings


def _bytes_of_texts(array: Any) -> int:
    """Return the bytes of an Arrow array, with texts from a list counted as often as they occur."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(array, pa.DictionaryArray):
        lengths = pc.binary_length(array.dictionary)
        return OFFSET_BYTES * len(array) + (pc.sum(lengths.take(array.indices)).as_py() or 0)
    if isinstance(array, pa.StructArray):
        return sum(map(_bytes_of_texts, array.flatten()))
    if isinstance(array, (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)):
        return _bytes_of_texts(array.flatten())
    return int(array.nbytes)


def validated(table: Any, path: Path) -> Any:
    """Return the Arrow table after a full check; reading values of an invalid one can crash the process."""
    table.validate(full=True)
    require_different(table.column_names, path)
    return table


def joined(tables: Sequence[Any], folder: Path) -> Any:
    """Concatenate Arrow tables of the same columns."""
    import pyarrow as pa

    try:
        return pa.concat_tables(tables, promote_options="default")
    except pa.ArrowException as error:
        raise DataError(
            f"{folder}: its tables have different columns ({error}). Name one of the files if they are different data."
        ) from error


def arrow_columns(table: Any, where: Path) -> dict[str, Any]:
    """Return the columns of an Arrow table by name."""
    return {name: values_of(table, name, where) for name in table.column_names}


def values_of(table: Any, name: str, where: Path) -> Any:
    """Return a column: numbers without gaps as an array, others as a list, with text for bytes that are text."""
    import pyarrow as pa
    from pyarrow import types

    column = table.column(name)
    numeric = types.is_floating(column.type) or types.is_integer(column.type)
    try:
        if numeric and not column.null_count:
            return column.to_numpy()
        if is_bytes(column.type):
            with suppress(pa.ArrowInvalid):
                column = column.cast(pa.large_string())
        return column.to_pylist()
    # Damaged text, a date that Python does not have, an index that is not in the dictionary.
    except (ValueError, ArithmeticError, LookupError, NotImplementedError) as error:
        raise DataError(f"{where}: a value in column {name[:80]!r} cannot be read: {error}. Correct it.") from error


def is_bytes(kind: Any) -> bool:
    """Whether this is the Arrow type of plain bytes."""
    from pyarrow import types

    return bool(types.is_binary(kind) or types.is_large_binary(kind))
