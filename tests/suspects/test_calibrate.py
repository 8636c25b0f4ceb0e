import numpy as np
import pytest

from tnlpad.suspects.calibrate import HUMPS_OFF_BY, MOST_CERTAIN, comparable, confidence, upper_hump


def two_humps(samples, rate, seed=0, shift=0.0):
    generator = np.random.default_rng(seed)
    wrong = generator.random(samples) < rate
    return np.where(wrong, 0.5, -0.5) + shift + generator.normal(0, 0.3, samples), wrong


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_confidence_is_the_share_that_is_wrong(rate):
    doubt, wrong = two_humps(20_000, rate)
    sure = confidence(doubt, float(wrong.mean()))
    for rows in np.array_split(np.argsort(sure), 10):
        assert sure[rows].mean() == pytest.approx(wrong[rows].mean(), abs=0.04)


def test_parts_with_other_humps_come_to_the_same_scale():
    one, wrong_one = two_humps(3000, 0.3)
    other, wrong_other = two_humps(3000, 0.3, seed=1, shift=1.0)
    parts = np.repeat([False, True], 3000)
    sure = confidence(comparable(np.concatenate([one, 2 * other]), parts), 0.3)
    for part, wrong in ((~parts, wrong_one), (parts, wrong_other)):
        assert sure[part].mean() == pytest.approx(wrong.mean(), abs=0.03)
        assert np.mean((sure[part] > 0.5) == wrong) > 0.9


def test_more_doubt_is_never_less_confidence():
    doubt, _ = two_humps(500, 0.3)
    sure = confidence(doubt, 0.3)
    assert np.all(np.diff(sure[np.argsort(doubt)]) >= 0)
    assert 0 < sure.min() <= sure.max() <= MOST_CERTAIN


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.2, 0.6])
def test_confidences_add_up_to_the_labels_that_are_wrong(rate):
    """Whatever the humps look like: here there is one alone, with a tail."""
    doubt = -np.random.default_rng(0).gamma(2.0, 2.0, 2000)
    assert confidence(doubt, rate).mean() == pytest.approx(rate, abs=2 * (1 - MOST_CERTAIN))


@pytest.mark.parametrize("doubt", [[], [0.1], [0.2] * 7, [0.0, 1.0]])
def test_few_or_equal_samples_are_no_error(doubt):
    values = np.array(doubt, dtype=float)
    sure = confidence(comparable(values, np.zeros(len(values), dtype=bool)), 0.0)
    assert len(sure) == len(values)
    assert np.all((sure >= 0) & (sure <= 1))


def test_few_samples_held_out_are_taken_as_they_are():
    doubt, _ = two_humps(100, 0.3)
    few = np.arange(100) < 5
    np.testing.assert_array_equal(comparable(doubt, few), doubt)
    moved = comparable(doubt + few, np.arange(100) < 50)
    np.testing.assert_array_equal(moved[50:], doubt[50:])
    assert moved[:50].mean() == pytest.approx(doubt[50:].mean())
    assert moved[:50].std() == pytest.approx(doubt[50:].std())


@pytest.mark.parametrize("rate", [0.1, 0.4])
@pytest.mark.parametrize("first", [0.0, 0.2, 0.6])
def test_the_upper_hump_holds_the_wrong_labels_wherever_the_search_began(rate, first):
    doubt, wrong = two_humps(5000, rate)
    weight, off_by = upper_hump(doubt, first)
    assert weight == pytest.approx(wrong.mean(), abs=0.03)
    assert HUMPS_OFF_BY <= off_by < 0.15


@pytest.mark.parametrize("seed", [2, 4])
def test_an_outlier_is_no_hump_of_its_own(seed):
    """Where nothing was counted as wrong the search begins with the most doubtful samples alone."""
    doubt, wrong = two_humps(160, 0.3, seed=seed)
    doubt[0] = 1.5
    assert upper_hump(doubt, 0.0)[0] == pytest.approx(wrong.mean(), abs=0.06)


def test_humps_of_few_samples_are_less_certain():
    """However far apart: of 50 samples a fifth is one give or take three."""
    weight, off_by = upper_hump(np.where(np.arange(50) % 5 == 0, 9.0, 0.0) + np.linspace(0, 0.1, 50), 0.2)
    assert weight == pytest.approx(0.2)
    assert off_by == pytest.approx(np.hypot(np.sqrt(0.2 * 0.8 / 50), HUMPS_OFF_BY))


def test_humps_that_run_into_each_other_are_less_certain():
    doubt, _ = two_humps(5000, 0.4)
    blurred = doubt + np.random.default_rng(1).normal(0, 0.6, 5000)
    assert upper_hump(blurred, 0.4)[1] > 2 * upper_hump(doubt, 0.4)[1]


def test_doubt_without_humps_leaves_the_first_estimate():
    assert upper_hump(np.zeros(50), 0.3) == (0.3, 1.0)
    assert upper_hump(np.empty(0), 0.3) == (0.3, 1.0)
