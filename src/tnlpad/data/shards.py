"""Read images from uncompressed tar files ("shards") in any order, by the position of each one.

Shards may follow the layout of WebDataset: the members of one sample share a key, the name up to its first dot, such
as `000017.jpg` with the label in `000017.cls` or `000017.json`. Headers are read once. The index is kept beside the
shards, or in the user's cache if their folder cannot be written to, until a shard changes.
"""

import hashlib
import json
import os
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tnlpad.array_files import ArrayFile
from tnlpad.atomic_files import replacing
from tnlpad.data.files import readable, user_cache
from tnlpad.data.paths import PathList
from tnlpad.data.pixels import IMAGE_SUFFIXES, MAX_FILE_BYTES
from tnlpad.data.progress import SILENT, Reporter
from tnlpad.errors import DataError
from tnlpad.json_text import parse_json

SHARDS_FOLDER = "shards"  # in the folder of a dataset
SHARD_SUFFIX = ".tar"
INDEX_FILE = ".tnlpad-index.npz"
FORMAT = 2  # of the index; raise it when other members count as images
LABEL_SUFFIXES = (".cls", ".json")
LABEL_KEYS = ("label", "cls", "class")  # in a .json member
MAX_LABEL_BYTES = 1 << 16
MAX_OPEN = 256  # shards; systems often allow a process 1,024 open files
Stamp = tuple[tuple[str, int, int], ...]  # name, size and time of change of every shard


@dataclass(frozen=True, kw_only=True, eq=False)
class ShardIndex:
    """Images of all shards in order: name, number of the shard, position and size; `labels` are empty without one."""

    names: PathList
    labels: PathList
    shard: NDArray[np.uint32]
    offset: NDArray[np.int64]
    size: NDArray[np.uint32]


def shard_files(folder: Path) -> list[str]:
    """Return the names of the shards in a folder, in order; none if there is no such folder."""
    try:
        with os.scandir(folder) as entries:
            return sorted(each.name for each in entries if each.name.endswith(SHARD_SUFFIX) and each.is_file())
    except OSError:
        return []


def open_shards(folder: Path, reporter: Reporter = SILENT) -> "ShardImages | None":
    """Open a folder of shards, or return None if it has none. All readers of this process share one index."""
    place = Path(os.path.abspath(folder))
    stamp = _stamp(place)
    if not stamp:
        return None
    if (place, stamp) not in _OPENED:
        _OPENED.clear()  # an index of a million images is worth sharing, and not worth keeping after its use
        _OPENED[place, stamp] = _indexed(place, stamp, reporter)
    return _OPENED[place, stamp]


_OPENED: dict[tuple[Path, Stamp], "ShardImages"] = {}


def _stamp(folder: Path) -> Stamp:
    with readable(folder):
        found = [(name, os.stat(folder / name)) for name in shard_files(folder)]
    return tuple((name, each.st_size, each.st_mtime_ns) for name, each in found)


def _indexed(folder: Path, stamp: Stamp, reporter: Reporter) -> "ShardImages":
    shards, index = [name for name, _, _ in stamp], kept_index(folder, stamp)
    if index is not None:
        return ShardImages(folder, shards, index, stamp)
    index = index_shards(folder, shards, reporter)
    return ShardImages(folder, shards, index, stamp if keep_index(folder, index) else None)


def kept_index(folder: Path, stamp: Stamp) -> ShardIndex | None:
    """Return the index that was written for these shards, or None."""
    digest = _digest(stamp)
    found = (_read_index(path, digest) for path in _places(folder))
    return next((kept for kept in found if kept is not None and _fits(kept, stamp)), None)


def _fits(index: ShardIndex, stamp: Stamp) -> bool:
    """Return whether all images of an index lie within the shards."""
    if len(index.shard) == 0:
        return True
    if int(index.shard.min()) < 0 or int(index.shard.max()) >= len(stamp):
        return False
    sizes = np.array([size for _, size, _ in stamp], np.int64)
    inside = index.offset.astype(np.int64) + index.size <= sizes[index.shard]
    return bool(inside.all()) and int(index.offset.min()) >= 0 and int(index.size.min()) >= 0


def _digest(stamp: Stamp) -> str:
    return hashlib.sha256(json.dumps([FORMAT, stamp]).encode()).hexdigest()


