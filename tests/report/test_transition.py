import io
import re

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from tnlpad.report.transition import _figure, transition_picture

COUNTS = [[60, 40, 0], [0, 0, 0], [3, 0, 97]]
NAMES = ("cat & dog", "horse", "ship")


def picture(picture_format="svg", counts=COUNTS, names=NAMES):
    return transition_picture(counts, names, "digits, pairflip:0.4", picture_format)


def texts(svg):
    return re.findall(r">([^<>]+)</text>", svg.decode())


def test_cells_show_percentages_and_zeros_are_empty():
    found = texts(picture())
    assert [text for text in found if re.fullmatch(r"\d+(\.\d)?", text)] == ["60", "40", "3.0", "97"]
    for wanted in ("cat &amp; dog", "horse", "ship", "given label", "clean label", "digits, pairflip:0.4", "100 %"):
        assert wanted in found, wanted


def test_a_row_is_a_clean_class_and_a_column_a_given_one():
    shares = np.array([[0.6, 0.4, 0.0], [0.0, 1.0, 0.0], [0.03, 0.0, 0.97]])
    axes, *_ = _figure(shares, NAMES, "title").axes
    assert np.array_equal(axes.images[0].get_array().filled(0), shares)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("given label", "clean label")
    written = {text.get_position(): text.get_text() for text in axes.texts}  # column before row
    assert written == {(0, 0): "60", (1, 0): "40", (1, 1): "100", (0, 2): "3.0", (2, 2): "97"}


def test_png():
    image = Image.open(io.BytesIO(picture("png")))
    assert image.format == "PNG"
    assert min(image.size) > 300
    pixels = np.asarray(image.convert("RGB")).reshape(-1, 3)
    assert (pixels[:, 2] > pixels[:, 0].astype(int) + 40).sum() > 1000  # something is blue


def test_a_hundred_classes_are_drawn_without_a_number_in_each_cell():
    counts = np.full((100, 100), 1) + 99 * np.eye(100, dtype=int)
    found = texts(picture(counts=counts, names=tuple(f"class {k}" for k in range(100))))
    assert len(found) < 40
    assert "class 7" not in found


@pytest.mark.parametrize("picture_format", ["png", "svg"])
def test_the_same_labels_give_the_same_bytes_and_no_global_setting_changes(picture_format):
    before = dict(mpl.rcParams)
    assert picture(picture_format) == picture(picture_format)
    assert dict(mpl.rcParams) == before


def test_a_name_for_each_class():
    with pytest.raises(ValueError, match=r"shape \(3, 3\)"):
        picture(names=("one", "two"))
