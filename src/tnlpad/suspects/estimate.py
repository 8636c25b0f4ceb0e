"""How many labels are wrong, and which is taken for which: a rate and a matrix, each with an interval.

What a network says about a label that it was trained on is partly that label itself, so only held-out samples can be
counted. Of those that are predicted to be of a class, the clearest count, because there the prediction is hardly ever
wrong, and the share of them that carries another label is the share of wrong labels. Where the network is still wrong
about its clearest cases, that is too high by the share of right labels among them that it is wrong about; where people
erred, clear cases are mislabelled less often than others, and it is too low. And it is uncertain by chance: of 100
samples 40 are wrong give or take 10.

What a class is taken for comes from the clearest of all samples whose label is not the predicted one, drawn towards no
preference as far as it may be chance (James and Stein's shrinkage, as Hausser and Strimmer have it for shares); rates
of classes are drawn towards the overall rate in the same way.

With that first matrix every sample has its doubt (`evidence.py`), whose two humps tell the rate as well
(`calibrate.py`): hardly by chance, since all samples count, but by the shape of the humps. The rate is the mean of the
two, each weighted by its certainty. Where few samples are held out and the humps lie apart, it is that of the humps;
where many are, and the humps run into each other, it is the counted one. Humps of something else, such as of a rare
class among right labels, are found out by the held-out samples: a network that knows the truth contradicts each wrong
label, and one that does not contradicts even more, so they cannot contradict fewer than are wrong, but by chance.

The interval of the rate reaches downwards by the two uncertainties, and farther where the humps run into each other: a
network that is so unsure contradicts some labels of clear cases by mistake. How far was chosen with seeds 1, 2, 5 and 6
of `benchmarks/noise_rates.py`, which has the numbers of others. Upwards it ends where more wrong labels would have been
contradicted among all that were held out, and not before: how much more often than about clear cases people err about
the others cannot be seen from their labels. (Of CIFAR-10's labels by people, estimates and narrower intervals were too
low.) Intervals of classes are percentiles of a bootstrap over samples, and know nothing of that.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tnlpad.suspects.calibrate import upper_hump
from tnlpad.suspects.evidence import Floats, Predictions
from tnlpad.types import Index, Labels, Transition

CLEAR_SHARE = 0.3
RESAMPLES, LEVEL = 200, 0.95
NORMAL_QUANTILE = 1.96  # of that level
# Labels of each kind that are added to those counted where chance is reckoned, as Agresti and Coull do: none among a
# few does not mean that there are none.
ADDED = 2.0
MISTAKEN = 0.5  # of how far the humps may be off: what the network's mistakes about clear cases may be
LEAST_CHANCE = 0.01  # of what was seen of the held-out samples, if the humps are those of wrong labels
TOO_FAR_APART = 3.0  # two estimates of one rate, in deviations
LEAST_RATE, MOST_RATE = 0.005, 0.95  # of a class, where doubt is reckoned with it: nothing is certain
BELIEVED = 0.5  # of the differences between classes' rates: a class that the network confuses seems to have a high one
UNFORESEEN = 0.01  # of a class' wrong labels, spread over all others: what was never seen is not impossible
MOST_CLASSES_WITH_INTERVALS = 100  # of every entry of the matrix; the rates of the classes always have some


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """Shares of wrong labels.

    Args:
        noise_rate, noise_rate_interval: Of all labels.
        class_rates, class_rate_intervals: By true class; the intervals are classes × 2.
        transition, transition_intervals: transition[i, j] = P(given j | true i), and classes × classes × 2; None
            where there are too many classes.
        samples: How many samples were counted.
        held_out: Whether these were held out from training; if not, the rate is too low by what was memorised.
    """

    noise_rate: float
    noise_rate_interval: tuple[float, float]
    class_rates: Floats
    class_rate_intervals: Floats
    transition: Transition
    transition_intervals: Floats | None
    samples: int
    held_out: bool


def first_transition(seen: Predictions) -> Transition:
    """The matrix by counting alone, with nothing impossible: what doubt is reckoned with."""
    clear = _clear(seen)
    rates, taken_for = _counted(seen, clear, _clear_and_disputed(seen))
    overall = _share_wrong(seen, clear)
    rates = overall + BELIEVED * (rates - overall)
    spread = (1 - UNFORESEEN) * taken_for + UNFORESEEN * _no_preference(seen.num_classes)
    return _matrix(np.clip(rates, LEAST_RATE, MOST_RATE), spread)


def estimate(seen: Predictions, doubt: Floats, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """The rate and the matrix.

    Args:
        seen: What is predicted.
        doubt: Of every sample, comparable between those held out and the others.
        resamples, seed: Of the bootstrap.
    """
    clear, disputed = _clear(seen), _clear_and_disputed(seen)
    counted = _share_wrong(seen, clear)
    humps, shape = upper_hump(doubt, counted)
    if _refuted(humps, seen):
        rate, deviation = counted, _chance(counted, len(clear))
    else:
        rate, deviation = _combined(counted, len(clear), humps, shape)
    interval = _interval(rate, deviation, MISTAKEN * shape, seen)
    rates, taken_for = _counted(seen, clear, disputed)
    with_matrix = seen.num_classes <= MOST_CLASSES_WITH_INTERVALS
    drawn_rates, drawn_matrices, generator = [], [], np.random.default_rng(seed)
    for _ in range(resamples):
        again, disputed_again = (generator.choice(rows, len(rows)) if len(rows) else rows for rows in (clear, disputed))
        drawn = _class_rates(seen.predicted[again], seen.given[again], seen.num_classes)
        drawn_rates.append(_scaled(drawn, counted, rate))
        if with_matrix:
            to = _taken_for(seen.predicted[disputed_again], seen.given[disputed_again], seen.num_classes)
            drawn_matrices.append(_matrix(drawn_rates[-1], to))
    rates = _scaled(rates, counted, rate)
    return Estimate(
        noise_rate=rate,
        noise_rate_interval=interval,
        class_rates=rates,
        class_rate_intervals=_percentiles(drawn_rates),
        transition=_matrix(rates, taken_for),
        transition_intervals=_percentiles(drawn_matrices) if with_matrix else None,
        samples=len(clear),
        held_out=bool(seen.held_out.any()),
    )


def clearest(seen: Predictions, among: NDArray[np.bool_]) -> Index:
    """Of each predicted class among these samples, those whose prediction leads most."""
    rows = np.flatnonzero(among)
    order = rows[np.lexsort((-seen.lead[rows], seen.predicted[rows]))]
    classes = seen.predicted[order]
    begins = np.searchsorted(classes, classes)
    sizes = np.bincount(classes, minlength=seen.num_classes)[classes]
    chosen: Index = order[np.arange(len(order)) - begins < np.ceil(CLEAR_SHARE * sizes)]
    return chosen


def _clear(seen: Predictions) -> Index:
    return clearest(seen, seen.held_out if seen.held_out.any() else np.ones(len(seen), dtype=bool))


def _clear_and_disputed(seen: Predictions) -> Index:
    return clearest(seen, seen.predicted != seen.given)


def _share_wrong(seen: Predictions, rows: Index) -> float:
    return float((seen.predicted[rows] != seen.given[rows]).mean()) if len(rows) else 0.0


def _chance(share: float, samples: int) -> float:
    """The deviation of a share; one of 0 is not certain either."""
    likely = (share * samples + ADDED) / (samples + 2 * ADDED)
    return float(np.sqrt(likely * (1 - likely) / max(1, samples)))


def _refuted(rate: float, seen: Predictions) -> bool:
    """Whether so few held-out labels are contradicted that this share of all can hardly be wrong."""
    from scipy.stats import binom  # type: ignore[import-untyped, unused-ignore]  # slow to import

    contradicted, held_out = _contradicted(seen)
    return held_out > 0 and float(binom.cdf(contradicted, held_out, rate)) < LEAST_CHANCE


def _contradicted(seen: Predictions) -> tuple[int, int]:
    """Of how many held-out labels, and how many there are."""
    rows = seen.held_out
    return int((seen.predicted[rows] != seen.given[rows]).sum()), int(rows.sum())


def _combined(counted: float, samples: int, humps: float, shape: float) -> tuple[float, float]:
    """The mean of both estimates, weighted by their certainty, and its deviation.

    Where they differ by more than chance and the shape of humps allow, the deviation grows by as much. Where they
    differ far more, the humps are not those of right and wrong labels, and counting stands alone.
    """
    chance = _chance(counted, samples)
    apart = abs(counted - humps) / float(np.hypot(_chance(humps, samples), shape))  # if the rate is that of the humps
    if apart > TOO_FAR_APART:
        return counted, chance
    weights = np.array([chance, shape]) ** -2.0
    return float(weights @ [counted, humps] / weights.sum()), max(1.0, apart) * float(weights.sum() ** -0.5)


def _interval(rate: float, deviation: float, mistaken: float, seen: Predictions) -> tuple[float, float]:
    low = rate - NORMAL_QUANTILE * float(np.hypot(deviation, mistaken))
    high = _most(seen) if seen.held_out.any() else rate + NORMAL_QUANTILE * deviation
    return max(0.0, low), min(1.0, max(rate, high))


def _most(seen: Predictions) -> float:
    """The largest share of wrong labels with which so few could be contradicted (Clopper and Pearson's limit)."""
    from scipy.stats import beta  # slow to import

    contradicted, held_out = _contradicted(seen)
    return (
        float(beta.ppf((1 + LEVEL) / 2, contradicted + 1, held_out - contradicted)) if contradicted < held_out else 1.0
    )


def _counted(seen: Predictions, clear: Index, disputed: Index) -> tuple[Floats, Transition]:
    """Each class' rate, and what its wrong labels are: rows of shares with an empty diagonal."""
    classes = seen.num_classes
    return _class_rates(seen.predicted[clear], seen.given[clear], classes), _taken_for(
        seen.predicted[disputed], seen.given[disputed], classes
    )


def _class_rates(predicted: Labels, given: Labels, classes: int) -> Floats:
    """Drawn towards the overall rate by the part of their differences that is chance."""
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
    """Drawn towards no preference by the part of it that may be chance."""
    counts = np.bincount(predicted * classes + given, minlength=classes * classes).reshape(classes, classes)
    sizes, target = counts.sum(1), _no_preference(classes)
    shares = counts / np.maximum(sizes, 1)[:, None]
    seen = sizes > 1
    chance = ((1 - (shares**2).sum(1)) / np.maximum(sizes - 1, 1))[seen].sum()
    found = ((shares - target) ** 2).sum(1)[seen].sum()
    drawn = min(1.0, chance / found) if found > 0 else 1.0
    result: Transition = np.where(seen[:, None], drawn * target + (1 - drawn) * shares, target)
    return result


def _no_preference(classes: int) -> Transition:
    target = np.full((classes, classes), 1 / max(1, classes - 1))
    np.fill_diagonal(target, 0)
    return target


def _matrix(rates: Floats, taken_for: Transition) -> Transition:
    matrix: Transition = rates[:, None] * taken_for
    np.fill_diagonal(matrix, 1 - rates)
    return matrix


def _scaled(rates: Floats, counted: float, rate: float) -> Floats:
    """The classes' rates in proportion to the overall one that was found in the end."""
    return np.minimum(rates * (rate / counted), 1.0) if counted > 0 else np.full(len(rates), rate)


def _percentiles(drawn: list[Floats]) -> Floats:
    result: Floats = np.moveaxis(np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0), 0, -1)
    return result
