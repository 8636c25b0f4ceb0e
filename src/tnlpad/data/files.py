"""Read files that may be missing, damaged or hostile, and compare them with the catalogue."""

import codecs
import errno
import gzip
import hashlib
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from tnlpad.data.catalogue import DataFile, Layout
from tnlpad.errors import DataError
from tnlpad.regular_files import require_regular

BLOCK_BYTES = 1 << 20
WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}


def default_root() -> Path:
    """Return the folder of all datasets: $TNLPAD_DATA, else a folder in the user's cache. It need not exist."""
    chosen = os.environ.get("TNLPAD_DATA")
    return Path(chosen).expanduser() if chosen else user_cache() / "tnlpad" / "data"


def user_cache() -> Path:
    """Return the folder where programs of this user keep files that can be made again."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return Path(base) if base else Path.home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    base = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification: a relative path is invalid and must be ignored.
    return Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what reading a missing or damaged file raises into a DataError that names the file; refuse pipes."""
    try:
        require_regular(path)
        yield
    except (OSError, EOFError, zlib.error) as error:
        if getattr(error, "errno", None) in WRITE_ERRORS:
            raise  # raised by writing a copy, not by reading this file
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path} cannot be read: {reason}.") from error


@contextmanager
def readable_as(kind: str, path: Path, way_out: str = "Write it again.") -> Iterator[None]:
    """Like `readable`, for files read by another library, which can raise any exception on damaged bytes."""
    try:
        with readable(path):
            yield
    except (DataError, OSError):
        raise
    except Exception as error:
        raise DataError(f"{path} cannot be read as {kind}: {str(error) or type(error).__name__}. {way_out}") from error


def open_content(path: Path) -> BinaryIO:
    """Open a file for reading, uncompressed if its name ends in .gz."""
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """Read a whole file; raise DataError instead of reading more than `max_bytes`."""
    blocks: list[bytes] = []
    left = max_bytes + 1
    with readable(path), open_content(path) as stream:
        while block := stream.read(min(left, BLOCK_BYTES)):  # a read of the limit would take its memory at once
            blocks.append(block)
            left -= len(block)
    if left <= 0:
        raise DataError(f"{path} holds more than {max_bytes:,} bytes, the most that is read.")
    return b"".join(blocks)


def read_lines(path: Path) -> list[str]:
    """Return the non-empty lines of a UTF-8 text file, stripped."""
    return [line.decode() for line in byte_lines(path)]


def byte_lines(path: Path, max_bytes: int = 1 << 28) -> Iterator[bytes]:
    """Yield the non-empty lines of a UTF-8 text file, stripped; a million of them need no memory at once."""
    content = read_bounded(path, max_bytes).removeprefix(codecs.BOM_UTF8)
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a text file in UTF-8 ({error.reason} at byte {error.start}).") from error
    return filter(None, map(bytes.strip, io.BytesIO(content)))


def present(root: Path, layout: Layout, file: DataFile) -> Path | None:
    """Return the path of a file of the layout, or None. IDX files may also be compressed, as published."""
    plain = root / layout.folder / file.path
    candidates = [plain, plain.with_name(plain.name + ".gz")] if layout.format == "idx" else [plain]
    # os.path.isfile is False in a folder that cannot be searched, where Path.is_file raises.
    return next((path for path in candidates if os.path.isfile(path)), None)


def require_published(path: Path, file: DataFile) -> None:
    """Raise DataError if a file differs from its catalogue entry."""
    problem = mismatch(path, size=file.size, checksums=file.checksums)
    if problem:
        raise DataError(f"{file.path} is not as published: {problem}.")


def mismatch(
    path: Path,
    *,
    size: int | None,
    checksums: tuple[str, ...],
    uncompress: bool = True,
    progress: Callable[[int], None] | None = None,
) -> str | None:
    """Describe how a file differs from its catalogue entry; None if it does not.

    With `uncompress`, the content of a .gz file is compared, else its bytes.
    """
    wanted = [text.split(":", 1) for text in checksums]
    hashes = [hashlib.new(algorithm, usedforsecurity=False) for algorithm, _ in wanted]
    length = 0
    with readable(path), open_content(path) if uncompress else path.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            length += len(block)
            if size is not None and length > size:
                return f"{path} is longer than the {size:,} bytes published"
            for each in hashes:
                each.update(block)
            if progress:
                progress(length)
    if size is not None and length < size:
        return f"{path} has {length:,} of the {size:,} bytes published: it is truncated"
    for each, (algorithm, digest) in zip(hashes, wanted, strict=True):
        if each.hexdigest() != digest:
            return f"{path} has {algorithm} {each.hexdigest()}, expected {digest}"
    return None
