"""Noisy labels in a file, to be used again and passed on: a NumPy .npz that needs neither this package nor pickle.

Arrays `labels` (the given ones), `clean_labels` and `transition`; single values `dataset`, `noise`, `seed`, `protocol`,
`inputs`, `legacy_stream` and `format` say how they came about; `checksum` is the SHA-256 of all of those. The file
appears complete or not at all, and is read only if the checksum is right.

A transition matrix of the user's own from a file: .npy, or .csv with a row of numbers for each clean class.
"""

import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tnlpad.atomic_files import write_by_rename
from tnlpad.errors import LabelFileError, MatrixFileError
from tnlpad.noise.labels import checked_labels, require_same_clean_labels
from tnlpad.noise.transition import checked
from tnlpad.types import NoisyLabels, Transition

FORMAT = 1
MOST_SEED = 2**63 - 1  # NumPy's largest whole number
MOST_BYTES = 2**30  # some sixty million labels
WAY_OUT = "Make it again with `tnlpad noise`, or get another copy."


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelFile:
    """Labels and how they came about; `inputs` is None unless the noise depends on the images."""

    noisy: NoisyLabels
    dataset: str
    noise: str
    seed: int
    protocol: str
    inputs: str | None = None
    legacy_stream: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= MOST_SEED:
            raise ValueError(f"seed={self.seed!r}: a label file notes whole numbers from 0 to {MOST_SEED}.")


def write_label_file(path: Path, content: LabelFile) -> str:
    """Write the file, under another name first and then renamed; the checksum, such as "sha256:1f3a…"."""
    arrays = _arrays(content)
    checksum = _checksum(arrays)
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, checksum=np.array(checksum), **arrays)
    write_by_rename(path, stream.getvalue())
    return checksum


def read_label_file(path: Path) -> LabelFile:
    """The labels of a file; a damaged or foreign file is refused."""
    arrays = _read(path)
    try:
        if int(arrays["format"]) != FORMAT:
            raise LabelFileError(
                f"{path} has format {arrays['format']}, and this version of tnlpad reads {FORMAT}. Use the version "
                "that wrote it."
            )
        noted, found = str(arrays.pop("checksum")), _checksum(arrays)
        if noted != found:
            raise LabelFileError(
                f"{path} was changed after it was written: it notes {noted} and holds {found}. {WAY_OUT}"
            )
        return _content(arrays)
    except LabelFileError:
        raise
    except KeyError as error:
        raise LabelFileError(f"{path} is no label file: it has no entry {error}. {WAY_OUT}") from error
    except (ValueError, TypeError) as error:
        raise LabelFileError(f"{path} holds what cannot be noisy labels: {error} {WAY_OUT}") from error


def labels_from_file(path: Path, labels: ArrayLike, num_classes: int) -> NoisyLabels:
    """A file's noisy labels, refused unless they are labels of these samples, given by their clean labels."""
    noisy = read_label_file(path).noisy
    require_same_clean_labels(noisy.clean, checked_labels(labels, num_classes), str(path))
    if len(noisy.transition) != num_classes:
        raise LabelFileError(f"{path} has {len(noisy.transition)} classes, and the dataset has {num_classes}.")
    return noisy


def _arrays(content: LabelFile) -> dict[str, NDArray[Any]]:
    return {
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


def _content(arrays: dict[str, NDArray[Any]]) -> LabelFile:
    transition = checked(arrays["transition"])
    given, clean = (checked_labels(arrays[name], len(transition)) for name in ("labels", "clean_labels"))
    if len(given) != len(clean):
        raise ValueError(f"{len(given)} labels and {len(clean)} clean labels: must be as many of each.")
    return LabelFile(
        noisy=NoisyLabels(given=given, clean=clean, transition=transition),
        dataset=str(arrays["dataset"]),
        noise=str(arrays["noise"]),
        seed=int(arrays["seed"]),
        protocol=str(arrays["protocol"]),
        inputs=str(arrays["inputs"]) or None,
        legacy_stream=bool(arrays["legacy_stream"]),
    )


def _read(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise LabelFileError(f"{path} holds a single array and is no label file. {WAY_OUT}")
            if _unpacked_bytes(path) > MOST_BYTES:
                raise LabelFileError(
                    f"{path} unpacks to more than {MOST_BYTES:,} bytes and is no label file. {WAY_OUT}"
                )
            return {name: file[name] for name in file.files}
    except LabelFileError:
        raise
    except FileNotFoundError as error:
        raise LabelFileError(f"There is no label file {path}. Make it with `tnlpad noise`, or name another.") from error
    except OSError as error:
        raise LabelFileError(f"{path} cannot be read: {error.strerror or error}. {WAY_OUT}") from error
    except Exception as error:  # for a damaged archive, zipfile and NumPy raise almost anything there is
        reason = str(error) or type(error).__name__
        raise LabelFileError(f"{path} is damaged or no label file ({reason:.120}). {WAY_OUT}") from error


def _unpacked_bytes(path: Path) -> int:
    with zipfile.ZipFile(path) as archive:
        return sum(member.file_size for member in archive.infolist())


def _checksum(arrays: dict[str, NDArray[Any]]) -> str:
    """Over names, types, shapes and values, in the order of the names; that of the archive's bytes would hold times."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}\0{array.dtype.str}\0{arrays[name].shape}\0".encode())
        digest.update(array.tobytes())
    return f"sha256:{digest.hexdigest()}"


def read_matrix(path: Path, num_classes: int) -> Transition:
    """The matrix, refused unless each row is a probability distribution over this many classes."""
    try:
        matrix = checked(_matrix_rows(path))
    except OSError as error:
        raise MatrixFileError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, TypeError, EOFError) as error:
        raise MatrixFileError(
            f"{path} holds no transition matrix ({str(error).rstrip('.')}). Write a square of numbers, a row for each "
            "clean class and a column for each given class, without headings."
        ) from error
    if len(matrix) != num_classes:
        raise MatrixFileError(
            f"{path} holds a matrix of {len(matrix)} classes, and the dataset has {num_classes}: there must be a row "
            "and a column for each."
        )
    return matrix


def _matrix_rows(path: Path) -> Transition:
    if path.suffix.lower() == ".npy":
        loaded = np.load(path, allow_pickle=False)
        return np.asarray(loaded, dtype=np.float64)
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    if not any(line.strip() for line in lines):
        raise ValueError("The file is empty.")
    return np.loadtxt(lines, delimiter=",", ndmin=2, dtype=np.float64)