def _places(folder: Path) -> tuple[Path, Path]:
    """Return where the index of a folder may be."""
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
    return folder / INDEX_FILE, user_cache() / "tnlpad" / "shards" / f"{name}.npz"


class ShardImages:
    """Images in shards by their place in the index: a `tnlpad.types.ImageStore` of encoded content.

    Memory holds only the positions of images if the index is kept in a file.

    Args:
        folder, shards: Folder and names of the shards.
        index: The images.
        kept: State of the shards for which the index was written to a file, if it was.
    """

    def __init__(self, folder: Path, shards: Sequence[str], index: ShardIndex, kept: Stamp | None = None) -> None:
        self.folder, self.shards = folder, tuple(shards)
        self.shard, self.offset, self.size = index.shard, index.offset, index.size
        self._kept, self._index = kept, index if kept is None else None
        self._open: dict[int, int] = {}  # file descriptors

    def __len__(self) -> int:
        return len(self.offset)

    def index(self) -> ShardIndex:
        """Return the index with the names and labels of all images."""
        index = self._index or (None if self._kept is None else kept_index(self.folder, self._kept))
        if index is None:
            raise DataError(f"{self.folder}: the index of the shards is gone. Start the command again to rebuild it.")
        return index

    def __del__(self) -> None:
        for file in getattr(self, "_open", {}).values():
            with suppress(OSError):
                os.close(file)

    def names(self) -> Iterator[bytes]:
        """Yield the names of the images in order."""
        return self.index().names.names()

    def read(self, place: int) -> bytes:
        """Return the encoded content of an image; raise DataError if the shard has become shorter or is gone."""
        number, size, offset = (int(each[place]) for each in (self.shard, self.size, self.offset))
        try:
            content = self._pread(number, size, offset)
        except OSError as error:
            raise DataError(f"{self.where(place)} cannot be read: {error.strerror or error}.") from error
        if len(content) != size:
            raise DataError(f"{self.where(place)} cannot be read: the shard has become shorter. Restore it.")
        return content

    def where(self, place: int) -> str:
        """Name an image by its shard and member."""
        return f"{self.folder / self.shards[int(self.shard[place])]}, member {self.index().names[place]}"

    def _pread(self, number: int, size: int, offset: int) -> bytes:
        """Read from a shard. The first shards that are read stay open; others are opened every time."""
        file = self._open.get(number)
        if file is not None:
            return os.pread(file, size, offset)
        file = os.open(self.folder / self.shards[number], os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        if len(self._open) < MAX_OPEN and self._open.setdefault(number, file) == file:
            return os.pread(file, size, offset)
        try:
            return os.pread(file, size, offset)
        finally:
            os.close(file)


class ShardContents(Sequence[bytes]):
    """The encoded images in shards as a sequence, each read when it is needed."""

    def __init__(self, images: ShardImages) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    @overload
    def __getitem__(self, place: int) -> bytes: ...

    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...

    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        places = range(len(self))[place]
        return self.images.read(places) if isinstance(places, int) else [self.images.read(each) for each in places]


def _encoded(name: str, shard: Path) -> bytes:
    try:
        return name.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{shard}: the name of member {name!r:.120} is not in UTF-8. Write the shard again.") from error


def index_shards(folder: Path, shards: Sequence[str], reporter: Reporter = SILENT) -> ShardIndex:
    """Read the headers of all shards, and the labels of their images."""
    names: list[bytes] = []
    labels: list[bytes] = []
    numbers: list[int] = []
    positions: list[tuple[int, int]] = []
    for number, shard in enumerate(shards):
        for name, offset, size, label in _images(folder / shard):
            names.append(_encoded(name, folder / shard))
            labels.append(label)
            numbers.append(number)
            positions.append((offset, size))
        reporter.progress("Indexing shards", number + 1, len(shards))
    _require_unique(names, folder)
    offsets, sizes = np.array(positions, dtype=np.int64).reshape(-1, 2).T
    return ShardIndex(
        names=PathList(names),
        labels=PathList(labels),
        shard=np.array(numbers, dtype=np.uint32),
        offset=offsets.copy(),
        size=sizes.astype(np.uint32),
    )


def _require_unique(names: Sequence[bytes], folder: Path) -> None:
    if len(set(names)) == len(names):
        return
    ((twice, _),) = Counter(names).most_common(1)
    raise DataError(f"{folder}: the shards have two images {twice.decode()!r:.120}. Remove one of them.")


def _images(path: Path) -> Iterator[tuple[str, int, int, bytes]]:
    """Yield name, position, size and label of every image of one shard, in order."""
    images: dict[str, list[tuple[str, int, int]]] = {}  # by key, since members of a sample need not be neighbours
    labels: dict[str, bytes] = {}
    try:
        with readable(path), tarfile.open(path, "r:") as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                suffix = os.path.splitext(name)[1].lower()
                if not member.isreg():
                    continue
                if suffix in IMAGE_SUFFIXES:
                    if member.size > MAX_FILE_BYTES:
                        raise DataError(f"{path}, member {name!r:.120} has more than {MAX_FILE_BYTES >> 20} MiB.")
                    images.setdefault(sample_key(name), []).append((name, member.offset_data, member.size))
                elif suffix in LABEL_SUFFIXES:
                    labels[sample_key(name)] = _label(path, tar, member)
    except (tarfile.TarError, UnicodeError) as error:
        raise DataError(
            f"{path} cannot be read as an uncompressed tar file ({error}). Write it again, or remove it."
        ) from error
    for key, found in images.items():
        for name, offset, size in found:
            yield name, offset, size, labels.get(key, b"")


def sample_key(name: str) -> str:
    """Return the key of a member: its name up to the first dot of the last part."""
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}{last.split('.')[0]}"


