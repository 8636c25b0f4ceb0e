"""Which column of a table holds what, by the names that people use.

A column of a table as numbers.

Which columns of a table are features, and their numbers.

A column is one if it has a number. What it has beside numbers must be missing values, so that a slip of the pen is told
of; a column without any number (names, comments, dates) is not trained on, and named.
"""

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.own.folder import is_image_name
from tnlpad.data.own.labels import WORDS_FOR_NOTHING
from tnlpad.errors import DataError

PATH_COLUMNS = ("path", "file", "filename", "file_name", "image_path")
LABEL_COLUMNS = ("label", "labels", "class", "target")
ID_COLUMNS = ("id", "sample_id")
SPLIT_COLUMNS = ("split", "part")
OTHER_LABELS = ("clean_label", "original_label")  # the truth or its past, beside the label to train on
# What pandas calls its index in a file; in CSV nothing.
ROW_NUMBERS = re.compile(r"(unnamed: \d+|__index_level_\d+__)?")
# How a column of classes ends that is called otherwise, the surest first.
LABEL_ENDINGS = (
    re.compile(r".*labels?"),
    re.compile(r"(.*[^a-z])?(class|target|category|type|species|outcome|y)"),
)
FRACTION = re.compile(r"[+-]?\d*\.\d+(e[+-]?\d+)?", re.IGNORECASE)


def column_called(known: Sequence[str], columns: Iterable[str]) -> str | None:
    """The column with the first of these names, whatever its capitals; None if there is none."""
    names: dict[str, str] = {}
    for name in columns:
        names.setdefault(_word(name), name)
    return next((names[name] for name in known if name in names), None)


def label_column(said: str | None, columns: Iterable[str], where: Path, *, labelled: bool = True) -> str | None:
    """The column of the classes: the one that was named, else one with a usual name.

    Where labels are needed and there is no such column, an error says which one it may be; else there is none.
    """
    names = list(columns)
    found = column_called(LABEL_COLUMNS, names) if said is None else _column_named(said, names)
    if found is None and labelled:
        missing = "no column `label`" if said is None else f"no column {said[:80]!r}"
        raise DataError(f"{where} has {missing}; it has {listed(names)}. {_way_out(names)}")
    return found


def is_no_feature(name: str) -> bool:
    """Whether a column without another use numbers the rows or holds labels, which would give away the one to learn."""
    word = _word(name)
    return word in (*LABEL_COLUMNS, *OTHER_LABELS) or ROW_NUMBERS.fullmatch(word) is not None


def without(ignored: Sequence[str], columns: Iterable[str], where: Path) -> list[str]:
    """The columns that are not to be ignored. A name without a column is refused: it may be a slip of the pen."""
    names = list(columns)
    found = {said: _column_named(said, names) for said in ignored}
    for said, name in found.items():
        if name is None:
            raise DataError(f"{where} has no column {said[:80]!r} to ignore; it has {listed(names)}.")
    return [name for name in names if name not in found.values()]


def how_to_ignore(name: str) -> str:
    """What to say so that a column is not looked at."""
    return f"--ignore {shlex.quote(name[:80])} (ignore= in Python)"


def require_different(names: Sequence[str], path: Path) -> None:
    """A name stands for one column."""
    if len(set(names)) < len(names):
        raise DataError(
            f"{path} has two columns of one name: they are {', '.join(names)[:200]}. Rename one; or if these are a "
            "row of data, write a first line that names the columns."
        )


def listed(columns: Iterable[str]) -> str:
    """Of many columns the first and the last, where labels tend to be."""
    names = [name[:80] for name in columns] or ["none at all"]
    return ", ".join(names if len(names) <= 8 else [*names[:4], "…", *names[-4:]])


def _word(name: str) -> str:
    return name.strip().lower()


def _column_named(said: str, names: Sequence[str]) -> str | None:
    return said if said in names else column_called((_word(said),), names)


def _way_out(names: Sequence[str]) -> str:
    """What to do about a table without a column of classes."""
    likely = _likely_label(names)
    if likely is None:
        return "Add one with the classes, beside `path` for images or columns of numbers."
    if names[0].startswith("#"):
        return "If that is a remark, remove it: the first line names the columns."
    if len(names) == 1 and not re.fullmatch(r"[\w-]+", likely):
        return "If that is more than one column, separate them with commas, semicolons, tabs or |."
    if any(FRACTION.fullmatch(name) for name in names):
        return "If that is a row of data, write a first line that names the columns."
    return f"Say which one has the classes, such as --label {shlex.quote(likely)} (label= in Python)."


def _likely_label(names: Sequence[str]) -> str | None:
    """The column that probably has the classes: by how its name ends, else the last of those without a use."""
    taken = (*PATH_COLUMNS, *ID_COLUMNS, *SPLIT_COLUMNS, *OTHER_LABELS)
    free = [name for name in names if _word(name) not in taken and not ROW_NUMBERS.fullmatch(_word(name))]
    telling = (name for ending in LABEL_ENDINGS for name in free if ending.fullmatch(_word(name)))
    return next(telling, free[-1] if free else None)


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
