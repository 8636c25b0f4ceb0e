"""Decode and resize images once, and write their pixels in the format that `tnlpad.data.prepared` reads.

Parts are written one after another, each under its name only when it is complete, and after its digest. After an
interruption, the same call keeps the parts that still have theirs, and writes the others.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from tnlpad.atomic_files import remove_leftovers, replacing, write_by_rename
from tnlpad.data.files import readable, readable_as
from tnlpad.data.pixels import UNNAMED, file_content, open_resized
from tnlpad.data.prepared import (
    ADVICE,
    CHANNELS,
    INDEX,
    MANIFEST,
    NAMES,
    Manifest,
    PreparedPart,
    part_name,
    read_index,
    read_manifest,
)
from tnlpad.data.progress import SILENT, Reporter, in_threads
from tnlpad.errors import DataError
from tnlpad.json_text import load_json
from tnlpad.types import ImageStore

IMAGES_PER_PART = 8192
BEGUN = "begun.json"  # settings of an unfinished folder, and the digests of its parts so far
SAMPLED = 200  # images that are decoded to estimate the size of all
RESERVE = 1.05  # of the disk space, since the estimate is rough
MAX_NAMED = 5  # images that cannot be read, in a message
TASK = "Preparing images"
Resized = tuple[NDArray[np.uint8], bytes]  # pixels, and the digest of the encoded image


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Result of `prepare_images`: the folder, its manifest, and the number of images that were there before."""

    folder: Path
    manifest: Manifest
    found: int


