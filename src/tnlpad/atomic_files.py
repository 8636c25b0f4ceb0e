"""Write files so that a reader sees the old content or the new one, never a part: by rename, or by whole lines.

A killed process leaves its temporary file behind. The next process that writes into the folder removes it. A process
holds a lock on its temporary file, which the system releases when the process dies, so no file in use is removed.
"""

import errno
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows: leftovers stay
    fcntl = None  # type: ignore[assignment]

DEFAULT_MODE = 0o666  # less the umask, as `open` has it
PRIVATE_MODE = 0o600
TEMPORARY = re.compile(r"\..+\.\d+\.tnlpad\.tmp", re.DOTALL)


@contextmanager
def replacing(path: Path, mode: int = DEFAULT_MODE) -> Iterator[BinaryIO]:
    """Open a temporary file that takes this name when the block ends; after an error, nothing has changed."""
    temporary = _temporary(path)
    try:
        with _claimed(temporary, lambda: temporary.touch(mode)):
            with open(temporary, "wb") as file:
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
    temporary = _temporary(path)
    try:
        with _claimed(temporary, lambda: temporary.mkdir(exist_ok=True)):
            yield temporary
            if path.exists():
                path.rmdir()
            os.rename(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _temporary(path: Path) -> Path:
    """Return the temporary name of a file or folder, of this thread alone."""
    return path.with_name(f".{path.name}.{threading.get_native_id()}.tnlpad.tmp")


@contextmanager
def _claimed(temporary: Path, create: Callable[[], object]) -> Iterator[None]:
    """Remove leftovers of dead processes, create a temporary file or folder, and hold its lock within the block."""
    _remove_leftovers(temporary.parent)
    lock = None
    while lock is None:  # another process may take it for a leftover before it is locked
        create()
        try:
            lock = try_lock(temporary)
        except OSError:  # this file system has no locks: nobody else removes files either
            break
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _remove_leftovers(folder: Path) -> None:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if TEMPORARY.fullmatch(entry.name):
                _remove_if_abandoned(Path(entry.path))


def _remove_if_abandoned(temporary: Path) -> None:
    with suppress(OSError):
        lock = try_lock(temporary)
        if lock is not None:
            try:
                shutil.rmtree(temporary, ignore_errors=True) if temporary.is_dir() else temporary.unlink()
            finally:
                os.close(lock)


def try_lock(path: Path) -> int | None:
    """Lock a file or folder; return None if another process holds it or has removed it.

    Closing the returned descriptor releases the lock, and so does the end of the process.

    Raises:
        OSError: It cannot be locked.
    """
    if fcntl is None:
        raise OSError(errno.ENOTSUP, "no locks on this system", str(path))
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


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
