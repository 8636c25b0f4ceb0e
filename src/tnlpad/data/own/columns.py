"""Find the columns of a table by the names that people use, and convert features to numbers.

`column_kinds` decides what each column holds. The values of a column of numbers must be numbers or missing, so that
typing errors are reported.
In a CSV file whose separator is not the comma, a comma may be the decimal mark of a column.
"""

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.own.folder import is_image_name
from tnlpad.data.own.labels import NULL_TOKENS
from tnlpad.errors import DataError

Table = Mapping[str, Any]  # columns: lists, or arrays of numbers
PATH_COLUMNS = ("path", "file", "filename", "file_name", "image_path")
LABEL_COLUMNS = ("label", "labels", "class", "target")
ID_COLUMNS = ("id", "sample_id")
SPLIT_COLUMNS = ("split", "part")
OTHER_LABEL_COLUMNS = ("clean_label", "original_label")
INDEX_COLUMN = re.compile(r"(unnamed: \d+|__index_level_\d+__)?")  # as pandas writes it; in CSV the name is empty
# Endings of other names for a label column, the most specific first.
LABEL_ENDINGS = (
    re.compile(r".*labels?"),
    re.compile(r"(.*[^a-z])?(class|target|category|type|species|outcome|y)"),
)
FRACTION = re.compile(r"[+-]?\d*\.\d+(e[+-]?\d+)?", re.IGNORECASE)
NUMBER_TOKENS = dict.fromkeys(("", *NULL_TOKENS), math.nan) | {"true": 1.0, "false": 0.0}
OTHER_NUMBER_FORMAT = re.compile(r"[+-]?[\d.,'\s]*\d\s*[%€$£]?")  # such as 1,5 or 1 000 or 12 %
DECIMAL_COMMA = re.compile(r"[+-]?(?:\d*|\d{1,3}(?:\.\d{3})+),\d+(?:e[+-]?\d+)?", re.IGNORECASE)  # 1,5 and 1.234,5
COMMA_OR_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")  # 1,500 may be 1.5 or 1500 …
POINT_OR_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")  # … and so may 1.500
MIN_ROWS_COUNTED = 10  # below that, a column that counts the rows may be a coincidence


class TextColumn(list[Any]):
    """A column of a text file.

    Args:
        lines: Number of the line of each value, counted from 1.
        rows: Row of each value, counted from 0; more than the place of the value after rows without any (default: the
            places).
        may_have_commas: Whether a comma within a number can be its decimal mark.
    """

    def __init__(
        self, lines: Sequence[int], rows: Sequence[int] | None = None, *, may_have_commas: bool = False
    ) -> None:
        super().__init__()
        self.lines, self.rows, self.may_have_commas = lines, rows, may_have_commas


def rows_of(table: Table) -> Sequence[int]:
    """Return the row of each sample of a table, counted from 0; a file may have empty rows between them."""
    column = next(iter(table.values()), ())
    rows = column.rows if isinstance(column, TextColumn) else None
    return range(len(column)) if rows is None else rows


def find_column(known: Sequence[str], columns: Iterable[str]) -> str | None:
    """Return the column with the first of the known names, ignoring case and outer spaces; None if there is none."""
    names: dict[str, str] = {}
    for name in columns:
        names.setdefault(_normal(name), name)
    return next((names[name] for name in known if name in names), None)


def label_column(given: str | None, columns: Iterable[str], where: Path, *, labelled: bool = True) -> str | None:
    """Return the given label column, or one with a usual name. If there is none, raise DataError unless unlabelled."""
    names = list(columns)
    usual = find_column(LABEL_COLUMNS, names)
    found = usual if given is None else _column_named(given, names)
    if found is None and labelled:
        missing = "`label`" if given is None else repr(given[:80])
        advice = (
            _label_advice(names)
            if usual is None
            else f"Leave --label out: {usual[:80]!r} is found without it (label= in Python)."
        )
        raise DataError(f"{where} has no column {missing}; it has {listed(names)}. {advice}")
    return found


def id_column(given: str | None, columns: Iterable[str], where: Path, *, labelled: bool = True) -> str | None:
    """Return the given column of ids. If there is none, raise DataError unless unlabelled."""
    names = list(columns)
    if given is None or (not labelled and _column_named(given, names) is None):
        return None
    return named_column(given, "--id", names, where)


