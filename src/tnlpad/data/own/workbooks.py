"""Read the columns of .xlsx files: of the first sheet that is visible. It needs openpyxl, the extra `tables`."""

import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tnlpad.data.files import BLOCK_BYTES, readable_as
from tnlpad.data.own.columns import TextColumn, listed, require_different
from tnlpad.data.own.tables import CHECKED_GROWTH, SMALLER_TABLE, require_cells
from tnlpad.errors import DataError
from tnlpad.memory import require_memory

MAX_WORKBOOK_BYTES = 1 << 31  # unpacked
MAX_MEMBER_BYTES, MAX_ELEMENTS = 1 << 24, 500_000  # unpacked, of parts without cells, which are read as a whole
PARSED = (".xml", ".rels", ".vml")
SHEETS, TEXTS = re.compile(r"xl/worksheets/[^/]+\.xml", re.IGNORECASE), "xl/sharedstrings.xml"  # within a workbook
TEXT_OF_SHEETS = re.compile(rb"<(?:[^<>/?!\s]+:)?si[\s/>]")
TEXT_BYTES = 100  # of memory that a text takes at least as it is read
MAX_SHEET_ROWS = 1 << 20  # that the format has


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
            require_cells(cells, values, path, f"{cells:,} cells in {line:,} rows")
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
    require_cells(len(content) * len(kept), values, path, f"{len(content):,} rows and {len(kept):,} columns")
    lines = [line for line, _ in content]
    numbers = [line - top - 1 for line in lines]
    columns: dict[str, list[Any]] = {}
    for place in kept:
        columns[names[place]] = column = TextColumn(lines, numbers)
        column += [row[place] if place < len(row) else None for _, row in content]
    return columns


def _is_filled(value: Any) -> bool:
    return value is not None and bool(str(value).strip())
