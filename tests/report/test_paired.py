import math
from types import SimpleNamespace

import pytest

from tnlpad.report.groups import Group
from tnlpad.report.paired import Paired, best_of, comparable_groups, mean_ranks, paired, t_quantile


def group(accuracies, label="", **config):
    """Runs with these test accuracies by seed."""
    records = [
        SimpleNamespace(
            config={"seed": seed, "protocol": "paper", **config}, summary={"chosen": {"test_accuracy": accuracy}}
        )
        for seed, accuracy in accuracies.items()
    ]
    return Group(label=label, records=tuple(records))


def test_differences_are_taken_seed_by_seed():
    """By hand: differences of 1, 2 and 3 points; their standard deviation is 1, and the error of the mean 1/√3."""
    difference = paired(group({1: 0.91, 2: 0.95, 3: 0.93, 7: 0.5}), group({3: 0.90, 2: 0.93, 1: 0.90, 9: 0.1}))
    assert difference.n == 3
    assert difference.difference == pytest.approx(2)
    assert difference.standard_error == pytest.approx(1 / math.sqrt(3))
    assert difference.half_width == pytest.approx(4.303 / math.sqrt(3))
    assert not difference.decided


def test_seeds_that_vary_alike_are_told_apart():
    """A spread of 10 points within each method, and a difference of 1 to 1.2 points in every seed."""
    first, second = group({1: 0.71, 2: 0.812, 3: 0.911}), group({1: 0.70, 2: 0.80, 3: 0.90})
    assert paired(first, second).decided
    assert paired(second, first).difference == pytest.approx(-1.1)


def test_with_few_seeds_nothing_is_decided():
    assert paired(group({1: 0.9}), group({2: 0.8})) is None
    one = paired(group({1: 0.9}), group({1: 0.8}))
    assert (one.n, one.standard_error, one.half_width, one.decided) == (1, None, None, False)
    two = paired(group({1: 0.9, 2: 0.9}), group({1: 0.8, 2: 0.8}))
    assert (two.n, two.half_width, two.decided) == (2, None, False)


@pytest.mark.parametrize(("degrees", "quantile"), [(1, 12.706), (2, 4.303), (4, 2.776), (14, 2.145), (30, 2.131)])
def test_quantiles_of_student(degrees, quantile):
    assert t_quantile(degrees) == quantile


def test_quantiles_agree_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    for degrees in range(1, 15):
        assert t_quantile(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), abs=6e-4)


def test_an_interval_that_includes_zero_decides_nothing():
    assert Paired(difference=0.44, standard_error=0.1, n=3).decided
    assert not Paired(difference=0.43, standard_error=0.1, n=3).decided
    assert Paired(difference=-0.44, standard_error=0.1, n=3).decided


def test_only_runs_by_the_same_rules_are_compared():
    full, short = group({1: 0.9, 2: 0.9}), group({1: 0.9, 2: 0.9, 3: 0.9}, label="patience 30", patience=30)
    other = group({1: 0.9}, protocol="authors")
    assert comparable_groups([full], [short, other]) is None
    assert comparable_groups([short, full], [group({1: 0.8}), short]) == (short, short)
    half = group({1: 0.9, 2: 0.9}, label="bfloat16", precision="bfloat16")
    assert comparable_groups([full], [half]) == (full, half)
    assert comparable_groups([full], [half, full]) == (full, full)  # the same variant, among equals
    assert comparable_groups([full], [group({5: 0.9})]) is None


def test_the_best_and_its_ties():
    best = group({1: 0.90, 2: 0.92, 3: 0.91})
    tie = group({1: 0.91, 2: 0.90, 3: 0.91})
    worse = group({1: 0.80, 2: 0.82, 3: 0.81})
    unknown = group({1: 0.90, 2: 0.91})  # two seeds in common
    assert best_of({"a": best, "b": tie, "c": worse, "d": unknown}) == {"a", "b"}
    assert best_of({"a": best}) == frozenset()
    assert best_of({"a": unknown, "b": unknown}) == {"a", "b"}


def test_ranks_are_averaged_and_equal_values_share_one():
    columns = [{"a": 3.0, "b": 2.0, "c": 1.0}, {"a": 2.0, "b": 2.0, "c": 5.0}]
    assert mean_ranks(columns) == {"a": (1 + 2.5) / 2, "b": (2 + 2.5) / 2, "c": (3 + 1) / 2}
    assert mean_ranks([]) == {}
