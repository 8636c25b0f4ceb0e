"""NumPy's `.npz` with images or features and labels, under the names that people use.

`images` or `x` or `features` … with `labels` or `y` …; or in parts, as `x_train`, `y_train`, `x_test`, `y_test`.
Images are 8-bit numbers, or fractions from 0 to 1, of shape N×H×W, N×H×W×C or N×C×H×W.
"""

import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.errors import DataError
from tnlpad.data.files import readable
from tnlpad.data.listing import PARTS, Listing, Part, label_as_given, part_named, require_unique

CONTENT = ("images", "image", "x", "data", "features", "inputs")
LABELS = ("labels", "label", "y", "targets", "target")
IDS, SPLITS, CLASS_NAMES = ("ids", "id"), ("split", "splits", "part", "parts"), ("class_names", "classes")
MOST_BYTES = 1 << 34  # unpacked; more does not fit into most machines
CHANNELS = (1, 3, 4)
Arrays = Mapping[str, NDArray[Any]]


def read_npz(path: Path, *, label: str | None = None, labelled: bool = True) -> Listing:
    """The samples of the file, those of `train` first.

    Args:
        path: Where it lies.
        label: What the array of labels is called, without the word of a part; one with a usual name when not given.
        labelled: Whether there must be labels; without, they are not read either.
    """
    arrays = _load(path)
    pieces = _pieces(arrays, path, LABELS if label is None else (re.escape(label),), labelled)
    names = _named(arrays, CLASS_NAMES)
    content = [_samples(piece.content, path) for piece in pieces.values()]
    if len({(each.dtype, each.shape[1:]) for each in content}) > 1:
        raise DataError(f"{path}: the samples of its parts differ in shape or kind. Make them alike.")
    samples = np.concatenate(content)
    return Listing(
        ids=_ids(arrays, pieces, path),
        labels=[label_as_given(value, path) for piece in pieces.values() for value in piece.given()],
        parts=_parts(arrays, pieces, path),
        images=samples if samples.dtype == np.uint8 else None,
        features=samples if samples.dtype == np.float32 else None,
        columns=_nameless(samples),
        class_names=tuple(str(name) for name in names) if names is not None and labelled else None,
    )


def listing_of_arrays(
    content: NDArray[Any],
    labels: Sequence[Any] | None,
    *,
    where: Path | str,
    ids: Sequence[str] | None = None,
    columns: tuple[str, ...] | None = None,
    class_names: tuple[str, ...] | None = None,
) -> Listing:
    """Samples without parts, and their labels if there are any; `where` is how messages call them."""
    if content.ndim and len(content) == 0:
        raise DataError(f"{where} holds no sample: its shape is {content.shape}. Give some.")
    samples = _samples(content, where)
    return Listing(
        ids=list(ids) if ids is not None else [str(row) for row in range(len(samples))],
        labels=[None] * len(samples) if labels is None else [label_as_given(value, where) for value in labels],
        images=samples if samples.dtype == np.uint8 else None,
        features=samples if samples.dtype == np.float32 else None,
        columns=columns or _nameless(samples),
        class_names=class_names,
    )


def _nameless(samples: NDArray[Any]) -> tuple[str, ...]:
    return tuple(f"column {number}" for number in range(samples.shape[1])) if samples.ndim == 2 else ()


