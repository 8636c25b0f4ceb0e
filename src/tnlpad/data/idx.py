"""IDX, the format of MNIST: a big-endian magic number, the dimensions, then unsigned bytes, row after row."""

import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.errors import DataError
from tnlpad.data.files import read_bounded

UNSIGNED_BYTE = 0x08
MOST_DIMENSIONS = 4


def read_idx(path: Path, *, most_bytes: int) -> NDArray[np.uint8]:
    """The array in an IDX file of unsigned bytes; the file may be compressed, then its name ends in .gz."""
    content = read_bounded(path, most_bytes)
    if len(content) < 4:
        raise DataError(f"{path} has {len(content)} bytes: an IDX file begins with a magic number of 4.")
    zero, kind, dimensions = struct.unpack(">HBB", content[:4])
    if zero != 0 or kind != UNSIGNED_BYTE or not 1 <= dimensions <= MOST_DIMENSIONS:
        raise DataError(
            f"{path} begins with 0x{content[:4].hex()}: an IDX file of unsigned bytes begins with 0x000008 and the "
            f"number of dimensions, 1 to {MOST_DIMENSIONS}."
        )
    header = 4 + 4 * dimensions
    if len(content) < header:
        raise DataError(f"{path} ends within its header, after {len(content)} bytes: it is truncated.")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    if math.prod(shape) != len(content) - header:
        raise DataError(
            f"{path} announces {' x '.join(map(str, shape))} = {math.prod(shape):,} bytes of data but holds "
            f"{len(content) - header:,}: it is truncated or damaged."
        )
    # A copy, because arrays that share a file's immutable bytes cannot be written to.
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy()
