"""Cells outside two standard errors of the paper: a table, and remarks that people wrote about them.

Remarks are in `remarks.toml` beside the records, by the name of the cell:

    ["simulated/mnist/symmetric-0.4/tnlpad"]
    date = 2026-01-31
    text = "One or two sentences."
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tnlpad.paper.cells import Published
from tnlpad.records.store import RecordError
from tnlpad.report.groups import Group, Spread
from tnlpad.report.paper_tables import Matrix
from tnlpad.report.results import Comparison, Entry, TableResults
from tnlpad.report.table import Table
from tnlpad.report.words import column_title, method_title, range_text, signed, spread_text

FILE = "remarks.toml"
FIELDS = {"date": date, "text": str}
HEADINGS = (
    *("method", "ours (n)", "paper (n)", "difference", "two standard errors"),
    *("epochs chosen", "at the last epoch", "epochs within"),
)
MOST_RANGES = 4  # of epochs in a cell
NOTE = (
    "Looked at for each of them: would the same epoch for all runs agree with the paper? Epochs within are those at "
    "which the mean of our runs is as close to it as two standard errors. Where there are many, another choice of the "
    "epoch could explain the difference. Where there are few or none, it does not, and the difference is not "
    "explained, unless a remark says more. The paper does not state the optimizer and the epochs of the compared "
    "methods, the variant of CNLCU, λ of JoCoR or the weights of SIGUA. Here, all methods are trained with the "
    "paper's SGD."
)


@dataclass(frozen=True, kw_only=True)
class Remark:
    """A sentence of a person about a cell, with its date."""

    date: date
    text: str


Remarks = Mapping[str, Remark]


@dataclass(frozen=True, kw_only=True)
class Outside:
    """Runs whose mean is more than two standard errors from the published one, and the remark on their cell."""

    entry: Entry
    group: Group
    comparison: Comparison
    published: Published
    remark: Remark | None

    @property
    def place(self) -> str:
        """The method and the column; and the variant, if the cell has several."""
        cell = self.entry.cell
        variant = f" ({self.group.label})" if len(self.entry.groups) > 1 and self.group.label else ""
        return f"{method_title(cell.row)}, {column_title(cell.column)}{variant}"

    @property
    def cells(self) -> list[str]:
        """The row under `HEADINGS`."""
        return [
            self.place,
            f"{spread_text(self.group.chosen)} ({self.group.chosen.n})",
            f"{spread_text(self.published)} ({self.published.n})",
            signed(self.comparison.difference),
            f"{self.comparison.bound:.2f}",
            range_text(self.group.epochs),
            f"{self.group.last.mean:.2f}",
            self.epochs_within,
        ]

    @property
    def epochs_within(self) -> str:
        """At how many epochs, the same for all runs, the mean is as close to the paper as the bound, and at which."""
        try:
            curves = [record.curves.test_accuracy for record in self.group.records]
        except RecordError:  # the report says so, and uses the final numbers
            return "unknown"
        means = [Spread.of(shares).mean for shares in zip(*curves, strict=False)]  # up to the last of the shortest run
        bound = self.comparison.bound or 0.0
        close = [epoch for epoch, mean in enumerate(means, start=1) if abs(mean - self.published.mean) <= bound]
        return f"{len(close) or 'none'} of {len(means)}{': ' if close else ''}{_epochs(close)}"

    @property
    def sentence(self) -> str:
        """The remark, with the cell and the date."""
        assert self.remark is not None, "only cells with a remark have a sentence"
        return f"{self.place}: {self.remark.text} ({self.remark.date.isoformat()})"


def _epochs(epochs: Sequence[int]) -> str:
    """Return epochs in ascending order as ranges, "5, 18–100"; of many ranges, only where they begin and end."""
    ranges: list[tuple[int, int]] = []
    for epoch in epochs:
        if ranges and epoch == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], epoch)
        else:
            ranges.append((epoch, epoch))
    if len(ranges) > MOST_RANGES:
        return f"between {epochs[0]} and {epochs[-1]}"
    return ", ".join(map(range_text, ranges))


def read_remarks(folder: Path) -> dict[str, Remark]:
    """Read the remarks in a folder of records; empty without a file. Raises RecordError if it cannot be used."""
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise RecordError(f"{path}: cannot be read ({error}). Correct it.") from error
    return {name: _remark(path, name, fields) for name, fields in content.items()}


def outside(entries: Iterable[Entry], remarks: Remarks) -> list[Outside]:
    """Return every group of runs that is outside two standard errors of the paper."""
    found = []
    for entry in entries:
        for group in entry.groups:
            comparison, published = entry.comparison(group), entry.cell.published
            if comparison is not None and published is not None and comparison.within is False:
                remark = remarks.get(entry.cell.name)
                each = Outside(entry=entry, group=group, comparison=comparison, published=published, remark=remark)
                found.append(each)
    return found


def outside_table(matrix: Matrix, remarks: Remarks) -> tuple[Table | None, list[Outside]]:
    """Return a table of what is outside in a matrix, or None, and those of it that have a remark."""
    found = outside((entry for line in matrix.lines if line.first for entry, _ in line.cells), remarks)
    if not found:
        return None, []
    above = sum(each.comparison.difference > 0 for each in found)
    table = Table(
        title=f"{matrix.title}, outside two standard errors of the paper: {len(found)}",
        note=f"{above} above the paper, {len(found) - above} below. {NOTE}",
        headings=HEADINGS,
        align="lrrrrrrr",
        rows=[each.cells for each in found],
    )
    return table, [each for each in found if each.remark is not None]


def check_remarks(remarks: Remarks, tables: Iterable[TableResults]) -> None:
    """Raise RecordError if a remark is on a cell that does not exist, or that is not outside two standard errors."""
    entries = {entry.cell.name: entry for table in tables for entry in table.entries}
    needed = {each.entry.cell.name for each in outside(entries.values(), remarks)}
    for name in remarks:
        if name not in entries:
            raise RecordError(f"{FILE}: there is no cell {name}. Cells are named like {next(iter(entries))}.")
        if name not in needed:
            raise RecordError(
                f"{FILE}: {name} is not outside two standard errors of the paper. Remove the remark from {FILE}."
            )


def _remark(path: Path, name: str, fields: object) -> Remark:
    if not isinstance(fields, dict) or fields.keys() != FIELDS.keys():
        raise RecordError(f"{path}: {name} needs the fields {' and '.join(FIELDS)}, and no others.")
    for field, kind in FIELDS.items():
        if type(fields[field]) is not kind or not fields[field]:
            raise RecordError(f"{path}: {field} of {name} is {fields[field]!r}. Write a {kind.__name__}.")
    return Remark(**fields)
