"""Decide for each column of a table whether it holds numbers, an embedding, categories, text or something else.

Categories are repeated values. Columns of dates, ids and other values that hardly repeat are not trained on. A column
in which most values are numbers is one of numbers, so that a typing error in it is reported.
"""

import datetime
import math
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.own.columns import (
    Table,
    counter_notes,
    find_column,
    how_to_ignore,
    is_index_or_label,
    is_number,
    numbers_of,
    place_of,
    quoted,
    refuse_image_names,
    refuse_thousands,
    require_different,
    require_wanted,
)
from tnlpad.data.own.labels import NULL_TOKENS
from tnlpad.data.own.mixed import MixedTable
from tnlpad.errors import DataError
from tnlpad.json_text import parse_json

ColumnKind = Literal[
    "number", "embedding", "category", "text", "date", "different", "constant", "empty", "printed list", "other"
]
# A column with one of these names is the text also beside columns of numbers …
TEXT_COLUMNS = (
    "text", "texts", "sentence", "sentences", "review", "review_text", "tweet", "message", "messages", "sms", "body",
    "content", "document", "utterance", "query", "question", "comment_text", "full_text",
)  # fmt: skip
# … and one with these only where there are no numbers, which it may merely comment on.
OTHER_TEXT_COLUMNS = ("comment", "comments", "title", "headline", "description", "summary", "abstract", "subject")
# Numbers that describe an image file: they do not make a table of images one of numbers.
IMAGE_FACTS = ("width", "height", "channels", "size", "bytes", "file_size", "filesize", "confidence", "changed")
# Note per kind of column that is not trained on.
UNUSED_NOTES = {
    "text": "columns of free text are not trained on: {}.",
    "date": "columns of dates or times are not trained on: {}.",
    "different": "columns of ids or names, whose values hardly repeat, are not trained on: {}.",
    "constant": "columns with a single value are not trained on: {}.",
    "empty": "empty columns are not trained on: {}.",
    "printed list": "columns of lists as programs print them are not trained on: {}. Write lists as JSON: [0.1, 0.2].",
    "other": "columns of neither numbers nor words are not trained on: {}.",
}
MIN_TEXT_WORDS = 3.0  # on average
MIN_ROWS_PER_CATEGORY = 2
MANY_CATEGORIES, MIN_ROWS_PER_MANY = 20, 5
SAMPLED_VALUES = 2000
MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
DATE = re.compile(
    rf"(?:\d{{1,4}}([-/.])\d{{1,2}}\1\d{{1,4}}|\d{{1,2}}[ -]{MONTH}[ ,-]+\d{{2,4}}|{MONTH}\.? \d{{1,2}},? \d{{4}})"
    r"(?:[T ,].*)?|\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?",
    re.IGNORECASE,
)
ID_NAME = re.compile(r"(?i:(?:.*[^a-z])?(?:id|uuid|guid))|.*[a-z](?:Id|ID)")
# Scripts without spaces between words: about two characters are a word.
UNSPACED = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
ELEMENT = re.compile(r"(.+)\[(\d+)\]", re.DOTALL)
# Lists of numbers as NumPy, torch and Python print them: without commas, with nan, or shortened.
PRINTED_LIST = re.compile(r"(?:(?:array|tensor)\()?\[(?=[^\d]*\d)(?:[\s\d.,e+-]|nan|inf|None)*\]\)?")
PRINTED_LISTS_SAMPLED = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class Content:
    """Columns that can be trained on: numbers alone, or a table with gaps or categories; and remarks on the others."""

    columns: tuple[str, ...]
    features: NDArray[np.float32] | None
    table: MixedTable | None
    notes: tuple[str, ...]


def kinds_of(table: Table, where: Path) -> dict[str, ColumnKind]:
    """Return the kind of each column without another role; columns that number rows or hold labels are left out."""
    return {name: _kind(table[name], name, where) for name in table if not is_index_or_label(name)}


