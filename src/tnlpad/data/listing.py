"""What a reader finds in a person's data, before any image is looked at: one entry per sample, in a stable order."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.errors import DataError

Part = Literal["train", "validation", "test"]
Encoded = str | bytes  # an image as a path, or as the content of such a file
PARTS: dict[str, Part] = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "validation",
    "eval": "validation",
    "test": "test",
    "testing": "test",
}


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A sample that is left out, and why."""

    id: str
    reason: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Listing:
    """Samples with their labels as given, and one of files, images or features.

    Args:
        ids: Unique and stable: the same sample has the same one next time.
        labels: Texts or whole numbers; None where there is none.
        parts: Of each sample, where the data say so.
        files: Images that are still to be decoded.
        images: Decoded ones: uint8 of shape samples × channels × height × width.
        features: Numbers: float32 of shape samples × columns, whose names are `columns`.
        class_names: Where labels are numbers that stand for names.
        problems: What was left out so far.
        notes: What the owner should know and nothing was left out for.
    """

    ids: Sequence[str]
    labels: Sequence[str | int | None]
    parts: Sequence[Part] | None = None
    files: Sequence[Encoded] | None = None
    images: NDArray[np.uint8] | None = None
    features: NDArray[np.float32] | None = None
    columns: tuple[str, ...] = ()
    class_names: tuple[str, ...] | None = None
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


def part_named(text: Any, where: Path | str) -> Part:
    """The part that a word such as `val` means; nothing said means training."""
    word = "" if text is None else str(text).strip().lower()
    if word and word not in PARTS:
        raise DataError(f"{where}: {str(text)[:80]!r} is no part of a dataset. Write train, validation or test.")
    return PARTS[word] if word else "train"


def label_as_given(value: Any, where: Path | str) -> str | int | None:
    """A label as text or whole number; None where there is none."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
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


def unique(ids: Sequence[str]) -> list[str]:
    """The same names, with a number behind those that come again."""
    taken, counts, result = set(ids), dict.fromkeys(ids, 0), []
    for name in ids:
        counts[name] += 1
        fresh = name
        while counts[name] > 1 and (fresh := f"{name}#{counts[name]}") in taken:
            counts[name] += 1
        taken.add(fresh)
        result.append(fresh)
    return result


def require_unique(ids: Sequence[str], where: Path | str) -> None:
    """An id stands for one sample."""
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise DataError(f"{where}: the id {name[:80]!r} is there twice, and an id stands for one sample.")
        seen.add(name)


def reason_not_below(path: str, folder: str) -> str | None:
    """Why a file is not one of this folder, links followed; None if it is. `folder` must be resolved itself."""
    try:
        real = os.path.realpath(path)
    except (OSError, ValueError) as error:
        return f"cannot be looked up: {error}"
    if real == folder or real.startswith(folder.rstrip(os.sep) + os.sep):
        return None
    link = "is a link that leads" if os.path.islink(path) else "lies"
    return f"{link} out of the folder {folder}"


def as_text(name: str) -> str | None:
    """A file's name if it is text that can be written down; names are bytes to the system, and not always UTF-8."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return None
    return name
