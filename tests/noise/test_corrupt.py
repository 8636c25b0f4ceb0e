import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from tests.noise.counts import CIFAR10, FASHION_MNIST, tolerance, wrong_share
from tnlpad.noise import corrupt, expected_noise_rate, legacy_corrupt, noise_rate_of, pairflip, symmetric
from tnlpad.noise.corrupt import flip_in_sequence, legacy_stream
from tnlpad.noise.transition import CIFAR10_FLIPS, transition_counts


def generator(seed=0):
    return np.random.default_rng(seed)


def draw(stream, labels, transition, seed):
    return (
        legacy_corrupt(labels, transition, seed) if stream == "legacy" else corrupt(labels, transition, generator(seed))
    )


both_streams = pytest.mark.parametrize("stream", ["ours", "legacy"])


@both_streams
@pytest.mark.parametrize("noise_rate", [0.2, 0.4])
@pytest.mark.parametrize("clean", [CIFAR10, FASHION_MNIST], ids=["50k", "60k"])
def test_rate_and_uniformity_of_symmetric_noise(stream, noise_rate, clean):
    noisy = draw(stream, clean, symmetric(noise_rate, 10), seed=1)
    assert abs(noise_rate_of(noisy) - noise_rate) <= tolerance(noise_rate, len(clean))
    off_diagonal = transition_counts(noisy.clean, noisy.given, 10)[~np.eye(10, dtype=bool)]
    assert chisquare(off_diagonal).pvalue > 1e-4


@both_streams
@pytest.mark.parametrize("noise_rate", [0.2, 0.4])
def test_pairflip_has_the_rate_in_each_class_and_no_mass_elsewhere(stream, noise_rate):
    noisy = draw(stream, CIFAR10, pairflip(noise_rate, 10), seed=1)
    assert abs(noise_rate_of(noisy) - noise_rate) <= tolerance(noise_rate, 50_000)
    for label in range(10):
        assert abs(wrong_share(noisy, label) - noise_rate) <= tolerance(noise_rate, 5_000)
    wrong = noisy.given != noisy.clean
    assert (noisy.given[wrong] == (noisy.clean[wrong] + 1) % 10).all()


def numbers(text):
    return [int(word) for word in text.split()]


# From the authors' code with seeds 1 and 2: y = 0..9 three times, ten classes, noise rate 0.4.
SYMMETRIC_1 = numbers("0 1 2 3 4 6 6 3 7 9 0 1 2 9 4 5 6 4 3 9 0 1 2 2 4 5 9 1 8 9")
SYMMETRIC_2 = numbers("0 1 2 3 4 5 6 7 4 8 0 1 2 2 0 5 2 7 8 2 0 1 2 3 8 5 6 7 9 9")
PAIRFLIP_1 = numbers("0 2 2 3 4 5 6 7 8 9 1 2 3 3 4 5 7 7 9 0 1 1 2 4 4 6 7 8 8 0")


@pytest.mark.parametrize(
    ("transition", "seed", "expected"),
    [
        (symmetric(0.4, 10), 1, SYMMETRIC_1),
        (symmetric(0.4, 10), 2, SYMMETRIC_2),
        (pairflip(0.4, 10), 1, PAIRFLIP_1),
    ],
    ids=["symmetric-1", "symmetric-2", "pairflip-1"],
)
def test_the_legacy_stream_is_the_authors(transition, seed, expected):
    assert legacy_corrupt(np.arange(30) % 10, transition, seed).given.tolist() == expected


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, True])
def test_seeds_of_the_legacy_stream(seed):
    with pytest.raises(ValueError, match="from 0 to 4294967295"):
        legacy_corrupt([0, 1], symmetric(0.4, 10), seed)


@both_streams
def test_agrees_with_numpys_choice(stream):
    transition = np.array([[0.1, 0.0, 0.9], [0.3, 0.7, 0.0], [0.0, 0.0, 1.0]])
    clean = np.repeat([0, 1, 2], 20_000)
    given_labels = draw(stream, clean, transition, seed=5).given
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
    st.integers(0, 2**32 - 1),
    st.sampled_from(["ours", "legacy"]),
)
def test_only_classes_with_probability_are_drawn(labels, rows, seed, stream):
    transition = np.array(rows) / np.sum(rows, axis=1, keepdims=True)
    noisy = draw(stream, labels, transition, seed)
    assert noisy.given.dtype == noisy.clean.dtype == np.int64
    assert noisy.clean.tolist() == labels
    assert (transition[noisy.clean, noisy.given] > 0).all()


