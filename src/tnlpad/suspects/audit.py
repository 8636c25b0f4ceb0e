"""Audit labels: draw some at random, let a person check them, and get the share of wrong labels with an interval.

The interval holds whatever kind of errors the data have, since it rests on the drawing and not on the model. The
confidence that each label is wrong is then recalibrated with the decisions.

Drawing. `by="random"` draws from all labels alike. The other designs draw within strata: the given classes, or five
ranges of the confidence, cut so that each has the same sum of standard deviations √(c (1 − c)). Half of the sample is
spread over the strata in proportion to their size, and half equally. So no label counts for more than twice its share,
each class gets checks, and the labels that the model is unsure about get more of them. A larger sample with the same
seed contains the smaller one.

Recalibration. The new log odds are z + a + b (z − z̄), where z are the log odds of the present confidence. The prior
holds that a = b = 0, which keeps the confidence as it is, or else that they are normal around zero. The width is
unknown: the results of several widths and of no change are averaged, weighted by how well each predicts the decisions
(Laplace's approximation). So decisions that agree with the confidence change hardly anything, and many that contradict
it change much.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tnlpad.suspects.calibrate import MAX_CONFIDENCE
from tnlpad.suspects.evidence import Floats
from tnlpad.suspects.intervals import LEVEL, Share, share_wrong
from tnlpad.types import Index, Labels

By = Literal["random", "class", "confidence"]
Choice = Literal["right", "wrong", "unsure"]
DESIGNS: tuple[By, ...] = get_args(By)
CONFIDENCE_STRATA = 5
EQUAL_PART = 0.5  # of a stratified sample: spread equally over the strata
MIN_DEVIATION = 0.1  # of a label for the cutting of strata, so that one range does not hold nearly all labels
# Prior probability of no change. Chosen with seeds 1 to 4 of data as in `benchmarks/rates.py`: without it, an audit of
# 200 labels lowered the calibration error in 86 % of 1,264 audits, and with it in 92 %.
UNCHANGED = 0.95
PRIOR_WIDTHS = (0.1, 0.3, 1.0, 3.0)  # of the shift a of the log odds
SLOPE_WIDTH = 0.25  # of b, as a multiple: a slope needs more decisions than a shift
MIN_SLOPE = 0.05  # of the new log odds: decisions never reverse the order
MAX_STEP, ITERATIONS = 2.0, 100


# The drawing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Labels that were drawn to be checked.

    Args:
        by: The design.
        seed: The random seed.
        rows: Rows of the drawn labels, in the random order in which they are shown.
        cells: The cell of each. A cell holds the labels of one stratum and one given class.
        cell_strata, cell_classes, cell_sizes: Stratum, given class and number of labels of each cell.
    """

    by: By
    seed: int
    rows: Index
    cells: Index
    cell_strata: Index
    cell_classes: Index
    cell_sizes: Index

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def total(self) -> int:
        """Number of labels that the sample was drawn from."""
        return int(self.cell_sizes.sum())


def draw(size: int, given: Labels, confidence: Floats | None = None, *, by: By = "random", seed: int = 1) -> Sample:
    """Draw labels at random, without replacement.

    Args:
        size: How many.
        given: The given label of every sample.
        confidence: Probability that each is wrong; needed for `by="confidence"`.
        by: Draw from all labels alike, by given class, or by confidence.
        seed: Random seed.

    Raises:
        ValueError: There are not so many labels, or fewer are drawn than the design needs.
    """
    strata = _strata(given, confidence, by)
    sizes: Index = np.bincount(strata)
    if not 1 <= size <= len(given):
        raise ValueError(f"a sample of {size:,} cannot be drawn from {len(given):,} labels. Draw 1 to {len(given):,}.")
    if size < len(sizes):
        of = "given classes" if by == "class" else "ranges of confidence"
        raise ValueError(
            f"a sample of {size:,} is too small for {len(sizes):,} {of}. Draw {len(sizes):,} labels or more, or draw "
            "them by random."
        )
    generator = np.random.default_rng(seed)
    drawn_at, shown_at = generator.random(len(given)), generator.random(len(given))
    order = np.lexsort((drawn_at, strata))
    begins = np.cumsum(sizes) - sizes
    rank_in_stratum = np.empty(len(given), dtype=np.int64)
    rank_in_stratum[order] = np.arange(len(given)) - np.repeat(begins, sizes)
    rows = np.flatnonzero(rank_in_stratum < _allocation(size, sizes)[strata])
    rows = rows[np.argsort(shown_at[rows], kind="stable")]
    classes = int(given.max()) + 1
    cells, cell_of, cell_sizes = np.unique(strata * classes + given, return_inverse=True, return_counts=True)
    return Sample(
        by=by,
        seed=seed,
        rows=rows,
        cells=cell_of[rows],
        cell_strata=cells // classes,
        cell_classes=cells % classes,
        cell_sizes=cell_sizes,
    )


