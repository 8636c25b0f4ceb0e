import io
from base64 import b64decode

import numpy as np
import pytest
from PIL import Image

from tnlpad.suspects.thumbnails import SIDE_PIXELS, of_array, of_image


def opened(address):
    kind, content = address.split(",", 1)
    assert kind == "data:image/jpeg;base64"
    return Image.open(io.BytesIO(b64decode(content)))


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "CMYK", "1"])
def test_an_image_of_any_mode_becomes_a_small_picture(mode):
    assert max(opened(of_image(Image.new(mode, (400, 200)))).size) == SIDE_PIXELS


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (1, 28, 28), (3, 300, 200)])
def test_an_array_becomes_a_picture(shape):
    picture = opened(of_array(np.zeros(shape, dtype=np.uint8)))
    assert 56 <= max(picture.size) <= SIDE_PIXELS
