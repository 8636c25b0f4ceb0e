"""Finished runs in their cells of the paper's tables, and how they compare with the published numbers.

Only runs that differ in nothing but their seed are ever averaged (`groups`): a cell may have several groups.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tnlpad.paper.cells import SMOKE, SMOKE_TITLE, TABLES, Cell, Published, cells, identity, identity_of_run
from tnlpad.records.archive import FinishedRecord
from tnlpad.report.groups import Group, Spread, groups_of

TITLES = {**TABLES, SMOKE: SMOKE_TITLE}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Ours minus the paper's, in points, and twice the standard error of that difference: 2·√(s²/n + s_p²/n_p).

    Where the bound cannot be computed, `unknown` says why, and nothing is said about agreement.
    """

    difference: float
    bound: float | None
    unknown: str | None

    @property
    def within(self) -> bool | None:
        return None if self.bound is None else abs(self.difference) <= self.bound


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A cell of a table and our runs of it, if there are any."""

    cell: Cell
    groups: tuple[Group, ...]

    @property
    def complete(self) -> bool:
        """Whether some group by the paper's protocol has as many seeds as the table asks for."""
        return any(group.papers_way and group.chosen.n >= self.cell.trials for group in self.groups)

    @property
    def command(self) -> str:
        """What runs the seeds that are missing."""
        return f"tnlpad reproduce {self.cell.table} --only {self.cell.group} --methods {self.cell.row}"


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
    def comparisons(self) -> list[Comparison]:
        """Of every group with a published number."""
        pairs = ((group, entry.cell.published) for entry in self.entries for group in entry.groups)
        return [compare(group.chosen, published) for group, published in pairs if published is not None]

    @property
    def selections(self) -> list[str]:
        """The rules by which epochs were chosen: one, unless the runs come from different versions."""
        return list(dict.fromkeys(group.selection for entry in self.entries for group in entry.groups))


def compare(ours: Spread, published: Published) -> Comparison:
    """Whether the difference is more than two standard errors, as far as that can be said."""
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


def table_results(name: str, records: Iterable[FinishedRecord]) -> TableResults:
    """One table, with every record that belongs to one of its cells."""
    by_identity = _by_identity(records)
    return TableResults(
        name=name,
        entries=tuple(Entry(cell=cell, groups=groups_of(by_identity.get(identity(cell), []))) for cell in cells(name)),
    )


def all_groups(records: Iterable[FinishedRecord]) -> list[Group]:
    """Every run, whether or not it is in a table."""
    return [group for each in _by_identity(records).values() for group in groups_of(each)]


def other_runs(records: Iterable[FinishedRecord]) -> list[tuple[Group, ...]]:
    """The runs that are in none of the tables, by what they are apart from seed and variant."""
    known = {identity(cell) for name in TITLES for cell in cells(name)}
    return [groups_of(each) for key, each in sorted(_by_identity(records).items()) if key not in known]


def _by_identity(records: Iterable[FinishedRecord]) -> dict[str, list[FinishedRecord]]:
    found: dict[str, list[FinishedRecord]] = {}
    for record in records:
        found.setdefault(identity_of_run(record.config, record.settings), []).append(record)
    return found
