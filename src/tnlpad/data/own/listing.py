"""What a reader finds in a person's data, before any image is looked at: one entry per sample, in a stable order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.errors import DataError
from tnlpad.data.own.labels import Label
from tnlpad.data.own.parts import Part

IN_MEMORY = Path("data")  # how messages call what a program holds: as the argument is called
Encoded = str | bytes  # an image as a path, or as the content of such a file


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
        further: Of a table of pictures, the columns that are not looked at, as an Arrow table.
        picture_column: What holds them there.
    """

    ids: Sequence[str]
    labels: Sequence[Label | None]
    parts: Sequence[Part] | None = None
    files: Sequence[Encoded] | None = None
    images: NDArray[np.uint8] | None = None
    features: NDArray[np.float32] | None = None
    columns: tuple[str, ...] = ()
    class_names: tuple[str, ...] | None = None
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    further: Any = None
    picture_column: str | None = None


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
            raise DataError(
                f"{where}: the id {name[:80]!r} is there twice, and an id stands for one sample. Make ids different, "
                "or leave them out."
            )
        seen.add(name)


def given_ids(values: Iterable[Any], where: Path | str, *, must_differ: bool = True) -> list[str]:
    """Ids as a column or an array has them: none missing, none twice; or where they need not differ, numbered."""
    ids = ["" if value is None else str(value) for value in values]
    if not must_differ:
        return unique(ids)
    if "" in ids:
        raise DataError(
            f"{where}: row {ids.index('')} (the first is 0) has no id. Give every sample one, or leave ids out."
        )
    require_unique(ids, where)
    return ids


def numbered_columns(count: int) -> tuple[str, ...]:
    """What columns are called that have no names."""
    return tuple(f"column {number}" for number in range(count))
