"""What the mean probabilities say about every sample, in two passes over them, a few rows at a time.

The probabilities c are means over σ and w and over the epochs until the chosen one. The first pass asks what is
predicted, and how clearly; from that the transition matrix T is estimated (`estimate.py`). The second one asks about
the given label g. By Bayes' rule, with c for what is known of the true class, the odds that it is wrong are

    Σ_{i ≠ g} c_i T_ig  :  c_g T_gg,

and its doubt is their logarithm. So another class counts as far as its labels do become g: where each class is taken
for one other, as under pairflip noise, the margin before all others says much less, and where errors go anywhere, a
sample that two classes compete for is no suspect. The likeliest other class, that of the largest term, is suggested.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.records.scores import SampleScores
from tnlpad.types import Labels, Transition

Floats = NDArray[np.float64]
Columns = tuple[NDArray[Any], ...]
ROWS_AT_ONCE = 8192
UNSEEN = 0.01  # of the probability, shared by all classes: a mean over a few epochs cannot tell a thousandth from none


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """One number per sample under each name.

    Args:
        given: The label as it was given.
        predicted: The most probable label.
        lead: Of the most probable label before the second, in probability: how clear the case is.
        held_out: Whether the sample was held out from training.
        num_classes: How many there are.
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
    """One number per sample under each name.

    Args:
        given: The label as it was given.
        suggested: The likeliest one if the given one is wrong.
        doubt: The logarithm of the odds that it is wrong.
        given_probability, suggested_probability: What the network gives them.
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
    """The first pass."""
    predicted, lead = _by_rows(scores, _predicted)
    return Predictions(
        given=_given(scores),
        predicted=predicted,
        lead=lead,
        held_out=np.asarray(scores.columns["part"]) == "validation",
        num_classes=len(scores.class_names),
    )


def evidence(scores: SampleScores, seen: Predictions, transition: Transition) -> Evidence:
    """The second pass, after what the first has seen; transition[i, j] = P(given j | true i)."""
    becomes = np.ascontiguousarray(transition.T, dtype=np.float32)  # a row for each given label
    suggested, doubt, of_given, of_suggested = _by_rows(scores, lambda rows, given: _judged(rows, given, becomes))
    return Evidence(
        given=seen.given,
        suggested=suggested,
        doubt=doubt,
        given_probability=of_given,
        suggested_probability=of_suggested,
        held_out=seen.held_out,
    )


def _given(scores: SampleScores) -> Labels:
    return np.asarray(scores.columns["given"], dtype=np.int64)


def _by_rows(scores: SampleScores, of_rows: Callable[[NDArray[np.float32], Labels], Columns]) -> Columns:
    given = _given(scores)
    parts = [
        of_rows(np.asarray(scores.probabilities[start : start + ROWS_AT_ONCE]), given[start : start + ROWS_AT_ONCE])
        for start in range(0, len(given), ROWS_AT_ONCE)
    ]
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _predicted(rows: NDArray[np.float32], given: Labels) -> Columns:
    every, predicted = np.arange(len(rows)), rows.argmax(1)
    rest = rows.copy()
    rest[every, predicted] = -1
    return predicted, rows[every, predicted].astype(float) - rest.max(1)


def _judged(rows: NDArray[np.float32], given: Labels, becomes: NDArray[np.float32]) -> Columns:
    every, floor = np.arange(len(rows)), np.float32(UNSEEN / rows.shape[1])
    terms = becomes[given]
    terms *= rows + floor
    right = terms[every, given].astype(float)
    terms[every, given] = 0
    suggested = terms.argmax(1)
    doubt = np.log(terms.sum(1, dtype=float)) - np.log(right)
    return suggested, doubt, rows[every, given].astype(float), rows[every, suggested].astype(float)
