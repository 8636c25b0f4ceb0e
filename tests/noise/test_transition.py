import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnlpad.noise import symmetric
from tnlpad.noise.transition import checked


def test_symmetric_by_hand():
    expected = [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]]
    np.testing.assert_allclose(symmetric(0.4, 3), expected, rtol=0, atol=1e-15)


@given(st.floats(0, 1), st.integers(2, 200))
def test_symmetric_rows_are_distributions(noise_rate, num_classes):
    transition = checked(symmetric(noise_rate, num_classes))
    assert transition.shape == (num_classes, num_classes)
    np.testing.assert_allclose(transition.sum(axis=1), 1, atol=1e-12)
    assert (np.diag(transition) == 1 - noise_rate).all()


@pytest.mark.parametrize("noise_rate", [-0.1, 1.1, float("nan")])
def test_a_noise_rate_is_a_share(noise_rate):
    with pytest.raises(ValueError, match=r"noise_rate=.*\[0, 1\]"):
        symmetric(noise_rate, 10)


def test_one_class_has_no_wrong_label():
    with pytest.raises(ValueError, match="num_classes=1"):
        symmetric(0.2, 1)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)) / 3, r"shape \(2, 3\)"),
        ([0.5, 0.5], r"shape \(2,\)"),
        ([[1.0]], "at least 2x2"),
        ([[1.2, -0.2], [0.0, 1.0]], r"transition\[0, 1\] = -0.2"),
        ([[1.0, 0.0], [np.nan, 1.0]], r"transition\[1, 0\] = nan"),
        ([[0.5, 0.5], [0.5, 0.4]], "Row 1 of transition sums to 0.9"),
    ],
)
def test_what_is_no_transition_matrix_is_refused(matrix, message):
    with pytest.raises(ValueError, match=message):
        checked(matrix)
