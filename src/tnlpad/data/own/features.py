"""Which columns of a table are features, and their numbers.

A column is one if it has a number. What it has beside numbers must be missing values, so that a slip of the pen is told
of; a column without any number (names, comments, dates) is not trained on, and named.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.errors import DataError
from tnlpad.data.own.columns import how_to_ignore, is_no_feature, listed
from tnlpad.data.own.numbers import holds_numbers, numbers_of
from tnlpad.data.own.paths import is_image_name

Table = Mapping[str, Any]  # columns: lists, or arrays of numbers
FEWEST_COUNTED = 10  # rows, of which it is no chance that they are numbered


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """Numbers, float32 of shape rows × columns, under the columns' names; and what their owner should know."""

    columns: tuple[str, ...]
    numbers: NDArray[np.float32]
    notes: tuple[str, ...]


def features_of(table: Table, where: Path, wanted: Sequence[str] = ()) -> Features | None:
    """The features among columns that have no other use; None if there are none.

    Args:
        table: Those columns.
        where: What messages call it.
        wanted: The names of the features, whatever else there is; all columns that can be features when not given.
    """
    columns = _wanted(table, where, wanted) if wanted else _all_features(table, where)
    if not columns:
        return None
    numbers = np.stack([numbers_of(table[name], name, where) for name in columns], axis=1)
    taken = set(columns)
    ignored = [name for name in table if name not in taken]
    about = (_on_ignored(ignored), _on_counters(columns, numbers), _on_gaps(columns, numbers))
    notes = _on_unwanted(ignored) if wanted else chain.from_iterable(about)
    return Features(columns=tuple(columns), numbers=numbers, notes=tuple(notes))


def _all_features(table: Table, where: Path) -> Sequence[str]:
    candidates = {name: values for name, values in table.items() if not is_no_feature(name)}
    numeric = [name for name, values in candidates.items() if holds_numbers(values)]
    texts = candidates.keys() - set(numeric)
    if images := next((name for name in candidates if name in texts and _are_image_names(table[name])), None):
        raise DataError(
            f"{where}: column {images[:80]!r} holds the names of image files: call it `path`, or remove it."
        )
    return numeric


def _are_image_names(values: Any) -> bool:
    names = [str(value) for value in values if value is not None and str(value).strip()]
    return bool(names) and all(map(is_image_name, names))


def _wanted(table: Table, where: Path, wanted: Sequence[str]) -> Sequence[str]:
    missing = [name for name in wanted if name not in table]
    if missing:
        others = f" (and {len(missing) - 1:,} others)" if len(missing) > 1 else ""
        raise DataError(
            f"{where} has no column {missing[0][:80]!r}{others}, and this run was trained on one; it has "
            f"{listed(table)}. Add it, or give the column that name."
        )
    return wanted


def _on_unwanted(names: Sequence[str]) -> Iterator[str]:
    if names:
        yield f"columns that this run was not trained on are ignored: {_quoted(names)}."


def _on_ignored(names: Sequence[str]) -> Iterator[str]:
    if others := [name for name in names if is_no_feature(name)]:
        yield f"columns that are not trained on, since they number the rows or hold other labels: {_quoted(others)}."
    if texts := [name for name in names if not is_no_feature(name)]:
        yield (
            f"columns that are not trained on, since there is no number in them: {_quoted(texts)}. Encode them as "
            "numbers if they say something about the classes."
        )


def _on_counters(columns: Sequence[str], numbers: NDArray[np.float32]) -> Iterator[str]:
    """In a table that is sorted by class, the number of a row would give away its label."""
    if len(numbers) >= FEWEST_COUNTED:
        counters = [name for name, each in zip(columns, numbers.T, strict=True) if (np.diff(each) == 1).all()]
        if counters:
            yield (
                f"columns that count the rows one by one are trained on: {_quoted(counters)}. Unless that says "
                f"something about the classes, leave them out: {how_to_ignore(counters[0])}."
            )


def _on_gaps(columns: Sequence[str], numbers: NDArray[np.float32]) -> Iterator[str]:
    """A column that is mostly empty would take most rows with it."""
    missing = ~np.isfinite(numbers)
    if missing.any():
        most = int(missing.sum(0).argmax())
        yield (
            f"{missing.any(1).sum():,} of {len(numbers):,} rows lack a number and are left out, "
            f"{missing[:, most].sum():,} of them for want of {columns[most][:80]!r}: fill in what is missing, or "
            f"leave the column out: {how_to_ignore(columns[most])}."
        )


def _quoted(names: Sequence[str]) -> str:
    return listed([repr(name[:80]) if name else "one without a name" for name in names])
