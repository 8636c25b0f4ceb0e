import numpy as np
import pytest

from tnlpad.suspects.calibrate import MAX_CONFIDENCE, MIN_WEIGHT_ERROR, comparable, confidence, upper_weight


def two_components(samples, rate, seed=0, shift=0.0):
    generator = np.random.default_rng(seed)
    wrong = generator.random(samples) < rate
    return np.where(wrong, 0.5, -0.5) + shift + generator.normal(0, 0.3, samples), wrong


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_confidence_is_the_share_that_is_wrong(rate):
    doubt, wrong = two_components(20_000, rate)
    sure = confidence(doubt, float(wrong.mean()))
    for rows in np.array_split(np.argsort(sure), 10):
        assert sure[rows].mean() == pytest.approx(wrong[rows].mean(), abs=0.04)


def test_parts_with_different_mixtures_are_brought_to_the_same_scale():
    one, wrong_one = two_components(3000, 0.3)
    other, wrong_other = two_components(3000, 0.3, seed=1, shift=1.0)
    parts = np.repeat([False, True], 3000)
    sure = confidence(comparable(np.concatenate([one, 2 * other]), parts), 0.3)
    for part, wrong in ((~parts, wrong_one), (parts, wrong_other)):
        assert sure[part].mean() == pytest.approx(wrong.mean(), abs=0.03)
        assert np.mean((sure[part] > 0.5) == wrong) > 0.9


def test_more_doubt_is_never_less_confidence():
    doubt, _ = two_components(500, 0.3)
    sure = confidence(doubt, 0.3)
    assert np.all(np.diff(sure[np.argsort(doubt)]) >= 0)
    assert 0 < sure.min() <= sure.max() <= MAX_CONFIDENCE


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.2, 0.6])
def test_confidences_sum_to_the_number_of_wrong_labels(rate):
    """Even if the doubt is not a mixture: here it has one component with a tail."""
    doubt = -np.random.default_rng(0).gamma(2.0, 2.0, 2000)
    assert confidence(doubt, rate).mean() == pytest.approx(rate, abs=2 * (1 - MAX_CONFIDENCE))


@pytest.mark.parametrize("doubt", [[], [0.1], [0.2] * 7, [0.0, 1.0]])
def test_few_or_equal_samples(doubt):
    values = np.array(doubt, dtype=float)
    sure = confidence(comparable(values, np.zeros(len(values), dtype=bool)), 0.0)
    assert len(sure) == len(values)
    assert np.all((sure >= 0) & (sure <= 1))


def test_few_held_out_samples_are_not_scaled():
    doubt, _ = two_components(100, 0.3)
    few = np.arange(100) < 5
    np.testing.assert_array_equal(comparable(doubt, few), doubt)
    moved = comparable(doubt + few, np.arange(100) < 50)
    np.testing.assert_array_equal(moved[50:], doubt[50:])
    assert moved[:50].mean() == pytest.approx(doubt[50:].mean())
    assert moved[:50].std() == pytest.approx(doubt[50:].std())


@pytest.mark.parametrize("rate", [0.1, 0.4])
@pytest.mark.parametrize("first", [0.0, 0.2, 0.6])
def test_the_upper_component_holds_the_wrong_labels_from_any_start(rate, first):
    doubt, wrong = two_components(5000, rate)
    weight, error = upper_weight(doubt, first)
    assert weight == pytest.approx(wrong.mean(), abs=0.03)
    assert MIN_WEIGHT_ERROR <= error < 0.15


@pytest.mark.parametrize("seed", [2, 4])
def test_an_outlier_is_not_a_component(seed):
    """From a first estimate of 0, the fit starts with the most doubtful samples alone."""
    doubt, wrong = two_components(160, 0.3, seed=seed)
    doubt[0] = 1.5
    assert upper_weight(doubt, 0.0)[0] == pytest.approx(wrong.mean(), abs=0.06)


def test_few_samples_have_a_larger_error():
    """Even if the components are far apart: the sampling error of 10 of 50 is about 3."""
    weight, error = upper_weight(np.where(np.arange(50) % 5 == 0, 9.0, 0.0) + np.linspace(0, 0.1, 50), 0.2)
    assert weight == pytest.approx(0.2)
    assert error == pytest.approx(np.hypot(np.sqrt(0.2 * 0.8 / 50), MIN_WEIGHT_ERROR))


def test_overlapping_components_have_a_larger_error():
    doubt, _ = two_components(5000, 0.4)
    blurred = doubt + np.random.default_rng(1).normal(0, 0.6, 5000)
    assert upper_weight(blurred, 0.4)[1] > 2 * upper_weight(doubt, 0.4)[1]


def test_constant_doubt_returns_the_first_estimate():
    assert upper_weight(np.zeros(50), 0.3) == (0.3, 1.0)
    assert upper_weight(np.empty(0), 0.3) == (0.3, 1.0)
