"""Keep computed features on disk, by content: one folder per backbone and input size, one row per sample.

A folder holds `info.json` and shards. A shard is a safetensors file that is written once, by rename, and never changed:
the digests of some samples, their features, and a checksum of each row. So a pass that is killed goes on where its
last shard ended, samples that were added later come into a shard of their own, and processes that write at the same
time at worst store a row twice. Shards and rows that do not match their checksum are ignored and computed again.

Many small shards, as single predictions leave them, are merged when the folder is opened.

A cache that cannot be read or written does not stop anything: the features are computed, and one note says why.
"""

import json
import os
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from tnlpad.atomic_files import remove_leftovers, write_by_rename
from tnlpad.data.files import user_cache
from tnlpad.data.own.digests import DIGEST_BYTES, NOWHERE, DigestIndex, Digests
from tnlpad.json_text import load_json
from tnlpad.types import Index

INFO = "info.json"
SHARD = re.compile(r"[0-9a-f]{32}\.safetensors")
ROWS_PER_SHARD = 1024
SECONDS_PER_SHARD = 10.0  # computation that a killed pass may lose
SMALL_SHARD_ROWS = 256
MAX_SMALL_SHARDS = 32

Features = NDArray[np.float32]


def default_cache() -> Path:
    """Return the folder of cached features: $TNLPAD_CACHE, else a folder in the user's cache. It need not exist."""
    chosen = os.environ.get("TNLPAD_CACHE")
    return Path(chosen).expanduser() if chosen else user_cache() / "tnlpad" / "features"


@dataclass(frozen=True, kw_only=True)
class EntryKey:
    """The facts, beside a sample's content, that its features depend on.

    Args:
        identity: Identity of the backbone, which contains the beginning of its weights' hash.
        pixels: Side of its input; 0 for texts.
        dimensions: Number of features.
        preprocessing: Version of decoding and resizing, or of tokenising.
    """

    identity: str
    pixels: int
    dimensions: int
    preprocessing: int

    @property
    def folder_name(self) -> str:
        size = f"-{self.pixels}px" if self.pixels else ""
        return f"{self.identity}{size}-v{self.preprocessing}"


@dataclass(frozen=True, kw_only=True)
class CacheEntry:
    """One folder of the cache, for listing: its name and backbone, stored rows, bytes, and time of the last use."""

    folder: Path
    identity: str
    pixels: int
    samples: int
    size_bytes: int
    last_used: float

    @property
    def name(self) -> str:
        return self.folder.name


class FeatureCache:
    """The rows of one folder. Reading and writing never raise; `problem` says what failed first.

    Args:
        root: Folder of all cached features; None keeps nothing.
        key: The backbone and its settings.
    """

    def __init__(self, root: Path | None, key: EntryKey) -> None:
        self.folder, self.key = (root or Path()) / key.folder_name, key
        self.readable = self.writable = root is not None
        self.problem: str | None = None
        self._digests: list[bytes] = []
        self._rows: list[Features] = []
        self._waiting_since = 0.0

    def read(self, digests: Digests) -> Iterator[tuple[Index, Features]]:
        """Yield places among the digests, which must be different, and the features of these samples, by shard."""
        if not self.readable:
            return
        index, small, used = DigestIndex(digests), list[Path](), False
        try:
            for path in _shards(self.folder):
                shard = _read_shard(path, self.key.dimensions, lambda stored: index.places(stored) != NOWHERE)
                if shard is None:
                    self._remove([path])
                    continue
                if shard.total < SMALL_SHARD_ROWS:
                    small.append(path)
                if len(shard.digests):
                    used = True
                    yield index.places(shard.digests), shard.features
            if used:
                with suppress(OSError):
                    os.utime(self.folder / INFO)
        except OSError as error:
            self._note(error, "read")
        if len(small) > MAX_SMALL_SHARDS:
            self._merge(small)

    def add(self, digests: Iterable[bytes], rows: Iterable[Features]) -> None:
        """Store rows: at once in memory, and on disk as soon as a shard is full or some time has passed."""
        if not self.writable:
            return
        if not self._rows:
            self._waiting_since = time.monotonic()
        self._digests.extend(digests)
        self._rows.extend(rows)
        if len(self._rows) >= ROWS_PER_SHARD or time.monotonic() - self._waiting_since >= SECONDS_PER_SHARD:
            self.flush()

    def flush(self) -> None:
        """Write what `add` holds back."""
        digests, rows = self._digests, self._rows
        self._digests, self._rows = [], []
        if rows and self.writable:
            self._write(Digests.of(digests), np.stack(rows))

    def _write(self, digests: Digests, rows: Features) -> bool:
        from safetensors.numpy import save

        content = save(
            {
                "digests": digests.rows,
                "checksums": np.array([_checksum(*pair) for pair in zip(digests, rows, strict=True)], np.uint32),
                "features": np.ascontiguousarray(rows, dtype=np.float32),
            }
        )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not (self.folder / INFO).exists():
                write_by_rename(self.folder / INFO, json.dumps(asdict(self.key), indent=1).encode())
            write_by_rename(self.folder / f"{uuid4().hex}.safetensors", content)
            with suppress(OSError):
                os.utime(self.folder / INFO)
        except OSError as error:
            self.writable = False
            self._note(error, "written")
            return False
        return True

    def _merge(self, shards: Sequence[Path]) -> None:
        """Replace small shards by one. Rows that another process merges at the same time are stored twice."""
        found: list[Shard] = []
        for path in shards:
            with suppress(OSError):
                found += filter(None, [_read_shard(path, self.key.dimensions)])
        digests = Digests(np.concatenate([shard.digests.rows for shard in found])) if found else Digests.of([])
        once = np.unique(digests.first_places())
        if not len(once) or self._write(digests.take(once), np.concatenate([each.features for each in found])[once]):
            self._remove(shards)

    def _remove(self, shards: Iterable[Path]) -> None:
        for shard in shards:
            with suppress(OSError):
                shard.unlink()

    def _note(self, error: OSError, verb: str) -> None:
        if self.problem is None:
            self.problem = f"The feature cache {self.folder} cannot be {verb}: {error.strerror or error}."


