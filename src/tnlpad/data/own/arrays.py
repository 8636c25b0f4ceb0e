"""Arrays of images or features as samples.

Images are 8-bit numbers, or fractions from 0 to 1, of shape N×H×W, N×H×W×C or N×C×H×W; features are of shape N×D.
"""

from collections.abc import Sequence, Sized
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.errors import DataError
from tnlpad.data.own.labels import Label, label_as_given
from tnlpad.data.own.listing import Listing, numbered_columns
from tnlpad.data.own.parts import Part

CHANNELS = (1, 3, 4)


def listing_of_arrays(
    content: Sequence[NDArray[Any]],
    labels: Sequence[Any] | None,
    *,
    where: Path | str,
    ids: Sequence[str],
    parts: Sequence[Part] | None = None,
    columns: tuple[str, ...] | None = None,
    class_names: tuple[str, ...] | None = None,
    notes: tuple[str, ...] = (),
) -> Listing:
    """The samples of one array or several, and the labels of each if there are any.

    Args:
        content: Arrays of images or features, such as one for each part.
        labels: As many arrays or lists.
        where: How messages call them.
        ids, parts: Of every sample.
        columns: What the features are called; numbered when not given.
        class_names, notes: As in `Listing`.
    """
    pieces = [_samples(array, where) for array in content]
    if len({(each.dtype, each.shape[1:]) for each in pieces}) > 1:
        raise DataError(f"{where}: the samples of its parts differ in shape or kind. Make them alike.")
    samples = np.concatenate(pieces)
    given: list[Label | None] = [None] * len(samples)
    if labels is not None:
        given = [label for pair in zip(labels, pieces, strict=True) for label in one_label_each(*pair, where)]
    return Listing(
        ids=ids,
        labels=given,
        parts=parts,
        images=samples if samples.dtype == np.uint8 else None,
        features=samples if samples.dtype == np.float32 else None,
        columns=columns or (numbered_columns(samples.shape[1]) if samples.ndim == 2 else ()),
        class_names=class_names,
        notes=notes,
    )


def one_label_each(labels: Any, samples: Sized, where: Path | str) -> list[Label | None]:
    """Labels in one dimension, as many as samples; a column of them, as Keras and pandas have it, is one as well."""
    shape: tuple[int, ...] = labels.shape if hasattr(labels, "shape") else (len(labels),)
    if len(shape) == 2 and shape[1] == 1:
        labels, shape = labels[:, 0], shape[:1]
    if len(shape) != 1:
        raise DataError(
            f"{where}: labels have the shape {tuple(shape)}: give one class for each sample, such as labels.argmax(1) "
            "of rows with a 1."
        )
    if len(labels) != len(samples):
        raise DataError(
            f"{where}: there are {len(samples):,} samples and {len(labels):,} labels: give one label for each sample."
        )
    return [label_as_given(value, where) for value in labels]


def _samples(array: NDArray[Any], where: Path | str) -> NDArray[Any]:
    """Images as uint8, samples × channels × height × width; rows of numbers as float32."""
    if (
        array.dtype == bool
        or not np.issubdtype(array.dtype, np.number)
        or np.issubdtype(array.dtype, np.complexfloating)
    ):
        way_out = ": save them as 0 and 1, with .astype('uint8')." if array.dtype == bool else "."
        raise DataError(f"{where}: samples are {array.dtype}; they must be numbers{way_out}")
    if array.ndim == 2 and array.shape[1]:
        with np.errstate(over="ignore"):
            return array.astype(np.float32)
    if array.ndim not in (3, 4) or 0 in array.shape[1:]:
        raise DataError(
            f"{where}: samples have shape {array.shape}: images are N×H×W, N×H×W×C or N×C×H×W, features N×D."
        )
    pixels = _eight_bits(array, where)
    if pixels.ndim == 3:
        return pixels[:, None]
    if pixels.shape[3] in CHANNELS and pixels.shape[1] not in CHANNELS:
        pixels = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    if pixels.shape[1] not in CHANNELS:
        raise DataError(
            f"{where}: images have shape {array.shape[1:]}: one, three or four channels come first or last."
        )
    return pixels[:, :3]  # without alpha


def _eight_bits(array: NDArray[Any], where: Path | str) -> NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return array
    if array.size and not np.isfinite(array).all():
        raise DataError(f"{where}: images hold NaN or infinity. Make them 8-bit numbers, 0 to 255.")
    low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
    fractions = np.issubdtype(array.dtype, np.floating) and high <= 1
    if low < 0 or high > 255:
        raise DataError(f"{where}: pixels reach from {low:g} to {high:g}: make them 8-bit numbers, 0 to 255.")
    pixels: NDArray[np.uint8] = np.rint(array * 255 if fractions else array).astype(np.uint8)
    return pixels