def _strata(given: Labels, confidence: Floats | None, by: By) -> Index:
    """Return the number of each label's stratum, from 0 without gaps."""
    if by not in DESIGNS:
        raise ValueError(f"by={by!r}: choose {', '.join(DESIGNS)}.")
    strata: Index = np.zeros(len(given), dtype=np.int64)
    if by == "class":
        strata = np.unique(given, return_inverse=True)[1].astype(np.int64)
    elif by == "confidence":
        if confidence is None or len(confidence) != len(given):
            raise ValueError("by='confidence' needs the confidence of every label.")
        deviation = np.maximum(np.sqrt(confidence * (1 - confidence)), MIN_DEVIATION)
        order = np.argsort(confidence, kind="stable")
        reached = np.cumsum(deviation[order])
        middle = (reached - deviation[order] / 2) / reached[-1]
        strata[order] = np.unique((CONFIDENCE_STRATA * middle).astype(np.int64), return_inverse=True)[1]
    return strata


def _allocation(size: int, sizes: Index) -> Index:
    """Return how many labels are drawn from each stratum.

    Every stratum gets one, and each further label goes to the stratum that lacks most (the method of Webster). So a
    larger sample has at least as many of every stratum.
    """
    import heapq

    shares = (1 - EQUAL_PART) * sizes / sizes.sum() + EQUAL_PART / len(sizes)
    drawn = np.ones(len(sizes), dtype=np.int64)
    waiting = [(-share / 3, stratum) for stratum, share in enumerate(shares.tolist()) if sizes[stratum] > 1]
    heapq.heapify(waiting)
    for _ in range(size - len(sizes)):
        _, stratum = heapq.heappop(waiting)
        drawn[stratum] += 1
        if drawn[stratum] < sizes[stratum]:
            heapq.heappush(waiting, (-shares[stratum] / (2 * drawn[stratum] + 1), stratum))
    return drawn


# The rate -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ClassRate:
    """The share of wrong labels among those with one given label."""

    label: int
    labels: int
    checked: int
    wrong: int
    share: Share


@dataclass(frozen=True, kw_only=True)
class Rate:
    """The share of wrong labels, from decisions about a sample.

    Args:
        share: The share of all labels.
        checked, wrong: How many labels were decided on, and how many of them are wrong.
        unsure: How many the person could not decide on. They are left out of the share.
        with_unsure: The lower limit if all of these are right, and the upper one if all are wrong; None without them.
        undecided: How many of the sample have no decision.
        classes: Shares of the given classes with at least one decision.
        checks_to_halve: How many more decisions would halve the interval.
    """

    share: Share
    checked: int
    wrong: int
    unsure: int
    with_unsure: tuple[float, float] | None
    undecided: int
    classes: tuple[ClassRate, ...]
    checks_to_halve: int


def rate(decisions: Sequence[Choice | None], sample: Sample, *, level: float = LEVEL) -> Rate:
    """Estimate the share of wrong labels, overall and by given class.

    Args:
        decisions: "right", "wrong", "unsure" or None for each row of the sample, in its order.
        sample: The sample.
        level: Level of the intervals.

    Raises:
        ValueError: There are not as many decisions as rows, or no label was decided on.
    """
    if len(decisions) != len(sample):
        raise ValueError(f"{len(decisions):,} decisions do not fit a sample of {len(sample):,} labels.")
    if unknown := set(decisions) - {*get_args(Choice), None}:
        raise ValueError(f"the decision {unknown.pop()!r} is none of {', '.join(get_args(Choice))} and None.")
    counts = {
        choice: np.bincount(sample.cells[[each == choice for each in decisions]], minlength=len(sample.cell_sizes))
        for choice in get_args(Choice)
    }
    wrong, checked, unsure = counts["wrong"], counts["wrong"] + counts["right"], counts["unsure"]
    if not checked.any():
        raise ValueError("no label was decided on. Decide on some labels of the sample, right or wrong.")
    by_stratum = _StrataCounts.of(sample, checked, wrong)
    with_unsure = None
    if unsure.any():
        low = _StrataCounts.of(sample, checked + unsure, wrong).share(level).low
        high = _StrataCounts.of(sample, checked + unsure, wrong + unsure).share(level).high
        with_unsure = low, high
    return Rate(
        share=by_stratum.share(level),
        checked=int(checked.sum()),
        wrong=int(wrong.sum()),
        unsure=int(unsure.sum()),
        with_unsure=with_unsure,
        undecided=sum(each is None for each in decisions),
        classes=tuple(_class_rates(sample, checked, wrong, level)),
        checks_to_halve=by_stratum.checks_to_halve(level),
    )


