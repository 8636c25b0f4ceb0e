"""Labels that a person decided on in an earlier round of cleaning: the file `X.decisions.csv` beside the data X."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tnlpad.data.own.tables import read_csv
from tnlpad.errors import DataError


@dataclass(frozen=True, kw_only=True, eq=False)
class Decided:
    """Labels that count as checked, by id, and what to say about them."""

    labels: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def decisions_file(data: Path) -> Path:
    """Return the file of earlier decisions beside data, which may be a file or a folder."""
    path = Path(os.path.abspath(data))
    return path.with_name(f"{path.name}.decisions.csv")


def read_decided(data: Path, ids: Sequence[str], labels: Sequence[str]) -> Decided:
    """Read the earlier decisions about data; those about samples that are gone or have another label do not count.

    Args:
        data: Path of the data.
        ids: Their ids.
        labels: Names of their classes.

    Raises:
        DataError: The file is damaged.
    """
    path = decisions_file(data)
    if not os.path.isfile(path):  # False for a name that is too long, where Path.is_file raises
        return Decided()
    columns, _ = read_csv(path)
    if missing := {"id", "label"} - columns.keys():
        raise DataError(f"{path} has no column {min(missing)}. Restore it, or remove it to train without it.")
    given = dict(zip(ids, labels, strict=True))
    found = dict(zip(columns["id"], columns["label"], strict=True))
    matching = {name: label for name, label in found.items() if given.get(name) == label}
    other = len(found) - len(matching)
    notes = []
    if matching:
        notes.append(f"labels that were decided on in an earlier round, and count as checked: {len(matching):,}.")
    if other:
        notes.append(f"decisions in {path.name} about samples that are gone or have another label now: {other:,}.")
    return Decided(labels=matching, notes=tuple(notes))