def cached_entries(root: Path) -> list[CacheEntry]:
    """Return the folders of the cache, the last used first. Folders that the cache did not make are skipped."""
    found = [_entry(folder) for folder in (root.iterdir() if root.is_dir() else ())]
    return sorted((entry for entry in found if entry is not None), key=lambda entry: -entry.last_used)


def clear_entry(entry: CacheEntry) -> None:
    """Remove the files of one folder that the cache wrote, and the folder if nothing else is in it."""
    remove_leftovers(entry.folder)
    for file in entry.folder.iterdir():
        if SHARD.fullmatch(file.name) or file.name == INFO:
            with suppress(FileNotFoundError):
                file.unlink()
    with suppress(OSError):  # it holds files of someone else, or is being written to
        entry.folder.rmdir()


def _entry(folder: Path) -> CacheEntry | None:
    info = _info(folder)
    if info is None:
        return None
    shards = list(_shards(folder))
    found = [_read_shard(shard, info.dimensions, lambda stored: np.zeros(len(stored), bool)) for shard in shards]
    try:
        return CacheEntry(
            folder=folder,
            identity=info.identity,
            pixels=info.pixels,
            samples=sum(shard.total for shard in filter(None, found)),
            size_bytes=sum(file.stat().st_size for file in folder.iterdir()),
            last_used=(folder / INFO).stat().st_mtime,
        )
    except FileNotFoundError:  # another process is clearing it
        return None


def _info(folder: Path) -> EntryKey | None:
    try:
        info: Any = load_json(folder / INFO)
        key = EntryKey(**info)
    except (OSError, ValueError, TypeError):
        return None
    return key if key.folder_name == folder.name else None


def _shards(folder: Path) -> Iterator[Path]:
    remove_leftovers(folder)
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    for name in names:
        if SHARD.fullmatch(name):
            yield folder / name


class Shard(NamedTuple):
    """The number of rows in a file, and some of them."""

    total: int
    digests: Digests
    features: Features


def _read_shard(
    path: Path, dimensions: int, wanted: Callable[[Digests], NDArray[np.bool_]] | None = None
) -> Shard | None:
    """Read the wanted rows (default: all) whose checksum is right; return None for a damaged file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            rows, checksums = file.get_tensor("digests"), file.get_tensor("checksums")
            stored = file.get_slice("features")
            count = len(rows)
            if rows.shape[1:] != (DIGEST_BYTES,) or len(checksums) != count:
                return None
            if stored.get_shape() != [count, dimensions] or stored.get_dtype() != "F32":
                return None
            digests = Digests(rows)
            kept = np.ones(count, bool) if wanted is None else wanted(digests)
            features = file.get_tensor("features") if kept.any() else np.empty((count, 0), np.float32)
    except FileNotFoundError:  # another process merged or cleared it
        return Shard(0, Digests.of([]), np.empty((0, dimensions), np.float32))
    except (SafetensorError, KeyError, ValueError, TypeError):
        return None
    for place in np.flatnonzero(kept).tolist():
        kept[place] = _checksum(digests[place], features[place]) == checksums[place]
    return Shard(count, Digests(rows[kept]), features[kept])


def _checksum(digest: bytes, row: Features) -> int:
    return zlib.crc32(np.ascontiguousarray(row).tobytes(), zlib.crc32(digest))
