"""Whether image files can be decoded."""

from collections.abc import Iterator, Sequence

from tnlpad.data.in_threads import in_threads
from tnlpad.data.reporting import SILENT, Reporter

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
