"""Open files that may be pipes or devices: reading a pipe may wait for ever, and /dev/zero has no end."""

import os
import stat
from io import BufferedReader
from pathlib import Path


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading; raise OSError at once if it is a pipe, a device or a socket."""
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError("it is not a regular file")
    return file


def require_regular(path: Path) -> None:
    """Raise OSError if a file that the user names, and a library opens, is a pipe, a device or a socket."""
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise OSError("it is not a regular file. Save its content as a file first, and name that")


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # Windows has no pipes among files
