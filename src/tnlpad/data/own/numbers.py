"""A column of a table as numbers."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.errors import DataError
from tnlpad.data.own.labels import WORDS_FOR_NOTHING
from tnlpad.data.own.paths import is_image_name

WORDS = dict.fromkeys(("", *WORDS_FOR_NOTHING), math.nan) | {"true": 1.0, "false": 0.0}


def numbers_of(values: Any, name: str, where: Path) -> NDArray[np.float32]:
    """The column as numbers; what is missing becomes NaN, and what is no number is refused."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        numbers = values.astype(np.float64)
    else:
        numbers = np.array([_number(value, name, row, where) for row, value in enumerate(values)], dtype=np.float64)
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)


def _number(value: Any, name: str, row: int, where: Path) -> float:
    if value is None:
        return math.nan
    try:
        return _written(value) if isinstance(value, str) else _float(value)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{where}: {str(value)[:80]!r} in column {name[:80]!r}, row {row}, is no number. {_way_out(value)}"
        ) from error


def _float(value: Any) -> float:
    if isinstance(value, (np.datetime64, np.timedelta64)):  # which NumPy would take for a count of nanoseconds
        raise TypeError(value)
    return float(value)


def _written(text: str) -> float:
    try:
        return float(text if "_" not in text else "")  # Python allows 1_000
    except ValueError:
        word = text.strip().lower()
        if word not in WORDS:
            raise
        return WORDS[word]


def _way_out(value: Any) -> str:
    if isinstance(value, str) and is_image_name(value):
        return "If the column holds the paths of images, call it `path`."
    return "Features are numbers, with a point before decimals: encode the column, or remove it."
