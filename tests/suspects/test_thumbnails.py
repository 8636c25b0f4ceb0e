import io
from base64 import b64decode

import numpy as np
import pytest
from PIL import Image

from tnlpad.suspects.thumbnails import SIDE_PIXELS, of_array, of_file


def opened(address):
    kind, content = address.split(",", 1)
    assert kind == "data:image/jpeg;base64"
    return Image.open(io.BytesIO(b64decode(content)))


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "CMYK", "1"])
def test_a_file_of_any_mode_becomes_a_small_picture(tmp_path, mode):
    path = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    Image.new(mode, (400, 200)).save(path)
    picture = opened(of_file(path))
    assert max(picture.size) == SIDE_PIXELS


@pytest.mark.parametrize("content", [b"", b"no image", b"\xff\xd8\xff"])
def test_what_is_no_image_has_no_picture(tmp_path, content):
    (tmp_path / "a.png").write_bytes(content)
    assert of_file(tmp_path / "a.png") is None
    assert of_file(tmp_path / "none.png") is None


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (1, 28, 28), (3, 300, 200)])
def test_an_array_becomes_a_picture(shape):
    picture = opened(of_array(np.zeros(shape, dtype=np.uint8)))
    assert 56 <= max(picture.size) <= SIDE_PIXELS


def test_a_photograph_is_shown_the_right_way_up(tmp_path):
    image = Image.new("RGB", (200, 100))
    exif = image.getexif()
    exif[0x0112] = 6  # turned by a quarter
    image.save(tmp_path / "a.jpg", exif=exif)
    width, height = opened(of_file(tmp_path / "a.jpg")).size
    assert height > width
