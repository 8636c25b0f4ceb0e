"""Suspect labels in order, the most suspicious first.

Samples are ordered by doubt (`evidence.py`), made comparable between those trained on and those held out
(`calibrate.py`). That one score was chosen among those of `benchmarks/suspects.py`, on digits and a part of MNIST with
seed 1: margins and losses of σ and of w, until the chosen epoch, to the end and in single epochs; the mean of σ's and
w's probabilities; logarithms in place of probabilities; thresholds by class; forgetting and what γ absorbs, alone and
added by rank. None was better on average, and several are much worse under pairflip noise. Of ways to compare parts,
mean and spread were as good as quantiles and lost less to chance where few samples are held out; a mixture fitted to
each part failed there.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tnlpad.records.scores import SampleScores
from tnlpad.suspects.calibrate import comparable, confidence
from tnlpad.suspects.estimate import Estimate, estimate
from tnlpad.suspects.evidence import Evidence, Floats, evidence
from tnlpad.types import Index

SUSPECT_FROM = 0.5  # more likely wrong than right


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranking:
    """Every sample, judged.

    Args:
        evidence: What was seen of each.
        estimate: How many labels are wrong over all.
        confidence: The probability that each one's label is wrong.
        score: The share of all samples that are less suspicious, so 1 is the most suspicious.
        order: Places of the samples, the most suspicious first.
        suspects: How many of them, from the start, are more likely wrong than right and have another label to suggest.
    """

    evidence: Evidence
    estimate: Estimate
    confidence: Floats
    score: Floats
    order: Index
    suspects: int

    @property
    def suspect_share(self) -> float:
        """Of all samples."""
        return self.suspects / max(1, len(self.order))


def rank(scores: SampleScores) -> Ranking:
    """Judge every sample of a run."""
    found = evidence(scores)
    estimated = estimate(found)
    doubt = comparable(found.doubt, found.held_out)
    wrong = confidence(doubt, estimated.noise_rate)
    disputed = found.suggested != found.given
    # A label that nothing else is more probable than has no better one, however low its own probability is.
    suspected: NDArray[np.bool_] = (wrong >= SUSPECT_FROM) & disputed
    order: Index = np.lexsort((-doubt, ~suspected))
    score = np.empty(len(order))
    score[order] = 1 - np.arange(len(order)) / max(1, len(order))
    return Ranking(
        evidence=found,
        estimate=estimated,
        confidence=wrong,
        score=score,
        order=order,
        suspects=int(suspected.sum()),
    )
