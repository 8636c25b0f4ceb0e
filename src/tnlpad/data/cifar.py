"""Class indices as they come out of files: whole numbers within the range of the classes, or an error.

CIFAR-10 and CIFAR-100 as published, in the binary and in the Python form.

Binary: one record per image, its label byte (CIFAR-100: the super-class, then the class) and 3072 pixels. Python: a
pickled dict with `data` (images × 3072) and lists of labels. In both, an image is its red, green and blue plane, each
row by row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.class_names import CIFAR100_COARSE
from tnlpad.data.files import read_bounded
from tnlpad.data.unpickle import unpickle
from tnlpad.errors import DataError
from tnlpad.types import Labels


def labels_from_array(array: NDArray[Any], *, num_classes: int, where: Path | str) -> Labels:
    """The labels as int64, refused unless one-dimensional, whole and below the number of classes."""
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise DataError(
            f"{where}: labels are {array.dtype} of shape {array.shape}; they must be one whole number per image."
        )
    wrong = np.flatnonzero((array < 0) | (array >= num_classes))
    if wrong.size:
        raise DataError(
            f"{where}: label {array[wrong[0]]} of image {wrong[0]} is out of range; with {num_classes} classes, labels "
            f"are 0 to {num_classes - 1}."
        )
    return array.astype(np.int64)


def labels_from_list(values: Sequence[object], *, num_classes: int, where: Path | str) -> Labels:
    """The same for a list, whose entries may be anything."""
    for index, value in enumerate(values):
        if type(value) is not int or not 0 <= value < num_classes:
            shown = value if type(value) is int and abs(value) < 10**9 else f"({type(value).__name__})"
            raise DataError(
                f"{where}: label {shown} of image {index} is out of range; with {num_classes} classes, labels are "
                f"whole numbers from 0 to {num_classes - 1}."
            )
    return np.array(values, dtype=np.int64)


IMAGE_SHAPE = (3, 32, 32)
IMAGE_BYTES = 3 * 32 * 32
MOST_BYTES = 1 << 28  # no published file is larger than 160 MB


@dataclass(frozen=True, kw_only=True, eq=False)
class CifarImages:
    """The images and labels of some batches; `coarse_labels` are CIFAR-100's super-classes."""

    images: NDArray[np.uint8]
    labels: Labels
    coarse_labels: Labels | None


def read_cifar_binary(paths: Sequence[Path], *, num_classes: int, coarse: bool) -> CifarImages:
    """Binary batches, one after the other; `coarse` says whether a super-class stands before each label."""
    return _joined([_binary_batch(path, num_classes, coarse) for path in paths])


def read_cifar_python(paths: Sequence[Path], *, num_classes: int, coarse: bool) -> CifarImages:
    """Python batches, one after the other, read without running the pickles."""
    return _joined([_python_batch(path, num_classes, coarse) for path in paths])


def _binary_batch(path: Path, num_classes: int, coarse: bool) -> CifarImages:
    record_bytes = (2 if coarse else 1) + IMAGE_BYTES
    content = read_bounded(path, MOST_BYTES)
    if not content or len(content) % record_bytes:
        raise DataError(
            f"{path} has {len(content):,} bytes, which is not a whole number of records of {record_bytes} bytes: it is "
            "truncated or not a CIFAR batch."
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, record_bytes)
    return CifarImages(
        images=records[:, -IMAGE_BYTES:].reshape(-1, *IMAGE_SHAPE),
        labels=labels_from_array(records[:, -IMAGE_BYTES - 1], num_classes=num_classes, where=path),
        coarse_labels=labels_from_array(records[:, 0], num_classes=len(CIFAR100_COARSE), where=path)
        if coarse
        else None,
    )


def _python_batch(path: Path, num_classes: int, coarse: bool) -> CifarImages:
    batch, _ = unpickle(read_bounded(path, MOST_BYTES), where=path)
    if not isinstance(batch, dict):
        raise DataError(f"{path} holds a {type(batch).__name__}: a CIFAR batch is a dict with `data` and labels.")
    images = _entry(batch, "data", path)
    if not (isinstance(images, np.ndarray) and images.dtype == np.uint8 and images.shape[1:] == (IMAGE_BYTES,)):
        raise DataError(f"{path}: `data` must be unsigned bytes of shape images x {IMAGE_BYTES}.")
    return CifarImages(
        images=images.reshape(-1, *IMAGE_SHAPE),
        labels=_python_labels(batch, "fine_labels" if coarse else "labels", num_classes, len(images), path),
        coarse_labels=_python_labels(batch, "coarse_labels", len(CIFAR100_COARSE), len(images), path)
        if coarse
        else None,
    )


def _entry(batch: dict[Any, Any], key: str, path: Path) -> Any:
    """Python 2 wrote keys as bytes; latin-1 text and bytes are the same key here."""
    for candidate in (key, key.encode()):
        if candidate in batch:
            return batch[candidate]
    raise DataError(f"{path} has no entry {key!r}: it is not a CIFAR batch of this dataset.")


def _python_labels(batch: dict[Any, Any], key: str, num_classes: int, images: int, path: Path) -> Labels:
    values = _entry(batch, key, path)
    if not isinstance(values, list) or len(values) != images:
        raise DataError(f"{path}: {key!r} must be a list with one label for each of the {images:,} images.")
    return labels_from_list(values, num_classes=num_classes, where=path)


def _joined(batches: Sequence[CifarImages]) -> CifarImages:
    coarse = [each.coarse_labels for each in batches if each.coarse_labels is not None]
    return CifarImages(
        images=np.concatenate([each.images for each in batches]),
        labels=np.concatenate([each.labels for each in batches]),
        coarse_labels=np.concatenate(coarse) if coarse else None,
    )
