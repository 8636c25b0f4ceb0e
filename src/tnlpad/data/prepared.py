"""Read images that were decoded and resized once: raw pixels behind a memory map, in the order of a list of names.

A folder `prepared-128` holds images whose shorter side has 128 pixels:

- `manifest.json` is written last, so that a folder without it is not complete. It has the size and checksum of every
  part, the number of images, and a fingerprint of the encoded images.
- `names.txt` lists the images, one path relative to the dataset's folder per line.
- `part-00000.bin` and so on hold `images_per_part` images each: the pixels (height × width × 3 bytes) of one image
  after another, then their index (`INDEX`).

`tnlpad.data.prepare` writes it.
"""

import hashlib
import json
import mmap
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.files import byte_lines, read_bounded, readable
from tnlpad.errors import DataError
from tnlpad.json_text import parse_json
from tnlpad.schema import Schema, problem

FORMAT = 1
MANIFEST, NAMES = "manifest.json", "names.txt"
INDEX = np.dtype([("width", "<u4"), ("height", "<u4"), ("sha256", "u1", 32)])  # of each image; the digest is its file's
CHANNELS = 3
MAX_MANIFEST_BYTES, MAX_NAMES_BYTES = 1 << 26, 1 << 30
RELEASED_BYTES = 1 << 24
ADVICE = "Remove the folder and run `tnlpad data prepare` again."


def prepared_name(resize: int | str) -> str:
    """Return the name of the folder of images with this many pixels on their shorter side."""
    return f"prepared-{resize}"


def part_name(number: int) -> str:
    """Return the name of a file of pixels."""
    return f"part-{number:05}.bin"


@dataclass(frozen=True, kw_only=True)
class PreparedPart:
    """A file of pixels: its number of images, size and checksum."""

    file: str
    images: int
    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Description of a folder of prepared images.

    Args:
        source: Dataset or folder that the images came from.
        resize: Pixels of the shorter side.
        images, images_per_part: Number of images; every part but the last has equally many.
        names_sha256: Checksum of the list of names.
        fingerprint: SHA-256 of the digests of all encoded images, in order.
        parts: Files with the pixels.
        format: Version of this format.
    """

    source: str
    resize: int
    images: int
    images_per_part: int
    names_sha256: str
    fingerprint: str
    parts: tuple[PreparedPart, ...]
    format: int = FORMAT

    def to_json(self) -> bytes:
        """Return the content of the file."""
        return json.dumps(asdict(self), indent=1).encode() + b"\n"


PART_FIELDS: Schema = {"file": str, "images": int, "bytes": int, "sha256": str}
MANIFEST_FIELDS: Schema = {
    **dict.fromkeys(("source", "names_sha256", "fingerprint"), str),
    **dict.fromkeys(("resize", "images", "images_per_part", "format"), int),
    "parts": list[dict[str, object]],
}


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a complete folder; raise DataError if it is damaged or of another version."""
    path = folder / MANIFEST
    content = read_bounded(path, MAX_MANIFEST_BYTES)
    try:
        fields: dict[str, Any] = parse_json(content)
        if found := problem(fields, MANIFEST_FIELDS):
            raise ValueError(found)
        if found := next(filter(None, (problem(part, PART_FIELDS) for part in fields["parts"])), None):
            raise ValueError(f"in a part, {found}")
        manifest = Manifest(**fields | {"parts": tuple(PreparedPart(**part) for part in fields["parts"])})
        _check_parts(manifest)
    except (ValueError, TypeError) as error:
        raise DataError(f"{path} is damaged ({error}). {ADVICE}") from error
    if manifest.format != FORMAT:
        raise DataError(f"{path} has format {manifest.format}; this version reads format {FORMAT}. {ADVICE}")
    return manifest


def _check_parts(manifest: Manifest) -> None:
    counts = [part.images for part in manifest.parts]
    if found := [part.file for number, part in enumerate(manifest.parts) if part.file != part_name(number)]:
        raise ValueError(f"a part is called {found[0]!r}")
    if manifest.images_per_part < 1 or any(count < 0 for count in counts):
        raise ValueError("numbers of images below zero")
    full = all(count == manifest.images_per_part for count in counts[:-1])
    if sum(counts) != manifest.images or not full or max(counts, default=0) > manifest.images_per_part:
        raise ValueError(f"parts of other numbers of images than {manifest.images_per_part:,}")


def open_prepared(folder: Path) -> "PreparedImages | None":
    """Open the folder if it is complete, else return None. All readers of this process share one index."""
    path = folder / MANIFEST
    try:
        stamp = os.stat(path).st_mtime_ns
    except OSError:
        return None
    return _opened(Path(os.path.abspath(folder)), stamp)


