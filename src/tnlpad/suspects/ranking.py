"""Rank samples by suspicion.

Samples are ranked by doubt (`evidence.py`), made comparable between training and held-out samples (`calibrate.py`).
This score was chosen with seed 1 on digits and on parts of MNIST and Fashion-MNIST, with three kinds of noise:

- The margin to the most probable other label is as good under symmetric noise, and worse where some classes are taken
  for certain others (pairflip and instance noise). It is better where a few hundred samples and a weak network give a
  wrong transition matrix. The probability of the given label alone is far worse except under symmetric noise.
- Averaging the probabilities of σ and w is about as good as the better of the two.
- Means to the end of training, single epochs, epochs weighted by accuracy, and a matrix from cleanlab's confident joint
  did not help.
- Scaling by mean and spread is as good as by quantiles, and loses less by chance with few held-out samples. A mixture
  fitted to each part fails there.

`benchmarks/suspects.py` has the numbers of other seeds.

Out-of-fold samples need no scaling. Their doubt is the logarithm of the odds of a fitted model (`random_errors.py`),
with the classes that each class is taken for. This was chosen with seed 21 on digits, wine, breast_cancer, a sample of
Food-101 and labels of CIFAR-10N:

- Without these classes, as if all wrong labels were equally likely, the order is far worse under pairflip, worse for
  human labels, and slightly better under symmetric noise.
- Counting them among all disputed samples instead of the clearest, their direction alone (more i labelled j than j
  labelled i), or the rates of classes as well, is worse under pairflip or under symmetric noise.
- Predictions from which the matrix is removed first are better only where two fifths of a class have another label.

A class with few samples is hardly learnt, so its samples are ranked no higher than the median, and the class is named.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tnlpad.records.scores import SampleScores
from tnlpad.suspects.calibrate import comparable, confidence, out_of_fold_confidence, withheld
from tnlpad.suspects.estimate import (
    Estimate,
    contradicted_clearly,
    estimate,
    estimate_out_of_fold,
    first_transition,
    out_of_fold_transition,
)
from tnlpad.suspects.evidence import Evidence, Floats, evidence, predictions
from tnlpad.suspects.random_errors import MAX_WIDTH, fit_random_errors, is_out_of_fold
from tnlpad.suspects.weakness import held_out_weakness, out_of_fold_weakness, systematic_errors
from tnlpad.types import Index

if TYPE_CHECKING:
    from tnlpad.suspects.audited_run import Audit

SUSPECT_FROM = 0.5  # more likely wrong than right
MIN_CLASS_SAMPLES = 5  # a class with fewer is too rare to judge its labels


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranking:
    """All samples of a run, ranked.

    Args:
        evidence: Evidence about each sample's label.
        estimate: The share of wrong labels.
        confidence: Probability that each sample's label is wrong; below one half with a weakness.
        score: Share of samples that are less suspicious; 1 is the most suspicious.
        order: Rows of the samples, the most suspicious first.
        suspects: Number of samples, from the start, whose label is more likely wrong than right; 0 with a weakness.
        weakness: Why there are no estimates, or None. Only the order has a meaning then.
        rare: Labels of the classes that have too few samples to judge.
        decisions: The right label of each row that a person has checked; None where no class fits.
    """

    evidence: Evidence
    estimate: Estimate
    confidence: Floats
    score: Floats
    order: Index
    suspects: int
    weakness: str | None = None
    rare: tuple[int, ...] = ()
    decisions: Mapping[int, str | None] = field(default_factory=dict)

    @property
    def suspect_share(self) -> float:
        return self.suspects / max(1, len(self.order))

    @cached_property
    def positions(self) -> Index:
        """Place of each row in the order; 0 is the most suspicious."""
        positions: Index = np.empty(len(self.order), dtype=np.int64)
        positions[self.order] = np.arange(len(self.order))
        return positions

    def without_estimates(self, weakness: str) -> "Ranking":
        """Return the ranking with its order alone."""
        return replace(self, confidence=withheld(self.confidence), suspects=0, weakness=weakness)

    def audited(self, audit: "Audit", ids: Sequence[str]) -> "Ranking":
        """Return the ranking with the decisions of an audit, its rate and the confidences that it recalibrates.

        With too few decisions to say more than the networks do, a weakness remains.

        Args:
            audit: The audit.
            ids: Ids of the samples.
        """
        place = {name: row for row, name in enumerate(ids)}
        decisions = {place[name]: label for name, label in audit.review.items() if name in place}
        checked = _with_labels(self.evidence, decisions, audit.class_names)
        if self.weakness is not None and audit.rate.share.width > MAX_WIDTH:
            return replace(self, evidence=checked, decisions=decisions)
        wrong = audit.confidence(ids, self.confidence)
        order: Index = self.order[np.argsort(-wrong[self.order], kind="stable")]
        share = audit.rate.share
        return replace(
            self,
            evidence=checked,
            estimate=replace(
                self.estimate,
                noise_rate=share.estimate,
                noise_rate_interval=(share.low, share.high),
                checked=audit.rate.checked,
            ),
            confidence=wrong,
            score=_score(order),
            order=order,
            suspects=int((wrong >= SUSPECT_FROM).sum()),
            weakness=None,
            decisions=decisions,
        )

    def checked(self, decisions: Mapping[int, str | None], class_names: Sequence[str]) -> "Ranking":
        """Return the ranking with further decisions, of which those that it has already are not replaced.

        A confirmed label is not suspect and comes last. One that is known to be wrong comes first.

        Args:
            decisions: The right label by row; None where no class fits.
            class_names: Names by label.
        """
        new = {row: label for row, label in decisions.items() if row not in self.decisions}
        if not new:
            return self
        rows, given = np.array(list(new), dtype=np.int64), self.evidence.given
        right = np.array([class_names[given[row]] == label for row, label in new.items()])
        place, wrong = np.zeros(len(given)), self.confidence.copy()
        place[rows] = np.where(right, 1, -1)
        wrong[rows[right]] = 0
        if self.weakness is None:
            wrong[rows[~right]] = 1
        order: Index = self.order[np.argsort(place[self.order], kind="stable")]
        return replace(
            self,
            evidence=_with_labels(self.evidence, new, class_names),
            confidence=wrong,
            score=_score(order),
            order=order,
            suspects=int((wrong >= SUSPECT_FROM).sum()),
            decisions={**new, **self.decisions},
        )


def _with_labels(found: Evidence, decisions: Mapping[int, str | None], class_names: Sequence[str]) -> Evidence:
    """Return the evidence with the right labels as suggestions, where they are classes and differ from the given."""
    checked = replace(found, suggested=found.suggested.copy())
    place = {name: label for label, name in enumerate(class_names)}
    for row, name in decisions.items():
        if name in place and place[name] != checked.given[row]:
            checked.suggested[row] = place[name]
    return checked


def rank(scores: SampleScores) -> Ranking:
    """Rank all samples by suspicion."""
    seen = predictions(scores)
    sizes = np.bincount(seen.given, minlength=seen.num_classes)
    if is_out_of_fold(scores):
        errors = fit_random_errors(scores)
        weakness = out_of_fold_weakness(errors, len(scores)) or systematic_errors(errors, *contradicted_clearly(seen))
        transition = out_of_fold_transition(seen, errors)
        found = evidence(scores, seen, transition, temperature=errors.temperature)
        doubt = _without_rarity(found.doubt, sizes[seen.given])
        estimated = estimate_out_of_fold(scores, errors, transition)
        wrong = out_of_fold_confidence(doubt, estimated.noise_rate)
    else:
        found = evidence(scores, seen, first_transition(seen))
        doubt = _without_rarity(comparable(found.doubt, found.held_out), sizes[seen.given])
        estimated = estimate(seen, doubt)
        weakness = held_out_weakness(scores, np.flatnonzero(seen.held_out), estimated)
        wrong = confidence(doubt, estimated.noise_rate)
    order: Index = np.argsort(-doubt, kind="stable")
    ranking = Ranking(
        evidence=found,
        estimate=estimated,
        confidence=wrong,
        score=_score(order),
        order=order,
        suspects=int((wrong >= SUSPECT_FROM).sum()),
        rare=tuple(np.flatnonzero((sizes > 0) & (sizes < MIN_CLASS_SAMPLES)).tolist()),
    )
    return ranking if weakness is None else ranking.without_estimates(weakness)


def _score(order: Index) -> Floats:
    score = np.empty(len(order))
    score[order] = 1 - np.arange(len(order)) / max(1, len(order))
    return score


def _without_rarity(doubt: Floats, class_size: NDArray[np.int64]) -> Floats:
    """Limit the doubt of samples of rare classes to the median doubt."""
    rare = class_size < MIN_CLASS_SAMPLES
    if not rare.any() or rare.all():
        return doubt
    return np.where(rare, np.minimum(doubt, np.median(doubt[~rare])), doubt)
