"""Where datasets live when nobody says: $TNLPAD_DATA, else a folder of the user's cache, by the platform's custom.

Reading files that may be damaged, hostile or missing: never more than was announced, and always our error.
"""

import errno
import gzip
import hashlib
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from tnlpad.data.catalogue import DataFile, Layout
from tnlpad.errors import DataError


def default_root() -> Path:
    """The folder that holds all datasets; it need not exist yet."""
    chosen = os.environ.get("TNLPAD_DATA")
    return Path(chosen).expanduser() if chosen else _user_cache() / "tnlpad" / "data"


def _user_cache() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return Path(base) if base else Path.home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    base = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification: a relative path is invalid and must be ignored.
    return Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"


BLOCK_BYTES = 1 << 20
WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Within the block, whatever a missing or damaged file raises becomes a DataError that names it."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        if getattr(error, "errno", None) in WRITE_ERRORS:
            raise  # a copy was being written, and that is not this file's fault
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path} cannot be read: {reason}.") from error


@contextmanager
def readable_as(kind: str, path: Path, way_out: str = "Write it again.") -> Iterator[None]:
    """The same where another library reads the file: fed with damaged bytes, those raise anything."""
    try:
        with readable(path):
            yield
    except (DataError, OSError):
        raise
    except Exception as error:
        raise DataError(f"{path} cannot be read as {kind}: {str(error) or type(error).__name__}. {way_out}") from error


def open_content(path: Path) -> BinaryIO:
    """The content of a file, uncompressed if its name ends in .gz."""
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """The whole content; a file that holds more than `most_bytes` is refused before it fills the memory."""
    with readable(path), open_content(path) as stream:
        content = stream.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise DataError(f"{path} holds more than {most_bytes:,} bytes, the most that it can hold as published.")
    return content


def read_lines(path: Path, most_bytes: int = 1 << 28) -> list[str]:
    """The lines of a text file that are not empty, without the spaces around them."""
    try:
        text = read_bounded(path, most_bytes).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a text file in UTF-8 ({error.reason} at byte {error.start}).") from error
    return [line for line in map(str.strip, text.splitlines()) if line]


def is_file(path: Path) -> bool:
    """Whether a file is there. In a folder that may not be looked into there is none, where Path.is_file() raises."""
    return os.path.isfile(path)


def present(root: Path, layout: Layout, file: DataFile) -> Path | None:
    """Where the file lies; IDX files may also lie there compressed, as they are published. None if nowhere."""
    plain = root / layout.folder / file.path
    candidates = [plain]
    if layout.format == "idx":
        candidates.append(plain.with_name(plain.name + ".gz"))
    return next((path for path in candidates if is_file(path)), None)


def mismatch(
    path: Path,
    *,
    size: int | None,
    checksums: tuple[str, ...],
    compressed: bool = True,
    progress: Callable[[int], None] | None = None,
) -> str | None:
    """How a file differs from what is catalogued; None if it does not.

    With `compressed`, a file whose name ends in .gz is judged by its content, else by its own bytes.
    """
    wanted = [text.split(":", 1) for text in checksums]
    hashes = [hashlib.new(algorithm, usedforsecurity=False) for algorithm, _ in wanted]
    length = 0
    with readable(path), open_content(path) if compressed else path.open("rb") as stream:
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
            return f"{path} has {algorithm} {each.hexdigest()}, published is {digest}: its bytes have changed"
    return None
