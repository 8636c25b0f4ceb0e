import numpy as np
import pytest

from tnlpad.noise import LabelMismatchError, human_noise

CLEAN = np.array([0, 0, 0, 0, 1, 1, 2])
GIVEN = np.array([0, 2, 2, 1, 1, 0, 2])


def test_by_hand():
    noisy = human_noise(CLEAN.astype(np.uint8), GIVEN, CLEAN, 3)
    assert noisy.given.tolist() == GIVEN.tolist()
    assert noisy.clean.tolist() == CLEAN.tolist()
    np.testing.assert_array_equal(noisy.transition, [[0.25, 0.25, 0.5], [0.5, 0.5, 0], [0, 0, 1]])


def test_another_order_is_refused():
    with pytest.raises(
        LabelMismatchError, match=r"clean label 2 for sample 0, the dataset says 0; 6 of 7 differ.*order"
    ):
        human_noise(CLEAN, GIVEN[::-1], CLEAN[::-1], 3)


def test_another_number_of_samples_is_refused():
    with pytest.raises(LabelMismatchError, match="has 6 labels and the dataset 7"):
        human_noise(CLEAN, GIVEN[:-1], CLEAN[:-1], 3)


@pytest.mark.parametrize(
    ("given", "message"), [(GIVEN + 1, r"= 3: must lie in 0..2"), (GIVEN[:-1], "7 clean and 6 given")]
)
def test_wrong_answers_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        human_noise(CLEAN, given, CLEAN, 3)
