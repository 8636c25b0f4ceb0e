"""A transition matrix of the user's own from a file: .npy, or .csv with a row of numbers for each clean class."""

from pathlib import Path

import numpy as np

from tnlpad.noise.errors import MatrixFileError
from tnlpad.noise.transition import checked
from tnlpad.types import Transition


def read_matrix(path: Path, num_classes: int) -> Transition:
    """The matrix, refused unless each row is a probability distribution over this many classes."""
    try:
        matrix = checked(_read(path))
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


def _read(path: Path) -> Transition:
    if path.suffix.lower() == ".npy":
        loaded = np.load(path, allow_pickle=False)
        return np.asarray(loaded, dtype=np.float64)
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    if not any(line.strip() for line in lines):
        raise ValueError("The file is empty.")
    return np.loadtxt(lines, delimiter=",", ndmin=2, dtype=np.float64)