def _load(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with readable(path), zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > MOST_BYTES:
            raise DataError(f"{path} unpacks to {size:,} bytes, more than {MOST_BYTES:,}. Use image files instead.")
        with readable(path), np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (zipfile.BadZipFile, ValueError, KeyError, zlib.error, MemoryError, NotImplementedError) as error:
        reason = "it holds Python objects" if "allow_pickle" in str(error) else str(error) or type(error).__name__
        raise DataError(f"{path} cannot be read as .npz: {reason}. Save plain arrays with numpy.savez.") from error


@dataclass(frozen=True, kw_only=True, eq=False)
class _Piece:
    """The samples of one part, and their labels where those are asked for."""

    content: NDArray[Any]
    labels: NDArray[Any] | None

    def given(self) -> Sequence[Any]:
        return [None] * len(self.content) if self.labels is None else list(self.labels)


Pieces = Mapping[Part | None, _Piece]


def _pieces(arrays: Arrays, path: Path, labels: tuple[str, ...], labelled: bool) -> Pieces:
    """Samples and labels of every part, or of the one piece that has no name."""
    pieces: dict[Part | None, _Piece] = {}
    for part in ("train", "validation", "test"):
        words = "|".join(word for word, means in PARTS.items() if means == part)
        if piece := _piece(arrays, labels, labelled, words):
            pieces[part] = piece
    if not pieces:
        nameless = _piece(arrays, labels, labelled)
        if nameless is None:
            found = ", ".join(name[:80] for name in list(arrays)[:8]) or "nothing"
            wanted = (
                "`images` (or `features`) and `labels`; or x_train, y_train, x_test and y_test"
                if labelled
                else "`images`, or `features`"
            )
            other = " If the labels are called otherwise, say --label NAME." if labelled and labels == LABELS else ""
            raise DataError(f"{path} holds {found}. Save {wanted}.{other}")
        pieces[None] = nameless
    for piece in pieces.values():
        if piece.content.ndim == 0:
            raise DataError(f"{path}: its samples are a single number. Save an array with a row for each sample.")
        if piece.labels is not None and (piece.labels.ndim != 1 or len(piece.labels) != len(piece.content)):
            raise DataError(
                f"{path}: samples have shape {piece.content.shape} and labels {piece.labels.shape}; there must be one "
                "label per sample."
            )
    return pieces


def _piece(arrays: Arrays, called: tuple[str, ...], labelled: bool, part: str | None = None) -> _Piece | None:
    content, labels = (_named(arrays, names, part) for names in (CONTENT, called))
    if content is None or (labelled and labels is None):
        return None
    if labels is not None and labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]  # as Keras gives the labels of CIFAR
    return _Piece(content=content, labels=labels if labelled else None)


def _named(arrays: Arrays, names: tuple[str, ...], part: str | None = None) -> NDArray[Any] | None:
    """The array of the first of these names, with the word of a part before or behind it if one is asked for."""
    for name in names:
        pattern = name if part is None else rf"(?:{part})_{name}|{name}_(?:{part})"
        for key, array in arrays.items():
            if re.fullmatch(pattern, key, re.IGNORECASE):
                return array
    return None


def _samples(array: NDArray[Any], path: Path | str) -> NDArray[Any]:
    """Images as uint8, samples × channels × height × width; rows of numbers as float32."""
    if (
        array.dtype == bool
        or not np.issubdtype(array.dtype, np.number)
        or np.issubdtype(array.dtype, np.complexfloating)
    ):
        raise DataError(f"{path}: samples are {array.dtype}; they must be numbers.")
    if array.ndim == 2:
        with np.errstate(over="ignore"):
            return array.astype(np.float32)
    if array.ndim not in (3, 4) or 0 in array.shape[1:]:
        raise DataError(
            f"{path}: samples have shape {array.shape}: images are N×H×W, N×H×W×C or N×C×H×W, features N×D."
        )
    pixels = _eight_bits(array, path)
    if pixels.ndim == 3:
        return pixels[:, None]
    if pixels.shape[3] in CHANNELS and pixels.shape[1] not in CHANNELS:
        pixels = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    if pixels.shape[1] not in CHANNELS:
        raise DataError(f"{path}: images have shape {array.shape[1:]}: one, three or four channels come first or last.")
    return pixels[:, :3]  # without alpha


def _eight_bits(array: NDArray[Any], path: Path | str) -> NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return array
    if array.size and not np.isfinite(array).all():
        raise DataError(f"{path}: images hold NaN or infinity. Make them 8-bit numbers, 0 to 255.")
    low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
    fractions = np.issubdtype(array.dtype, np.floating) and high <= 1
    if low < 0 or high > 255:
        raise DataError(f"{path}: pixels reach from {low:g} to {high:g}: make them 8-bit numbers, 0 to 255.")
    pixels: NDArray[np.uint8] = np.rint(array * 255 if fractions else array).astype(np.uint8)
    return pixels


def _ids(arrays: Arrays, pieces: Pieces, path: Path) -> list[str]:
    given = _named(arrays, IDS)
    if given is not None and None in pieces and given.shape == pieces[None].content.shape[:1]:
        ids = [str(value) for value in given]
        require_unique(ids, path)
        return ids
    prefixes = {part: "" if part is None else f"{part}/" for part in pieces}
    return [f"{prefixes[part]}{row}" for part, piece in pieces.items() for row in range(len(piece.content))]


def _parts(arrays: Arrays, pieces: Pieces, path: Path) -> list[Part] | None:
    if None not in pieces:
        return [part or "train" for part, piece in pieces.items() for _ in range(len(piece.content))]
    given = _named(arrays, SPLITS)
    if given is None or given.shape != pieces[None].content.shape[:1]:
        return None
    return [part_named(value, path) for value in given]
