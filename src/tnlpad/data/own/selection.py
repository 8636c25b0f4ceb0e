"""Sequences that take their entries from others: some samples, their paths, their images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tnlpad.data.shards import ShardContents
from tnlpad.types import Index

Encoded = str | bytes  # path of an image file, or its content


class Selection(Sequence[Any]):
    """Some entries of a sequence, without copying them."""

    def __init__(self, entries: Sequence[Any], places: Index) -> None:
        self.entries, self.places = entries, places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self.entries[each] for each in self.places[place].tolist()]
        return self.entries[int(self.places[place])]


class Paths(Sequence[str | None]):
    """The paths among image files, of which others are given by their content, as None."""

    def __init__(self, files: Sequence[Encoded]) -> None:
        self.files = files
        source = files.entries if isinstance(files, Selection) else files
        self.contents = isinstance(source, ShardContents)  # which would be read to learn that they are no paths

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        place = range(len(self))[place]  # raises IndexError
        file = None if self.contents else self.files[place]
        return file if isinstance(file, str) else None


def selected(entries: Sequence[Any], places: Index) -> Sequence[Any]:
    """Return some entries, in ascending order, without copying them."""
    return entries if len(places) == len(entries) else Selection(entries, places)


class EncodedImages:
    """Image files of own data by path or content: a `tnlpad.types.ImageStore`.

    Args:
        files: Paths or contents.
        ids: Ids of the samples, which name those without a path in messages.
        source: Path of the data.
    """

    def __init__(self, files: Sequence[Encoded], ids: Sequence[str], source: Path) -> None:
        self.files, self.ids, self.source = files, ids, source

    def read(self, place: int) -> Encoded:
        """Return an image."""
        return self.files[place]

    def where(self, place: int) -> str:
        """Name an image."""
        file = self.files[place]
        return file if isinstance(file, str) else f"{self.source}, sample {self.ids[place][:200]}"
