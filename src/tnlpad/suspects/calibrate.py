"""From doubt to the probability that the given label is wrong.

A label that was trained on is doubted less than one that was held out, right or wrong. So held-out samples' doubt is
first brought to the mean and spread of the others': both are random parts of the same data, with the same share of
wrong labels but for chance, and only training made their doubt differ. Where somebody chose what to hold out, and
checked those labels better, that is not so, and their confidence is too high.

Doubt then has two humps, of right labels and of wrong ones, and two normal distributions are fitted to it by
expectation maximisation. With free weights the upper one's is an estimate of the noise rate. With weights held at the
rate that was found in the end (`estimate.py`), its posterior, made monotone, is the confidence, but for a constant in
its logarithmic odds by which the confidences add up to as many wrong labels as were estimated.
"""

import numpy as np
from numpy.typing import NDArray

from tnlpad.suspects.evidence import Floats

Humps = tuple[Floats, Floats, Floats]  # weights, means and variances, the lower hump first
LEAST_SAMPLES = 20  # fewer do not show their mean and spread: they are taken as they are
LEAST_DEVIATION = 1e-9
ROUNDS, TOLERANCE = 500, 1e-6
MOST_FITTED = 4096
HUMPS_OFF_BY = 0.01  # at least, however far apart they lie
MOST_CERTAIN = 0.999  # nothing that the scores can show is surer than that
FARTHEST = 40.0  # in logarithmic odds: from the surest to the least likely
LEAST_RATE, MOST_RATE = 0.01, 0.9  # to begin with
# And other beginnings: from a first estimate of none the search may end with a hump of a few outliers.
FIRST_RATES = (0.1, 0.3, 0.5)
LEAST_SPREAD = 0.1  # of one hump, as a share of the spread of all: a hump is no spike


def comparable(doubt: Floats, held_out: NDArray[np.bool_]) -> Floats:
    """Doubt on the scale of the samples trained on."""
    if min(held_out.sum(), (~held_out).sum()) < LEAST_SAMPLES:
        return doubt
    ours, theirs = doubt[~held_out], doubt[held_out]
    if min(ours.std(), theirs.std()) < LEAST_DEVIATION:
        return doubt
    result = doubt.copy()
    result[held_out] = ours.mean() + (theirs - theirs.mean()) * (ours.std() / theirs.std())
    return result


def upper_hump(doubt: Floats, noise_rate: float) -> tuple[float, float]:
    """Its weight, and how far that may be off; from doubt that is comparable.

    The search begins at a first estimate and at others, and the likeliest of what they end with counts. If the humps
    were normal, some share of the samples would lie on the wrong side of where they meet. They are not quite, and twice
    that share is what the weight was found to be off by; and of a few samples a share is uncertain by chance as well.
    """
    spread = float(doubt.std()) if len(doubt) else 0.0
    if spread < LEAST_DEVIATION:
        return noise_rate, 1.0
    values = _quantiles((doubt - doubt.mean()) / spread)
    beginnings = (min(max(noise_rate, LEAST_RATE), MOST_RATE), *FIRST_RATES)
    found = [_fit(values, first, free=True) for first in beginnings]
    humps = max(found, key=lambda each: _likelihood(values, each))
    unclear = float(_shares(values, humps).min(1).mean())
    weight = float(humps[0][1])
    chance = float(np.sqrt(weight * (1 - weight) / len(doubt)))
    return weight, float(np.hypot(max(2 * unclear, HUMPS_OFF_BY), chance))


def confidence(doubt: Floats, noise_rate: float) -> Floats:
    """The probability that each label is wrong, from doubt that is comparable."""
    from sklearn.isotonic import IsotonicRegression

    if len(doubt) == 0:
        return doubt
    spread = float(doubt.std())
    rate = min(max(noise_rate, 0.5 / len(doubt)), 0.99)
    if spread < LEAST_DEVIATION:
        return np.full(len(doubt), rate)
    values = (doubt - doubt.mean()) / spread
    humps = _fit(_quantiles(values), rate)
    limits = {"y_min": 1 - MOST_CERTAIN, "y_max": MOST_CERTAIN}
    posterior: Floats = IsotonicRegression(**limits).fit(doubt, _shares(values, humps)[:, 1]).predict(doubt)
    wrong: Floats = np.clip(_with_mean(posterior, rate), limits["y_min"], limits["y_max"])
    return wrong


def _with_mean(shares: Floats, mean: float) -> Floats:
    """Shares whose logarithmic odds are moved by one constant so that this is their mean."""
    from scipy.optimize import brentq  # type: ignore[import-untyped, unused-ignore]
    from scipy.special import expit, logit  # type: ignore[import-untyped, unused-ignore]

    odds = logit(shares)
    constant = brentq(lambda moved: float(expit(odds + moved).mean()) - mean, -FARTHEST, FARTHEST)
    moved: Floats = expit(odds + constant)
    return moved


def _quantiles(values: Floats) -> Floats:
    """In ascending order; a few thousand have the same humps as a million samples."""
    ordered: Floats = np.sort(values)
    chosen: Floats = ordered[np.linspace(0, len(ordered) - 1, min(len(ordered), MOST_FITTED)).round().astype(int)]
    return chosen


def _fit(ordered: Floats, rate: float, *, free: bool = False) -> Humps:
    """Two normal distributions of values in ascending order; they hold 1 - rate and rate of them, or are free to."""
    split = min(len(ordered) - 1, max(1, round(len(ordered) * (1 - rate))))
    means = np.array([ordered[:split].mean(), ordered[split:].mean()])
    variances = np.array([max(part.var(), LEAST_SPREAD**2) for part in (ordered[:split], ordered[split:])])
    weights = np.array([1 - rate, rate])
    for _ in range(ROUNDS):
        shares = _shares(ordered, (weights, means, variances))
        counts = np.maximum(shares.sum(0), 1e-9)
        before, means = means, (shares * ordered[:, None]).sum(0) / counts
        variances = np.maximum((shares * (ordered[:, None] - means) ** 2).sum(0) / counts, LEAST_SPREAD**2)
        weights = counts / counts.sum() if free else weights
        if np.abs(means - before).max() < TOLERANCE:
            break
    return weights, means, variances


def _logs(values: Floats, humps: Humps) -> Floats:
    """Of each value, the logarithms of weight · density of the two, but for a constant."""
    weights, means, variances = humps
    logs: Floats = np.log(weights) - 0.5 * np.log(variances) - 0.5 * (values[:, None] - means) ** 2 / variances
    return logs


def _likelihood(values: Floats, humps: Humps) -> float:
    """Its logarithm, but for a constant."""
    return float(np.logaddexp.reduce(_logs(values, humps), axis=1).sum())


def _shares(values: Floats, humps: Humps) -> Floats:
    """Of each value, the posteriors of the two."""
    logs = _logs(values, humps)
    odds = np.exp(logs - logs.max(1, keepdims=True))
    shares: Floats = odds / odds.sum(1, keepdims=True)
    return shares
