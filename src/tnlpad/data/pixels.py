"""Whether image files can be decoded.

One image from a file of any common kind to upright 8-bit pixels, or the reason why not.

Photographs are turned as their EXIF says, 16-bit pixels keep their upper half, transparent ones lie on white, of an
animation the first picture counts.
"""

import hashlib
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from PIL import Image, ImageOps

from tnlpad.data.progress import SILENT, Reporter, in_threads
from tnlpad.errors import DataError

MOST_PIXELS = 1 << 26  # a photograph of 64 megapixels; more in a dataset is a decompression bomb


def undecodable(paths: Sequence[str], *, reporter: Reporter = SILENT) -> Iterator[tuple[str, str]]:
    """Those of the images that cannot be decoded, each with the reason, in the order given."""
    reasons = in_threads(_reason_not_decodable, paths, "Decoding images", reporter)
    return ((path, reason) for path, reason in zip(paths, reasons, strict=True) if reason is not None)


def _reason_not_decodable(path: str) -> str | None:
    from PIL import Image

    try:
        with Image.open(path) as image:
            if image.width * image.height > MOST_PIXELS:
                return f"{image.width} x {image.height} pixels"
            image.load()
    except Exception as error:  # decoders fed with damaged bytes raise anything, and whatever it is, the image is bad
        return str(error) or type(error).__name__
    return None


MOST_BYTES = 1 << 28  # of one image's file
TOO_LARGE = f"it unpacks to more than {MOST_PIXELS:,} pixels"
LOOKED_AT = 64  # pixels to which JPEG files are decoded when they are only looked at
GRAY_MODES = {"1", "L", "LA", "La", "I", "F"}  # and the 16-bit ones
TRANSPARENT_MODES = {"RGBA", "RGBa", "LA", "La", "PA"}
Channels = Literal[1, 3]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What an image is: its size upright, its mode as Pillow names it, a digest of its file."""

    width: int
    height: int
    mode: str
    digest: bytes

    @property
    def gray(self) -> bool:
        return self.mode in GRAY_MODES or self.mode.startswith("I;16")


def look(source: str | bytes) -> Seen | str:
    """Decode an image to know that it can be done; the reason if it cannot."""
    try:
        content = source if isinstance(source, bytes) else _content(source)
        if not content:
            return "there are no bytes of a picture" if isinstance(source, bytes) else "the file is empty"
        with Image.open(io.BytesIO(content)) as image:
            mode = image.mode
            width, height = image.size
            pixels = _pixels(image, LOOKED_AT, 3)
    except DataError as error:
        return str(error)
    except Exception as error:  # decoders fed with damaged bytes raise anything
        return _reason(error)
    if (pixels.width > pixels.height) != (width > height):
        width, height = height, width
    return Seen(width=width, height=height, mode=mode, digest=hashlib.sha256(content).digest())


def open_pixels(source: str | bytes, draft: int, channels: Channels = 3) -> Image.Image:
    """The image, upright, in RGB or gray; a JPEG file larger than `draft` pixels comes at a fraction of its size."""
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
            return _pixels(image, draft, channels)
    except Exception as error:  # decoders fed with damaged bytes raise anything
        name = "An image" if isinstance(source, bytes) else source
        raise DataError(
            f"{name}: cannot be read as an image ({_reason(error)}). Restore the file, or leave it out."
        ) from error


def _content(path: str) -> bytes:
    # A pipe or a device would be read for ever.
    if not os.path.isfile(path):
        raise DataError("it is no plain file" if os.path.exists(path) else "there is no such file")
    with open(path, "rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise DataError(f"the file has more than {MOST_BYTES >> 20} MiB")
    return content


def _pixels(image: Image.Image, draft: int, channels: Channels) -> Image.Image:
    # The header says it, so nothing is unpacked before.
    if image.width * image.height > MOST_PIXELS:
        raise DataError(TOO_LARGE)
    image.draft("RGB", (draft, draft))  # JPEG can be decoded at a fraction of its size; others ignore this
    upright = ImageOps.exif_transpose(image)
    flat = _eight_bits(upright)
    if flat.mode in TRANSPARENT_MODES or "transparency" in flat.info:
        flat = flat.convert("RGBA")
        flat = Image.alpha_composite(Image.new("RGBA", flat.size, "white"), flat)
    return flat.convert("RGB" if channels == 3 else "L")


def _eight_bits(image: Image.Image) -> Image.Image:
    """Pillow cuts off what does not fit into 8 bits, which would make most 16-bit images white."""
    if image.mode == "F":
        values = np.nan_to_num(np.asarray(image))
        values = values * 255 if values.size and values.min() >= 0 and values.max() <= 1 else values
    elif image.mode == "I" or image.mode.startswith("I;16"):
        values = np.asarray(image).astype(np.int64)
        values = values >> 8 if values.size and values.max() > 255 else values
    else:
        return image
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))


def _reason(error: Exception) -> str:
    if isinstance(error, (Image.DecompressionBombError, Image.DecompressionBombWarning)):
        return TOO_LARGE
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error) or type(error).__name__
    return "not an image of a known kind" if "cannot identify image file" in text else text
