"""Evidence about each given label, from the mean probabilities c over networks and epochs.

The first pass over the probabilities finds each sample's prediction. From the predictions, `estimate.py` estimates the
transition matrix T, T_ij = P(given j | true i). The second pass applies Bayes' rule: with c as the probabilities of
the true class, the odds that the given label g is wrong are

    Σ_{i ≠ g} c_i T_ig  :  c_g T_gg.

Doubt is the logarithm of these odds. So a class raises the doubt only if T says that its samples are often given the
label g. The class with the largest term is suggested in place of g.

Out-of-fold probabilities are sharpened first: see `random_errors.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.memory import row_slices
from tnlpad.records.scores import SampleScores
from tnlpad.suspects.random_errors import is_out_of_fold, log_probabilities, sharpened
from tnlpad.types import Labels, Transition

Floats = NDArray[np.float64]
Columns = tuple[NDArray[Any], ...]
# Probability that is added over all classes: a mean over a few epochs cannot tell a thousandth from zero.
SMOOTHING = 0.01
TINY = 1e-300  # a logarithm of zero is infinite


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """Predictions of the network, one value per sample.

    Args:
        given: The given label.
        predicted: The most probable label.
        lead: Probability of the most probable label minus that of the second.
        held_out: Whether the sample was held out from training.
        num_classes: Number of classes.
    """

    given: Labels
    predicted: Labels
    lead: Floats
    held_out: NDArray[np.bool_]
    num_classes: int

    def __len__(self) -> int:
        return len(self.given)


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Evidence about the given labels, one value per sample.

    Args:
        given: The given label.
        suggested: The most likely label if the given one is wrong.
        doubt: Logarithm of the odds that the given label is wrong.
        given_probability, suggested_probability: Mean probabilities of the two labels.
        held_out: Whether the sample was held out from training.
    """

    given: Labels
    suggested: Labels
    doubt: Floats
    given_probability: Floats
    suggested_probability: Floats
    held_out: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.given)


def predictions(scores: SampleScores) -> Predictions:
    """Make the first pass."""

    def predict(rows: NDArray[np.float32], given: Labels) -> Columns:
        every, predicted = np.arange(len(rows)), rows.argmax(1)
        rest = rows.copy()
        rest[every, predicted] = -1
        return given, predicted, rows[every, predicted].astype(float) - rest.max(1)

    given, predicted, lead = _map_rows(scores, predict)
    return Predictions(
        given=given,
        predicted=predicted,
        lead=lead,
        held_out=(np.asarray(scores.columns["part"]) == "validation") | is_out_of_fold(scores),
        num_classes=len(scores.class_names),
    )


def evidence(
    scores: SampleScores, seen: Predictions, transition: Transition, *, temperature: float | None = None
) -> Evidence:
    """Make the second pass, with the transition matrix that was estimated after the first.

    Args:
        scores: The probabilities.
        seen: The first pass.
        transition: The matrix T.
        temperature: Exponent of out-of-fold probabilities; None takes those of one training as they are.
    """
    into = np.ascontiguousarray(transition.T, dtype=np.float32)  # into[j, i]: from true i into given j

    def doubt_rows(rows: NDArray[np.float32], given: Labels) -> Columns:
        every = np.arange(len(rows))
        if temperature is None:
            terms = rows + np.float32(SMOOTHING / rows.shape[1])
        else:
            terms = sharpened(log_probabilities(rows), temperature)
        terms *= into[given]
        right = np.maximum(terms[every, given].astype(float), TINY)
        terms[every, given] = 0
        suggested = terms.argmax(1)
        doubt = np.log(np.maximum(terms.sum(1, dtype=float), TINY)) - np.log(right)
        return suggested, doubt, rows[every, given].astype(float), rows[every, suggested].astype(float)

    suggested, doubt, given_probability, suggested_probability = _map_rows(scores, doubt_rows)
    return Evidence(
        given=seen.given,
        suggested=suggested,
        doubt=doubt,
        given_probability=given_probability,
        suggested_probability=suggested_probability,
        held_out=seen.held_out,
    )


def _map_rows(scores: SampleScores, function: Callable[[NDArray[np.float32], Labels], Columns]) -> Columns:
    """Apply a function to a few rows at a time, since the probabilities may be a memory map larger than memory."""
    given = np.asarray(scores.columns["given"], dtype=np.int64)
    parts = [
        function(np.asarray(scores.probabilities[part]), given[part])
        for part in row_slices(len(given), len(scores.class_names))
    ]
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))
