import numpy as np
import pytest

from tnlpad.data.errors import DataError
from tnlpad.data.own.arrays import listing_of_arrays, one_label_each


def listing(*content, labels=None):
    ids = [str(row) for row in range(sum(len(array) for array in content))]
    return listing_of_arrays(content, labels, where="data", ids=ids)


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        ((4, 5, 6), (4, 1, 5, 6)),
        ((4, 5, 6, 3), (4, 3, 5, 6)),
        ((4, 3, 5, 6), (4, 3, 5, 6)),
        ((4, 5, 6, 4), (4, 3, 5, 6)),
    ],
)
def test_images_of_every_order(shape, found):
    images = np.arange(np.prod(shape)).reshape(shape).astype(np.uint8)
    assert listing(images).images.shape == found


def test_fractions_become_bytes():
    assert listing(np.array([[[0, 0.5], [1, 0]]])).images.tolist() == [[[[0, 128], [255, 0]]]]


def test_rows_are_features_with_numbered_columns():
    found = listing(np.ones((2, 3)), np.zeros((1, 3)), labels=[["a", "b"], ["a"]])
    assert found.features.dtype == np.float32
    assert found.columns == ("column 0", "column 1", "column 2")
    assert found.labels == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 3, 3)) - 1, "pixels reach from -1 to -1"),
        (np.full((2, 3, 3), 300), "pixels reach from 300 to 300: make them 8-bit numbers"),
        (np.full((2, 3, 3), np.nan), "NaN or infinity"),
        (np.array(["a", "b"]), "samples are <U1; they must be numbers"),
        (np.ones((2, 3), bool), r"samples are bool; they must be numbers: .*\.astype\('uint8'\)"),
        (np.ones((2, 3), complex), "samples are complex128; they must be numbers"),
        (np.zeros((2, 5, 5, 7)), "one, three or four channels"),
        (np.zeros((2, 0)), r"samples have shape \(2, 0\): images are N×H×W"),
        (np.zeros(2), r"samples have shape \(2,\)"),
        (np.zeros((2, 1, 1, 1, 1)), r"samples have shape \(2, 1, 1, 1, 1\)"),
    ],
)
def test_arrays_that_are_no_samples(array, message):
    with pytest.raises(DataError, match=message):
        listing(array)


def test_parts_are_alike():
    with pytest.raises(DataError, match=r"data: the samples of its parts differ in shape or kind\. Make them alike"):
        listing(np.ones((2, 3)), np.ones((2, 4)))
    with pytest.raises(DataError, match="differ in shape or kind"):
        listing(np.ones((2, 3)), np.zeros((2, 3, 3), np.uint8))


def test_labels_may_be_a_column():
    assert one_label_each(np.array([[2], [0]]), range(2), "data") == [2, 0]
    assert one_label_each(["x", 1], range(2), "data") == ["x", 1]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(3), "data: there are 2 samples and 3 labels: give one label for each sample"),
        (
            np.eye(2),
            r"data: labels have the shape \(2, 2\): give one class for each sample, such as labels.argmax\(1\)",
        ),
        (np.array(1), r"labels have the shape \(\)"),
    ],
)
def test_labels_that_do_not_fit(labels, message):
    with pytest.raises(DataError, match=message):
        one_label_each(labels, range(2), "data")
