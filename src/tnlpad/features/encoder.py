"""Encoders turn texts or rows of a table into numbers. They are stored as JSON and arrays, never as a pickle."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tnlpad.array_files import NUMBERS, ArrayFile
from tnlpad.atomic_files import replacing, write_by_rename
from tnlpad.errors import DataError
from tnlpad.json_text import load_json
from tnlpad.schema import Schema, problem

DESCRIPTION, ARRAYS = "encoder.json", "encoder.npz"


class Encoder(Protocol):
    """A fitted encoder, as `TextEncoder`, `TableEncoder` and `Projection` are."""

    kind: ClassVar[str]

    @property
    def dimensions(self) -> int:
        """Number of features per sample."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Name of each feature."""
        ...

    def transform(self, samples: Any, /) -> NDArray[np.float32]:
        """Return the features of samples, a row for each."""
        ...

    def to_files(self, folder: Path) -> None:
        """Write the encoder into a folder."""
        ...

    @classmethod
    def from_files(cls, folder: Path) -> Self:
        """Read an encoder that `to_files` wrote."""
        ...


def load_encoder(folder: Path) -> Encoder:
    """Return the encoder in a folder, of any kind; raise DataError if there is none or it is damaged."""
    from tnlpad.features.projection import Projection
    from tnlpad.features.table import TableEncoder
    from tnlpad.features.text import TextEncoder

    kind = read_encoder(folder)[0].get("kind")
    for encoder in (TextEncoder, TableEncoder, Projection):
        if kind == encoder.kind:
            return encoder.from_files(folder)
    raise DataError(f"{folder / DESCRIPTION} describes an encoder of kind {str(kind)[:80]!r}, which is unknown.")


def write_encoder(folder: Path, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write both files of an encoder; the description comes last and marks it as complete."""
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / ARRAYS) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    write_by_rename(folder / DESCRIPTION, json.dumps(description, ensure_ascii=False).encode())


def read_encoder(folder: Path, schema: Schema | None = None) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the description and the arrays of an encoder; raise DataError if they cannot be read or used."""
    try:
        description = load_json(folder / DESCRIPTION)
        arrays = dict(ArrayFile(folder / ARRAYS, NUMBERS, "The samples cannot be encoded without it. Train again."))
    except (OSError, ValueError) as error:
        raise DataError(f"{folder}: the encoder of the samples cannot be read ({error}). Train again.") from error
    if found := problem(description, schema or {}):
        raise damaged(folder, found)
    if unusable := [name for name, array in arrays.items() if not np.isfinite(array).all()]:
        raise damaged(folder, f"{unusable[0][:80]!r} holds values that are no numbers")
    return description, arrays


def damaged(folder: Path, reason: str = "its files do not fit together") -> DataError:
    """Return the error for an encoder that cannot be used."""
    return DataError(f"{folder}: the encoder of the samples is damaged ({reason}). Restore its files, or train again.")
