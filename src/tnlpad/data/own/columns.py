"""Which column of a table holds what, by the names that people use."""

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from tnlpad.data.errors import DataError

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