def named_column(given: str, option: str, columns: Iterable[str], where: Path) -> str:
    """Return the column that an option names; raise DataError if there is none."""
    names = list(columns)
    found = _column_named(given, names)
    if found is None:
        raise DataError(f"{where} has no column {given[:80]!r}, named by {option}; it has {listed(names)}.")
    return found


def without(ignored: Sequence[str], columns: Iterable[str], where: Path) -> list[str]:
    """Return the columns that are not ignored; raise DataError if an ignored name is not a column."""
    left = dict.fromkeys(columns)
    names = list(left)
    for given in ignored:
        name = given if given in left else _column_named(given, names)
        if name is None:
            raise DataError(f"{where} has no column {given[:80]!r} to ignore; it has {listed(names)}.")
        left.pop(name, None)
    return list(left)


def require_different(names: Sequence[str], path: Path) -> None:
    """Raise DataError if two columns have the same name."""
    if len(set(names)) < len(names):
        raise DataError(
            f"{path} has two columns of the same name: {', '.join(names)[:200]}. Rename one. If these are values, add "
            "a first line with the names of the columns."
        )


def listed(columns: Iterable[str]) -> str:
    """Format column names; of many, the first and the last, where labels tend to be."""
    names = [name[:80] or "one without a name" for name in columns] or ["none at all"]
    return ", ".join(names if len(names) <= 8 else [*names[:4], "…", *names[-4:]])


def _normal(name: str) -> str:
    return name.strip().lower()


def _column_named(given: str, names: Sequence[str]) -> str | None:
    return given if given in names else find_column((_normal(given),), names)


def _label_advice(names: Sequence[str]) -> str:
    """Return what to do about a table without a label column."""
    taken = (*PATH_COLUMNS, *ID_COLUMNS, *SPLIT_COLUMNS, *OTHER_LABEL_COLUMNS)
    free = [name for name in names if _normal(name) not in taken and not INDEX_COLUMN.fullmatch(_normal(name))]
    if not free:
        return "Add one with the classes, next to `path` for images or to columns of numbers."
    likely = next((name for ending in LABEL_ENDINGS for name in free if ending.fullmatch(_normal(name))), free[-1])
    if names[0].startswith("#"):
        return "If that is a comment, remove it: the first line must name the columns."
    if len(names) == 1 and not re.fullmatch(r"[\w-]+", likely):
        return "If that is more than one column, separate them with commas, semicolons, tabs or |."
    if any(FRACTION.fullmatch(name) for name in names):
        return "If these are values, add a first line with the names of the columns."
    return f"Name the one with the classes, such as --label {shlex.quote(likely)} (label= in Python)."


