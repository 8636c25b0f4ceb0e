"""How many labels are wrong, and which is taken for which: a rate and a matrix, each with an interval.

Only samples that were held out can tell: what a network says about a label that it was trained on is partly that label
itself. Of the held-out samples that are predicted to be of a class, the half where the prediction is clearest counts,
because there it is hardly ever wrong, and the share of them that carries another label estimates the share of wrong
labels. That assumes that labels of clear cases are wrong as often as those of others. Where people erred, unclear cases
are wrong more often, and the estimate is too low; where the network is still wrong about its clearest half, too high.

The matrix needs more samples than the rate. How often a class is wrong comes from the held-out samples, drawn towards
the overall rate where there are few; what it is taken for comes from all samples.

Intervals are percentiles of a bootstrap over samples. They know about chance, not about the two assumptions.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tnlpad.suspects.evidence import Evidence, Floats
from tnlpad.types import Index, Labels, Transition

CLEAR_SHARE = 0.5
PRIOR_SAMPLES = 10  # a class of so many held-out samples is believed as much as all the others together
RESAMPLES, LEVEL = 200, 0.95
MOST_CLASSES_WITH_INTERVALS = 100  # of every entry of the matrix; the rates of the classes always have some


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """Shares of wrong labels.

    Args:
        noise_rate, noise_rate_interval: Of all labels.
        class_rates, class_rate_intervals: By true class; the intervals are classes × 2.
        transition, transition_intervals: transition[i, j] = P(given j | true i), and classes × classes × 2; None
            where there are too many classes.
        samples: How many samples the rate comes from.
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


def estimate(found: Evidence, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """The rate and the matrix; the seed is that of the bootstrap."""
    held_out = bool(found.held_out.any())
    clear = clearest(found, found.held_out if held_out else np.ones(len(found), dtype=bool))
    classes, generator = found.num_classes, np.random.default_rng(seed)
    pairs = found.suggested * classes + found.given
    everyone = np.flatnonzero(found.suggested != found.given)
    rate, rates, transition = _once(pairs[clear], pairs[everyone], classes)
    with_matrix = classes <= MOST_CLASSES_WITH_INTERVALS
    drawn_rate, drawn_rates, drawn_matrices = np.empty(resamples), np.empty((resamples, classes)), []
    for turn in range(resamples):
        again, all_again = (generator.choice(each, len(each)) if len(each) else each for each in (clear, everyone))
        drawn_rate[turn], drawn_rates[turn], matrix = _once(
            pairs[again], pairs[all_again] if with_matrix else pairs[:0], classes, with_matrix=with_matrix
        )
        drawn_matrices += [matrix] if with_matrix else []
    low, high = (1 - LEVEL) / 2, (1 + LEVEL) / 2
    interval = np.quantile(drawn_rate, [low, high])
    return Estimate(
        noise_rate=rate,
        noise_rate_interval=(float(interval[0]), float(_never_certain(interval[1], rate, len(clear)))),
        class_rates=rates,
        class_rate_intervals=np.quantile(drawn_rates, [low, high], axis=0).T,
        transition=transition,
        transition_intervals=np.moveaxis(np.quantile(drawn_matrices, [low, high], axis=0), 0, -1)
        if with_matrix
        else None,
        samples=len(clear),
        held_out=held_out,
    )


def clearest(found: Evidence, among: NDArray[np.bool_]) -> Index:
    """Of each predicted class among these samples, the half whose prediction leads most."""
    rows = np.flatnonzero(among)
    order = rows[np.lexsort((-found.lead[rows], found.suggested[rows]))]
    classes = found.suggested[order]
    begins = np.searchsorted(classes, classes)
    sizes = np.bincount(classes, minlength=found.num_classes)[classes]
    chosen: Index = order[np.arange(len(order)) - begins < np.ceil(CLEAR_SHARE * sizes)]
    return chosen


def _never_certain(upper: float, rate: float, samples: int) -> float:
    """No wrong label among n does not mean that there is none: the rule of three."""
    return max(upper, min(1.0, 3 / max(1, samples))) if rate == 0 else upper


def _once(
    clear: Labels, disagreeing: Labels, classes: int, *, with_matrix: bool = True
) -> tuple[float, Floats, Transition]:
    """Rate, rates and matrix from pairs of predicted and given label, as predicted · classes + given."""
    predicted, given = clear // classes, clear % classes
    wrong = predicted != given
    rate = float(wrong.mean()) if len(clear) else 0.0
    of_class = np.bincount(predicted, minlength=classes)
    rates = (np.bincount(predicted[wrong], minlength=classes) + PRIOR_SAMPLES * rate) / (of_class + PRIOR_SAMPLES)
    if not with_matrix:
        return rate, rates, np.empty((0, 0))
    counts = np.bincount(disagreeing, minlength=classes * classes).reshape(classes, classes).astype(float)
    np.fill_diagonal(counts, 0)
    counts += 1 / max(1, classes - 1)  # one sample's worth of not knowing
    np.fill_diagonal(counts, 0)
    sums = counts.sum(1, keepdims=True)
    transition = rates[:, None] * counts / np.where(sums > 0, sums, 1)
    np.fill_diagonal(transition, 1 - rates)
    return rate, rates, transition