def text_column(table: Table, kinds: dict[str, ColumnKind], given: str | None, where: Path) -> str | None:
    """Return the given text column, or the one found by its name or content; None if there is none."""
    if given is not None:
        return given
    if (found := text_column_named(kinds)) is not None:
        return found
    words = _words(kinds)
    if any(kind in ("number", "embedding") for kind in kinds.values()):
        return None
    if (found := find_column(OTHER_TEXT_COLUMNS, words)) is not None:
        return found
    free = [name for name in words if kinds[name] == "text"]
    if len(free) > 1:
        raise DataError(
            f"{where} has {len(free)} columns of free text: {quoted(free)}. Name the one to train on, such as "
            f"{how_to_name(free[0])}."
        )
    return free[0] if free and "category" not in kinds.values() else None


def text_column_named(kinds: dict[str, ColumnKind]) -> str | None:
    """Return the column of words whose name says that it is the text; None if there is none."""
    return find_column(TEXT_COLUMNS, _words(kinds))


def _words(kinds: dict[str, ColumnKind]) -> list[str]:
    return [name for name, kind in kinds.items() if kind in ("text", "different")]


def how_to_name(column: str) -> str:
    """Return the option that names the text column."""
    return f"--text {shlex.quote(column[:80])} (text= in Python)"


def texts_of(values: Any, name: str, where: Path) -> list[str]:
    """Return a column as texts, empty where there is none; raise DataError for lists and other structures."""
    texts = []
    for row, value in enumerate(values):
        if isinstance(value, (list, dict, tuple, set, bytes, np.ndarray)):
            raise DataError(
                f"{where}, {place_of(values, row)}: the value in column {name[:80]!r} is a {type(value).__name__}, not "
                "a text. Name another column with --text (text= in Python)."
            )
        texts.append(as_text(value))
    return texts


