import io
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from tnlpad.data.own.mixed import MixedTable
from tnlpad.suspects.pictures import (
    MAX_CHARACTERS,
    MAX_COLUMNS,
    MAX_SIDE_PIXELS,
    MAX_VALUES,
    Illustrator,
    TypicalNumbers,
    jpeg_of_array,
    jpeg_of_image,
)


def opened(content):
    image = Image.open(io.BytesIO(content))
    assert image.format == "JPEG"
    return image


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "CMYK", "1"])
def test_an_image_of_any_mode_becomes_a_small_picture(mode):
    assert max(opened(jpeg_of_image(Image.new(mode, (400, 200)))).size) == MAX_SIDE_PIXELS


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (1, 28, 28), (3, 300, 200)])
def test_an_array_becomes_a_picture(shape):
    picture = opened(jpeg_of_array(np.zeros(shape, dtype=np.uint8)))
    assert 56 <= max(picture.size) <= MAX_SIDE_PIXELS


COLUMNS = ("same", "far", "near", "scaled", "noise")


def rows():
    """Class 0 lies at 0 and class 1 at 4 in all columns but two; the last row is one of class 1 that was labelled 0."""
    features = np.zeros((21, 5), dtype=np.float32)
    labels = np.array([0] * 10 + [1] * 10 + [0])
    features[10:] = [0, 4, 4, 4000, 0]
    features[:, 4] = np.random.default_rng(0).normal(size=21)
    features[20, 2] = 2.5
    return TypicalNumbers(features, labels, COLUMNS)


def test_the_columns_that_speak_for_the_suggested_class_come_first():
    found = rows().compared(20, 0, 1)
    assert len(found) == MAX_COLUMNS
    assert {each.column for each in found[:2]} == {"far", "scaled"}  # on any scale
    assert found[2].column == "near"
    assert (found[2].value, found[2].given, found[2].suggested) == (2.5, 0, 4)


def test_medians_do_not_move_with_a_few_wrong_labels():
    typical = rows()
    first = typical.compared(0, 0, 1)
    assert all(each.given == 0 for each in first if each.column in ("far", "scaled", "near"))


def test_a_class_without_rows_has_the_median_of_all():
    assert all(np.isfinite([each.value, each.given, each.suggested]).all() for each in rows().compared(3, 0, 7))


def illustrator(**fields):
    about = {"kind": "features", "path": "x"}
    data = SimpleNamespace(ids=("a", "b"), texts=None, features=None, table=None, columns=())
    vars(data).update(fields)
    run = SimpleNamespace(about=about | ({"kind": "text"} if data.texts else {"kind": "table"} if data.table else {}))
    return Illustrator(run, data, None, pytest.fail), SimpleNamespace(id="b")


def test_the_values_of_a_row_are_shown_in_part():
    columns = tuple(f"c{k}" for k in range(15))
    shown, sample = illustrator(features=np.arange(30, dtype=np.float32).reshape(2, 15), columns=columns)
    values = shown.values(sample)
    assert values[0] == ("c0", "15")
    assert len(values) == MAX_VALUES + 1
    assert values[-1] == ("…", "3 more columns")
    assert shown.categories(sample) == ()


def test_gaps_and_categories_are_shown():
    table = MixedTable(
        number_columns=("age",),
        numbers=np.array([[1.5], [np.nan]], dtype=np.float32),
        category_columns=("town", "job"),
        categories=(["Ulm", "Bonn"], ["x", None]),
    )
    shown, sample = illustrator(table=table)
    assert shown.values(sample) == shown.categories(sample) == [("age", ""), ("town", "Bonn"), ("job", "")]


def test_a_long_text_is_shortened():
    shown, sample = illustrator(texts=("short", "x" * 5000))
    assert shown.text(sample) == "x" * MAX_CHARACTERS + "…"
    assert shown.text(SimpleNamespace(id="a")) == "short"
    assert shown.values(sample) == ()


def test_columns_with_a_gap_are_not_compared():
    typical = rows()
    typical.features[20, 1] = np.nan
    typical.features[:10, 3] = np.nan
    found = typical.compared(20, 0, 1)
    assert found[0].column in ("near", "scaled")
    assert "far" not in {each.column for each in found}
    assert all(np.isfinite([each.value, each.given, each.suggested]).all() for each in found)
