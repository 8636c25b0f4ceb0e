"""Small pictures that are part of a page: the bytes of an image as an address that a browser shows."""

import io
from base64 import b64encode
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE_PIXELS = 192  # as wide as a card of the page on a large screen
SMALLEST_SHOWN_PIXELS = 56  # of a side: images smaller than this are enlarged by whole numbers, with sharp pixels
QUALITY = 78


def of_image(image: "Image") -> str:
    """A picture of an upright image."""
    return _address(image.convert("RGB"))


def of_array(pixels: NDArray[np.uint8]) -> str:
    """A picture of channels × height × width bytes."""
    from PIL import Image

    planes = pixels.transpose(1, 2, 0)
    image = Image.fromarray(planes[:, :, 0] if planes.shape[2] == 1 else planes[:, :, :3])
    return of_image(image)


def _address(image: "Image") -> str:
    from PIL import Image

    larger = -(-SMALLEST_SHOWN_PIXELS // max(image.size))
    if larger > 1:
        image = image.resize((image.width * larger, image.height * larger), Image.Resampling.NEAREST)
    image.thumbnail((SIDE_PIXELS, SIDE_PIXELS))
    content = io.BytesIO()
    image.save(content, "JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + b64encode(content.getvalue()).decode()
