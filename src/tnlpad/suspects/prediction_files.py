"""Read labels, a model's probabilities and features from files, for `tnlpad suspects --probabilities`.

Arrays come as .npy, or as .npz with a usual name or as its only array; pickled objects are refused. A .csv file of
probabilities has a column per class, with its name in the header. A .csv file of labels has a label column. Both may
have ids, by which the probabilities are then put in the order of the labels. A .txt file has a label per line.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.array_files import ArrayFile, as_texts, read_array
from tnlpad.data.files import readable_as
from tnlpad.data.own.arrays import CLASS_NAMES, CONTENT, IDS, LABELS
from tnlpad.data.own.columns import FRACTION, ID_COLUMNS, INDEX_COLUMN, PATH_COLUMNS, find_column, label_column, listed
from tnlpad.data.own.dataset import given_ids
from tnlpad.data.own.labels import as_number
from tnlpad.data.own.tables import read_csv
from tnlpad.errors import DataError
from tnlpad.suspects.from_probabilities import Found, find_suspects

PROBABILITIES = ("probabilities", "pred_probs", "probs", "proba", "p")
TABLES = (".csv", ".tsv")
ARRAYS = (".npy", ".npz")
WHOLE = re.compile("0|-?[1-9][0-9]{0,599}")  # with more digits it stays a text: Python may refuse to convert it


@dataclass(frozen=True, kw_only=True, eq=False)
class Column:
    """The rows of a file, with their ids and the names of their classes if the file has them."""

    path: Path
    values: Any
    ids: Sequence[str] | None = None
    classes: Sequence[str] | None = None


def find_in_files(probabilities: Path, labels: Path, features: Path | None = None, label: str | None = None) -> Found:
    """Rank the labels in a file by the probabilities in another.

    Args:
        probabilities: File of the probabilities.
        labels: File of the labels.
        features: File of the features, if there are any.
        label: Name of the label column.

    Raises:
        DataError: A file cannot be read, or the files do not fit together.
    """
    given = read_labels(labels, label)
    rows = read_numbers(probabilities, PROBABILITIES)
    points = None if features is None else read_numbers(features, CONTENT)
    found = find_suspects(
        given.values,
        probabilities=_in_order(rows, given),
        features=None if points is None else _in_order(points, given),
        classes=rows.classes,
        ids=given.ids,
    )
    with_ids = [each.path for each in (rows, points) if each is not None and each.ids is not None]
    unmatched = with_ids if given.ids is None else []
    notes = (f"{path} has ids and {labels} has none, so rows are matched by their order." for path in unmatched)
    return replace(found, notes=(*notes, *found.notes))


def read_labels(path: Path, label: str | None = None) -> Column:
    """Read labels and, if the file has them, ids; texts become numbers if all of them are whole numbers."""
    kind = _kind(path, (*TABLES, ".txt", *ARRAYS))
    if kind in TABLES:
        table, _ = read_csv(path)
        name = label_column(label, table, path) if label is not None or len(table) > 1 else next(iter(table))
        ids = find_column((*ID_COLUMNS, *PATH_COLUMNS), [each for each in table if each != name])
        column = Column(path=path, values=table[str(name)], ids=given_ids(table[ids], path) if ids else None)
    elif kind == ".txt":
        with readable_as("a list of labels", path, "Save it as UTF-8, with a label per line."):
            column = Column(path=path, values=path.read_text(encoding="utf-8-sig").rstrip().splitlines())
    else:
        arrays = _arrays(path)
        ids = find_column(IDS, arrays)
        values = _array(path, arrays, LABELS if label is None else (label,))
        column = Column(path=path, values=values, ids=None if ids is None else _ids(arrays, ids, path))
    if len(column.values) == 0:
        raise DataError(f"{path} holds no labels. Give one per sample.")
    return column if kind in ARRAYS else Column(path=path, values=_numbers_if_whole(column.values), ids=column.ids)


def read_numbers(path: Path, names: Sequence[str]) -> Column:
    """Read samples × numbers; `names` are those of the array in an .npz file."""
    if _kind(path, (*ARRAYS, *TABLES)) in ARRAYS:
        arrays = _arrays(path)
        ids, classes = find_column(IDS, arrays), find_column(CLASS_NAMES, arrays)
        return Column(
            path=path,
            values=_array(path, arrays, names),
            ids=None if ids is None else _ids(arrays, ids, path),
            classes=None if classes is None else as_texts(arrays[classes], f"{path}: {classes}").astype(str).tolist(),
        )
    table, _ = read_csv(path)
    ids = find_column((*ID_COLUMNS, *PATH_COLUMNS), table)
    columns = [name for name in table if name != ids and not INDEX_COLUMN.fullmatch(name.strip().lower())]
    if not columns or any(FRACTION.fullmatch(name) for name in columns):
        raise DataError(f"{path} has the columns {listed(table)}. Its first line must name columns of numbers.")
    rows = np.array([[_number(text, path) for text in table[name]] for name in columns]).T
    if not len(rows):
        raise DataError(f"{path} has a header and no rows. Give a row per sample.")
    return Column(path=path, values=rows, ids=given_ids(table[ids], path) if ids else None, classes=columns)


def _ids(arrays: Mapping[str, NDArray[Any]], name: str, path: Path) -> list[str]:
    return given_ids(as_texts(arrays[name], f"{path}: {name}").tolist(), path)


def _in_order(rows: Column, labels: Column) -> Any:
    """Return the rows in the order of the labels, by their ids if both files have them."""
    if rows.ids is None or labels.ids is None or len(rows.ids) != len(labels.ids) or rows.ids == labels.ids:
        return rows.values
    place = {name: row for row, name in enumerate(rows.ids)}
    missing = next((name for name in labels.ids if name not in place), None)
    if missing is not None:
        raise DataError(f"{rows.path} has no row with the id {missing[:80]!r} of {labels.path}. Give one per label.")
    return rows.values[[place[name] for name in labels.ids]]


def _kind(path: Path, allowed: Sequence[str]) -> str:
    kind = path.suffix.lower()
    if kind not in allowed:
        raise DataError(f"{path} ends in {kind or 'nothing'!r}. Give a file that ends in {', '.join(allowed)}.")
    if path.is_file() and path.stat().st_size == 0:
        raise DataError(f"{path} is empty. Write it again.")
    return kind


def _arrays(path: Path) -> Mapping[str, NDArray[Any]]:
    """Return the arrays of an .npz file by name, or the one of an .npy file."""
    way_out = "Save plain numbers or texts with numpy.save; objects are not read."
    if path.suffix.lower() == ".npz":
        return ArrayFile(path, way_out=way_out)
    return {"": read_array(path, way_out=way_out)}


def _array(path: Path, arrays: Mapping[str, NDArray[Any]], names: Sequence[str]) -> NDArray[Any]:
    name = find_column(names, arrays) if len(arrays) != 1 else next(iter(arrays))
    if name is None:
        raise DataError(f"{path} holds {listed(arrays)}. Name the array {names[0]!r}.")
    if arrays[name].ndim == 0:
        raise DataError(f"{path} holds a single value. Save an array with a row per sample.")
    return arrays[name]


def _number(text: str, path: Path) -> float:
    number = as_number(text.strip())
    if number is None:
        raise DataError(f"{path}: {text[:80]!r} is not a number. Below the header, give numbers with a decimal point.")
    return number


def _numbers_if_whole(texts: Sequence[str]) -> list[Any]:
    return [int(text) for text in texts] if all(WHOLE.fullmatch(text.strip()) for text in texts) else list(texts)
