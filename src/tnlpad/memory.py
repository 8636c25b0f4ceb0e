"""The memory of this machine or container: what cannot fit into it is refused, and large arrays lie in files."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
from numpy.typing import NDArray

from tnlpad.errors import DataError

MAX_ROWS_AT_ONCE, MAX_BYTES_AT_ONCE = 8192, 1 << 26  # of a large array, as float64
CGROUPS, OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def memory_limits() -> Iterator[int]:
    """Yield the memory of the machine, and the limits of this process and the groups (containers, jobs) it is in."""
    with suppress(ImportError):  # on Windows
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            yield limit
    if hasattr(os, "sysconf") and {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= os.sysconf_names.keys():
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in _lines(OWN_CGROUPS):
        _, controllers, group = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top, name = (CGROUPS / "memory", "memory.limit_in_bytes") if controllers else (CGROUPS, "memory.max")
        place = top / group.lstrip("/")
        for folder in (place, *place.parents):
            if folder.is_relative_to(top):
                yield from (int(limit) for limit in _lines(folder / name) if limit.isdigit())


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().split("\n")[:-1]
    except OSError:
        return []


def require_memory(needed: int, what: str, way_out: str) -> None:
    """Raise DataError if so many bytes are more than the memory of this machine or container.

    Args:
        needed: Bytes that are needed at least.
        what: What needs them, such as a file and the number of its rows.
        way_out: A sentence that says what to do.
    """
    limit = min(memory_limits(), default=needed)
    if needed > limit:
        raise DataError(
            f"{what} takes at least {size_text(needed)} of memory, and this machine or container has "
            f"{size_text(limit)}. {way_out}"
        )


def zeros(rows: int, columns: int, most_bytes: int, folder: Path | None = None) -> NDArray[np.float32]:
    """Return zeros to fill in. Above so many bytes, they lie in a file without a name; memory holds what is in use.

    The file is in `folder` if that is possible, since the one for temporary files is often in memory. As it has no
    name, nothing is left of it when the process ends, however it does.
    """
    size = rows * columns * np.dtype(np.float32).itemsize
    for place in (folder, None) if size > most_bytes else ():
        # Without space for it, an error now is better than a crash on writing to it.
        with suppress(OSError, AttributeError), TemporaryFile(prefix="tnlpad-", dir=place) as file:
            os.posix_fallocate(file.fileno(), 0, size)
            return np.asarray(np.memmap(file, np.float32, "r+", shape=(rows, columns)))
    return np.zeros((rows, columns), np.float32)


def row_slices(rows: int, columns: int) -> Iterator[slice]:
    """Yield slices that cover all rows of an array, to use a few at a time: the fewer, the more columns it has."""
    size = max(1, min(MAX_ROWS_AT_ONCE, MAX_BYTES_AT_ONCE // (8 * max(1, columns))))
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def size_text(size: int) -> str:
    """Return a number of bytes as text, such as "1.5 GB"."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
