"""Write files so that a reader sees the old content or the new one, never a part: by rename, or by whole lines.

A killed process leaves its temporary file behind. The next process that writes into the folder removes it. A process
holds a lock on its temporary file, which the system releases when the process dies, so no file in use is removed.
"""

import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
import threading
import time
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
# Earlier versions wrote no random digits.
TEMPORARY = re.compile(r"\..+\.\d+(\.[0-9a-f]{8})?\.tnlpad\.tmp", re.DOTALL)
LONGEST_PART = 180  # bytes of a target's name in a temporary name, which may have 255 altogether
LOCK_SECONDS = 0.5  # to wait for the lock of `writing_alone`


@contextmanager
def replacing(path: Path, mode: int = DEFAULT_MODE) -> Iterator[BinaryIO]:
    """Open a temporary file that takes this name when the block ends; after an error, nothing has changed.

    If the name is a link, the file that it leads to is replaced.

    Raises:
        OSError: The file cannot be written, its name is too long, or it is a pipe or a device.
    """
    target = _target(path)
    with _claimed(target, lambda temporary: temporary.touch(mode, exist_ok=False)) as temporary:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)


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
    target = _target(path)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(errno.EEXIST, "it exists already and is not an empty folder", str(path))
    with _claimed(target, Path.mkdir) as temporary:
        yield temporary
        if target.exists():
            target.rmdir()
        os.rename(temporary, target)


@contextmanager
def replacing_by_path(path: Path) -> Iterator[Path]:
    """Yield a path in a temporary folder; the file that is written there takes this name when the block ends.

    Raises:
        OSError: As `replacing` does.
    """
    target = _target(path)
    with _claimed(target, Path.mkdir) as temporary:
        yield temporary / target.name
        os.replace(temporary / target.name, target)
        _remove(temporary)


@contextmanager
def writing_alone(path: Path) -> Iterator[None]:
    """Keep other processes out of such blocks for the same file or folder.

    Raises:
        BlockingIOError: Another process is within one.
    """
    name = _hidden(_target(path), "0")  # no thread has this number
    limit = time.monotonic() + LOCK_SECONDS
    lock = None
    while lock is None:
        name.touch()
        try:
            lock = try_lock(name)
        except OSError:  # this file system has no locks
            break
        if lock is None:  # a process that removes leftovers holds it for an instant
            if time.monotonic() > limit:
                raise BlockingIOError(errno.EAGAIN, "another process is writing it", str(path))
            time.sleep(LOCK_SECONDS / 10)
    try:
        yield
    finally:
        _remove(name)
        if lock is not None:
            os.close(lock)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of dead processes from a folder; those in use stay, and files of others."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if TEMPORARY.fullmatch(entry.name) and _is_ours(entry):
                _remove_if_abandoned(Path(entry.path))


def _is_ours(entry: "os.DirEntry[str]") -> bool:
    """Return whether an entry is a file or a folder: a link, a pipe or a device is no temporary file of this module."""
    return entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)


def _target(path: Path) -> Path:
    """Return the file that a name leads to; raise OSError if no file can take its place."""
    try:
        target = Path(os.path.realpath(path)) if path.is_symlink() else path
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise OSError(error.errno, "the name is too long: choose a shorter one", str(path)) from None
        raise
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, and only a file can be replaced", str(path))
    return target


def _temporary(path: Path) -> Path:
    """Return a new temporary name for a file or folder: threads of two hosts may have the same number."""
    return _hidden(path, f"{threading.get_native_id()}.{secrets.token_hex(4)}")


def _hidden(path: Path, end: str) -> Path:
    """Return a name beside a file or folder that matches `TEMPORARY`. It is never too long."""
    name = os.fsencode(path.name)
    part = path.name if len(name) <= LONGEST_PART else hashlib.sha256(name).hexdigest()
    return path.with_name(f".{part}.{end}.tnlpad.tmp")


@contextmanager
def _claimed(path: Path, create: Callable[[Path], object]) -> Iterator[Path]:
    """Remove leftovers of dead processes, create a temporary file or folder, and hold its lock within the block.

    After an error, it is removed.
    """
    remove_leftovers(path.parent)
    lock = temporary = None
    try:
        while lock is None:  # another process may take it for a leftover before it is locked
            temporary = _temporary(path)
            create(temporary)
            try:
                lock = try_lock(temporary)
            except OSError:  # this file system has no locks: nobody else removes files either
                break
        assert temporary is not None, "the loop runs at least once"
        yield temporary
    except BaseException:
        if temporary is not None:
            _remove(temporary)
        raise
    finally:
        if lock is not None:
            os.close(lock)


def _remove_if_abandoned(temporary: Path) -> None:
    with suppress(OSError):
        lock = try_lock(temporary)
        if lock is not None:
            try:
                _remove(temporary)
            finally:
                os.close(lock)


def _remove(temporary: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(temporary, ignore_errors=True) if temporary.is_dir() else temporary.unlink()


def try_lock(path: Path) -> int | None:
    """Lock a file or folder; return None if another process holds it or has removed it.

    Closing the returned descriptor releases the lock, and so does the end of the process.

    Raises:
        OSError: It cannot be locked.
    """
    if fcntl is None:
        raise OSError(errno.ENOTSUP, "no locks on this system", str(path))
    try:
        descriptor = _opened_for_lock(path)
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


def _opened_for_lock(path: Path) -> int:
    """Open a file or folder, for writing if possible: network file systems lock nothing else. Never wait for a pipe."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(path, os.O_RDWR | flags)
    except FileNotFoundError:
        raise
    except OSError:  # a folder, or a file that may only be read
        return os.open(path, os.O_RDONLY | flags)


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