def as_text(value: Any) -> str:
    """Return a value as text that can be written as UTF-8; empty if it is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(value).encode("utf-8", "replace").decode()


def text_notes(texts: Sequence[str], column: str, table: Table, *, given: bool) -> list[str]:
    """Return remarks on the text column and on the columns beside it."""
    notes = []
    others = [name for name in table if name != column]
    if others:
        change = "" if given else f" To train on them instead: {how_to_ignore(column)}."
        notes.append(
            f"the text is the column {column[:80]!r}; other columns are not trained on: {quoted(others)}.{change}"
        )
    if empty := sum(not text.strip() for text in texts):
        notes.append(f"{empty:,} of {len(texts):,} texts are empty.")
    return notes


def content_of(table: Table, kinds: dict[str, ColumnKind], where: Path) -> Content | None:
    """Convert the columns that can be trained on; None if there are none."""
    categories = [name for name, kind in kinds.items() if kind == "category"]
    names, numbers = _numbers(table, [name for name, kind in kinds.items() if kind in ("number", "embedding")], where)
    if not names and not categories:
        return None
    notes = list(_unused_notes(table, kinds))
    if own := [place for place, name in enumerate(names) if name in table]:  # not an element of an embedding
        notes += counter_notes([names[place] for place in own], numbers[:, own])
    if not categories and np.isfinite(numbers).all():
        return Content(columns=tuple(names), features=numbers, table=None, notes=tuple(notes))
    return _with_gaps(_mixed(names, numbers, categories, table), notes)


def content_of_numbers(names: Sequence[str], numbers: NDArray[np.float32]) -> Content:
    """Return numbers as a table in which those that are not finite are gaps."""
    return _with_gaps(_mixed(names, numbers, (), {}), ())


def wanted_content(table: Table, columns: Sequence[str], categories: Sequence[str] | None, where: Path) -> Content:
    """Convert exactly these columns, of which some are categories; with None, all are numbers without gaps."""
    others = set(categories or ())
    kept = [name for name in columns if name not in others]
    sources = _sources(table, kept)
    require_wanted(table, where, [*sources, *(categories or ())])
    names, numbers = _numbers(table, sources, where, needed=True)
    if missing := set(kept) - set(names):
        column = next(name for name in kept if name in missing)
        raise DataError(
            f"{where} has no column {column[:80]!r}, which this run was trained on: the lists have another length. "
            "Give embeddings of the same model."
        )
    places = {name: place for place, name in enumerate(names)}
    order = [places[name] for name in kept]
    used = {*sources, *others}
    unused = [name for name in table if name not in used]
    notes = [f"columns that this run was not trained on are ignored: {quoted(unused)}."] if unused else []
    if categories is None:
        return Content(columns=tuple(kept), features=numbers[:, order], table=None, notes=tuple(notes))
    mixed = _mixed(kept, numbers[:, order], categories, table)
    return _with_gaps(mixed, notes)


def _with_gaps(table: MixedTable, notes: Sequence[str]) -> Content:
    return Content(columns=table.columns, features=None, table=table, notes=(*notes, *_gap_notes(table)))


def _mixed(names: Sequence[str], numbers: NDArray[np.float32], categories: Sequence[str], table: Table) -> MixedTable:
    return MixedTable(
        number_columns=tuple(names),
        numbers=np.where(np.isfinite(numbers), numbers, np.float32(np.nan)),
        category_columns=tuple(categories),
        categories=tuple([_category(value) for value in table[name]] for name in categories),
    )


def _category(value: Any) -> str | None:
    return None if _is_missing(value) else as_text(value).strip()


def _numbers(
    table: Table, names: Sequence[str], where: Path, *, needed: bool = False
) -> tuple[list[str], NDArray[np.float32]]:
    """Return the names and values of columns of numbers, with a column for each element of embeddings."""
    refuse_thousands(table, names, where)
    columns: list[str] = []
    pieces: list[NDArray[np.float32]] = []
    for name in names:
        if _is_embedding(table[name]):
            piece = embedding_of(table[name], name, where, needed=needed)
            columns += [f"{name}[{place}]" for place in range(piece.shape[1])]
        else:
            piece = numbers_of(table[name], name, where, needed=needed)[:, None]
            columns.append(name)
        pieces.append(piece)
    require_different(columns, where)  # also from an element of an embedding
    rows = len(next(iter(table.values()), ()))
    return columns, np.concatenate(pieces, axis=1) if pieces else np.empty((rows, 0), dtype=np.float32)


def embedding_of(values: Any, name: str, where: Path, *, needed: bool = False) -> NDArray[np.float32]:
    """Convert a column of lists of numbers; raise DataError if their lengths differ or one is not of numbers."""
    or_exclude = "" if needed else f", or exclude the column: {how_to_ignore(name)}"
    rows: list[NDArray[np.float32]] = []
    for row, value in enumerate(values):
        try:
            numbers = np.asarray(_parsed(value), dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            numbers = np.empty((0, 0))
        if numbers.ndim != 1:
            raise DataError(
                f"{where}, {place_of(values, row)}: {str(value)[:80]!r} in column {name[:80]!r} is not a list of "
                f"numbers. Correct it{or_exclude}."
            )
        if rows and len(numbers) != len(rows[0]):
            raise DataError(
                f"{where}, {place_of(values, row)}: the list in column {name[:80]!r} has {len(numbers)} numbers, and "
                f"the first one has {len(rows[0])}. Give every row as many{or_exclude}."
            )
        with np.errstate(over="ignore"):
            rows.append(numbers.astype(np.float32))
    return np.stack(rows) if rows else np.empty((0, 0), dtype=np.float32)


def _sources(table: Table, columns: Sequence[str]) -> list[str]:
    """Return the columns of the table that the given features are in: `embedding` for `embedding[0]`."""
    found = []
    for name in columns:
        element = ELEMENT.fullmatch(name)
        found.append(element[1] if name not in table and element and element[1] in table else name)
    return list(dict.fromkeys(found))


def _parsed(value: Any) -> Any:
    """Return a list; the text of one, as CSV files have it, is parsed."""
    return parse_json(value) if isinstance(value, str) else value


def _is_embedding(values: Any) -> bool:
    return any(map(_is_list, islice(_present(values), 1)))


def _is_list(value: Any) -> bool:
    if isinstance(value, str):
        text = value.strip()
        if not (text.startswith("[") and text.endswith("]")):
            return False
        try:
            value = parse_json(text)
        except ValueError:
            return False
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.dtype.kind in "iuf" and len(value) > 0
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(isinstance(each, (int, float, np.number)) or each is None for each in value)
    )


def _kind(values: Any, name: str, where: Path) -> ColumnKind:
    if isinstance(values, np.ndarray) and values.dtype.kind in "biufmM":
        return "date" if values.dtype.kind in "mM" else "number"
    present = list(_present(values))
    if not present:
        return "empty"
    sample = present[:SAMPLED_VALUES]
    if all(map(_is_date, sample)):
        return "date"
    if _is_list(sample[0]):
        return "embedding"
    if _are_printed_lists(sample[:PRINTED_LISTS_SAMPLED]):
        return "printed list"
    if any(isinstance(value, (list, dict, tuple, set, bytes, np.ndarray)) for value in sample):
        return "other"
    if sum(map(is_number, present)) > len(present) / 2:
        return "number"
    refuse_image_names(values, name, where)
    return _kind_of_words([str(value).strip() for value in present], len(values), name)


def _are_printed_lists(sample: Sequence[Any]) -> bool:
    return all(isinstance(value, str) and PRINTED_LIST.fullmatch(value.strip()) for value in sample)


def _kind_of_words(texts: Sequence[str], rows: int, name: str) -> ColumnKind:
    """Return the kind of a column with these values, and none in the other rows."""
    different = len(set(texts))
    rows_each = MIN_ROWS_PER_CATEGORY if different <= MANY_CATEGORIES else MIN_ROWS_PER_MANY
    if different == 1 and len(texts) == rows > 1:
        return "constant"
    if different * rows_each <= len(texts) and not ID_NAME.fullmatch(name.strip()):
        return "category"
    sample = texts[:SAMPLED_VALUES]
    words = sum(map(_word_count, sample)) / len(sample)
    return "text" if words >= MIN_TEXT_WORDS and different > len(texts) / 2 else "different"


def _word_count(text: str) -> float:
    return len(text.split()) + len(UNSPACED.findall(text)) / 2


def _is_date(value: Any) -> bool:
    if isinstance(value, (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)):
        return True
    return isinstance(value, str) and DATE.fullmatch(value.strip()) is not None


def _present(values: Any) -> Iterator[Any]:
    return (value for value in values if not _is_missing(value))


def _is_missing(value: Any) -> bool:
    if isinstance(value, str):
        word = value.strip().lower()
        return not word or word in NULL_TOKENS
    return value is None or (isinstance(value, (float, np.floating)) and math.isnan(value))


def _unused_notes(table: Table, kinds: dict[str, ColumnKind]) -> Iterator[str]:
    if others := [name for name in table if name not in kinds]:
        yield f"columns with row numbers or other labels are not trained on: {quoted(others)}."
    for kind, note in UNUSED_NOTES.items():
        if names := [name for name, each in kinds.items() if each == kind]:
            way_in = f" To train on it instead: {how_to_name(names[0])}." if kind == "text" else ""
            yield note.format(quoted(names)) + way_in


def _gap_notes(table: MixedTable) -> Iterator[str]:
    counts = dict(zip(table.number_columns, np.isnan(table.numbers).sum(0).tolist(), strict=True))
    counts |= {name: sum(value is None for value in values) for name, values in table.by_category.items()}
    if with_gaps := {name: count for name, count in counts.items() if count}:
        worst = max(with_gaps, key=lambda name: with_gaps[name])
        yield (
            f"columns with gaps: {len(with_gaps):,}, the most in {worst[:80]!r} with {with_gaps[worst]:,} of "
            f"{len(table):,} rows. Gaps are filled in and marked; no row is left out."
        )
