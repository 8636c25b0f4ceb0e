"""Small pictures that are part of a page: the bytes of an image as an address that a browser shows."""

import io
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE_PIXELS = 112
SMALLEST_SHOWN_PIXELS = 56  # of a side: images smaller than this are enlarged by whole numbers, with sharp pixels
MOST_PIXELS = 1 << 26
QUALITY = 78


def of_file(path: Path) -> str | None:
    """A picture of an image file, the right way up; None if it cannot be read."""
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            if image.width * image.height > MOST_PIXELS:
                return None
            image.draft("RGB", (2 * SIDE_PIXELS, 2 * SIDE_PIXELS))
            return _address(ImageOps.exif_transpose(image).convert("RGB"))
    except Exception:  # decoders fed with damaged bytes raise anything; a page without one picture is still a page
        return None


def of_array(pixels: NDArray[np.uint8]) -> str:
    """A picture of channels × height × width bytes."""
    from PIL import Image

    planes = pixels.transpose(1, 2, 0)
    image = Image.fromarray(planes[:, :, 0] if planes.shape[2] == 1 else planes[:, :, :3])
    return _address(image.convert("RGB"))


def _address(image: "Image") -> str:
    from PIL import Image

    larger = -(-SMALLEST_SHOWN_PIXELS // max(image.size))
    if larger > 1:
        image = image.resize((image.width * larger, image.height * larger), Image.Resampling.NEAREST)
    image.thumbnail((SIDE_PIXELS, SIDE_PIXELS))
    content = io.BytesIO()
    image.save(content, "JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + b64encode(content.getvalue()).decode()
