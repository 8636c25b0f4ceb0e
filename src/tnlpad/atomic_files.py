"""Write files so that a reader sees the old content or the new one, never a part: by rename, or by whole lines."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

DEFAULT_MODE = 0o666  # less the umask, as `open` has it
PRIVATE_MODE = 0o600


@contextmanager
def replacing(path: Path, mode: int = DEFAULT_MODE) -> Iterator[BinaryIO]:
    """Open a temporary file that takes this name when the block ends; after an error, nothing has changed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def write_by_rename(path: Path, content: bytes, mode: int = DEFAULT_MODE) -> None:
    """Replace the file's content, entirely or not at all."""
    with replacing(path, mode) as file:
        file.write(content)


def append_durably(path: Path, lines: bytes) -> None:
    """Append lines and wait until they are on disk; after an error, nothing has changed."""
    before = path.stat().st_size if path.exists() else None
    try:
        with open(path, "ab") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        # On a full disk, part of the lines may have been written.
        with suppress(OSError):
            path.unlink() if before is None else os.truncate(path, before)
        raise


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Create a temporary folder that takes this name when the block ends; after an error, nothing has changed.

    Raises:
        FileExistsError: There is a file of this name, or a folder that is not empty.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FileExistsError(errno.EEXIST, "it exists already and is not an empty folder", str(path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir()
        yield temporary
        if path.exists():
            path.rmdir()
        os.rename(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def is_disk_full(error: BaseException | None) -> bool:
    """Return whether an error, or one that it was raised from, says that the disk is full."""
    return any(isinstance(each, OSError) and each.errno in (errno.ENOSPC, errno.EDQUOT) for each in error_chain(error))


def error_chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and those that it was raised from, each once: a chain may be a circle."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