def prepare_images(
    names: Sequence[bytes],
    store: ImageStore,
    folder: Path,
    *,
    resize: int,
    source: str,
    images_per_part: int = IMAGES_PER_PART,
    reporter: Reporter = SILENT,
) -> Prepared:
    """Write all images of a store with a shorter side of `resize` pixels; images that are already there are kept.

    Args:
        names: Name of each image, relative to the folder of the dataset.
        store: The encoded images, in the order of the names.
        folder: Folder to write to.
        resize: Pixels of the shorter side.
        source: Dataset or folder that the images come from.
        images_per_part: Number of images in one file.
        reporter: Receives progress.

    Raises:
        DataError: The disk is too small, images cannot be read, or the folder has images of other data.
    """
    listed = _listed(names)
    facts: dict[str, Any] = {
        "resize": resize,
        "images": len(names),
        "images_per_part": images_per_part,
        "names_sha256": hashlib.sha256(listed).hexdigest(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        if (folder / MANIFEST).exists():
            manifest = read_manifest(folder)
            _require_same(folder, {name: getattr(manifest, name) for name in facts}, facts)
            (folder / BEGUN).unlink(missing_ok=True)  # a kill may have come just before
            return Prepared(folder=folder, manifest=manifest, found=manifest.images)
        begun = _begin(folder, listed, facts)
        writer = _Writer(store, begun, resize, len(names), reporter)
        spans = [
            range(start, min(start + images_per_part, len(names))) for start in range(0, len(names), images_per_part)
        ]
        kept = [writer.kept(number, len(span)) for number, span in enumerate(spans)]
        found = sum(part.images for part in kept if part is not None)
        _require_space(folder, store, len(names), len(names) - found, resize)
        parts = [part or writer.write(number, spans[number]) for number, part in enumerate(kept)]
        if writer.unreadable:
            raise DataError(_unreadable(writer.unreadable))
        whole = tuple(part for part in parts if part is not None)
        manifest = Manifest(source=source, fingerprint=_fingerprint(folder, whole), parts=whole, **facts)
        write_by_rename(folder / MANIFEST, manifest.to_json())
        (folder / BEGUN).unlink(missing_ok=True)
    return Prepared(folder=folder, manifest=manifest, found=found)


def _listed(names: Sequence[bytes]) -> bytes:
    """Return the content of the list of names."""
    if not names:
        raise DataError("There are no images to prepare.")
    strange = next((name for name in names if b"\n" in name or b"\r" in name or name != name.strip()), None)
    if strange is not None:
        raise DataError(f"{strange.decode()!r:.120} begins or ends with a space or has a line break. Rename the image.")
    return b"".join(name + b"\n" for name in names)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        with FileLock(folder / ".lock").acquire(timeout=0):
            yield
    except Timeout as error:
        raise DataError(f"Another process is preparing images in {folder}. Wait for it, or end it.") from error


def _require_same(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    if before != now:
        changes = ", ".join(
            f"{name} {before.get(name)} then, {now[name]} now" for name in now if now[name] != before.get(name)
        )
        raise DataError(
            f"{folder} has other images ({changes}). Remove the folder to prepare these, or write to another one."
        )


@dataclass(frozen=True, kw_only=True)
class _Begun:
    """A folder that is being filled.

    Args:
        folder: The folder.
        facts: Settings of its manifest.
        digests: SHA-256 of the parts that were written, by the names of their files.
    """

    folder: Path
    facts: dict[str, Any]
    digests: dict[str, str]

    def save(self) -> None:
        write_by_rename(self.folder / BEGUN, json.dumps({**self.facts, "parts": self.digests}).encode())


def _begin(folder: Path, listed: bytes, facts: dict[str, Any]) -> _Begun:
    """Note the settings of a new folder, or compare them with those of an interrupted call; remove its leftovers."""
    remove_leftovers(folder)
    digests: dict[str, str] = {}
    if (folder / BEGUN).exists():
        with readable_as("JSON", folder / BEGUN, ADVICE):
            before = load_json(folder / BEGUN)
            digests |= before.pop("parts", {})  # older versions noted none
        _require_same(folder, before, facts)
    elif any(folder.glob("part-*.bin")):
        raise DataError(f"{folder} has parts of unknown images. Remove the folder, or write to another one.")
    write_by_rename(folder / NAMES, listed)
    begun = _Begun(folder=folder, facts=facts, digests=digests)
    begun.save()
    return begun


class _Incomplete(Exception):
    """A part lacks images."""


class _Writer:
    """Writes parts; images that cannot be read are collected in `unreadable`, and their part is not written."""

    def __init__(self, store: ImageStore, begun: _Begun, resize: int, total: int, reporter: Reporter) -> None:
        self.store, self.begun, self.resize, self.total, self.reporter = store, begun, resize, total, reporter
        self.unreadable: list[str] = []

    def _path(self, number: int) -> Path:
        return self.begun.folder / part_name(number)

    def kept(self, number: int, images: int) -> PreparedPart | None:
        """Return a part that was written before and has not changed since, or None."""
        path = self._path(number)
        if not path.exists():
            return None
        with readable(path), path.open("rb") as file:
            size, digest = os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()
        if digest != self.begun.digests.get(path.name):
            self.reporter.say(f"{path} is not as it was written: its images are prepared again.")
            return None
        return PreparedPart(file=path.name, images=images, bytes=size, sha256=digest)

    def write(self, number: int, places: range) -> PreparedPart | None:
        """Write a part, and return it; None if an image of it cannot be read."""
        path, index, digest, size = self._path(number), np.zeros(len(places), INDEX), hashlib.sha256(), 0
        before = len(self.unreadable)
        images = in_threads(self._resized, places, TASK, self.reporter, before=places.start, total=self.total)
        with suppress(_Incomplete), replacing(path) as file:
            for row, image in zip(index, images, strict=True):
                if isinstance(image, str):
                    self.unreadable.append(image)
                    continue
                pixels, row["sha256"] = image[0], np.frombuffer(image[1], np.uint8)
                row["height"], row["width"] = pixels.shape[:2]
                size += file.write(pixels.data)
                digest.update(pixels.data)
            if len(self.unreadable) > before:
                raise _Incomplete
            size += file.write(index.tobytes())
            digest.update(index.tobytes())
            self.begun.digests[path.name] = digest.hexdigest()
            self.begun.save()
            return PreparedPart(file=path.name, images=len(index), bytes=size, sha256=digest.hexdigest())
        return None

    def _resized(self, place: int) -> Resized | str:
        """Return the pixels of an image with a digest of its file, or why it cannot be read."""
        try:
            return resized(self.store, place, self.resize)
        except DataError as error:
            return str(error)


def resized(store: ImageStore, place: int, resize: int) -> Resized:
    """Decode and resize an image; raise DataError with its place if it cannot be read."""
    source = store.read(place)
    assert not isinstance(source, np.ndarray), "images are prepared from encoded ones"
    try:
        content = source if isinstance(source, bytes) else file_content(source)
    except (DataError, OSError) as error:
        raise DataError(f"{store.where(place)} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    try:
        pixels = np.ascontiguousarray(open_resized(content, resize))
    except DataError as error:
        raise DataError(str(error).replace(UNNAMED, store.where(place), 1)) from error
    return pixels, hashlib.sha256(content).digest()


def _unreadable(reasons: Sequence[str]) -> str:
    more = f" … and {len(reasons) - MAX_NAMED:,} more." if len(reasons) > MAX_NAMED else ""
    return (
        f"Images that cannot be read: {len(reasons):,}. {' '.join(reasons[:MAX_NAMED])}{more} Restore them, and the "
        "same command continues. Without them it is another list of images, which is prepared from the beginning."
    )


def _require_space(folder: Path, store: ImageStore, images: int, remaining: int, resize: int) -> None:
    """Raise DataError if the disk is too small for the remaining images, by the size of some of them."""
    free, needed = shutil.disk_usage(folder).free, remaining * RESERVE * image_bytes(store, images, resize)
    if needed > free:
        raise DataError(
            f"{folder} needs about {needed / 1e9:,.1f} GB for {remaining:,} images at {resize} pixels, and "
            f"{free / 1e9:,.1f} GB are free there. Free some space, or write to another disk with --out."
        )


def image_bytes(store: ImageStore, images: int, resize: int) -> float:
    """Return the mean size of a prepared image, estimated from some of them."""
    sizes = []
    for place in np.unique(np.linspace(0, images - 1, SAMPLED).astype(int)).tolist():
        with suppress(DataError):  # reported when its part is written
            sizes.append(resized(store, place, resize)[0].size)
    return INDEX.itemsize + (sum(sizes) / len(sizes) if sizes else resize * resize * CHANNELS)


def _fingerprint(folder: Path, parts: Sequence[PreparedPart]) -> str:
    """Return the SHA-256 of the digests of all encoded images."""
    total = hashlib.sha256()
    for part in parts:
        with (folder / part.file).open("rb") as file:
            total.update(read_index(file.fileno(), part.images, part.bytes)["sha256"].tobytes())
    return total.hexdigest()
