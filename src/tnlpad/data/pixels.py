"""Decode one image of any common format to upright 8-bit pixels, or say why it cannot be decoded.

Images are rotated as their EXIF says, and 16-bit pixels keep their upper half. Transparency is composited on
white; of an animation, the first frame is used.
"""

import hashlib
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps
from PIL.JpegImagePlugin import JpegImageFile

from tnlpad.data.progress import SILENT, Reporter, in_threads
from tnlpad.errors import DataError
from tnlpad.types import ImageStore

# Endings of the names of images, in folders and in shards.
IMAGE_SUFFIXES = {
    ".jpg", ".jpeg", ".jfif", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm", ".jp2"
}  # fmt: skip
MAX_PIXELS = 1 << 26  # 64 megapixels; more in a dataset is a decompression bomb
MAX_JPEG_PIXELS = 1 << 28  # of files that are decoded at a fraction of their size; a progressive one takes 3 bytes each
JPEG_START = b"\xff\xd8\xff"
MAX_FILE_BYTES = 1 << 28
TOO_LARGE = f"it unpacks to more than {MAX_PIXELS:,} pixels (JPEG: {MAX_JPEG_PIXELS:,}). Make it smaller"
MAX_ASPECT = 1000  # of a longer image, what is resized by the shorter side would fill the memory
TOO_LONG = f"its longer side has more than {MAX_ASPECT:,} times the pixels of the shorter one. Cut out a part of it"
PROBE_PIXELS = 64  # side to which JPEG files are decoded to find out whether they can be
LUMA_SIDE, CHROMA_SIDE = 16, 4  # of the thumbnails that near duplicates are found by
GRAY_MODES = {"1", "L", "LA", "La", "I", "F"}  # and the 16-bit ones
TRANSPARENT_MODES = {"RGBA", "RGBa", "LA", "La", "PA"}
Channels = Literal[1, 3]
UNNAMED = "An image"  # in messages about content without a path


@dataclass(frozen=True, kw_only=True)
class ImageInfo:
    """Upright size of an image, its mode as Pillow names it, a digest of its file, and its thumbnail."""

    width: int
    height: int
    mode: str
    digest: bytes
    thumbnail: bytes

    @property
    def gray(self) -> bool:
        return self.mode in GRAY_MODES or self.mode.startswith("I;16")


def probe(source: str | bytes) -> ImageInfo | str:
    """Decode an image given by its path or content, and describe it; return the reason if that fails."""
    try:
        content = source if isinstance(source, bytes) else file_content(source)
        if not content:
            return "there are no bytes of an image" if isinstance(source, bytes) else "the file is empty"
        with _opened(content) as image:
            mode = image.mode
            width, height = image.size
            pixels = _pixels(image, PROBE_PIXELS, 3)
        look = thumbnail(pixels)
    except DataError as error:
        return str(error)
    except Exception as error:  # decoders raise anything on damaged bytes
        return reason_of(error)
    if (pixels.width > pixels.height) != (width > height):
        width, height = height, width
    digest = hashlib.sha256(content).digest()
    return ImageInfo(width=width, height=height, mode=mode, digest=digest, thumbnail=look)


def thumbnail(pixels: Image.Image) -> bytes:
    """Return the brightness of an image in 16 × 16 cells, and its two colour differences in 4 × 4 cells each."""
    small = pixels.convert("RGB").resize((LUMA_SIDE, LUMA_SIDE), Image.Resampling.BOX)
    luma, *chroma = small.convert("YCbCr").split()
    coarse = [each.resize((CHROMA_SIDE, CHROMA_SIDE), Image.Resampling.BOX) for each in chroma]
    return b"".join(each.tobytes() for each in (luma, *coarse))


def undecodable(images: Sequence[tuple[ImageStore, int]], *, reporter: Reporter = SILENT) -> Iterator[tuple[str, str]]:
    """Yield the place of each stored image that cannot be decoded, with the reason, in order."""

    def reason(image: tuple[ImageStore, int]) -> str | None:
        store, place = image
        try:
            source = store.read(place)
        except DataError as error:
            return str(error)
        found = None if isinstance(source, np.ndarray) else probe(source)
        return found if isinstance(found, str) else None

    for (store, place), found in zip(images, in_threads(reason, images, "Decoding images", reporter), strict=True):
        if found is not None:
            yield store.where(place), found


