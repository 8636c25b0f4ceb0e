"""Let something happen at the k-th file operation of this process: a signal, half a write, or a full disk.

Opening for writing, renaming, removing and the like are noticed by an audit hook, which Python calls before it does
them, also for libraries. Writes and fsync are noticed where the project itself writes, in `tnlpad.atomic_files`. Some
files are written in thousands of small pieces, so of the writes to a file only the first, second, fourth, eighth and so
on count as operations.
"""

import builtins
import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

CREATING = ("open", "os.mkdir", "os.link", "os.symlink", "write", "fsync")  # what a full disk refuses
CHANGING = ("os.rename", "os.remove", "os.rmdir", "os.truncate")
WRITING_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT
Act = Callable[[], None]


class FileOperations:
    """Counts the file operations of this process below a folder, and does something at one of them.

    Args:
        folder: Operations elsewhere do not count.
        at: The number of the operation, from 1; 0 for none.
        act: Called before that operation. It may raise, and then the operation does not take place.
        halves: Whether to write half of the content first if the operation is a write.
        lasting: Whether to act at every later operation as well that needs space.
    """

    def __init__(self, folder: Path, at: int = 0, act: Act = lambda: None, *, halves=False, lasting=False) -> None:
        self.folder, self.at, self.act, self.halves, self.lasting = str(folder), at, act, halves, lasting
        self.count = 0

    def install(self) -> None:
        """Begin to count, for the rest of this process: audit hooks cannot be removed."""
        from tnlpad import atomic_files

        sys.addaudithook(self._heard)
        atomic_files.open = self._open  # type: ignore[attr-defined]
        fsync = os.fsync

        def counted(descriptor: int) -> None:
            self.noticed("fsync")
            fsync(descriptor)

        os.fsync = counted

    def noticed(self, event: str, *, counts: bool = True) -> None:
        """Count an operation, and act if it is the one."""
        self.count += counts
        if (counts and self.count == self.at) or (self.lasting and 0 < self.at <= self.count and event in CREATING):
            self.act()

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in CREATING and event not in CHANGING:
            return
        path = arguments[0]
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, (str, os.PathLike)) or not os.path.abspath(path).startswith(self.folder):
            return
        if event != "open" or arguments[2] & WRITING_FLAGS:
            self.noticed(event)

    def _open(self, path: Any, mode: str, **options: Any) -> Any:
        return CountedFile(builtins.open(path, mode, **options), self)


class CountedFile:
    """A file whose writes are counted."""

    def __init__(self, file: Any, operations: FileOperations) -> None:
        self._file, self._operations, self._writes = file, operations, 0

    def __enter__(self) -> "CountedFile":
        self._file.__enter__()
        return self

    def __exit__(self, *error: object) -> object:
        return self._file.__exit__(*error)

    def write(self, content: Any) -> Any:
        """Write; if this is the operation, only half of it may come to the disk."""
        operations = self._operations
        self._writes += 1
        counts = self._writes.bit_count() == 1
        if counts and operations.halves and operations.count + 1 == operations.at:
            self._file.write(bytes(content)[: len(content) // 2])
            self._file.flush()
        operations.noticed("write", counts=counts)
        return self._file.write(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def send(number: signal.Signals) -> Act:
    """Return an act that sends a signal to this process."""
    return lambda: os.kill(os.getpid(), number)


def disk_full() -> None:
    """Raise what a full disk raises."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