class FixedUniform:
    """A generator that always draws the same number."""

    def __init__(self, value):
        self.value = value

    def random(self, size):
        return np.full(size, self.value)


@pytest.mark.parametrize("value", [0.0, np.nextafter(1.0, 0.0)])
def test_extreme_draws_stay_within_the_classes_of_positive_probability(value):
    sevenths = np.array([[0.0, *[1 / 7] * 7, 0.0]] * 9)  # the cumulative sum of sevenths misses 1 by rounding
    given_labels = corrupt(np.arange(9), sevenths, FixedUniform(value)).given
    assert set(given_labels.tolist()) == ({1} if value == 0 else {7})


@both_streams
def test_limits(stream):
    clean = np.arange(100) % 4
    assert (draw(stream, clean, symmetric(0, 4), 0).given == clean).all()
    assert (draw(stream, clean, symmetric(1, 4), 0).given != clean).all()
    assert (draw(stream, clean, pairflip(1, 4), 0).given == (clean + 1) % 4).all()
    assert noise_rate_of(draw(stream, clean, symmetric(0, 4), 0)) == 0
    nothing = draw(stream, [], symmetric(0.4, 4), 0)
    assert (len(nothing.given), noise_rate_of(nothing)) == (0, 0)


@pytest.mark.parametrize(
    ("noise_rate", "cat", "overall", "labelled_cat", "labelled_dog"),
    [(0.2, 0.16, 0.096, 5200, 4800), (0.4, 0.24, 0.184, 5800, 4200)],
)
@pytest.mark.parametrize("random", [generator(1), legacy_stream(1)], ids=["ours", "legacy"])
def test_flips_in_sequence(random, noise_rate, cat, overall, labelled_cat, labelled_dog):
    noisy = flip_in_sequence(CIFAR10, noise_rate, 10, CIFAR10_FLIPS, random)
    counts = np.bincount(noisy.given, minlength=10)
    assert (counts[3], counts[5]) == (labelled_cat, labelled_dog)
    for label in (9, 2, 4):
        assert wrong_share(noisy, label) == noise_rate  # exactly, because these samples have one clean class
    # Drawn without replacement from cats and dogs together, so these shares vary a little less than the bound says.
    assert abs(wrong_share(noisy, 3) - cat) <= tolerance(cat, 5_000)
    assert abs(wrong_share(noisy, 5) - noise_rate) <= tolerance(noise_rate, 5_000)
    assert abs(noise_rate_of(noisy) - overall) <= tolerance(overall, 50_000)
    assert expected_noise_rate(noisy.transition, noisy.clean) == pytest.approx(overall, abs=1e-12)
    seen = transition_counts(noisy.clean, noisy.given, 10) > 0
    assert (seen == (noisy.transition > 0)).all()
    assert (np.arange(50_000) % 10 == CIFAR10).all()


def test_flips_in_sequence_round_down():
    # 0.29 of 100 is 28.999999999999996 in double precision, which the authors' code truncates to 28.
    noisy = flip_in_sequence(np.zeros(100, dtype=int), 0.29, 2, [(0, 1)], generator())
    assert noisy.given.sum() == 28


def test_the_expected_rate_weights_classes_by_their_samples():
    transition = [[0.5, 0.5], [0.0, 1.0]]
    assert expected_noise_rate(transition, np.array([0, 1, 1, 1])) == 0.125
    assert expected_noise_rate(transition, np.array([], dtype=np.int64)) == 0


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 10], r"labels\[2\] = 10: must lie in 0..9"),
        ([-1, 1], r"labels\[0\] = -1"),
        ([0.0, 1.0], "labels are float64"),
        ([[0, 1]], r"shape \(1, 2\)"),
    ],
)
@both_streams
def test_invalid_labels_are_refused(stream, labels, message):
    with pytest.raises(ValueError, match=message):
        draw(stream, labels, symmetric(0.4, 10), 0)
