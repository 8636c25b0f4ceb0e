"""Return memory to the system that a computation has left behind, which Arrow and the C library would keep.

Of the C library, glibc keeps memory for each thread and returns only that of the first, so threads share it here. Other
libraries have no such functions, and are left alone.
"""

import ctypes
import sys
from contextlib import suppress

M_ARENA_MAX = -8  # of malloc.h


def share_memory_of_threads() -> None:
    """Let all threads of this process share one arena. Has its full effect before the first thread starts."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def release_memory() -> None:
    """Return unused memory to the system."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
