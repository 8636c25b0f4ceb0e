"""What the mean probabilities say about every given label, in one pass over them, a few rows at a time.

The probabilities are those of σ, means over the epochs until the chosen one. A label is in doubt as far as another one
is more probable: doubt = highest probability of another label - probability of the given one, so 0 is a tie.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tnlpad.records.scores import SampleScores
from tnlpad.types import Labels

Floats = NDArray[np.float64]
ROWS_AT_ONCE = 8192


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """One number per sample under each name.

    Args:
        given: The label as it was given.
        suggested: The most probable label, which may be the given one.
        doubt: How much more probable another label is, from -1 to 1.
        lead: Of the most probable label before the second, in probability: how clear the case is.
        given_probability, suggested_probability: Their probabilities.
        held_out: Whether the sample was held out from training.
        num_classes: How many there are.
    """

    given: Labels
    suggested: Labels
    doubt: Floats
    lead: Floats
    given_probability: Floats
    suggested_probability: Floats
    held_out: NDArray[np.bool_]
    num_classes: int

    def __len__(self) -> int:
        return len(self.given)


def evidence(scores: SampleScores) -> Evidence:
    """Read the probabilities once."""
    given = np.asarray(scores.columns["given"], dtype=np.int64)
    parts = [
        _of_rows(np.asarray(scores.probabilities[start : start + ROWS_AT_ONCE]), given[start : start + ROWS_AT_ONCE])
        for start in range(0, len(given), ROWS_AT_ONCE)
    ]
    suggested, given_probability, other, first, second = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Evidence(
        given=given,
        suggested=suggested,
        doubt=other - given_probability,
        lead=first - second,
        given_probability=given_probability,
        suggested_probability=first,
        held_out=np.asarray(scores.columns["part"]) == "validation",
        num_classes=len(scores.class_names),
    )


def _of_rows(rows: NDArray[np.float32], given: Labels) -> tuple[NDArray[np.generic], ...]:
    """Most probable label; probabilities of the given label, of the best other one, of the two most probable ones."""
    every = np.arange(len(rows))
    suggested = rows.argmax(1)
    rest = rows.copy()
    rest[every, suggested] = -1
    first, second = rows[every, suggested].astype(float), rest.max(1).astype(float)
    of_given = rows[every, given].astype(float)
    other = np.where(suggested == given, second, first)
    return suggested, of_given, other, first, second
