"""Suspect labels in order, the most suspicious first.

Samples are ordered by doubt (`evidence.py`), made comparable between those trained on and those held out
(`calibrate.py`). That one score was chosen with seed 1 on digits and on parts of MNIST and Fashion-MNIST, with wrong
labels of three kinds. Against the margin before all other labels it wins wherever some classes are taken for certain
others (pairflip and instance noise), most where much was memorised, and is level elsewhere; the probability of the
given label alone is as good under symmetric noise and far worse otherwise. It needs a matrix that is about right: where
a few hundred samples and a weak network give a wrong one, the margin is better. Probabilities of σ and of w averaged
are about as good as those of the better of the two, which is w where there are few samples. Tried without success:
means to the end of training, single epochs, epochs weighted by accuracy, and a matrix from cleanlab's confident joint.
Of ways to compare parts, mean and spread were as good as quantiles and lost less to chance where few samples are held
out; a mixture fitted to each part failed there. `benchmarks/suspects.py` has the numbers of other seeds.
"""

from dataclasses import dataclass

import numpy as np

from tnlpad.records.scores import SampleScores
from tnlpad.suspects.calibrate import comparable, confidence
from tnlpad.suspects.estimate import Estimate, estimate, first_transition
from tnlpad.suspects.evidence import Evidence, Floats, evidence, predictions
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
        suspects: How many of them, from the start, are more likely wrong than right.
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
    seen = predictions(scores)
    found = evidence(scores, seen, first_transition(seen))
    doubt = comparable(found.doubt, found.held_out)
    estimated = estimate(seen, doubt)
    wrong = confidence(doubt, estimated.noise_rate)
    order: Index = np.argsort(-doubt, kind="stable")
    score = np.empty(len(order))
    score[order] = 1 - np.arange(len(order)) / max(1, len(order))
    return Ranking(
        evidence=found,
        estimate=estimated,
        confidence=wrong,
        score=score,
        order=order,
        suspects=int((wrong >= SUSPECT_FROM).sum()),
    )
