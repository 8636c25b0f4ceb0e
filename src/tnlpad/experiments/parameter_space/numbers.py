"""Points along a path, and numbers of them as plain data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]  # one, or of a path a row for the start and one after every epoch
DECIMALS = 5


def distances_to(place: Points, path: Points) -> Points:
    """Of every point of a path."""
    distances: Points = np.linalg.norm(path - place, axis=1)
    return distances


def first_best(accuracies: Sequence[float] | Points) -> int:
    """The first epoch of the highest accuracy; element 0 is the start, which nobody chooses."""
    return int(np.argmax(np.asarray(accuracies)[1:])) + 1


def rounded(values: Any) -> Any:
    """Plain lists; a number that there is none of is None."""
    array = np.asarray(values, dtype=float)
    if array.ndim == 0:
        return None if np.isnan(array) else round(float(array), DECIMALS)
    return [rounded(value) for value in array]