@lru_cache(maxsize=2)
def _opened(folder: Path, _stamp: int) -> "PreparedImages":
    return PreparedImages(folder)


class PreparedImages:
    """Prepared images by their place in the list of names: a `tnlpad.types.ImageStore` of pixels.

    Pixels are read through memory maps. The system keeps recently read ones in its cache, for all processes together.
    They do not count as memory of this process for long, so its size does not depend on the number of images.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.manifest = folder, read_manifest(folder)
        index = np.concatenate([np.empty(0, INDEX), *map(self._index, self.manifest.parts)])
        if len(index) != self.manifest.images:
            raise DataError(f"{folder} has {len(index):,} of {self.manifest.images:,} images. {ADVICE}")
        sizes = np.stack([index["height"], index["width"]], 1)
        self.sizes = _smallest(sizes)
        self.begins = _smallest(np.concatenate([_begins(part) for part in self._split(sizes)]))
        self._maps: dict[int, mmap.mmap] = {}
        self._touched = 0  # bytes since pages were last released

    def _index(self, part: PreparedPart) -> NDArray[Any]:
        path = self.folder / part.file
        with readable(path), path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size != part.bytes:
                raise DataError(f"{path} has {size:,} bytes instead of {part.bytes:,}. {ADVICE}")
            return read_index(file.fileno(), part.images, size)

    def _split(self, rows: NDArray[Any]) -> list[NDArray[Any]]:
        each = self.manifest.images_per_part
        return [rows[start : start + each] for start in range(0, len(rows), each)]

    def __len__(self) -> int:
        return self.manifest.images

    def names(self) -> Iterator[bytes]:
        """Yield the names of the images in order; raise DataError if there are more or fewer names than images."""
        count = 0
        for count, name in enumerate(byte_lines(self.folder / NAMES, MAX_NAMES_BYTES), 1):
            if count > len(self):
                break
            yield name
        if count != len(self):
            raise DataError(f"{self.folder / NAMES} does not name {len(self):,} images. {ADVICE}")

    def digests(self) -> NDArray[np.uint8]:
        """Return the SHA-256 of every encoded image, 32 bytes in a row."""
        digests: NDArray[np.uint8] = np.concatenate([self._index(part)["sha256"] for part in self.manifest.parts])
        return digests

    def read(self, place: int) -> NDArray[np.uint8]:
        """Return the pixels of an image: height × width × 3."""
        height, width = self.sizes[place].tolist()
        size, begin = height * width * CHANNELS, int(self.begins[place])
        part = self._map(place // self.manifest.images_per_part)
        self._release(size)
        return np.frombuffer(part, np.uint8, size, begin).reshape(height, width, CHANNELS)

    def where(self, place: int) -> str:
        """Name an image by its part."""
        part = self.manifest.parts[place // self.manifest.images_per_part]
        return f"{self.folder / part.file}, image {place % self.manifest.images_per_part}"

    def _map(self, number: int) -> mmap.mmap:
        if number not in self._maps:
            path = self.folder / self.manifest.parts[number].file
            with readable(path), path.open("rb") as file:
                self._maps[number] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._maps[number]

    def _release(self, size: int) -> None:
        """Give pages back now and then, which stay in the system's cache: else they count as memory of this process."""
        self._touched += size
        if self._touched > RELEASED_BYTES and hasattr(mmap, "MADV_DONTNEED"):
            self._touched = 0
            for part in list(self._maps.values()):
                part.madvise(mmap.MADV_DONTNEED)

    def problems(self) -> Iterator[str]:
        """Yield one sentence for every file that differs from the manifest; reads all of them."""
        files = [(part.file, part.sha256) for part in self.manifest.parts]
        for name, expected in [(NAMES, self.manifest.names_sha256), *files]:
            path = self.folder / name
            with readable(path), path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != expected:
                yield f"{path} has sha256 {found}, expected {expected}. {ADVICE}"


def read_index(file: int, images: int, size: int) -> NDArray[Any]:
    """Read the index at the end of a part of this size; raise DataError if it does not fit to the pixels before it."""
    begin = size - images * INDEX.itemsize
    content = os.pread(file, images * INDEX.itemsize, begin) if begin >= 0 else b""
    index = np.frombuffer(content, INDEX)
    if len(index) != images or int((index["width"].astype(np.int64) * index["height"]).sum()) * CHANNELS != begin:
        raise DataError(f"A part with {images:,} images in {size:,} bytes is damaged. {ADVICE}")
    return index


def _smallest(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers in as few bytes as they need."""
    return numbers.astype(np.min_scalar_type(numbers.max()))


def _begins(sizes: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return where each image of a part begins."""
    lengths = sizes.astype(np.int64).prod(1) * CHANNELS
    begins: NDArray[np.int64] = np.cumsum(lengths) - lengths
    return begins
