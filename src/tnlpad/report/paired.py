"""Paired comparison of methods: the difference of two groups of runs, seed by seed.

Runs with the same seed share their wrong labels, split and batches, so that their difference varies less than each of
them.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tnlpad.report.groups import DEFAULTS_OF_OLD_RECORDS, Group

MIN_SEEDS = 3  # with fewer common seeds nothing is called decided
# 97.5 % quantiles of Student's t distribution for 1, 2, … degrees of freedom.
T_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145)
LAST_T_QUANTILE = 2.131  # of 15; used for more, which makes intervals slightly too wide
SAME_BY = ("protocol", "patience")  # comparable runs agree in these; precision and compilation may differ


@dataclass(frozen=True, kw_only=True)
class Paired:
    """Mean difference of two methods over common seeds, in points of test accuracy at the chosen epoch."""

    difference: float
    standard_error: float | None  # None for a single seed
    n: int

    @property
    def half_width(self) -> float | None:
        """Half of the 95 % confidence interval; None with fewer than `MIN_SEEDS` seeds."""
        if self.standard_error is None or self.n < MIN_SEEDS:
            return None
        return t_quantile(self.n - 1) * self.standard_error

    @property
    def decided(self) -> bool:
        """Whether the 95 % confidence interval excludes zero."""
        return self.half_width is not None and abs(self.difference) > self.half_width

    @property
    def ahead(self) -> bool:
        """Whether the first method is decidedly ahead."""
        return self.decided and self.difference > 0


def t_quantile(degrees: int) -> float:
    """Return the 97.5 % quantile of Student's t distribution."""
    return T_QUANTILES[degrees - 1] if degrees <= len(T_QUANTILES) else LAST_T_QUANTILE


def paired(first: Group, second: Group) -> Paired | None:
    """Subtract the second group from the first, seed by seed; None without a common seed."""
    ours, theirs = _by_seed(first), _by_seed(second)
    differences = [100 * (ours[seed] - theirs[seed]) for seed in ours if seed in theirs]
    if not differences:
        return None
    n = len(differences)
    error = statistics.stdev(differences) / math.sqrt(n) if n > 1 else None
    return Paired(difference=statistics.fmean(differences), standard_error=error, n=n)


def comparable_groups(first: Sequence[Group], second: Sequence[Group]) -> tuple[Group, Group] | None:
    """Return the two comparable groups with most common seeds; None if there are none.

    Comparable runs follow the same protocol and stop by the same rule. Groups of the same variant come first.
    """
    pairs = [(a, b) for a in first for b in second if same_rules(a, b) and set(a.seeds) & set(b.seeds)]
    return max(pairs, key=lambda pair: (len(set(pair[0].seeds) & set(pair[1].seeds)), _alike(*pair)), default=None)


def same_rules(first: Group, second: Group) -> bool:
    """Whether runs follow the same protocol and stop by the same rule."""
    return _rules(first) == _rules(second)


def best_of(groups: Mapping[str, Group]) -> frozenset[str]:
    """Return the names of the best group, and of those that it is not decidedly ahead of over common seeds.

    A group with fewer than `MIN_SEEDS` seeds in common with the best is no tie: nothing is known about it. Without a
    second group there is no best.
    """
    if len(groups) < 2:
        return frozenset()
    best = max(groups, key=lambda name: groups[name].chosen.mean)
    ties = {best}
    for name, group in groups.items():
        difference = paired(groups[best], group)
        undecided = difference is not None and difference.n >= MIN_SEEDS and not difference.ahead
        if undecided or group.chosen.mean == groups[best].chosen.mean:
            ties.add(name)
    return frozenset(ties)


def comparable_means(groups: Mapping[str, Group]) -> dict[str, float]:
    """Return the mean of each group over the seeds that all have, or over its own with fewer than `MIN_SEEDS`."""
    common = set.intersection(*(set(group.seeds) for group in groups.values())) if groups else set()
    if len(common) < MIN_SEEDS:
        return {name: group.chosen.mean for name, group in groups.items()}
    return {name: 100 * statistics.fmean(_by_seed(group)[seed] for seed in common) for name, group in groups.items()}


def mean_ranks(columns: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean rank of each name over columns that all have the same names; equal values share a rank."""
    ranks: dict[str, list[float]] = {}
    for column in columns:
        for name, value in column.items():
            above = sum(other > value for other in column.values())
            equal = sum(other == value for other in column.values())
            ranks.setdefault(name, []).append(above + (equal + 1) / 2)
    return {name: statistics.fmean(each) for name, each in ranks.items()}


def _by_seed(group: Group) -> dict[int, float]:
    return {record.config["seed"]: record.summary["chosen"]["test_accuracy"] for record in group.records}


def _rules(group: Group) -> list[Any]:
    config = {**DEFAULTS_OF_OLD_RECORDS, **group.records[0].config}
    return [config[name] for name in SAME_BY]


def _alike(first: Group, second: Group) -> bool:
    return first.label == second.label
