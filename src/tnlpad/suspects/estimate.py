"""Estimate how many labels are wrong and which class is taken for which: a rate and a matrix, with intervals.

A network's prediction for a label that it was trained on is partly that label itself, so only held-out samples are
counted. Among those predicted to be of a class, the clearest ones count, since their predictions are hardly ever wrong:
the share of them with another label is the rate. It is too high where the network errs even about clear samples, and
too low where people mislabel clear samples less often than others. And it has sampling error: clear samples cannot be
contradicted more often than all held-out ones, apart from chance, and where they are, all are counted.

The classes that a class is taken for are counted among the clearest samples whose label is not the predicted one. These
shares are shrunk towards no preference as far as they may be chance (James-Stein shrinkage, as in Hausser and Strimmer
2009). Rates of classes are shrunk towards the overall rate in the same way.

This first matrix gives every sample its doubt (`evidence.py`), and the mixture of doubts gives a second estimate of the
rate (`calibrate.py`). It uses all samples, so it has little sampling error, but depends on the shape of the mixture.
The final rate is the mean of the two, weighted by precision. A mixture that reflects something else, such as a rare
class, is rejected by the held-out samples: a network contradicts at least the wrong labels, so no more labels can be
wrong than it contradicts, apart from chance.

Downwards, the interval of the rate covers the errors of both estimates, and more where the mixture components overlap:
such a network contradicts some clear labels by mistake. How much was chosen with seeds 1, 2, 5 and 6 of
`benchmarks/noise_rates.py`, which has the numbers of other seeds. Upwards, the interval ends where more wrong labels
would have been contradicted among all held-out samples. It is no narrower, since labels do not show how much more often
people err about unclear samples; on CIFAR-10's human labels, narrower intervals were too low. Intervals of classes are
bootstrap percentiles and do not cover this.

Out-of-fold probabilities give the rate of random errors by maximum likelihood (`random_errors.py`). The first matrix
has this rate for every class, and the classes that a class is taken for as counted. The final one is that of the
posterior: the expected number of samples of each true class with each given label. A class without samples keeps its
row of the first one. Intervals of the entries combine sampling error with the interval of the rate.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tnlpad.records.scores import SampleScores
from tnlpad.suspects.calibrate import upper_weight
from tnlpad.suspects.evidence import Floats, Predictions
from tnlpad.suspects.random_errors import RandomErrors, sharpened_rows
from tnlpad.types import Index, Labels, Transition

CLEAR_SHARE = 0.3
CLEAREST_SHARE = 0.1
RESAMPLES, LEVEL = 200, 0.95
NORMAL_QUANTILE = 1.96  # of that level
# Samples of each kind that are added for the standard error of a share (Agresti and Coull): a share of 0 is uncertain.
PSEUDO_COUNT = 2.0
MISTAKEN_SHARE = 0.5  # of the error of the mixture: how often the network may err about clear samples
MIN_LIKELIHOOD = 0.01  # of the held-out samples, if the mixture is that of right and wrong labels
MAX_DEVIATIONS_APART = 3.0  # of two estimates of one rate
MIN_CLASS_RATE, MAX_CLASS_RATE = 0.005, 0.95  # in the matrix that doubt is computed with
MIN_RANDOM_RATE = 2.5e-4  # in that of out-of-fold samples, so that they are ranked even if the rate is 0
# Share of the differences between classes that is kept: a class that the network confuses seems to have a high rate.
KEPT_DIFFERENCE = 0.5
UNSEEN_SHARE = 0.01  # of a class's wrong labels, spread over all others: no transition is impossible
MIN_EXPECTED = 1.0  # samples of a class: with fewer, the posterior is what is left of samples of other classes
MAX_CLASSES_WITH_INTERVALS = 100  # for each entry of the matrix; class rates always have intervals


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """Shares of wrong labels.

    Args:
        noise_rate, noise_rate_interval: Share of all labels that is wrong.
        class_rates, class_rate_intervals: Shares by true class; intervals are classes × 2.
        transition, transition_intervals: transition[i, j] = P(given j | true i), and classes × classes × 2, or None
            with more than `MAX_CLASSES_WITH_INTERVALS` classes.
        samples: Number of samples that were counted.
        held_out: Whether these were held out from training. If not, memorised labels make the rate too low.
        random_only: Whether the rate is that of random errors, which excludes errors that follow the classes.
        checked: Number of labels that a person checked, if the rate and its interval are those of an audit. The rates
            of classes and the matrix are not.
    """

    noise_rate: float
    noise_rate_interval: tuple[float, float]
    class_rates: Floats
    class_rate_intervals: Floats
    transition: Transition
    transition_intervals: Floats | None
    samples: int
    held_out: bool
    random_only: bool = False
    checked: int | None = None


def first_transition(seen: Predictions) -> Transition:
    """Estimate the matrix by counting alone, with no entry at zero; doubt is computed with it."""
    clear = _clear(seen)
    rates, taken_for = _counted(seen, clear, _clear_and_disputed(seen))
    overall = _share_wrong(seen, clear)
    rates = overall + KEPT_DIFFERENCE * (rates - overall)
    return _matrix(np.clip(rates, MIN_CLASS_RATE, MAX_CLASS_RATE), _without_zeros(taken_for))


def out_of_fold_transition(seen: Predictions, errors: RandomErrors) -> Transition:
    """Return the matrix that doubt about out-of-fold samples is computed with: one rate, and counted preferences."""
    disputed = _clear_and_disputed(seen)
    taken_for = _taken_for(seen.predicted[disputed], seen.given[disputed], seen.num_classes)
    return _matrix(np.full(seen.num_classes, max(errors.rate, MIN_RANDOM_RATE)), _without_zeros(taken_for))


def estimate(seen: Predictions, doubt: Floats, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """Estimate the rate and the matrix.

    Args:
        seen: Predictions for all samples.
        doubt: Doubt about all samples, comparable between held-out and other samples.
        resamples, seed: Number of bootstrap resamples, and their random seed.
    """
    clear, disputed = _clear(seen), _clear_and_disputed(seen)
    among_clear = _share_wrong(seen, clear)
    counted, samples = _limited(among_clear, len(clear), seen)
    mixture_rate, mixture_error = upper_weight(doubt, counted)
    if _refuted(mixture_rate, seen):
        rate, error = counted, _standard_error(counted, samples)
    else:
        rate, error = _combined(counted, samples, mixture_rate, mixture_error)
    interval = _interval(rate, error, MISTAKEN_SHARE * mixture_error, seen)
    rates, taken_for = _counted(seen, clear, disputed)
    with_matrix = seen.num_classes <= MAX_CLASSES_WITH_INTERVALS
    drawn_rates, drawn_matrices, generator = [], [], np.random.default_rng(seed)
    for _ in range(resamples):
        again, disputed_again = (generator.choice(rows, len(rows)) if len(rows) else rows for rows in (clear, disputed))
        drawn = _class_rates(seen.predicted[again], seen.given[again], seen.num_classes)
        drawn_rates.append(_scaled(drawn, among_clear, rate))
        if with_matrix:
            to = _taken_for(seen.predicted[disputed_again], seen.given[disputed_again], seen.num_classes)
            drawn_matrices.append(_matrix(drawn_rates[-1], to))
    rates = _scaled(rates, among_clear, rate)
    return Estimate(
        noise_rate=rate,
        noise_rate_interval=interval,
        class_rates=rates,
        class_rate_intervals=_percentiles(drawn_rates),
        transition=_matrix(rates, taken_for),
        transition_intervals=_percentiles(drawn_matrices) if with_matrix else None,
        samples=samples,
        held_out=bool(seen.held_out.any()),
    )


def estimate_out_of_fold(scores: SampleScores, errors: RandomErrors, transition: Transition) -> Estimate:
    """Estimate the matrix of a fitted model of random errors, from the one that doubt was computed with."""
    classes, rate = len(scores.class_names), errors.rate
    joint = np.zeros((classes, classes))  # expected number of samples by true and given label
    for sharp, given in sharpened_rows(scores, errors.temperature):
        true = sharp * transition.T[given]
        true /= np.maximum(true.sum(1, keepdims=True), 1e-300)
        np.add.at(joint.T, given, true)
    sizes = joint.sum(1)
    counted = joint / np.maximum(sizes, MIN_EXPECTED)[:, None]
    transition = np.where(sizes[:, None] >= MIN_EXPECTED, counted, transition)
    rates: Floats = 1 - transition.diagonal()
    with_matrix = classes <= MAX_CLASSES_WITH_INTERVALS
    return Estimate(
        noise_rate=rate,
        noise_rate_interval=errors.interval,
        class_rates=rates,
        class_rate_intervals=_scaled_intervals(rates, sizes, errors),
        transition=transition,
        transition_intervals=_scaled_intervals(transition, sizes[:, None], errors) if with_matrix else None,
        samples=len(scores),
        held_out=True,
        random_only=True,
    )


def _scaled_intervals(shares: Floats, sizes: Floats, errors: RandomErrors) -> Floats:
    """Return intervals whose error combines that of a share of so many samples with that of the overall rate."""
    likely = (shares * sizes + PSEUDO_COUNT) / (sizes + 2 * PSEUDO_COUNT)
    chance = NORMAL_QUANTILE * np.sqrt(likely * (1 - likely) / (sizes + 2 * PSEUDO_COUNT))
    low, high = (np.hypot(chance, abs(bound - errors.rate)) for bound in errors.interval)
    result: Floats = np.clip(np.stack([shares - low, shares + high], axis=-1), 0.0, 1.0)
    return result


def contradicted_clearly(seen: Predictions) -> tuple[int, int]:
    """Return how many labels of the clearest samples are contradicted, and how many such samples there are."""
    rows = clearest(seen, seen.held_out, CLEAREST_SHARE)
    return int((seen.predicted[rows] != seen.given[rows]).sum()), len(rows)


def clearest(seen: Predictions, among: NDArray[np.bool_], share: float = CLEAR_SHARE) -> Index:
    """Return, for each predicted class, this share of these samples with the largest lead."""
    rows = np.flatnonzero(among)
    order = rows[np.lexsort((-seen.lead[rows], seen.predicted[rows]))]
    classes = seen.predicted[order]
    begins = np.searchsorted(classes, classes)
    sizes = np.bincount(classes, minlength=seen.num_classes)[classes]
    chosen: Index = order[np.arange(len(order)) - begins < np.ceil(share * sizes)]
    return chosen


def _clear(seen: Predictions) -> Index:
    return clearest(seen, seen.held_out if seen.held_out.any() else np.ones(len(seen), dtype=bool))


def _clear_and_disputed(seen: Predictions) -> Index:
    return clearest(seen, seen.predicted != seen.given)


def _share_wrong(seen: Predictions, rows: Index) -> float:
    return float((seen.predicted[rows] != seen.given[rows]).mean()) if len(rows) else 0.0


def _limited(share: float, samples: int, seen: Predictions) -> tuple[float, int]:
    """Return the share of clear samples that is contradicted, or that of all held-out ones if it is lower."""
    contradicted, held_out = _contradicted(seen)
    if held_out and share > contradicted / held_out:
        return contradicted / held_out, held_out
    return share, samples


def _standard_error(share: float, samples: int) -> float:
    likely = (share * samples + PSEUDO_COUNT) / (samples + 2 * PSEUDO_COUNT)
    return float(np.sqrt(likely * (1 - likely) / max(1, samples)))


def _refuted(rate: float, seen: Predictions) -> bool:
    """Whether too few held-out labels are contradicted for this share of all labels to be wrong."""
    from scipy.special import bdtr  # type: ignore[import-untyped, unused-ignore]

    contradicted, held_out = _contradicted(seen)
    return held_out > 0 and float(bdtr(contradicted, held_out, rate)) < MIN_LIKELIHOOD


def _contradicted(seen: Predictions) -> tuple[int, int]:
    """Return how many held-out labels are contradicted, and how many there are."""
    rows = seen.held_out
    return int((seen.predicted[rows] != seen.given[rows]).sum()), int(rows.sum())


def _combined(counted: float, samples: int, mixture_rate: float, mixture_error: float) -> tuple[float, float]:
    """Return the mean of both estimates, weighted by precision, and its standard error.

    Where they differ by more than their errors, the error grows in proportion. Where they differ far more, the mixture
    is not that of right and wrong labels, and only the counted rate is used.
    """
    error = _standard_error(counted, samples)
    # In units of the error that counting would have if the mixture were right.
    apart = abs(counted - mixture_rate) / float(np.hypot(_standard_error(mixture_rate, samples), mixture_error))
    if apart > MAX_DEVIATIONS_APART:
        return counted, error
    weights = np.array([error, mixture_error]) ** -2.0
    return float(weights @ [counted, mixture_rate] / weights.sum()), max(1.0, apart) * float(weights.sum() ** -0.5)


def _interval(rate: float, error: float, mistaken: float, seen: Predictions) -> tuple[float, float]:
    from scipy.special import betaincinv

    low = rate - NORMAL_QUANTILE * float(np.hypot(error, mistaken))
    contradicted, held_out = _contradicted(seen)
    if not held_out:
        high = rate + NORMAL_QUANTILE * error
    elif contradicted < held_out:  # the limit of Clopper and Pearson
        high = float(betaincinv(contradicted + 1, held_out - contradicted, (1 + LEVEL) / 2))
    else:
        high = 1.0
    return max(0.0, low), min(1.0, max(rate, high))


def _counted(seen: Predictions, clear: Index, disputed: Index) -> tuple[Floats, Transition]:
    """Return the rate of each class, and the shares of its wrong labels: rows with an empty diagonal."""
    classes = seen.num_classes
    return _class_rates(seen.predicted[clear], seen.given[clear], classes), _taken_for(
        seen.predicted[disputed], seen.given[disputed], classes
    )


def _class_rates(predicted: Labels, given: Labels, classes: int) -> Floats:
    """Return the rate of each class, shrunk towards the overall rate."""
    sizes = np.bincount(predicted, minlength=classes)
    wrong = np.bincount(predicted[predicted != given], minlength=classes)
    overall = wrong.sum() / max(1, sizes.sum())
    seen = sizes > 0
    chance = overall * (1 - overall) / np.maximum(sizes, 1)
    rates = wrong / np.maximum(sizes, 1)
    real = max(0.0, float(np.mean((rates - overall)[seen] ** 2 - chance[seen]))) if seen.any() else 0.0
    kept = np.where(seen & (chance > 0), real / np.where(chance > 0, real + chance, 1), 0.0)
    result: Floats = overall + kept * (rates - overall)
    return result


def _taken_for(predicted: Labels, given: Labels, classes: int) -> Transition:
    """Return the shares of each class's wrong labels, shrunk towards no preference."""
    counts = np.bincount(predicted * classes + given, minlength=classes * classes).reshape(classes, classes)
    sizes, target = counts.sum(1), _no_preference(classes)
    shares = counts / np.maximum(sizes, 1)[:, None]
    seen = sizes > 1
    chance = ((1 - (shares**2).sum(1)) / np.maximum(sizes - 1, 1))[seen].sum()
    found = ((shares - target) ** 2).sum(1)[seen].sum()
    drawn = min(1.0, chance / found) if found > 0 else 1.0
    result: Transition = np.where(seen[:, None], drawn * target + (1 - drawn) * shares, target)
    return result


def _without_zeros(taken_for: Transition) -> Transition:
    return (1 - UNSEEN_SHARE) * taken_for + UNSEEN_SHARE * _no_preference(len(taken_for))


def _no_preference(classes: int) -> Transition:
    target = np.full((classes, classes), 1 / max(1, classes - 1))
    np.fill_diagonal(target, 0)
    return target


def _matrix(rates: Floats, taken_for: Transition) -> Transition:
    matrix: Transition = rates[:, None] * taken_for
    np.fill_diagonal(matrix, 1 - rates)
    return matrix


def _scaled(rates: Floats, counted: float, rate: float) -> Floats:
    """Scale class rates from the counted to the final overall rate."""
    return np.minimum(rates * (rate / counted), 1.0) if counted > 0 else np.full(len(rates), rate)


def _percentiles(drawn: list[Floats]) -> Floats:
    result: Floats = np.moveaxis(np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0), 0, -1)
    return result