def open_pixels(source: str | bytes, draft: int, channels: Channels = 3) -> Image.Image:
    """Decode an image to upright RGB or gray; a JPEG larger than `draft` pixels at a fraction of its size."""
    try:
        with _opened(source if isinstance(source, bytes) else file_content(source)) as image:
            return _pixels(image, draft, channels)
    except Exception as error:  # decoders raise anything on damaged bytes
        name = UNNAMED if isinstance(source, bytes) else source
        raise DataError(
            f"{name}: cannot be read as an image ({reason_of(error)}). Restore the file, or leave it out."
        ) from error


def open_resized(source: str | bytes, resize: int, channels: Channels = 3) -> Image.Image:
    """Decode an image like `open_pixels`, and resize its shorter side to `resize` pixels."""
    pixels = open_pixels(source, resize, channels)
    scale = resize / min(pixels.size)
    width, height = (round(side * scale) for side in pixels.size)
    return pixels.resize((width, height), Image.Resampling.BILINEAR)


def file_content(path: str) -> bytes:
    """Read an image file; raise DataError if it is not a regular one of a sensible size."""
    # Reading a pipe or a device would never end.
    if not os.path.isfile(path):
        raise DataError("it is not a regular file" if os.path.exists(path) else "there is no such file")
    with open(path, "rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise DataError(f"the file has more than {MAX_FILE_BYTES >> 20} MiB")
    return content


def _opened(content: bytes) -> Image.Image:
    """Read the header of an image; nothing is unpacked yet."""
    file = io.BytesIO(content)
    # Image.open refuses large pictures of any format, before a JPEG can be decoded at a fraction of its size.
    return JpegImageFile(file) if content.startswith(JPEG_START) else Image.open(file)


def _pixels(image: Image.Image, draft: int, channels: Channels) -> Image.Image:
    bound = MAX_JPEG_PIXELS if isinstance(image, JpegImageFile) else MAX_PIXELS
    if image.width * image.height > bound:
        raise DataError(TOO_LARGE)
    if max(image.size) > MAX_ASPECT * min(image.size):
        raise DataError(TOO_LONG)
    image.draft("RGB", (draft, draft))  # JPEG can be decoded at a fraction of its size; others ignore this
    if image.width * image.height > MAX_PIXELS:
        raise DataError(TOO_LARGE)
    upright = ImageOps.exif_transpose(image)
    flat = eight_bits(upright)
    if flat.mode in TRANSPARENT_MODES or "transparency" in flat.info:
        flat = flat.convert("RGBA")
        flat = Image.alpha_composite(Image.new("RGBA", flat.size, "white"), flat)
    return flat.convert("RGB" if channels == 3 else "L")


def eight_bits(image: Image.Image) -> Image.Image:
    """Scale pixels to 8 bits; Pillow clips instead, which makes most 16-bit images white."""
    values: NDArray[Any]
    if image.mode == "F":
        values, most = np.nan_to_num(np.asarray(image)), 2**8 - 1
    elif image.mode == "I" or image.mode.startswith("I;16"):
        values, most = np.asarray(image).astype(np.int64), 2**16 - 1
    else:
        return image
    low, high = values.min(initial=0), values.max(initial=0)
    if high > most:
        raise DataError(f"its pixels reach {high:,.0f}, more than {most:,}. Save it with 8 or 16 bits")
    if image.mode == "F":
        values = values * 255 if low == 0 and high <= 1 else values
    elif high > 255:
        values = values >> 8
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))


def reason_of(error: Exception) -> str:
    """Return why an image cannot be decoded, from what its decoder raised."""
    if isinstance(error, (Image.DecompressionBombError, Image.DecompressionBombWarning)):
        return TOO_LARGE
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error) or type(error).__name__
    return "not an image of a known format" if "cannot identify image file" in text else text
