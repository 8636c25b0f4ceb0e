"""What can be seen of a row of numbers: where it lies between the class that it was given and the one suggested.

A row has no picture, so its page shows a few columns, those in which it is nearer to the suggested class than to the
given one by most. What is typical of a class is the median of the rows with that label: it hardly moves while fewer
than half of them are wrong.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tnlpad.suspects.evidence import Floats
from tnlpad.types import Labels

MOST_COLUMNS = 4


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A row's number in one column beside what is typical of both classes."""

    column: str
    value: float
    given: float
    suggested: float


class TypicalNumbers:
    """Rows of numbers by their ids, and what is typical of each class.

    Args:
        features: Samples × columns.
        labels: As given, one for each row.
        columns: Their names.
        ids: One for each row.
    """

    def __init__(
        self, features: NDArray[np.float32], labels: Labels, columns: Sequence[str], ids: Sequence[str]
    ) -> None:
        self.features, self.labels, self.columns = features, labels, columns
        self.place: Mapping[str, int] = {name: row for row, name in enumerate(ids)}
        self.medians: dict[int, Floats] = {}

    def compared(self, name: str, given: int, suggested: int) -> list[Comparison]:
        """The columns that speak most for the suggested label, the most telling first."""
        row = self.features[self.place[name]].astype(np.float64)
        usual, other = self._typical(given), self._typical(suggested)
        nearer = (np.abs(row - usual) - np.abs(row - other)) / self._spread
        chosen = np.argsort(-nearer, kind="stable")[:MOST_COLUMNS]
        return [
            Comparison(
                column=self.columns[each],
                value=float(row[each]),
                given=float(usual[each]),
                suggested=float(other[each]),
            )
            for each in chosen
        ]

    def _typical(self, label: int) -> Floats:
        if label not in self.medians:
            rows = self.features[self.labels == label]
            self.medians[label] = np.median(rows if len(rows) else self.features, axis=0).astype(np.float64)
        return self.medians[label]

    @cached_property
    def _spread(self) -> Floats:
        """Of every column; one that is the same everywhere says nothing, whatever it is divided by."""
        spread: Floats = self.features.std(0, dtype=np.float64)
        return np.where(spread > 0, spread, 1.0)
