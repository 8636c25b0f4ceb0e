"""A person's image files as one array."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.in_threads import in_threads
from tnlpad.data.own.listing import Encoded
from tnlpad.data.pixels import Channels
from tnlpad.data.reporting import SILENT, Reporter
from tnlpad.data.stream import decode


def decoded(
    files: Sequence[Encoded], size: int, channels: Channels, *, reporter: Reporter = SILENT
) -> NDArray[np.uint8]:
    """All of the images: shorter side to `size` pixels, the square in the middle cut out."""

    def one(file: Encoded) -> NDArray[np.uint8]:
        return decode(file, size, size, channels=channels)

    pixels = np.empty((len(files), channels, size, size), dtype=np.uint8)
    for row, image in enumerate(in_threads(one, files, "Decoding images", reporter)):
        pixels[row] = image
    return pixels
