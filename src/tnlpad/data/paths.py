"""Paths of many files in little memory: one block of bytes and an offset for each, instead of a str object each."""

from collections.abc import Iterator, Sequence
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray


class PathList(Sequence[str]):
    """A sequence of texts with a common beginning and end, such as the paths of a million images in one folder.

    Args:
        names: The parts in UTF-8 that differ. They are copied.
        prefix, suffix: What every text begins and ends with, such as the folder and the extension.
    """

    def __init__(self, names: Sequence[bytes], *, prefix: str = "", suffix: str = "") -> None:
        self.content, self.prefix, self.suffix = b"".join(names), prefix, suffix
        # Offsets of four bytes suffice for lists below 4 GiB.
        kind = np.uint32 if len(self.content) < 2**32 else np.uint64
        self.bounds: NDArray[np.unsignedinteger[Any]] = np.zeros(len(names) + 1, kind)
        np.cumsum(np.fromiter(map(len, names), self.bounds.dtype, len(names)), out=self.bounds[1:])

    @classmethod
    def of(cls, content: bytes, bounds: NDArray[np.unsignedinteger[Any]]) -> Self:
        """Return a list from its content, and where each text begins, with the end of the last one."""
        paths = cls(())
        paths.content, paths.bounds = content, bounds
        return paths

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        return f"{self.prefix}{self.name(place).decode()}{self.suffix}"

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))

    def __repr__(self) -> str:
        return f"<{len(self):,} paths below {self.prefix!r}>"

    def names(self) -> Iterator[bytes]:
        """Yield the parts that differ."""
        return map(self.name, range(len(self)))

    def name(self, place: int) -> bytes:
        """Return the part of a text that differs."""
        place = range(len(self))[place]  # raises IndexError, and counts negative places from the end
        return self.content[self.bounds[place] : self.bounds[place + 1]]
