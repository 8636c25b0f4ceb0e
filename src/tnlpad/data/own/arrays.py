"""List arrays of images or features as samples, and read them from NumPy's `.npz` files.

Images are 8-bit numbers, fractions from 0 to 1, or true (white) and false, of shape N×H×W, N×H×W×C or N×C×H×W.
Features are of shape N×D. An .npz file has `images`, `x` or `features` … with `labels` or `y` …; or parts, such as
`x_train`, `y_train`, `x_test`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.array_files import ArrayFile, as_texts
from tnlpad.data.own.column_kinds import content_of_numbers, wanted_content
from tnlpad.data.own.columns import listed, require_different
from tnlpad.data.own.dataset import (
    PARTS,
    Listing,
    Part,
    ReadOptions,
    given_ids,
    groups_of,
    numbered_columns,
    part_named,
)
from tnlpad.data.own.labels import Label, label_as_given
from tnlpad.errors import DataError

CHANNELS = (1, 3, 4)
CONTENT = ("images", "image", "x", "data", "features", "inputs")
LABELS = ("labels", "label", "y", "targets", "target")
IDS, SPLITS, CLASS_NAMES = ("ids", "id"), ("split", "splits", "part", "parts"), ("class_names", "classes")
COLUMNS = ("columns", "feature_names")
SHAPES = "images are N×H×W, N×H×W×C or N×C×H×W, features N×D"
Arrays = Mapping[str, NDArray[Any]]


def listing_of_arrays(
    content: Sequence[NDArray[Any]],
    labels: Sequence[Any] | None,
    *,
    where: Path | str,
    ids: Sequence[str],
    parts: Sequence[Part] | None = None,
    class_names: tuple[str, ...] | None = None,
    notes: tuple[str, ...] = (),
    groups: Sequence[str] | None = None,
) -> Listing:
    """List the samples of one array or several, such as one per part, with as many arrays or lists of labels."""
    _require_one_scale(content, where)
    pieces = [_samples(array, where) for array in content]
    if len({(each.dtype, each.shape[1:]) for each in pieces}) > 1:
        raise DataError(f"{where}: the samples of its parts differ in shape or type. Make them alike.")
    samples = np.concatenate(pieces)
    given: list[Label | None] = [None] * len(samples)
    if labels is not None:
        given = [label for pair in zip(labels, pieces, strict=True) for label in one_label_each(*pair, where)]
    return Listing(
        ids=ids,
        labels=given,
        rows=[row for piece in pieces for row in range(len(piece))],
        parts=parts,
        images=samples if samples.dtype == np.uint8 else None,
        features=samples if samples.dtype == np.float32 else None,
        columns=numbered_columns(samples.shape[1]) if samples.ndim == 2 else (),
        class_names=class_names,
        notes=(*notes, *_notes_on_scale(content)),
        groups=groups,
    )


def with_gaps_marked(listing: Listing, options: ReadOptions) -> Listing:
    """Make features with gaps, or those of a run that was trained on such, a table whose gaps are filled in later."""
    features = listing.features
    if features is None:
        return listing
    finite = np.isfinite(features)
    has_gaps = options.labelled and finite.any() and not finite.all()
    if not has_gaps and options.categories is None:
        return listing
    found = content_of_numbers(listing.columns, features)
    return replace(listing, features=None, table=found.table, notes=(*listing.notes, *found.notes))


def one_label_each(labels: Any, samples: Sized, where: Path | str) -> list[Label | None]:
    """Return one label per sample; labels of shape N×1, as Keras and pandas have them, are flattened."""
    shape: tuple[int, ...] = labels.shape if hasattr(labels, "shape") else (len(labels),)
    if len(shape) == 2 and shape[1] == 1:
        labels, shape = labels[:, 0], shape[:1]
    if len(shape) != 1:
        raise DataError(
            f"{where}: labels have shape {tuple(shape)}. Give one class per sample, such as labels.argmax(1) of "
            "one-hot rows."
        )
    if len(labels) != len(samples):
        raise DataError(f"{where}: there are {len(samples):,} samples and {len(labels):,} labels. Give one per sample.")
    return [label_as_given(value, where) for value in labels]


def _samples(array: NDArray[Any], where: Path | str) -> NDArray[Any]:
    """Return images as uint8, samples × channels × height × width, and features as float32."""
    if array.dtype.kind not in "biuf":
        raise DataError(f"{where}: samples are {array.dtype}; they must be numbers.")
    if array.ndim == 2 and array.shape[1]:
        with np.errstate(over="ignore"):
            return array.astype(np.float32)
    if array.ndim not in (3, 4) or 0 in array.shape[1:]:
        raise DataError(f"{where}: samples have shape {array.shape}: {SHAPES}.")
    pixels = _eight_bits(array, where)
    if pixels.ndim == 3:
        return pixels[:, None]
    if pixels.shape[3] in CHANNELS and pixels.shape[1] not in CHANNELS:
        pixels = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    if pixels.shape[1] not in CHANNELS:
        raise DataError(
            f"{where}: images have shape {array.shape[1:]}: the first or last axis must be 1, 3 or 4 channels."
        )
    return pixels[:, :3]  # without alpha


def _eight_bits(array: NDArray[Any], where: Path | str) -> NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return array
    if array.size and not np.isfinite(array).all():
        raise DataError(f"{where}: images contain NaN or infinity. Make them 8-bit numbers, 0 to 255.")
    low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
    fractions = array.dtype.kind in "bf" and high <= 1
    if low < 0 or high > 255:
        raise DataError(f"{where}: pixels range from {low:g} to {high:g}. Make them 8-bit numbers, 0 to 255.")
    pixels: NDArray[np.uint8] = np.rint(array * 255 if fractions else array).astype(np.uint8)
    return pixels


def _require_one_scale(content: Sequence[NDArray[Any]], where: Path | str) -> None:
    """Raise DataError if images of one part are fractions, and those of another are not."""
    highs = [float(array.max()) for array in content if array.ndim > 2 and array.dtype.kind == "f" and array.size]
    if any(0 < high <= 1 for high in highs) and any(high > 1 for high in highs):
        raise DataError(
            f"{where}: the pixels of its parts reach {', '.join(f'{high:g}' for high in highs)}. Make all of them "
            "fractions, 0 to 1, or 8-bit numbers, 0 to 255."
        )


def _notes_on_scale(content: Sequence[NDArray[Any]]) -> Iterator[str]:
    """Yield a remark on images of which the brightest pixel is 1, which may be white or nearly black."""
    images = [array for array in content if array.ndim > 2 and array.dtype.kind in "iuf" and array.size]
    if not images or max(array.max() for array in images) != 1:
        return
    if any(array.dtype.kind != "f" for array in images):
        yield "the brightest pixel is 1 of 255, nearly black. If 1 is white, give fractions, with .astype(float)."
    elif all((image == np.rint(image)).all() for array in images for image in array):
        yield "all pixels are 0 or 1, and 1 is taken for white. If 255 is white, give them with .astype('uint8')."


def read_npz(path: Path, options: ReadOptions = ReadOptions()) -> Listing:
    """List the samples of an .npz file, those of `train` first."""
    arrays = ArrayFile(path)
    label, labelled = options.label, options.labelled
    pieces = {
        part: _Piece(content=arrays[keys.content], labels=arrays[keys.labels] if keys.labels else None)
        for part, keys in keys_by_part(arrays, label).items()
    }
    usable = {part: piece for part, piece in pieces.items() if piece.labels is not None or not labelled}
    if not usable:
        found = ", ".join(name[:80] for name in list(arrays)[:8]) or "nothing"
        raise DataError(f"{path} holds {found}. {_advice(bool(pieces), label, labelled)}")
    for piece in usable.values():
        if piece.content.ndim == 0:
            raise DataError(f"{path}: its samples are a single number. Save an array with a row per sample.")
    names = _column(arrays, CLASS_NAMES, None, path) if labelled else None
    listing = listing_of_arrays(
        [piece.content for piece in usable.values()],
        [piece.labels for piece in usable.values()] if labelled else None,
        where=path,
        ids=_ids(arrays, usable, path, options),
        parts=_parts(arrays, usable, path),
        groups=_groups(arrays, usable, path, options) if labelled else None,
        class_names=tuple(map(str, names)) if names is not None else None,
        notes=tuple(f"the samples of {part} have no labels and are left out." for part in pieces if part not in usable),
    )
    return with_gaps_marked(_with_names(listing, arrays, path, options), options)


@dataclass(frozen=True, kw_only=True)
class Keys:
    """Names of the arrays with the samples of one part, and with their labels if there are any."""

    content: str
    labels: str | None


@dataclass(frozen=True, kw_only=True, eq=False)
class _Piece:
    """Samples of one part, and their labels if there are any."""

    content: NDArray[Any]
    labels: NDArray[Any] | None


Pieces = Mapping[Part | None, _Piece]


def keys_by_part(arrays: Arrays, label: str | None) -> dict[Part | None, Keys]:
    """Return the arrays of each part. Those without the name of a part are the only ones, or the training part.

    Args:
        arrays: All arrays.
        label: Name of the labels, if given.
    """
    labels = LABELS if label is None else (re.escape(label),)
    found: dict[Part | None, Keys] = {}
    for part in ("train", "validation", "test"):
        words = "|".join(word for word, means in PARTS.items() if means == part)
        if keys := _keys(arrays, labels, words):
            found[part] = keys
    nameless = _keys(arrays, labels)
    if nameless is None or "train" in found:
        return found
    return {"train" if found else None: nameless, **found}


def _keys(arrays: Arrays, labels: tuple[str, ...], part: str | None = None) -> Keys | None:
    content, given = (array_key(arrays, names, part) for names in (CONTENT, labels))
    return None if content is None else Keys(content=content, labels=given)


def array_key(arrays: Arrays, names: tuple[str, ...], part: str | None = None) -> str | None:
    """Return the first array whose name is one of these patterns; with `part`, with that prefix or suffix."""
    patterns = (name if part is None else rf"(?:{part})_{name}|{name}_(?:{part})" for name in names)
    found = (key for pattern in patterns for key in arrays if re.fullmatch(pattern, key, re.IGNORECASE))
    return next(found, None)


def _column(arrays: Arrays, names: tuple[str, ...], count: int | None, path: Path) -> NDArray[Any] | None:
    """Return an array of one dimension, of the given length if there is one."""
    key = array_key(arrays, names)
    if key is None:
        return None
    shape = arrays[key].shape
    if len(shape) != 1 or (count is not None and shape[0] != count):
        wanted = f"of {count:,}" if count is not None else "with a name per class"
        raise DataError(f"{path}: {key} has shape {shape}; it must be a list {wanted}. Correct it, or leave it out.")
    return as_texts(arrays[key], f"{path}: {key}")


def _ids(arrays: Arrays, pieces: Pieces, path: Path, options: ReadOptions) -> list[str]:
    if options.id is not None and (options.labelled or array_key(arrays, (re.escape(options.id),)) is not None):
        return given_ids(_named(arrays, options.id, "--id", pieces, path), path)
    if None in pieces:
        given = _column(arrays, IDS, len(pieces[None].content), path)
        if given is not None:
            return given_ids(given, path)
    prefixes = {part: "" if part is None else f"{part}/" for part in pieces}
    return [f"{prefixes[part]}{row}" for part, piece in pieces.items() for row in range(len(piece.content))]


def _parts(arrays: Arrays, pieces: Pieces, path: Path) -> list[Part] | None:
    if None not in pieces:
        return [part or "train" for part, piece in pieces.items() for _ in range(len(piece.content))]
    given = _column(arrays, SPLITS, len(pieces[None].content), path)
    return None if given is None else [part_named(value, path) for value in given]


def _groups(arrays: Arrays, pieces: Pieces, path: Path, options: ReadOptions) -> list[str] | None:
    return None if options.group is None else groups_of(_named(arrays, options.group, "--group", pieces, path))


def _named(arrays: Arrays, name: str, option: str, pieces: Pieces, path: Path) -> NDArray[Any]:
    """Return the array that an option names, with a value per sample of all parts."""
    given = _column(arrays, (re.escape(name),), sum(len(piece.content) for piece in pieces.values()), path)
    if given is None:
        raise DataError(f"{path} has no array {name[:80]!r}, named by {option}; it has {listed(arrays)}.")
    return given


def _with_names(listing: Listing, arrays: Arrays, path: Path, options: ReadOptions) -> Listing:
    """Give the features the column names in the file, if there are any."""
    if listing.features is None or (given := _column(arrays, COLUMNS, listing.features.shape[1], path)) is None:
        return listing
    names = [str(name) for name in given]
    require_different(names, path)
    table = dict(zip(names, listing.features.T, strict=True))
    found = wanted_content(table, options.columns or names, None, path)
    return replace(listing, features=found.features, columns=found.columns, notes=(*listing.notes, *found.notes))


def _advice(content: bool, label: str | None, labelled: bool) -> str:
    if content and label is not None:
        return f"None of them is called {label[:80]!r}, the given name of the labels."
    if not labelled:
        return "Save `images`, or `features`."
    other = " If the labels have another name, give it with --label NAME." if label is None else ""
    return f"Save `images` (or `features`) and `labels`; or x_train, y_train, x_test and y_test.{other}"
