"""The memory of this machine or container, and what cannot fit into it: refused before it is asked for."""

import os
from collections.abc import Iterator
from pathlib import Path

from tnlpad.errors import DataError

CGROUPS, OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def memory_limits() -> Iterator[int]:
    """Yield the memory of the machine, and the limits of the groups (containers, jobs) that this process is in."""
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


def size_text(size: int) -> str:
    """Return a number of bytes as text, such as "1.5 GB"."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
