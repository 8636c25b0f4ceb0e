"""Whether image files can be decoded."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from tnlpad.data.reporting import SILENT, Reporter

MOST_PIXELS = 1 << 26  # a photograph of 64 megapixels; more in a dataset is a decompression bomb
AT_ONCE = 256


def undecodable(paths: Sequence[str], *, reporter: Reporter = SILENT) -> Iterator[tuple[str, str]]:
    """Those of the images that cannot be decoded, each with the reason, in the order given."""
    # Threads suffice: the decoder does its work outside the interpreter's lock.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(paths), AT_ONCE):
            group = paths[start : start + AT_ONCE]
            for path, reason in zip(group, pool.map(_reason_not_decodable, group), strict=True):
                if reason is not None:
                    yield path, reason
            reporter.progress("Decoding images", start + len(group), len(paths))


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
