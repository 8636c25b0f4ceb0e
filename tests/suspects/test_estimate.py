import numpy as np
import pytest

from tests.suspects.made import made
from tnlpad.suspects.estimate import clearest, estimate
from tnlpad.suspects.evidence import evidence


def found(**options):
    scores, wrong, clean = made(**options)
    return evidence(scores), wrong, clean


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.4])
def test_the_rate_is_near_the_truth_and_within_the_interval(rate):
    seen, wrong, _ = found(samples=6000, rate=rate)
    estimated = estimate(seen)
    low, high = estimated.noise_rate_interval
    assert estimated.noise_rate == pytest.approx(wrong.mean(), abs=0.05)
    assert low - 0.01 <= wrong.mean() <= high + 0.01
    assert high - low < 0.15
    assert estimated.held_out


def test_the_matrix_is_near_the_truth():
    seen, _, clean = found(samples=6000, rate=0.3)
    true = np.zeros((3, 3))
    np.add.at(true, (clean, seen.given), 1)
    true /= true.sum(1, keepdims=True)
    estimated = estimate(seen)
    np.testing.assert_allclose(estimated.transition.sum(1), 1)
    np.testing.assert_allclose(estimated.transition, true, atol=0.07)
    np.testing.assert_allclose(1 - np.diag(estimated.transition), estimated.class_rates)
    assert estimated.transition_intervals.shape == (3, 3, 2)
    assert np.all(estimated.transition_intervals[..., 0] <= estimated.transition_intervals[..., 1])


def test_no_wrong_label_among_few_is_not_taken_for_none():
    seen, _, _ = found(samples=200, rate=0.0, sharpness=20.0)
    estimated = estimate(seen)
    assert estimated.noise_rate == 0
    assert estimated.noise_rate_interval[1] == pytest.approx(3 / estimated.samples)


def test_without_samples_held_out_it_says_so():
    seen, _, _ = found(held_out=0.0)
    assert not estimate(seen).held_out


def test_the_same_seed_gives_the_same_interval():
    seen, _, _ = found()
    assert estimate(seen, seed=1).noise_rate_interval == estimate(seen, seed=1).noise_rate_interval


def test_many_classes_have_no_interval_for_every_entry():
    seen, _, _ = found(classes=120, samples=2400, names=tuple(map(str, range(120))))
    estimated = estimate(seen, resamples=5)
    assert estimated.transition.shape == (120, 120)
    assert estimated.transition_intervals is None
    assert estimated.class_rate_intervals.shape == (120, 2)


def test_the_clearest_half_of_each_class_counts():
    seen, _, _ = found(samples=300)
    clear = clearest(seen, seen.held_out)
    assert seen.held_out[clear].all()
    for label in range(3):
        of_class = seen.held_out & (seen.suggested == label)
        chosen = clear[seen.suggested[clear] == label]
        assert len(chosen) == -(-of_class.sum() // 2)
        left_out = np.setdiff1d(np.flatnonzero(of_class), chosen)
        assert seen.lead[chosen].min() >= seen.lead[left_out].max()
