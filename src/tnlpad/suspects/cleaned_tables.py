"""Write cleaned tables: CSV, JSON Lines and .xlsx files like the original ones, and other data as text.

Columns of ids, parts and original labels are added if they are missing. A CSV file keeps its encoding and separator, a
JSON record its fields, a workbook its other sheets and its formats.
"""

import json
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tnlpad.atomic_files import replacing
from tnlpad.data.own.columns import Table, rows_of, without
from tnlpad.data.own.manifest import Roles, ids_of, read_table, roles_of
from tnlpad.data.own.tables import TextForm, json_records
from tnlpad.data.own.workbooks import filled_rows, open_workbook, visible_sheets
from tnlpad.suspects.clean import ORIGINAL, Cleaned
from tnlpad.suspects.cleaned_rows import CleanedRows, LabelValues, Source, columns_to_add, is_divided
from tnlpad.suspects.export import write_rows

Staying = Sequence[tuple[int, Cleaned | None]]  # places of rows that stay, with their samples


@dataclass(frozen=True, kw_only=True, eq=False)
class CleanedTable:
    """A table file with the fate of its rows.

    Args:
        table: Its columns.
        roles: Its columns by role.
        values: Values of its label column.
        ids: Ids of all rows.
        staying: The rows that stay.
    """

    table: Table
    roles: Roles
    values: LabelValues
    ids: Sequence[str]
    staying: Staying

    @property
    def label(self) -> str:
        assert self.roles.label is not None, "the run was trained on it"
        return self.roles.label

    @cached_property
    def added(self) -> dict[str, str]:
        """Names of the columns to add, by what they hold."""
        split = self.roles.split is None and is_divided(sample for _, sample in self.staying)
        return columns_to_add(self.table.keys(), self.values.where, ids=self.roles.id is None, split=split)

    def changed(self, place: int, sample: Cleaned | None) -> dict[str, Any]:
        """Return the values of a row that change or are added."""
        value = self.table[self.label][place]
        found: dict[str, Any] = {self.label: self.values.corrected(value, sample)}
        if sample is not None and self.roles.split is not None:
            found[self.roles.split] = sample.split
        added = {"id": self.ids[place], ORIGINAL: self.values.original(value, sample)}
        added |= {} if sample is None else {"split": sample.split}
        return found | {name: added[what] for what, name in self.added.items() if what in added}


def cleaned_table(source: Source, kept: Sequence[Cleaned], used: Sequence[str]) -> tuple[CleanedTable, TextForm]:
    """Read a table file again and decide about its rows."""
    table, form = read_table(source.path)
    seen = {name: table[name] for name in without(source.options.ignored, table, source.path)}
    roles = roles_of(seen, source.path, source.options)
    rows = CleanedRows(source, kept, used, by_part=False)
    assert roles.label is not None, "the run was trained on it"
    found = CleanedTable(
        table=table,
        roles=roles,
        values=LabelValues(table[roles.label], source.path),
        ids=ids_of(seen, roles, source.path),
        staying=list(rows.staying(rows_of(table))),
    )
    return found, form


def write_text(out: Path, found: CleanedTable, form: TextForm) -> None:
    """Write a table as text."""
    header = [*found.table, *found.added.values()]
    write_rows(out, header, _lines(found, header), **asdict(form))


def _lines(found: CleanedTable, header: Sequence[str]) -> Iterator[list[Any]]:
    labels = [found.label, *(name for what, name in found.added.items() if what == ORIGINAL)]
    for place, sample in found.staying:
        line = {name: values[place] for name, values in found.table.items()} | found.changed(place, sample)
        # As text, the number 1.0 and True would be other classes than 1.
        line |= {name: found.values.name(line[name]) for name in labels if not isinstance(line[name], str)}
        yield [line.get(name) for name in header]


def write_json_lines(out: Path, source: Source, found: CleanedTable) -> None:
    """Write the records of a JSON Lines file."""
    records = [record for _, record in json_records(source.path)]
    with replacing(out) as file:
        for place, sample in found.staying:
            record = records[place] | found.changed(place, sample)
            file.write(json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n")


def write_workbook(out: Path, source: Source, found: CleanedTable) -> None:
    """Write the workbook with changed cells and without the dropped rows of its first sheet; formulas become values."""
    workbook = open_workbook(source.path, read_only=False)
    sheet = visible_sheets(workbook)[0]
    for merged in list(sheet.merged_cells.ranges):
        sheet.unmerge_cells(str(merged))
    lines = found.table[found.label].lines
    heading, _ = filled_rows(sheet.iter_rows(values_only=True))[0]
    columns = {str(cell.value).strip(): cell.column for cell in sheet[heading] if cell.value is not None}
    for number, name in enumerate(found.added.values(), sheet.max_column + 1):
        columns[name] = number
        sheet.cell(heading, number, name)
    for place, sample in found.staying:
        for name, value in found.changed(place, sample).items():
            sheet.cell(lines[place], columns[name], value)
    _delete_rows(sheet, set(lines) - {lines[place] for place, _ in found.staying})
    with replacing(out) as file:
        workbook.save(file)


def _delete_rows(sheet: Any, dropped: set[int]) -> None:
    """Delete rows of a sheet, and move each later one once; its own method moves them all for every row."""
    gone = 0
    for line in range(min(dropped, default=1), sheet.max_row + 1):
        if line in dropped:
            gone += 1
        elif gone:
            for cell in sheet[line]:
                target = sheet.cell(line - gone, cell.column)
                target.value, target._style = cell.value, copy(cell._style)
    if gone:
        sheet.delete_rows(sheet.max_row - gone + 1, gone)
