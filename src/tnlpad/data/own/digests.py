"""Digests of many samples in one array, instead of an object for each."""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tnlpad.types import Index

DIGEST_BYTES = 32  # SHA-256
NOWHERE = -1


class Digests(Sequence[bytes]):
    """A sequence of digests; `rows` has one of them in each row."""

    def __init__(self, rows: NDArray[np.uint8]) -> None:
        self.rows = rows

    @classmethod
    def of(cls, digests: Sequence[bytes]) -> "Digests":
        """Return the digests in one array."""
        if isinstance(digests, cls):
            return digests
        return cls(np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIGEST_BYTES))

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> bytes: ...

    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...

    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        if isinstance(place, slice):
            return [row.tobytes() for row in self.rows[place]]
        return bytes(self.rows[place])

    def take(self, places: Index) -> "Digests":
        """Return those at some places."""
        return Digests(self.rows[places])

    def first_places(self) -> Index:
        """Return for each digest the first place of an equal one."""
        _, place, inverse = np.unique(self._keys(), return_index=True, return_inverse=True)
        first: Index = place[inverse]
        return first

    def _keys(self) -> NDArray[Any]:
        return np.ascontiguousarray(self.rows).view(f"V{DIGEST_BYTES}").ravel()


class DigestIndex:
    """Finds digests among others, which must be different."""

    def __init__(self, digests: Digests) -> None:
        keys = digests._keys()
        self._order: Index = np.argsort(keys)
        self._sorted = keys[self._order]

    def places(self, digests: Digests) -> Index:
        """Return the place of each of these digests, or `NOWHERE`."""
        keys = digests._keys()
        if not len(self._sorted):
            return np.full(len(keys), NOWHERE)
        near = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        return np.where(self._sorted[near] == keys, self._order[near], NOWHERE)
