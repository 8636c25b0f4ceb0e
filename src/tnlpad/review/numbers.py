"""The columns of numbers of all samples by position: those by which a sample stands out, and the first ones."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tnlpad.suspects.pictures import TypicalNumbers
from tnlpad.types import Index, Labels

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset

MAX_VALUES = 12


class Numbers:
    """Columns of numbers, with gaps or without.

    Args:
        features: Samples × columns, by position.
        given: The given labels.
        columns: Names of the columns.
    """

    def __init__(self, features: NDArray[np.float32], given: Labels, columns: tuple[str, ...]) -> None:
        self.features, self.columns = features, columns
        self._typical = TypicalNumbers(features, given, columns)

    def compared(self, at: int, given: int, suggested: int) -> list[tuple[str, float, float, float]]:
        """Return the columns that speak most for the suggested label: name, value, and what is typical of both."""
        found = self._typical.compared(at, given, suggested)
        return [(each.column, each.value, each.given, each.suggested) for each in found]

    def values(self, at: int) -> list[tuple[str, str]]:
        """Return the first columns and their values."""
        some = zip(self.columns[:MAX_VALUES], self.features[at, :MAX_VALUES].tolist(), strict=True)
        return [(name, f"{value:.6g}") for name, value in some if value == value]


def numbers_of(data: "OwnDataset", places: Index, given: Labels) -> Numbers | None:
    """Return the columns of numbers of own data; None if they have none.

    Args:
        data: The data.
        places: Place of each sample in them, by position.
        given: The given labels, by position.
    """
    if data.table is not None:
        return Numbers(data.table.numbers[places], given, data.table.number_columns)
    return None if data.features is None else Numbers(data.features[places], given, data.columns)