def numbers_of(values: Any, name: str, where: Path, *, needed: bool = False) -> NDArray[np.float32]:
    """Convert a column; missing values become NaN. Raise DataError for anything else that is not a number.

    Args:
        values: The column.
        name: Its name.
        where: Name of the table in messages.
        needed: Whether a run was trained on the column, so that it cannot be excluded.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        numbers = values.astype(np.float64)
    else:
        with_commas = has_decimal_commas(values)
        if with_commas:
            _refuse_either(values, name, where, COMMA_OR_THOUSANDS, ",")
        numbers = np.empty(len(values), dtype=np.float64)
        for row, value in enumerate(values):
            try:
                numbers[row] = _comma_to_float(value) if with_commas else _to_float(value)
            except (TypeError, ValueError) as error:
                mark = "decimal comma as in other rows" if with_commas else "decimal point"
                others = "" if needed else f", encode the column, or exclude it: {how_to_ignore(name)}"
                raise DataError(
                    f"{where}, {place_of(values, row)}: {str(value)[:80]!r} in column {name[:80]!r} is not a number. "
                    f"Correct it ({mark}; empty if missing){others}."
                ) from error
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)


def has_decimal_commas(values: Any) -> bool:
    """Whether the comma is the decimal mark of a column: it occurs in a number, and the column may have it."""
    if not isinstance(values, TextColumn) or not values.may_have_commas:
        return False
    return any("," in value and DECIMAL_COMMA.fullmatch(value.strip()) for value in values if isinstance(value, str))


def refuse_thousands(table: Table, columns: Iterable[str], where: Path) -> None:
    """Raise DataError where a point may separate thousands, since other columns have decimal commas."""
    names = list(columns)
    if any(has_decimal_commas(table[name]) for name in names):
        for name in names:
            if isinstance(table[name], TextColumn) and not has_decimal_commas(table[name]):
                _refuse_either(table[name], name, where, POINT_OR_THOUSANDS, ".")


def _refuse_either(values: Any, name: str, where: Path, either: re.Pattern[str], mark: str) -> None:
    """Raise DataError if the mark may separate thousands in every number that has it."""
    marked = [(row, value.strip()) for row, value in enumerate(values) if isinstance(value, str) and mark in value]
    if marked and all(either.fullmatch(text) for _, text in marked):
        row, text = marked[0]
        parts = text.split(mark)
        raise DataError(
            f"{where}, {place_of(values, row)}: {text[:80]!r} in column {name[:80]!r} may mean {'.'.join(parts)} or "
            f"{''.join(parts)}. Write numbers without a separator of thousands, and with a decimal point."
        )


def place_of(values: Any, row: int) -> str:
    """Return where a value of a column is, for messages."""
    return f"line {values.lines[row]}" if isinstance(values, TextColumn) else f"row {row} (counted from 0)"


def is_number(value: Any) -> bool:
    """Whether a value is a number in any format."""
    try:
        return not math.isnan(_to_float(value))
    except (TypeError, ValueError):
        return isinstance(value, str) and OTHER_NUMBER_FORMAT.fullmatch(value.strip()) is not None


def _comma_to_float(value: Any) -> float:
    """Convert a number in a column with decimal commas, where points can only separate thousands."""
    if isinstance(value, str) and DECIMAL_COMMA.fullmatch(value.strip()):
        return float(value.strip().replace(".", "").replace(",", "."))
    if isinstance(value, str) and "." in value:
        raise ValueError(value)
    return _to_float(value)


def _to_float(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, str):
        token = value.strip().lower()
        if token in NUMBER_TOKENS:
            return NUMBER_TOKENS[token]
        if "_" in token:  # which Python allows in numbers
            raise ValueError(value)
    # NumPy converts times to a count of nanoseconds, and drops the imaginary part.
    if isinstance(value, (np.datetime64, np.timedelta64, np.complexfloating)):
        raise TypeError(value)
    try:
        return float(value)
    except OverflowError:  # of whole numbers, where texts such as 1e400 are infinite
        return math.inf if value > 0 else -math.inf


def refuse_image_names(values: Any, name: str, where: Path) -> None:
    """Raise DataError if a column holds names of image files."""
    texts = [str(value) for value in values if value is not None and str(value).strip()]
    if texts and all(map(is_image_name, texts)):
        raise DataError(f"{where}: column {name[:80]!r} holds names of image files: call it `path`, or remove it.")


def is_index_or_label(name: str) -> bool:
    """Whether a column numbers the rows or holds other labels, which would give away the one to learn."""
    word = _normal(name)
    return word in (*LABEL_COLUMNS, *OTHER_LABEL_COLUMNS) or INDEX_COLUMN.fullmatch(word) is not None


def require_wanted(table: Table, where: Path, wanted: Sequence[str]) -> Sequence[str]:
    """Return the columns that a run was trained on; raise DataError if one is missing."""
    missing = [name for name in wanted if name not in table]
    if missing:
        others = f" (and {len(missing) - 1:,} others)" if len(missing) > 1 else ""
        raise DataError(
            f"{where} has no column {missing[0][:80]!r}{others}, which this run was trained on; it has "
            f"{listed(table)}. Add it, or rename the column that holds it."
        )
    return wanted


def counter_notes(columns: Sequence[str], numbers: NDArray[np.float32]) -> list[str]:
    """Return a remark on columns that count the rows."""
    # In a table that is sorted by class, the number of a row gives away its label.
    with np.errstate(invalid="ignore"):  # infinity less infinity
        counters = [name for name, each in zip(columns, numbers.T, strict=True) if (np.diff(each) == 1).all()]
    if counters and len(numbers) >= MIN_ROWS_COUNTED:
        said = "column {} looks like a row number and is used as a feature. Exclude it unless it is meaningful"
        if len(counters) > 1:
            said = "columns {} look like row numbers and are used as features. Exclude them unless they are meaningful"
        return [f"{said.format(quoted(counters))}: {how_to_ignore(*counters)}."]
    return []


def how_to_ignore(*names: str) -> str:
    """Return the option that excludes columns."""
    return f"{' '.join(f'--ignore {shlex.quote(name[:80])}' for name in names)} (ignore= in Python)"


def quoted(names: Sequence[str]) -> str:
    """Format column names in quotes; of many, the first and the last."""
    return listed([name and repr(name[:80]) for name in names])
