"""Finished runs in the cells of the paper's tables, compared with the published numbers."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tnlpad.paper.cells import (
    OPEN_TABLES,
    SMOKE,
    SMOKE_TITLE,
    TABLES,
    Cell,
    Published,
    cells,
    identity,
    identity_of_run,
    method_cells,
)
from tnlpad.records.archive import FinishedRecord
from tnlpad.report.groups import Group, Spread, groups_of, selection_rules
from tnlpad.report.words import counted, value_text

TITLES = {**TABLES, SMOKE: SMOKE_TITLE}
MARKS = {
    "≈": "within two standard errors",
    "▲": "above the paper by more than two standard errors",
    "▼": "below the paper by more than two standard errors",
    "?": "agreement unknown",
}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Our mean minus the paper's, in points, with twice its standard error: 2·√(s²/n + s_p²/n_p).

    `unknown` is the reason where that bound cannot be computed.
    """

    difference: float
    bound: float | None
    unknown: str | None

    @property
    def within(self) -> bool | None:
        return None if self.bound is None else abs(self.difference) <= self.bound

    @property
    def mark(self) -> str:
        """A key of `MARKS`."""
        if self.within is None:
            return "?"
        return "≈" if self.within else "▲" if self.difference > 0 else "▼"

    @property
    def text(self) -> str:
        """Whether the difference is within the bound, with both numbers, or why that is unknown."""
        if self.bound is None:
            return f"unknown: {self.unknown}"
        answer, sign = ("yes", "≤") if self.within else ("no", ">")
        return f"{answer}: {abs(self.difference):.2f} {sign} {self.bound:.2f}"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A cell of a table with the groups of runs that belong to it; `own` if the paper does not have its method."""

    cell: Cell
    groups: tuple[Group, ...]
    own: bool = False

    @property
    def complete(self) -> bool:
        """Whether a group by the paper's protocol has all the seeds of the table."""
        return any(group.follows_paper and group.chosen.n >= self.cell.trials for group in self.groups)

    @property
    def command(self) -> str:
        """The command that runs the missing seeds."""
        return f"tnlpad reproduce {self.cell.table} --only {self.cell.group} --methods {self.word}"

    @property
    def word(self) -> str:
        """The row as `--methods` takes it."""
        return self.cell.method if self.own else self.cell.row

    def comparison(self, group: Group) -> Comparison | None:
        """Compare one of the groups with the published number, if there is one."""
        return None if self.cell.published is None else compare(group.chosen, self.cell.published)

    def n_text(self, group: Group) -> str:
        """Return the number of seeds, "2 of 5" where some are missing."""
        n, trials = group.chosen.n, self.cell.trials
        return f"{n} of {trials}" if n < trials else str(n)


@dataclass(frozen=True, kw_only=True)
class TableResults:
    """A table of the paper, cell by cell, in its order."""

    name: str
    entries: tuple[Entry, ...]

    @property
    def title(self) -> str:
        return TITLES[self.name]

    @property
    def command(self) -> str:
        return f"tnlpad reproduce {self.name}"

    @property
    def filled(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.groups)

    @property
    def published(self) -> tuple[Entry, ...]:
        """The cells that the table itself has, with or without runs; rows of other methods are left out."""
        return tuple(entry for entry in self.entries if not entry.own)

    @property
    def comparisons(self) -> list[Comparison]:
        return comparisons(self.entries)

    @property
    def selection(self) -> str:
        """The rules that chose epochs."""
        return selection_rules(group for entry in self.entries for group in entry.groups)


def compare(ours: Spread, published: Published) -> Comparison:
    """Compare our mean with the published one, as far as both have a standard deviation and n."""
    difference = ours.mean - published.mean
    if ours.sd is None or published.std is None or published.n is None:
        reasons = {
            "we have one seed": ours.sd is None,
            "the paper gives no standard deviation": published.std is None,
            "the paper does not say n": published.std is not None and published.n is None,
        }
        unknown = " and ".join(reason for reason, holds in reasons.items() if holds)
        return Comparison(difference=difference, bound=None, unknown=unknown)
    bound = 2 * math.sqrt(ours.sd**2 / ours.n + published.std**2 / published.n)
    return Comparison(difference=difference, bound=bound, unknown=None)


