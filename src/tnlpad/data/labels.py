"""Class indices as they come out of files: whole numbers within the range of the classes, or an error."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.errors import DataError
from tnlpad.types import Labels


def labels_from_array(array: NDArray[Any], *, num_classes: int, where: Path | str) -> Labels:
    """The labels as int64, refused unless one-dimensional, whole and below the number of classes."""
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise DataError(
            f"{where}: labels are {array.dtype} of shape {array.shape}; they must be one whole number per image."
        )
    wrong = np.flatnonzero((array < 0) | (array >= num_classes))
    if wrong.size:
        raise DataError(
            f"{where}: label {array[wrong[0]]} of image {wrong[0]} is out of range; with {num_classes} classes, labels "
            f"are 0 to {num_classes - 1}."
        )
    return array.astype(np.int64)


def labels_from_list(values: Sequence[object], *, num_classes: int, where: Path | str) -> Labels:
    """The same for a list, whose entries may be anything."""
    for index, value in enumerate(values):
        if type(value) is not int or not 0 <= value < num_classes:
            shown = value if type(value) is int and abs(value) < 10**9 else f"({type(value).__name__})"
            raise DataError(
                f"{where}: label {shown} of image {index} is out of range; with {num_classes} classes, labels are "
                f"whole numbers from 0 to {num_classes - 1}."
            )
    return np.array(values, dtype=np.int64)
