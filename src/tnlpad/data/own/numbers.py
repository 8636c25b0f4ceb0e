"""A column of a table as numbers."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.errors import DataError
from tnlpad.data.own.columns import how_to_ignore
from tnlpad.data.own.labels import WORDS_FOR_NOTHING

WORDS = dict.fromkeys(("", *WORDS_FOR_NOTHING), math.nan) | {"true": 1.0, "false": 0.0}
ANOTHER_SPELLING = re.compile(r"[+-]?[\d.,'\s]*\d\s*[%€$£]?")  # of a number: 1,5 or 1 000 or 12 %


def holds_numbers(values: Any) -> bool:
    """Whether one of the values is a number, or another spelling of one; a column without values may be of any kind."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return True
    return len(values) == 0 or any(map(_is_number, values))


def numbers_of(values: Any, name: str, where: Path) -> NDArray[np.float32]:
    """The column as numbers; what is missing becomes NaN, and what is no number is refused."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        numbers = values.astype(np.float64)
    else:
        numbers = np.array([_number(value, name, row, where) for row, value in enumerate(values)], dtype=np.float64)
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)


def _is_number(value: Any) -> bool:
    try:
        return not math.isnan(_plain(value))
    except (TypeError, ValueError):
        return isinstance(value, str) and ANOTHER_SPELLING.fullmatch(value.strip()) is not None


def _number(value: Any, name: str, row: int, where: Path) -> float:
    try:
        return _plain(value)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{where}: {str(value)[:80]!r} in column {name[:80]!r}, row {row} (the first is 0), is no number. Features "
            "are numbers, with a point before decimals, and empty where there is none: correct or encode the column, "
            f"or leave it out: {how_to_ignore(name)}."
        ) from error


def _plain(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, str):
        return _written(value)
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
