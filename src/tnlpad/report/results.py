"""Finished runs brought together: mean, standard deviation, n, and how that compares with the published number.

Only runs that differ in nothing but their seed are ever averaged. Runs of one cell that were computed or stopped
differently (another protocol or precision, patience), or by another recipe, stand in rows of their own, with a label.
"""

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tnlpad.paper.cells import SMOKE, SMOKE_TITLE, TABLES, Cell, Published, cells, identity, identity_of_run
from tnlpad.records.archive import FinishedRecord

TITLES = {**TABLES, SMOKE: SMOKE_TITLE}
DECOMPOSED = {"sigma", "w"}  # what a decomposition is judged by


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Mean and standard deviation of some seeds, in percent."""

    mean: float
    sd: float | None
    n: int

    @classmethod
    def of(cls, shares: Sequence[float]) -> "Spread":
        """The standard deviation is that of the sample, with n − 1; a single value has none."""
        values = [100 * share for share in shares]
        sd = statistics.stdev(values) if len(values) > 1 else None
        return cls(mean=statistics.fmean(values), sd=sd, n=len(values))


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
class Group:
    """Runs that differ in their seed alone; `label` says how they differ from what the recipe does on any machine."""

    label: str
    records: tuple[FinishedRecord, ...]

    @cached_property
    def chosen(self) -> Spread:
        """Test accuracy of the epoch that noisy validation chose."""
        return Spread.of([record.summary["chosen"]["test_accuracy"] for record in self.records])

    @cached_property
    def last(self) -> Spread:
        """Test accuracy of the last epoch."""
        return Spread.of([record.summary["last"]["test_accuracy"] for record in self.records])

    @cached_property
    def memorised(self) -> Spread | None:
        """Share of wrong training labels that the reported network has learnt by heart in the last epoch."""
        shares = [_memorised(record.summary["last"]) for record in self.records]
        known = [share for share in shares if share is not None]
        return Spread.of(known) if known else None

    @property
    def papers_way(self) -> bool:
        """Whether these runs follow the paper's protocol to the last epoch."""
        config = self.records[0].config
        return config["protocol"] == "paper" and config.get("patience") is None

    @property
    def epochs(self) -> tuple[int, int]:
        """The earliest and the latest chosen epoch."""
        epochs = [record.summary["chosen"]["epoch"] for record in self.records]
        return min(epochs), max(epochs)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(record.config["seed"] for record in self.records)

    @property
    def selection(self) -> str:
        """The rule that chose the epoch."""
        rule: str = self.records[0].summary["selection"]
        return rule


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


def other_runs(records: Iterable[FinishedRecord]) -> list[tuple[Group, ...]]:
    """The runs that are in none of the tables, by what they are apart from seed and variant."""
    known = {identity(cell) for name in TITLES for cell in cells(name)}
    return [groups_of(each) for key, each in sorted(_by_identity(records).items()) if key not in known]


def _by_identity(records: Iterable[FinishedRecord]) -> dict[str, list[FinishedRecord]]:
    found: dict[str, list[FinishedRecord]] = {}
    for record in records:
        found.setdefault(identity_of_run(record.config, record.settings), []).append(record)
    return found


def groups_of(records: Sequence[FinishedRecord]) -> tuple[Group, ...]:
    """Runs of one cell, parted by everything but their seed; where there are most comes first."""
    alike: dict[str, list[FinishedRecord]] = {}
    for record in records:
        alike.setdefault(_all_but_seed(record), []).append(record)
    parts = sorted(alike.values(), key=lambda part: (-len(part), len(variant(part[0].config)), part[0].run_id))
    labels = _labels([part[0].config for part in parts])
    return tuple(
        Group(label=label, records=tuple(sorted(part, key=lambda record: int(record.config["seed"]))))
        for label, part in zip(labels, parts, strict=True)
    )


def variant(config: Mapping[str, Any]) -> tuple[str, ...]:
    """In words, how a run was computed or stopped other than the recipe says."""
    words = []
    if config["protocol"] != "paper":
        words.append(f"protocol {config['protocol']}")
    if config.get("precision", "float32") != "float32":
        words.append(str(config["precision"]))
    if config.get("compiled"):
        words.append("compiled")
    if config.get("patience") is not None:
        words.append(f"patience {config['patience']}")
    return tuple(words)


def _labels(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The variant, and where two have the same, what else they differ in: a recipe that changed between versions."""
    labels: list[str] = []
    first: dict[str, Mapping[str, Any]] = {}
    for config in configs:
        label = ", ".join(variant(config))
        earlier = first.setdefault(label, config)
        if earlier is not config:
            label = ", ".join(
                [label, *_different_fields(earlier, config)] if label else _different_fields(earlier, config)
            )
        labels.append(label)
    return labels


def _different_fields(earlier: Mapping[str, Any], config: Mapping[str, Any]) -> list[str]:
    one, two = ({**each, **each.get("options", {})} for each in (earlier, config))
    names = [name for name in dict.fromkeys([*one, *two]) if name not in ("seed", "options")]
    return [f"{name}={two.get(name)}" for name in names if one.get(name) != two.get(name)] or ["another selection rule"]


def _all_but_seed(record: FinishedRecord) -> str:
    config = {name: value for name, value in record.config.items() if name != "seed"}
    return json.dumps([config, record.summary["selection"]], sort_keys=True)


def reported(judged: Iterable[str]) -> list[str]:
    """The judged networks whose mean the method reports: of a decomposition the first, of several networks all."""
    names = list(judged)
    return names[:1] if set(names) == DECOMPOSED else names


def _memorised(end: Mapping[str, Any]) -> float | None:
    judged = end.get("judged", {})
    shares = [judged[name]["memorised"] for name in reported(judged) if "memorised" in judged[name]]
    return statistics.fmean(shares) if shares else None
