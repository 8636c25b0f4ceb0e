import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tnlpad.noise import corrupt, symmetric


def generator(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("noise_rate", [0.2, 0.4])
def test_rate_and_uniformity_of_symmetric_noise(noise_rate):
    clean = np.arange(50_000) % 10
    noisy = corrupt(clean, symmetric(noise_rate, 10), generator())
    wrong = noisy.given != noisy.clean
    assert abs(wrong.mean() - noise_rate) <= 4 * np.sqrt(noise_rate * (1 - noise_rate) / len(clean))
    counts = np.zeros((10, 10))
    np.add.at(counts, (noisy.clean[wrong], noisy.given[wrong]), 1)
    off_diagonal = counts[~np.eye(10, dtype=bool)]
    expected = wrong.sum() / 90
    # Chi-square with about 89 degrees of freedom: mean 89, standard deviation 13.
    assert ((off_diagonal - expected) ** 2 / expected).sum() < 89 + 4 * 13.4


def test_agrees_with_numpys_multinomial_choice():
    transition = np.array([[0.1, 0.0, 0.9], [0.3, 0.7, 0.0], [0.0, 0.0, 1.0]])
    clean = np.repeat([0, 1, 2], 20_000)
    given_labels = corrupt(clean, transition, generator(5)).given
    oracle = generator(6)
    for label in range(3):
        ours = np.bincount(given_labels[clean == label], minlength=3) / 20_000
        theirs = np.bincount(oracle.choice(3, 20_000, p=transition[label]), minlength=3) / 20_000
        np.testing.assert_allclose(ours, theirs, atol=4 * np.sqrt(2 * 0.25 / 20_000))
        assert (ours[transition[label] == 0] == 0).all()


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 4), max_size=50),
    st.lists(
        st.lists(st.floats(0, 1), min_size=5, max_size=5).filter(lambda row: sum(row) > 0.1), min_size=5, max_size=5
    ),
    st.integers(0, 2**32),
)
def test_only_classes_with_probability_are_drawn(labels, rows, seed):
    transition = np.array(rows) / np.sum(rows, axis=1, keepdims=True)
    noisy = corrupt(labels, transition, generator(seed))
    assert noisy.given.dtype == noisy.clean.dtype == np.int64
    assert noisy.clean.tolist() == labels
    assert (transition[noisy.clean, noisy.given] > 0).all()


class FixedUniform:
    """Stands for a generator whose draws are at the very ends of [0, 1)."""

    def __init__(self, value):
        self.value = value

    def random(self, size):
        return np.full(size, self.value)


@pytest.mark.parametrize("value", [0.0, np.nextafter(1.0, 0.0)])
def test_extreme_draws_stay_within_the_classes_of_positive_probability(value):
    sevenths = np.array([[0.0, *[1 / 7] * 7, 0.0]] * 9)  # the cumulative sum of sevenths misses 1 by rounding
    given_labels = corrupt(np.arange(9), sevenths, FixedUniform(value)).given
    assert set(given_labels.tolist()) == ({1} if value == 0 else {7})


def test_limits():
    clean = np.arange(100) % 4
    assert (corrupt(clean, symmetric(0, 4), generator()).given == clean).all()
    assert (corrupt(clean, symmetric(1, 4), generator()).given != clean).all()
    assert len(corrupt([], symmetric(0.4, 4), generator()).given) == 0


def test_same_generator_same_labels_and_nothing_is_changed_in_place():
    clean = np.arange(1000, dtype=np.uint8) % 10
    before, state = clean.copy(), np.random.get_state()[1].copy()
    first, again, other = (corrupt(clean, symmetric(0.4, 10), generator(seed)).given for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
    assert (clean == before).all()
    assert np.array_equal(np.random.get_state()[1], state)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 10], r"labels\[2\] = 10: must lie in 0..9"),
        ([-1, 1], r"labels\[0\] = -1"),
        ([0.0, 1.0], "float64: must be whole numbers"),
        ([[0, 1]], r"shape \(1, 2\)"),
    ],
)
def test_what_are_no_labels_is_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        corrupt(labels, symmetric(0.4, 10), generator())
