"""Turn doubt into the probability that the given label is wrong.

A network doubts labels that it was trained on less than held-out ones. So the doubt of held-out samples is first scaled
to the mean and spread of the others. This assumes that both parts are random samples of the same data. Where someone
chose the held-out samples and checked their labels, the confidence that those are wrong is too high.

Doubt is then a mixture of two normal distributions, the lower of right labels and the upper of wrong ones, which
expectation maximisation fits. With free weights, the weight of the upper component estimates the noise rate. With
weights fixed at the final rate (`estimate.py`), its posterior, made monotone, is the confidence. A constant is added to
the logarithmic odds so that the confidences sum to the estimated number of wrong labels.

Out-of-fold doubt is already the logarithm of the odds (`random_errors.py`). It gives the confidence directly, up to a
limit that grows with the estimated number of wrong labels: a few of them do not show that one is certain.
"""

import numpy as np
from numpy.typing import NDArray

from tnlpad.suspects.evidence import Floats

Mixture = tuple[Floats, Floats, Floats]  # weights, means and variances of the lower and the upper component
MIN_SAMPLES = 20  # to scale the doubt of held-out samples
MIN_DEVIATION = 1e-9
ITERATIONS, TOLERANCE = 500, 1e-6
MAX_FITTED = 4096
MIN_WEIGHT_ERROR = 0.01
MAX_CONFIDENCE = 0.999
MAX_LOG_ODDS = 40.0
NO_ERRORS = 1.5  # limits the confidence to a third where no label is estimated to be wrong, and to 91 % with ten
WITHHELD_BELOW = 0.49
MIN_START, MAX_START = 0.01, 0.9  # of the weight
# Further starts: from 0, the fit may end with an upper component of a few outliers.
STARTS = (0.1, 0.3, 0.5)
MIN_COMPONENT_DEVIATION = 0.1  # as a share of the deviation of all values, so that no component becomes a spike


def comparable(doubt: Floats, held_out: NDArray[np.bool_]) -> Floats:
    """Scale the doubt of held-out samples to that of the samples trained on."""
    if min(held_out.sum(), (~held_out).sum()) < MIN_SAMPLES:
        return doubt
    trained, unseen = doubt[~held_out], doubt[held_out]
    if min(trained.std(), unseen.std()) < MIN_DEVIATION:
        return doubt
    result = doubt.copy()
    result[held_out] = trained.mean() + (unseen - unseen.mean()) * (trained.std() / unseen.std())
    return result


def upper_weight(doubt: Floats, noise_rate: float) -> tuple[float, float]:
    """Estimate the noise rate as the weight of the upper component, with its standard error.

    The fit starts from `noise_rate` and from `STARTS`, and the most likely result counts. If the components were
    normal, a certain share of the samples would lie on the wrong side of where they meet. Since they are not quite,
    twice that share was found to be the error of the weight. Sampling error is added to it.

    Args:
        doubt: Comparable doubt.
        noise_rate: A first estimate.
    """
    spread = float(doubt.std()) if len(doubt) else 0.0
    if spread < MIN_DEVIATION:
        return noise_rate, 1.0
    values = _quantiles((doubt - doubt.mean()) / spread)
    fits = [_fit(values, start, free=True) for start in (min(max(noise_rate, MIN_START), MAX_START), *STARTS)]
    mixture = max(fits, key=lambda each: float(np.logaddexp.reduce(_log_densities(values, each), axis=1).sum()))
    overlap = float(_posteriors(values, mixture).min(1).mean())
    weight = float(mixture[0][1])
    sampling_error = float(np.sqrt(weight * (1 - weight) / len(doubt)))
    return weight, float(np.hypot(max(2 * overlap, MIN_WEIGHT_ERROR), sampling_error))


