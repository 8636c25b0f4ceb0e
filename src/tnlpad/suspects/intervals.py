"""Intervals for the share of wrong labels in a finite set, from a sample of it that was checked.

A sample without replacement has a hypergeometric number of wrong labels. The interval of Clopper and Pearson for this
distribution holds every share under which the result, or one further away, has a probability of more than 2.5 %. So it
holds the true share in at least 95 % of all samples, whatever the share is.

For a stratified sample the estimate is T = Σ W_h x_h / n_h, where W_h is the stratum's share of the labels, n_h the
number checked and x_h the number wrong. The distribution of T depends on the rates p_h of all strata and not on the
share Σ W_h p_h alone. Of the rates that give a share, those with the largest variance of T are taken, since they have
the largest tails:

    maximise Σ (W_h² / n_h) p_h (1 − p_h) (N_h − n_h) / (N_h − 1)   with Σ W_h p_h fixed,
    whose solution is p_h = (1 − λ / b_h) / 2 with b_h = (W_h / n_h) (N_h − n_h) / (N_h − 1).

Each rate is held within its own exact interval (`STRATUM_LEVEL`). Without this, a stratum in which 50 right labels were
found might count as half wrong, and stratifying by confidence would not narrow the interval. Then the tails of T are
computed by convolution, and the interval is again the set of shares that they do not rule out. This interval has no
proof. `benchmarks/audit.py` simulates it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tnlpad.suspects.evidence import Floats
from tnlpad.types import Index

LEVEL = 0.95
STRATUM_LEVEL = 0.95
GRID = 2048  # steps of the convolution from a share of 0 to 1
TOLERANCE = 1e-5  # of a limit
ROWS_AT_ONCE = 64  # strata that are transformed together


@dataclass(frozen=True, kw_only=True)
class Share:
    """A share with its interval."""

    estimate: float
    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low


def share_wrong(sizes: Index, checked: Index, wrong: Index, level: float = LEVEL) -> Share:
    """Return the share of wrong labels, estimated from strata.

    A stratum without checked labels does not count in the estimate, and its labels may all be right or all be wrong in
    the interval.

    Args:
        sizes: Number of labels in each stratum.
        checked: How many of them were drawn at random and checked.
        wrong: How many of these were wrong.
        level: Level of the interval.
    """
    seen = checked > 0
    total = int(sizes.sum())
    if not seen.any():
        return Share(estimate=float("nan"), low=0.0, high=1.0)
    part = float(sizes[seen].sum() / total)
    size, count, bad = sizes[seen], checked[seen], wrong[seen]
    estimate = float(size @ (bad / count) / size.sum())
    if len(size) == 1:
        low, high = hypergeometric_limits(int(size[0]), int(count[0]), int(bad[0]), level)
    else:
        low, high = _stratified_limits(size, count, bad, level)
    return Share(estimate=estimate, low=part * low, high=part * high + (1 - part))


def hypergeometric_limits(size: int, checked: int, wrong: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the limits of Clopper and Pearson for a simple random sample without replacement."""
    from scipy.stats import hypergeom  # type: ignore[import-untyped, unused-ignore]  # slow to import

    tail = (1 - level) / 2
    low, high = wrong, size - (checked - wrong)  # how many may be wrong, after what was seen
    least, most = low, high
    while least < high:
        middle = (least + high) // 2
        if hypergeom.sf(wrong - 1, size, middle, checked) > tail:
            high = middle
        else:
            least = middle + 1
    while low < most:
        middle = (low + most + 1) // 2
        if hypergeom.cdf(wrong, size, middle, checked) > tail:
            low = middle
        else:
            most = middle - 1
    return least / size, most / size


def _stratified_limits(sizes: Index, checked: Index, wrong: Index, level: float) -> tuple[float, float]:
    from scipy.optimize import brentq  # type: ignore[import-untyped, unused-ignore]

    weights = sizes / sizes.sum()
    step = weights / checked  # of the estimate, for each label that is wrong
    least, most = _rate_limits(sizes, checked, wrong)
    steepness = step * (sizes - checked) / np.maximum(sizes - 1, 1)
    rates_with = _rates_of_largest_variance(weights, steepness, least, most)
    place, tail = round(float(step @ wrong) * GRID), (1 - level) / 2
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, sizes.max() + 1)))])

    def tails(share: float) -> tuple[float, float]:
        chances = _distribution(rates_with(share), sizes, checked, step, log_factorials)
        # A step further, so that the rounding to the grid makes the interval wider and not narrower.
        return float(chances[max(0, place - 1) :].sum()), float(chances[: place + 2].sum())

    def limit(bound: float, side: int) -> float:
        """Find where the tail on a side is as small as it may be, between the estimate and a bound."""

        def excess(share: float) -> float:
            return float(np.log(max(tails(share)[side], 1e-300) / tail))

        if excess(bound) >= 0:
            return bound
        return float(brentq(excess, bound, estimate, xtol=TOLERANCE))

    estimate = float(step @ wrong)
    return limit(float(weights @ least), 0), limit(float(weights @ most), 1)