def _label(path: Path, tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """Return the label in a member: its text, or one of LABEL_KEYS in its JSON object; empty if there is none."""
    content = tar.extractfile(member)
    if content is None or member.size > MAX_LABEL_BYTES:
        raise DataError(f"{path}, member {member.name!r:.120} is no label: it has {member.size:,} bytes.")
    text = content.read()
    try:
        if not member.name.lower().endswith(".json"):
            return text.decode().strip().encode()
        fields = parse_json(text)
    except ValueError as error:
        raise DataError(f"{path}, member {member.name!r:.120} is no label ({error}).") from error
    values = [fields[key] for key in LABEL_KEYS if key in fields] if isinstance(fields, dict) else []
    return str(values[0]).strip().encode(errors="replace") if values and values[0] is not None else b""


def keep_index(folder: Path, index: ShardIndex) -> bool:
    """Write the index beside the shards or into the cache, and return whether one of them was possible."""
    arrays: dict[str, NDArray[Any]] = {"shard": index.shard, "offset": index.offset, "size": index.size}
    for name, texts in (("names", index.names), ("labels", index.labels)):
        arrays |= {name: np.frombuffer(texts.content, np.uint8), f"{name}_bounds": texts.bounds}
    arrays["digest"] = np.frombuffer(_seal(_digest(_stamp(folder)), arrays), np.uint8)
    for path in _places(folder):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
        except OSError:
            continue
        return True
    return False


def _seal(digest: str, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return a checksum of the shards' state and of the index."""
    total = hashlib.sha256(digest.encode())
    for name in ("shard", "offset", "size", "names", "names_bounds", "labels", "labels_bounds"):
        total.update(np.ascontiguousarray(arrays[name]).data)
    return total.digest()


def _is_index(arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Return whether arrays have the shapes and types of an index: places in shards, and where each text begins."""
    texts = [(arrays[name], arrays[f"{name}_bounds"]) for name in ("names", "labels")]
    places = [arrays[name] for name in ("shard", "offset", "size")]
    whole = all(each.ndim == 1 and each.dtype.kind in "iu" for each in (*places, *(bounds for _, bounds in texts)))
    return (
        whole
        and len({len(each) for each in places} | {len(bounds) - 1 for _, bounds in texts}) == 1
        and all((bounds[1:] >= bounds[:-1]).all() and bounds[-1] == text.nbytes for text, bounds in texts)
    )


def _read_index(path: Path, digest: str) -> ShardIndex | None:
    """Return the kept index, or None if there is none for these shards."""
    try:
        arrays = ArrayFile(path)
        if not _is_index(arrays) or arrays["digest"].tobytes() != _seal(digest, arrays):
            return None
        names, labels = (PathList.of(arrays[name].tobytes(), arrays[f"{name}_bounds"]) for name in ("names", "labels"))
        return ShardIndex(
            names=names, labels=labels, shard=arrays["shard"], offset=arrays["offset"], size=arrays["size"]
        )
    except (DataError, KeyError, ValueError):  # damaged, or of another version
        return None