def _class_rates(sample: Sample, checked: Index, wrong: Index, level: float) -> Iterable[ClassRate]:
    """Yield the shares by given class: each cell is a random sample of its labels, as each stratum is."""
    for label in np.unique(sample.cell_classes[checked > 0]).tolist():
        own = sample.cell_classes == label
        yield ClassRate(
            label=label,
            labels=int(sample.cell_sizes[own].sum()),
            checked=int(checked[own].sum()),
            wrong=int(wrong[own].sum()),
            share=share_wrong(sample.cell_sizes[own], checked[own], wrong[own], level),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _StrataCounts:
    """Numbers of labels, of checked and of wrong ones by stratum."""

    sizes: Index
    checked: Index
    wrong: Index

    @classmethod
    def of(cls, sample: Sample, checked: Index, wrong: Index) -> "_StrataCounts":
        sizes, of_checked, of_wrong = (
            np.bincount(sample.cell_strata, weights=counts).astype(np.int64)
            for counts in (sample.cell_sizes, checked, wrong)
        )
        return cls(sizes=sizes, checked=of_checked, wrong=of_wrong)

    def share(self, level: float) -> Share:
        return share_wrong(self.sizes, self.checked, self.wrong, level)

    def checks_to_halve(self, level: float) -> int:
        """Return how many more checks, spread like those so far, would halve the interval if the rates stay."""
        width = self.share(level).width / 2
        now = np.maximum(self.checked, 1)
        enough = float((self.sizes / now).max())  # times as many: all labels
        too_few = 1.0
        if width <= 0:
            return 0
        while enough - too_few > max(0.5 / now.sum(), 0.002 * too_few):
            factor = (too_few * enough) ** 0.5 if enough > 2 * too_few else (too_few + enough) / 2
            if self._times(factor).share(level).width > width:
                too_few = factor
            else:
                enough = factor
        return int(self._times(enough).checked.sum() - self.checked.sum())

    def _times(self, factor: float) -> "_StrataCounts":
        checked = np.minimum(self.sizes, np.ceil(np.maximum(self.checked, 1) * factor).astype(np.int64))
        rates = self.wrong / np.maximum(self.checked, 1)
        return replace(self, checked=checked, wrong=np.round(rates * checked).astype(np.int64))


# The confidence -------------------------------------------------------------------------------------------------------


def recalibrated(confidence: Floats, rows: Index, wrong: NDArray[np.bool_], weights: Floats | None = None) -> Floats:
    """Return the confidence that each label is wrong, corrected by decisions.

    The order of the labels that were not checked stays. A checked label gets the lowest or the highest confidence.

    Args:
        confidence: Probability that each label is wrong, as the model sees it.
        rows: Rows of the checked labels.
        wrong: Whether each of them is wrong.
        weights: Number of labels that each of them stands for, up to a factor (default: equal).
    """
    from scipy.special import expit, logit  # type: ignore[import-untyped, unused-ignore]

    log_odds = logit(np.clip(confidence, 1 - MAX_CONFIDENCE, MAX_CONFIDENCE))
    result: Floats = confidence.astype(np.float64)
    if not len(rows):
        return result
    weight = np.ones(len(rows)) if weights is None else weights * (len(rows) / weights.sum())
    centre = float(np.average(log_odds[rows], weights=weight))
    change = _change(log_odds[rows], centre, wrong.astype(np.float64), weight)
    slope = max(change[1], MIN_SLOPE - 1)
    result = expit(log_odds + change[0] + slope * (log_odds - centre))
    result = np.clip(result, 1 - MAX_CONFIDENCE, MAX_CONFIDENCE)
    result[rows] = np.where(wrong, MAX_CONFIDENCE, 1 - MAX_CONFIDENCE)
    return result


def _change(log_odds: Floats, centre: float, wrong: Floats, weight: Floats) -> Floats:
    """Return a and b, averaged over the priors."""
    columns = np.stack([np.ones(len(log_odds)), log_odds - centre], axis=1)
    found = [np.zeros(2)]
    evidence = [_log_likelihood(log_odds, wrong, weight) + float(np.log(UNCHANGED))]
    for width in PRIOR_WIDTHS:
        precision = np.diag([width**-2, (SLOPE_WIDTH * width) ** -2])
        change, log_posterior, curvature = _most_likely(columns, log_odds, wrong, weight, precision)
        prior = (1 - UNCHANGED) / len(PRIOR_WIDTHS)
        found.append(change)
        volume = float(np.linalg.det(precision) / np.linalg.det(curvature)) ** 0.5
        evidence.append(log_posterior + float(np.log(prior * volume)))
    shares = np.exp(np.array(evidence) - max(evidence))
    average: Floats = shares @ np.array(found) / shares.sum()
    return average


def _log_likelihood(log_odds: Floats, wrong: Floats, weight: Floats) -> float:
    return float(weight @ (wrong * log_odds - np.logaddexp(0, log_odds)))


def _most_likely(
    columns: Floats, log_odds: Floats, wrong: Floats, weight: Floats, precision: Floats
) -> tuple[Floats, float, Floats]:
    """Return the most likely change under one prior, its log posterior and the curvature there, by Newton's method."""
    from scipy.special import expit

    change = np.zeros(2)
    for _ in range(ITERATIONS):
        probability = expit(log_odds + columns @ change)
        gradient = columns.T @ (weight * (wrong - probability)) - precision @ change
        curvature = (columns * (weight * probability * (1 - probability))[:, None]).T @ columns + precision
        step = np.linalg.solve(curvature, gradient)
        change = change + step * min(1.0, MAX_STEP / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < 1e-8:
            break
    likelihood = _log_likelihood(log_odds + columns @ change, wrong, weight)
    return change, likelihood - 0.5 * float(change @ precision @ change), curvature
