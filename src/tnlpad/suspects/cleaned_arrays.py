"""Write cleaned samples as an .npz file with the arrays of the original one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.array_files import ArrayFile, as_texts
from tnlpad.atomic_files import replacing
from tnlpad.data.own.arrays import CLASS_NAMES, COLUMNS, IDS, SPLITS, Arrays, Keys, array_key, keys_by_part
from tnlpad.data.own.dataset import PARTS, Part
from tnlpad.suspects.clean import Cleaned
from tnlpad.suspects.cleaned_rows import CleanedRows, LabelValues, NewIds, Source, is_divided

Staying = Sequence[tuple[int, Cleaned | None]]  # rows of an array that stay, with their samples


def write_npz(out: Path, source: Source, kept: Sequence[Cleaned], used: Sequence[str]) -> NewIds:
    """Write the arrays of the original file without the dropped samples, and with the labels corrected.

    Arrays with a row per sample follow the samples; others stay as they are. The original labels are added and, to data
    that are not divided into arrays by part, ids and the parts of samples, if some are not for training.
    """
    arrays = ArrayFile(source.path, kinds=None)
    pieces = keys_by_part(arrays, source.options.label)
    rows = CleanedRows(source, kept, used, by_part=None not in pieces)
    staying = {part: list(rows.staying(range(len(arrays[keys.content])), part)) for part, keys in pieces.items()}
    names_key = array_key(arrays, CLASS_NAMES)
    values = LabelValues(
        [value for keys in pieces.values() if keys.labels for value in arrays[keys.labels].ravel().tolist()],
        source.path,
        None if names_key is None else [str(name) for name in as_texts(arrays[names_key], names_key)],
    )
    written: dict[str, Any] = dict(arrays) | _following(arrays, pieces, staying)
    for part, keys in pieces.items():
        written |= _cleaned_piece(arrays, keys, staying[part], values)
    if names_key is not None and values.class_names is not None:
        written[names_key] = np.array(values.class_names)
    if None in pieces:
        written = _names(arrays, staying[None]) | written
    with replacing(out) as file:
        np.savez_compressed(file, **written)
    return {} if None in pieces or source.options.id is not None else _new_ids(staying)


def _cleaned_piece(arrays: Arrays, keys: Keys, staying: Staying, values: LabelValues) -> dict[str, NDArray[Any]]:
    """Return the samples of a part and their labels, with the original labels beside them."""
    taken = [row for row, _ in staying]
    found = {keys.content: arrays[keys.content][taken]}
    if keys.labels is None:
        return found
    before = arrays[keys.labels]
    labels, original = before.ravel().tolist(), f"original_{keys.labels}"
    found[keys.labels] = _like([values.corrected(labels[row], sample) for row, sample in staying], before, values)
    if original not in arrays:
        first = [labels[row] if each is None else values.original(labels[row], each) for row, each in staying]
        found[original] = _like(first, before, values)
    return found


def _like(labels: list[Any], before: NDArray[Any], values: LabelValues) -> NDArray[Any]:
    """Return labels in the type and number of dimensions that they had, or as texts if a new class needs it."""
    texts = any(isinstance(label, str) for label in labels)
    found = np.array([values.name(each) or "" for each in labels] if texts else labels)
    if not texts and ((cast := found.astype(before.dtype)) == found).all():  # else a new class does not fit
        found = cast
    return found.reshape(-1, *before.shape[1:])


def _following(
    arrays: Arrays, pieces: Mapping[Part | None, Keys], staying: Mapping[Part | None, Staying]
) -> dict[str, NDArray[Any]]:
    """Return further arrays with a row per sample, of all parts or of the one that their name has."""
    lengths = {part: len(arrays[keys.content]) for part, keys in pieces.items()}
    offsets = dict(zip(lengths, np.cumsum([0, *lengths.values()]).tolist(), strict=False))
    per_class = {array_key(arrays, CLASS_NAMES), array_key(arrays, COLUMNS)}
    found = {}
    for name, array in arrays.items():
        if array.ndim == 0 or name in per_class:
            continue
        if len(array) == sum(lengths.values()):
            found[name] = array[[offsets[part] + row for part, rows in staying.items() for row, _ in rows]]
        for part, length in lengths.items():
            if len(array) == length and any(word in name.lower() for word in PARTS if PARTS[word] == part):
                found[name] = array[[row for row, _ in staying[part]]]
    return found


def _names(arrays: Arrays, staying: Staying) -> dict[str, NDArray[Any]]:
    """Return ids and parts, unless the file has them."""
    added = {}
    if array_key(arrays, IDS) is None:
        added["ids"] = np.array([str(row) if each is None else each.id for row, each in staying])
    if array_key(arrays, SPLITS) is None and is_divided(sample for _, sample in staying):
        added["split"] = np.array(["train" if each is None else each.split for _, each in staying])
    return added


def _new_ids(staying: Mapping[Part | None, Staying]) -> NewIds:
    """Return the ids of samples that are named by part and row, which others change that are dropped."""
    places = ((part, place, each) for part, rows in staying.items() for place, (_, each) in enumerate(rows))
    return {each.id: f"{part}/{place}" for part, place, each in places if each is not None}