def comparisons(entries: Iterable[Entry]) -> list[Comparison]:
    """Compare every group that has a published number."""
    found = (entry.comparison(group) for entry in entries for group in entry.groups)
    return [comparison for comparison in found if comparison is not None]


def verdict(tables: Iterable[TableResults]) -> str:
    """Summarise how the runs compare with the paper, in one or two sentences."""
    marks = [comparison.mark for table in tables for comparison in table.comparisons]
    if not marks:
        return "None of these runs belongs to a cell with a published number, so there is nothing to compare."
    sentences = []
    if known := len(marks) - marks.count("?"):
        outside = "".join(f", {marks.count(m)} {word}" for m, word in (("▲", "above"), ("▼", "below")) if m in marks)
        sentences.append(
            f"{marks.count('≈')} of {counted(known, 'comparison')} with a published number "
            f"{'is' if marks.count('≈') == 1 else 'are'} within two standard errors{outside}."
        )
    if unknown := marks.count("?"):
        sentences.append(
            f"For {unknown}{' more' if known else ''} this is unknown: we have one seed, or the paper states no "
            "standard deviation or n."
        )
    return " ".join(sentences)


def table_results(name: str, records: Iterable[FinishedRecord]) -> TableResults:
    """Return one table with every record that belongs to one of its cells.

    A method that the paper does not have gets a row for each dataset on which it has runs, and one for each setting of
    its options.
    """
    every = list(records)
    by_identity = _by_identity(every)
    entries = [Entry(cell=cell, groups=groups_of(by_identity.get(identity(cell), []))) for cell in cells(name)]
    for row in _own_rows(name, every):
        found = [Entry(cell=cell, groups=groups_of(by_identity.get(identity(cell), [])), own=True) for cell in row]
        datasets = {entry.cell.dataset for entry in found if entry.groups}
        # A table of one matrix has a column for each dataset, so that the row is whole.
        entries += [entry for entry in found if entry.cell.dataset in datasets or (datasets and name == "real_world")]
    return TableResults(name=name, entries=tuple(entries))


def _own_rows(table: str, records: Iterable[FinishedRecord]) -> Iterator[list[Cell]]:
    """Yield the cells of every method, with settings of its options, that the table itself does not have."""
    seen: dict[str, list[Cell]] = {}
    for record in records if table in OPEN_TABLES else ():
        method, options = record.config["method"], record.config["options"]
        own = {name: value for name, value in record.settings.items() if name in options}
        row = ", ".join([method, *(f"{name} {value_text(value)}" for name, value in sorted(own.items()))])
        if row not in seen:
            row_cells = method_cells(table, method)
            seen[row] = [replace(cell, row=row, settings={**cell.settings, **own}) for cell in row_cells]
    yield from (seen[row] for row in sorted(seen))


def all_groups(records: Iterable[FinishedRecord]) -> list[Group]:
    """Return the groups of all runs, in a table or not."""
    return [group for each in _by_identity(records).values() for group in groups_of(each)]


def other_runs(records: Iterable[FinishedRecord]) -> list[tuple[Group, ...]]:
    """Return the groups of runs that belong to no table, one tuple for each experiment."""
    every = list(records)
    known = {identity(cell) for name in TITLES for cell in cells(name)}
    known |= {identity(cell) for name in TITLES for row in _own_rows(name, every) for cell in row}
    return [groups_of(each) for key, each in sorted(_by_identity(every).items()) if key not in known]


def _by_identity(records: Iterable[FinishedRecord]) -> dict[str, list[FinishedRecord]]:
    found: dict[str, list[FinishedRecord]] = {}
    for record in records:
        found.setdefault(identity_of_run(record.config, record.settings), []).append(record)
    return found
