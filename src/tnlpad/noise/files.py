"""Files of label noise: label files, and transition matrices of the user.

A label file is a NumPy .npz that can be read without this package and without pickle. It holds the arrays `labels` (the
given ones), `clean_labels` and `transition`. The scalars `dataset`, `noise`, `seed`, `protocol`, `inputs`,
`legacy_stream` and `format` describe how the labels were made. `checksum` is the SHA-256 of all other entries; a file
with a wrong checksum is rejected.

A transition matrix is read from .npy, or from .csv with one row of numbers per clean class.
"""

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tnlpad.array_files import NUMBERS, ArrayFile, read_array
from tnlpad.atomic_files import write_by_rename
from tnlpad.errors import DataError, LabelFileError, LabelMismatchError, MatrixFileError
from tnlpad.noise.transition import checked, checked_labels
from tnlpad.regular_files import require_regular
from tnlpad.types import Labels, NoisyLabels, Transition

FORMAT = 1
MAX_SEED = 2**63 - 1  # NumPy's largest int64
REMEDY = "Create it again with `tnlpad noise`, or get another copy."


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelFile:
    """Noisy labels and how they were made; `inputs` is None unless the noise depends on the images."""

    noisy: NoisyLabels
    dataset: str
    noise: str
    seed: int
    protocol: str
    inputs: str | None = None
    legacy_stream: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= MAX_SEED:
            raise ValueError(f"seed={self.seed!r}: a label file stores integers from 0 to {MAX_SEED}.")


def write_label_file(path: Path, content: LabelFile) -> str:
    """Write the file atomically; return its checksum, such as "sha256:1f3a…"."""
    arrays: dict[str, NDArray[Any]] = {
        "format": np.array(FORMAT, dtype="<i8"),
        "labels": content.noisy.given.astype("<i8"),
        "clean_labels": content.noisy.clean.astype("<i8"),
        "transition": content.noisy.transition.astype("<f8"),
        "dataset": np.array(content.dataset),
        "noise": np.array(content.noise),
        "seed": np.array(content.seed, dtype="<i8"),
        "protocol": np.array(content.protocol),
        "inputs": np.array(content.inputs or ""),
        "legacy_stream": np.array(content.legacy_stream),
    }
    checksum = _checksum(arrays)
    stream = io.BytesIO()
    np.savez_compressed(stream, checksum=np.array(checksum), **arrays)  # type: ignore[arg-type]
    write_by_rename(path, stream.getvalue())
    return checksum


def read_label_file(path: Path) -> LabelFile:
    """Read a label file; raise LabelFileError if it is missing, damaged or something else."""
    arrays = _read_arrays(path)
    try:
        version, stored = arrays["format"], str(arrays.pop("checksum"))
        if not np.array_equal(version, FORMAT):
            reason = f"has format {version}, and this version of tnlpad reads {FORMAT}. Use the version that wrote it."
        elif stored != (found := _checksum(arrays)):
            reason = f"was changed after it was written: it stores {stored}, its content has {found}. {REMEDY}"
        else:
            return _label_file(arrays)
    except KeyError as error:
        reason = f"is not a label file: it has no entry {error}. {REMEDY}"
    except (ValueError, TypeError, OverflowError) as error:
        reason = f"holds invalid labels: {error} {REMEDY}"
    raise LabelFileError(f"{path} {reason}")


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    if not path.exists():
        raise LabelFileError(f"{path} does not exist. Create it with `tnlpad noise`, or use another path.")
    try:
        return dict(ArrayFile(path, way_out=f"It is damaged or not a label file. {REMEDY}"))
    except DataError as error:
        raise LabelFileError(str(error)) from error


def _checksum(arrays: dict[str, NDArray[Any]]) -> str:
    """Hash names, types, shapes and values in the order of the names. The archive itself also contains times."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}\0{array.dtype.str}\0{arrays[name].shape}\0".encode())
        digest.update(array.tobytes())
    return f"sha256:{digest.hexdigest()}"


def _label_file(arrays: dict[str, NDArray[Any]]) -> LabelFile:
    transition = checked(arrays["transition"])
    given, clean = (checked_labels(arrays[name], len(transition)) for name in ("labels", "clean_labels"))
    if len(given) != len(clean):
        raise ValueError(f"{len(given)} labels and {len(clean)} clean labels: the numbers must be equal.")
    return LabelFile(
        noisy=NoisyLabels(given=given, clean=clean, transition=transition),
        dataset=str(arrays["dataset"]),
        noise=str(arrays["noise"]),
        seed=int(arrays["seed"]),
        protocol=str(arrays["protocol"]),
        inputs=str(arrays["inputs"]) or None,
        legacy_stream=bool(arrays["legacy_stream"]),
    )


def labels_from_file(path: Path, labels: ArrayLike, num_classes: int) -> NoisyLabels:
    """Read noisy labels; raise an error if they do not belong to these clean labels."""
    noisy = read_label_file(path).noisy
    require_same_clean_labels(noisy.clean, checked_labels(labels, num_classes), str(path))
    if len(noisy.transition) != num_classes:
        raise LabelFileError(f"{path} has {len(noisy.transition)} classes, but the dataset has {num_classes}.")
    return noisy


def require_same_clean_labels(stored: Labels, dataset: Labels, source: str) -> None:
    """Raise an error unless the clean labels stored with noisy labels are the dataset's, sample by sample.

    A file with another order of samples would otherwise look like noise of nearly 1 − 1/C.
    """
    if len(stored) != len(dataset):
        raise LabelMismatchError(
            f"{source} has {len(stored)} labels, but the dataset has {len(dataset)}. Use the labels with the dataset "
            "and the split that they were made for."
        )
    different = np.flatnonzero(stored != dataset)
    if different.size:
        first = int(different[0])
        raise LabelMismatchError(
            f"{source} has clean label {stored[first]} for sample {first}, but the dataset has {dataset[first]}; "
            f"{different.size} of {len(dataset)} differ. The samples are others or in another order: use the dataset's "
            "published order, or create the labels again for this dataset."
        )


def read_matrix(path: Path, num_classes: int) -> Transition:
    """Read a transition matrix; raise MatrixFileError if it is not one over `num_classes` classes."""
    try:
        if path.suffix.lower() == ".npy":
            matrix = checked(read_array(path, NUMBERS))
        else:
            require_regular(path)
            lines = path.read_text(encoding="utf-8-sig").splitlines()
            if not any(line.strip() for line in lines):
                raise ValueError("The file is empty.")
            matrix = checked(np.loadtxt(lines, delimiter=",", ndmin=2, dtype=np.float64))
    except OSError as error:
        raise MatrixFileError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, TypeError, DataError) as error:
        raise MatrixFileError(
            f"{path} is not a transition matrix ({str(error).rstrip('.')}). Write a square of numbers without headers, "
            "one row per clean class and one column per given class."
        ) from error
    if len(matrix) != num_classes:
        raise MatrixFileError(
            f"{path} has {len(matrix)} classes, but the dataset has {num_classes}. The matrix needs one row and one "
            "column per class."
        )
    return matrix