def _rate_limits(sizes: Index, checked: Index, wrong: Index) -> tuple[Floats, Floats]:
    """Return the limits of the rate of each stratum, by Clopper and Pearson and by what was seen."""
    from scipy.stats import beta  # slow to import

    tail = (1 - STRATUM_LEVEL) / 2
    right = checked - wrong
    low = np.where(wrong > 0, beta.ppf(tail, np.maximum(wrong, 1), right + 1), 0.0)
    high = np.where(right > 0, beta.ppf(1 - tail, wrong + 1, np.maximum(right, 1)), 1.0)
    return np.maximum(low, wrong / sizes), np.minimum(high, 1 - right / sizes)


def _rates_of_largest_variance(
    weights: Floats, steepness: Floats, least: Floats, most: Floats
) -> Callable[[float], Floats]:
    """Return a function from a share of all labels to the rates of the strata that give it; see the module."""
    free = steepness > 0  # the rate of a stratum that was checked as a whole is known
    weight, steep, low, high = (each[free] for each in (weights, steepness, least, most))
    # With growing λ, the share falls linearly between the values at which a rate leaves its upper limit or reaches its
    # lower one. All of these are above −1.
    ends = np.concatenate([[-1.0], steep * (1 - 2 * high), steep * (1 - 2 * low)])
    turns = np.concatenate([[0.0], -weight / (2 * steep), weight / (2 * steep)])
    order = np.argsort(ends)
    ends = ends[order]
    falls = np.cumsum(turns[order])[:-1] * np.diff(ends)
    shares = float(weights @ most) + np.concatenate([[0.0], np.cumsum(falls)])

    def rates_with(share: float) -> Floats:
        rates: Floats = most.copy()
        multiplier = np.interp(-share, -shares, ends)
        rates[free] = np.clip((1 - multiplier / steep) / 2, low, high)
        return rates

    return rates_with


def _distribution(rates: Floats, sizes: Index, checked: Index, step: Floats, log_factorials: Floats) -> Floats:
    """Return the probabilities of the estimates on the grid.

    A rate that is no whole number of labels is a mixture of the two nearest whole numbers. An estimate between two
    places of the grid is shared among them, so that its mean stays the same.
    """
    spectrum: NDArray[np.complex128] = np.ones(GRID + 1, dtype=np.complex128)
    order = np.argsort(checked, kind="stable")
    for start in range(0, len(order), ROWS_AT_ONCE):
        part = order[start : start + ROWS_AT_ONCE]
        rows = np.zeros((len(part), 2 * GRID))
        for drawn in np.unique(checked[part]).tolist():
            row = np.flatnonzero(checked[part] == drawn)
            alike = part[row]
            places = np.arange(drawn + 1) * (step[alike] * GRID)[:, None]
            below = (places + 1e-9).astype(np.int64)
            over = np.maximum(places - below, 0)
            chances = _chances(rates[alike] * sizes[alike], sizes[alike], drawn, log_factorials)
            np.add.at(rows, (row[:, None], below), chances * (1 - over))
            np.add.at(rows, (row[:, None], below + 1), chances * over)
        spectrum *= np.fft.rfft(rows, axis=1).prod(0)
    return np.maximum(np.fft.irfft(spectrum, 2 * GRID), 0.0)


def _chances(expected: Floats, sizes: Index, checked: int, log_factorials: Floats) -> Floats:
    """Return the probabilities of 0 to `checked` wrong labels in each stratum, if `expected` of all are wrong."""
    below = np.minimum(sizes, (expected + 1e-9).astype(np.int64))
    over = np.maximum(expected - below, 0)[:, None]
    above = np.minimum(sizes, below + 1)
    fewer, more = (_hypergeometric(wrong, sizes, checked, log_factorials) for wrong in (below, above))
    return (1 - over) * fewer + over * more


def _hypergeometric(wrong: Index, sizes: Index, checked: int, log_factorials: Floats) -> Floats:
    drawn = np.arange(checked + 1)
    wrong_left = wrong[:, None] - drawn
    right_left = (sizes - wrong)[:, None] - (checked - drawn)
    logs = -(
        log_factorials[drawn]
        + log_factorials[np.maximum(wrong_left, 0)]
        + log_factorials[checked - drawn]
        + log_factorials[np.maximum(right_left, 0)]
    )
    logs[(wrong_left < 0) | (right_left < 0)] = -np.inf
    result: Floats = np.exp(logs - logs.max(1, keepdims=True))
    result /= result.sum(1, keepdims=True)
    return result
