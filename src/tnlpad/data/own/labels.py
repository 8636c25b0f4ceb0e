"""Convert labels as given to indices of classes."""

import math
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tnlpad.errors import DataError
from tnlpad.types import Labels

Label = str | int  # name of a class, or its index if class names are given
MAX_DIGITS = 19  # of a whole number: more may not fit into 64 bits
MAX_GROUPS_NAMED = 3  # of classes whose names hardly differ
MIN_SAMPLES_TO_JUDGE = 10  # below that, many classes of one sample may be a coincidence
NULL_TOKENS = {"na", "n/a", "#n/a", "<na>", "nan", "null", "none"}  # how programs write a missing value
ONE_LABEL = "Labels are classes: give one text or whole number per sample."


def label_as_given(value: Any, where: Path | str) -> Label | None:
    """Return a label as text or whole number; None if it is missing."""
    if hasattr(value, "item") and not isinstance(value, (np.datetime64, np.timedelta64)):  # of NumPy or torch
        try:
            value = value.item()
        except (ValueError, RuntimeError) as error:  # of an array, of a tensor
            shape = tuple(value.shape)
            raise DataError(
                f"{where}: a label has shape {shape}. {ONE_LABEL} Of one-hot rows, that is .argmax(1)."
            ) from error
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{where}: a label is bytes that are not text. {ONE_LABEL}") from error
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float):
        if not value.is_integer():
            raise DataError(f"{where}: the label {value} is a number with a fraction. {ONE_LABEL}")
        return int(value)
    if isinstance(value, (bool, int)):
        return int(value)
    if not isinstance(value, str):
        raise DataError(f"{where}: a label is a {type(value).__name__}. {ONE_LABEL}")
    return value.strip() or None


def known_labels(class_names: Sequence[str] | None) -> Collection[Label] | None:
    """Return the allowed labels, indices and names, if class names are given; None if any label is allowed."""
    return None if class_names is None else {*range(len(class_names)), *class_names}


def label_problem(label: Label | None, known: Collection[Label] | None) -> str | None:
    """Return why a label is not one of the classes; None if it is."""
    if label is None:
        return "the label is missing"
    if known is None or label in known:
        return None
    if isinstance(label, str):
        return f"the label {label[:80]!r} is not the name of a class"
    return f"the label is {label}, but there are {sum(isinstance(each, int) for each in known)} classes"


def further_label(name: str, labels: Iterable[Any]) -> Label:
    """Return the value of a class that is not among the labels: a number if all of them are numbers and it is one."""
    given = [label.item() if isinstance(label, np.generic) else label for label in labels if label is not None]
    numbers = all(isinstance(label, (int, float)) and not isinstance(label, bool) for label in given)
    number = as_number(name)
    return number if numbers and isinstance(number, int) and str(number) == name else name


def encoded(labels: Sequence[Label], class_names: tuple[str, ...] | None) -> tuple[Labels, tuple[str, ...]]:
    """Return labels as indices of classes, and the class names: whole numbers by value, then others by letters."""
    if class_names is None:
        names = [str(label) for label in labels]
        labels, class_names = names, tuple(sorted(set(names), key=_order))
    place = {name: number for number, name in reversed(list(enumerate(class_names)))}
    return np.array([place[each] if isinstance(each, str) else each for each in labels], dtype=np.int64), class_names


def _order(name: str) -> tuple[bool, int, str]:
    number = name.removeprefix("-")
    whole = number.isascii() and number.isdigit() and len(number) < MAX_DIGITS
    return (not whole, int(name) if whole else 0, name)


def notes_on_classes(labels: Labels, class_names: Sequence[str]) -> Iterator[str]:
    """Yield remarks on classes that may be a mistake."""
    different = len(np.unique(labels))
    if len(labels) >= MIN_SAMPLES_TO_JUDGE and different > len(labels) / 2:
        yield f"{len(labels):,} samples have {different:,} different labels: do these name samples rather than classes?"
    missing = [name for name in class_names if name.lower() in NULL_TOKENS]
    if missing:
        yield f"words for a missing value count as classes ({', '.join(missing)}): leave missing labels empty."
    if groups := alike(class_names):
        more = ["…"] if len(groups) > MAX_GROUPS_NAMED else []
        shown = "; ".join([*map(_shown, groups[:MAX_GROUPS_NAMED]), *more])
        yield f"names of classes that hardly differ: {shown}. Are they the same class?"
    numbers = [number for number in map(as_number, class_names) if number is not None]
    fraction = next((number for number in numbers if number != int(number)), None)
    if fraction is not None and len(numbers) == len(class_names):
        yield f"every label is a number, such as {fraction:g}, and each number counts as a class: is it a measurement?"


def alike(class_names: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Return groups of names that are the same number, or differ only in case, spaces, hyphens or what is invisible."""
    groups: dict[str | int | float, list[str]] = defaultdict(list)
    for name in class_names:
        number = as_number(name)
        plain = unicodedata.normalize("NFKC", name).casefold()
        visible = "".join(each for each in plain if each not in " _-" and unicodedata.category(each) != "Cf")
        groups[visible if number is None else number].append(name)
    return tuple(tuple(sorted(names)) for names in groups.values() if len(names) > 1)


def _shown(names: Sequence[str]) -> str:
    look_alike = len({unicodedata.normalize("NFC", name) for name in names}) < len(names)
    return ", ".join(ascii(name) if look_alike else repr(name) for name in names)


def as_number(text: str) -> int | float | None:
    """Convert a text to a finite number; return None if it is not one."""
    if "_" in text:  # which Python allows within a number
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    if not math.isfinite(number):  # as whole numbers beyond 1e308 are
        return None
    try:
        return int(text)
    except ValueError:
        return number
