"""From doubt to the probability that the given label is wrong.

A label that was trained on is doubted less than one that was held out, right or wrong. So held-out samples' doubt is
first brought to the mean and spread of the others': both are random parts of the same data, with the same share of
wrong labels but for chance, and only training made their doubt differ. Where somebody chose what to hold out, and
checked those labels better, that is not so, and their confidence is too high.

Doubt then has two humps, of right labels and of wrong ones. Two normal distributions are fitted to it by expectation
maximisation, their weights held at the estimated noise rate; the posterior of the upper one, made monotone, is the
confidence.
"""

import numpy as np
from numpy.typing import NDArray

from tnlpad.suspects.evidence import Floats

Humps = tuple[Floats, Floats, Floats]  # weights, means and variances, the lower hump first
LEAST_SAMPLES = 20  # fewer do not show their mean and spread: they are taken as they are
LEAST_DEVIATION = 1e-9
ROUNDS, TOLERANCE = 500, 1e-6
MOST_FITTED = 4096
MOST_CERTAIN = 0.999  # nothing that the scores can show is surer than that
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
    ordered = np.sort(values)
    # A few thousand quantiles have the same humps as a million samples.
    humps = _fit(ordered[np.linspace(0, len(ordered) - 1, min(len(ordered), MOST_FITTED)).round().astype(int)], rate)
    limits = {"y_min": 1 - MOST_CERTAIN, "y_max": MOST_CERTAIN}
    posterior: Floats = IsotonicRegression(**limits).fit(doubt, _shares(values, humps)[:, 1]).predict(doubt)
    return posterior


def _fit(ordered: Floats, rate: float) -> Humps:
    """Two normal distributions that hold 1 - rate and rate of all values, which are in ascending order."""
    split = min(len(ordered) - 1, max(1, round(len(ordered) * (1 - rate))))
    means = np.array([ordered[:split].mean(), ordered[split:].mean()])
    variances = np.array([max(part.var(), LEAST_SPREAD**2) for part in (ordered[:split], ordered[split:])])
    weights = np.array([1 - rate, rate])
    for _ in range(ROUNDS):
        shares = _shares(ordered, (weights, means, variances))
        counts = np.maximum(shares.sum(0), 1e-9)
        before, means = means, (shares * ordered[:, None]).sum(0) / counts
        variances = np.maximum((shares * (ordered[:, None] - means) ** 2).sum(0) / counts, LEAST_SPREAD**2)
        if np.abs(means - before).max() < TOLERANCE:
            break
    return weights, means, variances


def _shares(values: Floats, humps: Humps) -> Floats:
    """Of each value, the posteriors of the two."""
    weights, means, variances = humps
    # log of weight · density of each, but for a constant
    logs = np.log(weights) - 0.5 * np.log(variances) - 0.5 * (values[:, None] - means) ** 2 / variances
    odds = np.exp(logs - logs.max(1, keepdims=True))
    shares: Floats = odds / odds.sum(1, keepdims=True)
    return shares
