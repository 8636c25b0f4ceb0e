"""Labels: from what the data say to places in a list of classes."""

import math
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tnlpad.errors import DataError
from tnlpad.types import Labels

Label = str | int  # a name, or the place of one where names are given beside the labels
FEWEST_TO_JUDGE = 10  # samples, of which it is no chance that most are alone in their class
WORDS_FOR_NOTHING = {"na", "n/a", "#n/a", "<na>", "nan", "null", "none"}  # as programs write a field without a value


def label_as_given(value: Any, where: Path | str) -> Label | None:
    """A label as text or whole number; None where there is none."""
    if hasattr(value, "item") and not isinstance(value, (np.datetime64, np.timedelta64)):  # of NumPy or torch
        value = value.item()
    if isinstance(value, bytes):
        value = _text(value, where)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float):
        if not value.is_integer():
            raise DataError(
                f"{where}: the label {value} is a number with a fraction. Labels are classes: give each a name, or "
                "a whole number."
            )
        return int(value)
    if isinstance(value, (bool, int)):
        return int(value)
    if not isinstance(value, str):
        raise DataError(f"{where}: a label is a {type(value).__name__}: give one text or whole number per sample.")
    return value.strip() or None


def known_labels(class_names: Sequence[str] | None) -> Collection[Label] | None:
    """The labels that stand for a class where the classes are given: places and names; None where any label does."""
    return None if class_names is None else {*range(len(class_names)), *class_names}


def reason_no_class(label: Label | None, known: Collection[Label] | None) -> str | None:
    """Why a label stands for none of the classes; None if it stands for one."""
    if label is None:
        return "has no label"
    if known is None or label in known:
        return None
    if isinstance(label, str):
        return f"has the label {label[:80]!r}, which is not the name of a class"
    return f"has the label {label}, and there are {sum(isinstance(each, int) for each in known)} classes"


def encoded(labels: Sequence[Label], class_names: tuple[str, ...] | None) -> tuple[Labels, tuple[str, ...]]:
    """Labels as places in the list of classes; numbers in the order of their size, other names in that of letters."""
    if class_names is None:
        names = [str(label) for label in labels]
        labels, class_names = names, tuple(sorted(set(names), key=_order))
    place = {name: number for number, name in reversed(list(enumerate(class_names)))}
    return np.array([place[each] if isinstance(each, str) else each for each in labels], dtype=np.int64), class_names


def notes_on_classes(labels: Labels, class_names: Sequence[str]) -> Iterator[str]:
    """What is odd about classes, and may be a mistake."""
    different = len(np.unique(labels))
    if len(labels) >= FEWEST_TO_JUDGE and different > len(labels) / 2:
        yield f"{len(labels):,} samples have {different:,} different labels: do these name samples rather than classes?"
    nothing = [name for name in class_names if name.lower() in WORDS_FOR_NOTHING]
    if nothing:
        yield f"words for no value count as classes ({', '.join(nothing)}): leave labels empty where there is none."
    numbers = [number for number in map(as_number, class_names) if number is not None]
    fraction = next((number for number in numbers if number != int(number)), None)
    if fraction is not None and len(numbers) == len(class_names):
        yield f"every label is a number, such as {fraction:g}, and each number counts as a class: is it a measurement?"


def as_number(text: str) -> int | float | None:
    """The number that a text is; None if it is none, or not a finite one."""
    if "_" in text:  # which Python allows within a number
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return number if math.isfinite(number := float(text)) else None
    except ValueError:
        return None


def _text(value: bytes, where: Path | str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: a label is bytes that are no text: give one text or whole number per sample."
        ) from error


def _order(name: str) -> tuple[bool, int, str]:
    number = name.removeprefix("-")
    whole = number.isascii() and number.isdigit() and len(number) < 19
    return (not whole, int(name) if whole else 0, name)
