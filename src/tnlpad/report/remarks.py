"""Cells outside two standard errors of the paper: a sentence for each, and remarks that people wrote about them.

Remarks are in `remarks.toml` beside the records, by the name of the cell:

    ["simulated/mnist/symmetric-0.4/tnlpad"]
    date = 2026-01-31
    text = "One or two sentences."
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tnlpad.records.store import RecordError
from tnlpad.report.groups import Group, Spread
from tnlpad.report.paper_tables import OURS, Matrix
from tnlpad.report.results import Entry, TableResults
from tnlpad.report.words import group_title, method_title, signed, spread_text

FILE = "remarks.toml"
FIELDS = {"date": date, "text": str}


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
    remark: Remark | None

    @property
    def sentence(self) -> str:
        """The difference in words, and the remark."""
        cell, comparison = self.entry.cell, self.entry.comparison(self.group)
        assert comparison is not None, "only groups with a published number are compared"
        assert cell.published is not None, "only groups with a published number are compared"
        assert comparison.bound is not None, "whether the others are outside is unknown"
        place = f"{method_title(cell.row)}, {group_title(cell.dataset, cell.column)}"
        variant = f" ({self.group.label})" if len(self.entry.groups) > 1 and self.group.label else ""
        text = (
            f"{place}{variant}: {spread_text(self.group.chosen)} (n {self.group.chosen.n}), the paper has "
            f"{spread_text(cell.published)} (n {cell.published.n}). Difference {signed(comparison.difference)}, two "
            f"standard errors {comparison.bound:.2f}. {self._without_choice(cell.published.mean, comparison.bound)}"
        )
        return text if self.remark is None else f"{text} {self.remark.text} ({self.remark.date.isoformat()})"

    def _without_choice(self, published: float, bound: float) -> str:
        """Say how much depends on the choice of the epoch."""
        at_last = self.group.last.mean
        return (
            f"Our runs choose {_epochs(*self.group.epochs)}; their last epoch has {at_last:.2f} "
            f"({signed(at_last - published)}).{self._at_one_epoch(published, bound)}"
        )

    def _at_one_epoch(self, published: float, bound: float) -> str:
        """Say at how many epochs, the same for all runs, the mean is as close to the paper as the bound."""
        try:
            curves = [record.curves.test_accuracy for record in self.group.records]
        except RecordError:  # the report says so, and uses the final numbers
            return ""
        means = [Spread.of(shares).mean for shares in zip(*curves, strict=False)]  # up to the last of the shortest run
        close = [epoch for epoch, mean in enumerate(means, start=1) if abs(mean - published) <= bound]
        place = f" ({_epochs(close[0], close[-1])})" if close else ""
        return f" With one epoch for all, {len(close) or 'none'} of {len(means)} would be within{place}."


def _epochs(first: int, last: int) -> str:
    return f"epoch {first}" if first == last else f"epochs {first} to {last}"


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
    return [
        Outside(entry=entry, group=group, remark=remarks.get(entry.cell.name))
        for entry in entries
        for group in entry.groups
        if (comparison := entry.comparison(group)) is not None and comparison.within is False
    ]


def shown_and_folded(matrix: Matrix, remarks: Remarks) -> tuple[list[Outside], list[Outside]]:
    """Return what is outside in a matrix: remarks on our method, which are always shown, and the rest, which is long.

    In the rest, cells with a remark come first.
    """
    found = outside((entry for line in matrix.lines if line.first for entry, _ in line.cells), remarks)
    shown = [each for each in found if each.remark is not None and each.entry.cell.row in OURS]
    return shown, sorted((each for each in found if each not in shown), key=lambda each: each.remark is None)


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
