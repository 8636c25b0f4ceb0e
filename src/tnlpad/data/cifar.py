"""Read CIFAR-10 and CIFAR-100 as published, in the binary and in the Python form.

Binary: one record per image, with the label byte (CIFAR-100: superclass, then class) and 3072 pixels. Python: a pickled
dict with `data` (images × 3072) and lists of labels. An image is its red, green and blue plane, each row by row.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.catalogue import CIFAR100_SUPERCLASS_NAMES
from tnlpad.data.files import read_bounded
from tnlpad.data.unpickle import unpickle
from tnlpad.errors import DataError
from tnlpad.types import Labels

IMAGE_SHAPE = (3, 32, 32)
IMAGE_BYTES = 3 * 32 * 32
MAX_FILE_BYTES = 1 << 28  # no published file is larger than 160 MB
SUPERCLASSES = len(CIFAR100_SUPERCLASS_NAMES)


@dataclass(frozen=True, kw_only=True, eq=False)
class CifarImages:
    """Images and labels of one or more batches; `coarse_labels` are CIFAR-100's superclasses."""

    images: NDArray[np.uint8]
    labels: Labels
    coarse_labels: Labels | None


def read_cifar_binary(paths: Sequence[Path], *, num_classes: int, coarse: bool) -> CifarImages:
    """Read binary batches in order; with `coarse`, a superclass precedes each label."""
    return _joined([_binary_batch(path, num_classes, coarse) for path in paths])


def read_cifar_python(paths: Sequence[Path], *, num_classes: int, coarse: bool) -> CifarImages:
    """Read Python batches in order. The caller compares them with their published checksums first."""
    return _joined([_python_batch(path, num_classes, coarse) for path in paths])


def checked_labels(values: NDArray[Any] | Sequence[object], *, num_classes: int, where: Path | str) -> Labels:
    """Return labels as int64; raise DataError unless each is a whole number from 0 to num_classes − 1."""
    if isinstance(values, np.ndarray):
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise DataError(
                f"{where}: labels are {values.dtype} of shape {values.shape}; they must be one whole number per image."
            )
        values = values.tolist()
    for index, label in enumerate(values):
        if type(label) is not int or not 0 <= label < num_classes:
            shown = label if type(label) is int and abs(label) < 10**9 else f"({type(label).__name__})"
            raise DataError(
                f"{where}: label {shown} of image {index} is out of range; with {num_classes} classes, labels are "
                f"whole numbers from 0 to {num_classes - 1}."
            )
    return np.array(values, dtype=np.int64)


def _binary_batch(path: Path, num_classes: int, coarse: bool) -> CifarImages:
    record_bytes = (2 if coarse else 1) + IMAGE_BYTES
    content = read_bounded(path, MAX_FILE_BYTES)
    if not content or len(content) % record_bytes:
        raise DataError(
            f"{path} has {len(content):,} bytes, which is not a whole number of records of {record_bytes} bytes: it is "
            "truncated or not a CIFAR batch."
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, record_bytes)
    return CifarImages(
        images=records[:, -IMAGE_BYTES:].reshape(-1, *IMAGE_SHAPE),
        labels=checked_labels(records[:, -IMAGE_BYTES - 1], num_classes=num_classes, where=path),
        coarse_labels=checked_labels(records[:, 0], num_classes=SUPERCLASSES, where=path) if coarse else None,
    )


def _python_batch(path: Path, num_classes: int, coarse: bool) -> CifarImages:
    batch = unpickle(io.BytesIO(read_bounded(path, MAX_FILE_BYTES)), where=path)
    if not isinstance(batch, dict):
        raise DataError(f"{path} holds a {type(batch).__name__}: a CIFAR batch is a dict with `data` and labels.")
    images = _entry(batch, "data", path)
    if not (isinstance(images, np.ndarray) and images.dtype == np.uint8 and images.shape[1:] == (IMAGE_BYTES,)):
        raise DataError(f"{path}: `data` must be unsigned bytes of shape images x {IMAGE_BYTES}.")

    def labels(key: str, classes: int) -> Labels:
        values = _entry(batch, key, path)
        if not isinstance(values, list) or len(values) != len(images):
            raise DataError(f"{path}: {key!r} must be a list with one label for each of the {len(images):,} images.")
        return checked_labels(values, num_classes=classes, where=path)

    return CifarImages(
        images=images.reshape(-1, *IMAGE_SHAPE),
        labels=labels("fine_labels" if coarse else "labels", num_classes),
        coarse_labels=labels("coarse_labels", SUPERCLASSES) if coarse else None,
    )


def _entry(batch: dict[Any, Any], key: str, path: Path) -> Any:
    """Return the entry of a batch, whose keys may be text or, written by Python 2, bytes."""
    for candidate in (key, key.encode()):
        if candidate in batch:
            return batch[candidate]
    raise DataError(f"{path} has no entry {key!r}: it is not a CIFAR batch of this dataset.")


def _joined(batches: Sequence[CifarImages]) -> CifarImages:
    coarse = [each.coarse_labels for each in batches if each.coarse_labels is not None]
    return CifarImages(
        images=np.concatenate([each.images for each in batches]),
        labels=np.concatenate([each.labels for each in batches]),
        coarse_labels=np.concatenate(coarse) if coarse else None,
    )