def confidence(doubt: Floats, noise_rate: float) -> Floats:
    """Return the probability that each label is wrong, from comparable doubt."""
    from scipy.optimize import brentq, isotonic_regression  # type: ignore[import-untyped, unused-ignore]
    from scipy.special import expit, logit  # type: ignore[import-untyped, unused-ignore]

    if len(doubt) == 0:
        return doubt
    spread = float(doubt.std())
    rate = min(max(noise_rate, 0.5 / len(doubt)), 0.99)
    if spread < MIN_DEVIATION:
        return np.full(len(doubt), rate)
    values = (doubt - doubt.mean()) / spread
    upper = _posteriors(values, _fit(_quantiles(values), rate))[:, 1]
    limits = 1 - MAX_CONFIDENCE, MAX_CONFIDENCE
    _, first, place, count = np.unique(doubt, return_index=True, return_inverse=True, return_counts=True)
    log_odds = logit(np.clip(isotonic_regression(upper[first], weights=count).x[place], *limits))
    shift = brentq(lambda shift: float(expit(log_odds + shift).mean()) - rate, -MAX_LOG_ODDS, MAX_LOG_ODDS)
    wrong: Floats = np.clip(expit(log_odds + shift), *limits)
    return wrong


def out_of_fold_confidence(doubt: Floats, noise_rate: float) -> Floats:
    """Return the probability that each label is wrong, from out-of-fold doubt."""
    from scipy.special import expit

    limit = min(MAX_CONFIDENCE, 1 - 1 / (NO_ERRORS + noise_rate * len(doubt)))
    wrong: Floats = np.clip(expit(doubt), 1 - MAX_CONFIDENCE, limit)
    return wrong


def withheld(confidence: Floats) -> Floats:
    """Scale confidences below `WITHHELD_BELOW`, in the same order, where no label can be called probably wrong."""
    highest = float(confidence.max()) if len(confidence) else 0.0
    return confidence * (WITHHELD_BELOW / highest) if highest > WITHHELD_BELOW else confidence


def _quantiles(values: Floats) -> Floats:
    """Return at most `MAX_FITTED` of the values in ascending order, which have the same mixture as all."""
    ordered: Floats = np.sort(values)
    chosen: Floats = ordered[np.linspace(0, len(ordered) - 1, min(len(ordered), MAX_FITTED)).round().astype(int)]
    return chosen


def _fit(ordered: Floats, rate: float, *, free: bool = False) -> Mixture:
    """Fit a mixture to ascending values, with weights that are fixed at 1 - rate and rate unless they are free."""
    split = min(len(ordered) - 1, max(1, round(len(ordered) * (1 - rate))))
    means = np.array([ordered[:split].mean(), ordered[split:].mean()])
    variances = np.array([max(part.var(), MIN_COMPONENT_DEVIATION**2) for part in (ordered[:split], ordered[split:])])
    weights = np.array([1 - rate, rate])
    for _ in range(ITERATIONS):
        shares = _posteriors(ordered, (weights, means, variances))
        counts = np.maximum(shares.sum(0), 1e-9)
        before, means = means, (shares * ordered[:, None]).sum(0) / counts
        variances = (shares * (ordered[:, None] - means) ** 2).sum(0) / counts
        variances = np.maximum(variances, MIN_COMPONENT_DEVIATION**2)
        weights = counts / counts.sum() if free else weights
        if np.abs(means - before).max() < TOLERANCE:
            break
    return weights, means, variances


def _log_densities(values: Floats, mixture: Mixture) -> Floats:
    """Return log(weight · density) of each value under both components, up to a constant."""
    weights, means, variances = mixture
    logs: Floats = np.log(weights) - 0.5 * np.log(variances) - 0.5 * (values[:, None] - means) ** 2 / variances
    return logs


def _posteriors(values: Floats, mixture: Mixture) -> Floats:
    logs = _log_densities(values, mixture)
    odds = np.exp(logs - logs.max(1, keepdims=True))
    shares: Floats = odds / odds.sum(1, keepdims=True)
    return shares
