"""Facts about many image files in one array, of 336 bytes each, instead of objects for each."""

from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.own.digests import DIGEST_BYTES, Digests
from tnlpad.data.pixels import CHROMA_SIDE, LUMA_SIDE, ImageInfo
from tnlpad.types import Index

FACTS = np.dtype(
    [
        ("width", np.int32),
        ("height", np.int32),
        ("mode", "S8"),
        ("digest", np.uint8, DIGEST_BYTES),
        ("thumbnail", np.uint8, LUMA_SIDE**2 + 2 * CHROMA_SIDE**2),
    ]
)


class ImageFacts(Sequence[ImageInfo]):
    """The `ImageInfo` of many images; `table` is an array of `FACTS`."""

    def __init__(self, table: NDArray[np.void]) -> None:
        self.table = table

    @classmethod
    def empty(cls, count: int) -> "ImageFacts":
        """Return facts to fill in; those about images that cannot be used stay zeros."""
        return cls(np.zeros(count, FACTS))

    def fill(self, places: Iterable[int], found: Iterable[ImageInfo | str]) -> dict[int, str]:
        """Fill in the facts about the images at these places; return by place why some cannot be used."""
        reasons: dict[int, str] = {}
        for place, each in zip(places, found, strict=True):
            if isinstance(each, str):
                reasons[place] = each
            else:
                digest, look = (np.frombuffer(part, np.uint8) for part in (each.digest, each.thumbnail))
                self.table[place] = (each.width, each.height, each.mode, digest, look)
        return reasons

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, place: int) -> ImageInfo: ...

    @overload
    def __getitem__(self, place: slice) -> list[ImageInfo]: ...

    def __getitem__(self, place: int | slice) -> ImageInfo | list[ImageInfo]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        row: Any = self.table[place]
        return ImageInfo(
            width=int(row["width"]),
            height=int(row["height"]),
            mode=row["mode"].decode(),
            digest=row["digest"].tobytes(),
            thumbnail=row["thumbnail"].tobytes(),
        )

    def take(self, rows: Index) -> "ImageFacts":
        """Return those of some images."""
        return self if len(rows) == len(self) else ImageFacts(self.table[rows])

    @property
    def digests(self) -> Digests:
        return Digests(self.table["digest"])

    @property
    def thumbnails(self) -> NDArray[np.uint8]:
        """Samples × bytes."""
        looks: NDArray[np.uint8] = self.table["thumbnail"]
        return looks

    @property
    def side(self) -> int:
        """Median shorter side in pixels."""
        return int(np.median(np.minimum(self.table["width"], self.table["height"])))

    @property
    def gray(self) -> bool:
        """Whether all images are."""
        _, first = np.unique(self.table["mode"], return_index=True)
        return all(self[place].gray for place in first.tolist())

    @property
    def modes(self) -> dict[str, int]:
        """Number of images per mode, the most frequent first."""
        return {name.decode(): count for name, count in _counted(self.table["mode"])}

    @property
    def sizes(self) -> dict[tuple[int, int], int]:
        """Number of images per width and height, the most frequent first."""
        sizes = np.stack([self.table["width"], self.table["height"]], axis=1).astype(np.int64)
        keys = sizes[:, 0] << 32 | sizes[:, 1]
        return {(key >> 32, key & 0xFFFFFFFF): count for key, count in _counted(keys)}


def _counted(values: NDArray[Any]) -> list[tuple[Any, int]]:
    """Return the different values with their numbers, the most frequent first, and of those the first that occurs."""
    found, first, counts = np.unique(values, return_index=True, return_counts=True)
    order = np.lexsort((first, -counts))
    return list(zip(found[order].tolist(), counts[order].tolist(), strict=True))
