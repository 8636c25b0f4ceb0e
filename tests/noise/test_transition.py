import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix

from tnlpad.noise import asymmetric, empirical, pairflip, symmetric, transition_counts
from tnlpad.noise.transition import checked, flips, flips_in_sequence, within_groups

RATES = st.floats(0, 1)
CLASSES = st.integers(2, 200)

# Written out by hand, a row for each clean class.
MNIST = """
1  0  0  0  0  0  0  0  0  0
0  1  0  0  0  0  0  0  0  0
0  0 .6  0  0  0  0 .4  0  0
0  0  0 .6  0  0  0  0 .4  0
0  0  0  0  1  0  0  0  0  0
0  0  0  0  0 .6 .4  0  0  0
0  0  0  0  0 .4 .6  0  0  0
0  0  0  0  0  0  0  1  0  0
0  0  0  0  0  0  0  0  1  0
0  0  0  0  0  0  0  0  0  1
"""
FASHION_PAPER = """
.6  0  0  0  0  0 .4  0  0  0
 0  1  0  0  0  0  0  0  0  0
 0  0 .6  0 .4  0  0  0  0  0
 0  0  0  1  0  0  0  0  0  0
 0  0  0  0  1  0  0  0  0  0
 0  0  0  0  0 .6  0 .4  0  0
 0  0  0  0  0  0  1  0  0  0
 0  0  0  0  0  0  0  1  0  0
 0  0  0  0  0  0  0  0  1  0
 0  0  0  0  0  0  0  0  0  1
"""
FASHION_AUTHORS = FASHION_PAPER.replace("0  0  0  0  0  0  0  1  0  0", "0  0  0  0  0 .4  0 .6  0  0")
CIFAR10 = """
1  0  0  0  0  0  0  0  0  0
0  1  0  0  0  0  0  0  0  0
.4 0 .6  0  0  0  0  0  0  0
0  0  0 .6  0 .4  0  0  0  0
0  0  0  0 .6  0  0 .4  0  0
0  0  0 .4  0 .6  0  0  0  0
0  0  0  0  0  0  1  0  0  0
0  0  0  0  0  0  0  1  0  0
0  0  0  0  0  0  0  0  1  0
0 .4  0  0  0  0  0  0  0 .6
"""
CIFAR10_ONE_AFTER_THE_OTHER = CIFAR10.replace("0  0  0 .6  0 .4", "0  0  0 .76 0 .24")
PAIRFLIP = """
.6 .4  0  0  0  0  0  0  0  0
 0 .6 .4  0  0  0  0  0  0  0
 0  0 .6 .4  0  0  0  0  0  0
 0  0  0 .6 .4  0  0  0  0  0
 0  0  0  0 .6 .4  0  0  0  0
 0  0  0  0  0 .6 .4  0  0  0
 0  0  0  0  0  0 .6 .4  0  0
 0  0  0  0  0  0  0 .6 .4  0
 0  0  0  0  0  0  0  0 .6 .4
.4  0  0  0  0  0  0  0  0 .6
"""


def matrix(text):
    return np.array([line.split() for line in text.strip().splitlines()], dtype=float)


def test_the_matrices_by_hand_differ():
    assert (matrix(FASHION_AUTHORS) != matrix(FASHION_PAPER)).sum() == 2
    assert (matrix(CIFAR10_ONE_AFTER_THE_OTHER) != matrix(CIFAR10)).sum() == 2


@pytest.mark.parametrize(
    ("transition", "by_hand"),
    [
        (symmetric(0.4, 3), [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]]),
        (symmetric(0.9, 10), np.full((10, 10), 0.1)),
        (symmetric(0.18, 10), [[0.82 if i == j else 0.02 for j in range(10)] for i in range(10)]),
        (pairflip(0.4, 3), [[0.6, 0.4, 0], [0, 0.6, 0.4], [0.4, 0, 0.6]]),
        (pairflip(0.4, 10), matrix(PAIRFLIP)),
        (flips(0.4, 3, [(0, 2), (1, 0)]), [[0.6, 0, 0.4], [0.4, 0.6, 0], [0, 0, 1]]),
        (flips_in_sequence(0.4, 3, [(0, 1), (1, 0)]), [[0.76, 0.24, 0], [0.4, 0.6, 0], [0, 0, 1]]),
        (within_groups(0.4, [7, 1, 7]), [[0.6, 0, 0.4], [0, 1, 0], [0.4, 0, 0.6]]),
        (asymmetric(0.4, 10, "mnist", "paper"), matrix(MNIST)),
        (asymmetric(0.4, 10, "mnist", "authors"), matrix(MNIST)),
        (asymmetric(0.4, 10, "digits"), matrix(MNIST)),
        (asymmetric(0.4, 10, "fashion_mnist", "paper"), matrix(FASHION_PAPER)),
        (asymmetric(0.4, 10, "fashion_mnist", "authors"), matrix(FASHION_AUTHORS)),
        (asymmetric(0.4, 10, "cifar10", "paper"), matrix(CIFAR10)),
        (flips_in_sequence(0.4, 10, [(9, 1), (2, 0), (3, 5), (5, 3), (4, 7)]), matrix(CIFAR10_ONE_AFTER_THE_OTHER)),
        # Ten classes in two super-classes by the parity of their number: two steps on, and the last to the first.
        (asymmetric(1, 10, "cifar100", "paper", [0, 1] * 5), np.roll(np.eye(10), 2, axis=1)),
        # In the authors' blocks: one step on, and back by four from the end of each block.
        (
            asymmetric(1, 10, "cifar100", "authors"),
            np.kron(np.eye(2), np.roll(np.eye(5), 1, axis=1)),
        ),
    ],
)
def test_by_hand(transition, by_hand):
    np.testing.assert_allclose(transition, by_hand, rtol=0, atol=1e-15)


def test_the_paper_and_the_authors_flip_other_classes_of_cifar100():
    coarse = np.random.default_rng(0).permutation(np.repeat(np.arange(20), 5)).tolist()
    paper, authors = asymmetric(0.4, 100, "cifar100", "paper", coarse), asymmetric(0.4, 100, "cifar100", "authors")
    for transition, group in ((paper, np.array(coarse)), (authors, np.arange(100) // 5)):
        clean, wrong = np.nonzero(transition * ~np.eye(100, dtype=bool))
        assert len(wrong) == 100
        assert (group[clean] == group[wrong]).all()
        assert (np.diag(transition) == 0.6).all()
        # Each class is the target of one other, so five flips lead back to the start.
        np.testing.assert_array_equal(np.linalg.matrix_power((transition == 0.4).astype(int), 5), np.eye(100))
    assert (paper != authors).any()
    assert np.flatnonzero(authors[4]).tolist() == [0, 4]  # the last of the first block goes to its first


@given(RATES, CLASSES)
def test_rows_are_distributions_with_the_requested_diagonal(noise_rate, num_classes):
    for transition in (symmetric(noise_rate, num_classes), pairflip(noise_rate, num_classes)):
        assert transition.shape == (num_classes, num_classes)
        np.testing.assert_allclose(transition.sum(axis=1), 1, rtol=0, atol=1e-12)
        assert (transition >= 0).all()
        assert (np.diag(transition) == 1 - noise_rate).all()
        np.testing.assert_array_equal(checked(transition), transition)
    # Columns sum to 1 too: the expected number of labels of each class stays the same.
    np.testing.assert_allclose(transition.sum(axis=0), 1, rtol=0, atol=1e-9)


@given(RATES, st.lists(st.integers(0, 5), min_size=2, max_size=60))
def test_groups(noise_rate, groups):
    transition = within_groups(noise_rate, groups)
    np.testing.assert_allclose(transition.sum(axis=1), 1, rtol=0, atol=1e-12)
    np.testing.assert_allclose(transition.sum(axis=0), 1, rtol=0, atol=1e-12)
    clean, given_class = np.nonzero(transition)
    assert (np.array(groups)[clean] == np.array(groups)[given_class]).all()
    alone = [label for label, group in enumerate(groups) if groups.count(group) == 1]
    assert (np.diag(transition)[alone] == 1).all()


@given(RATES, st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda pair: pair[0] != pair[1])))
def test_one_flip_after_the_other_keeps_rows_distributions(noise_rate, pairs):
    transition = flips_in_sequence(noise_rate, 7, pairs)
    np.testing.assert_allclose(transition.sum(axis=1), 1, rtol=0, atol=1e-12)
    assert (transition >= 0).all()


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=40))
def test_counts_agree_with_scikit_learns_confusion_matrix(pairs):
    clean, given_labels = (np.array([pair[k] for pair in pairs], dtype=int) for k in (0, 1))
    counts = transition_counts(clean, given_labels, 5)
    if pairs:
        np.testing.assert_array_equal(counts, confusion_matrix(clean, given_labels, labels=range(5)))
    seen = empirical(clean, given_labels, 5)
    np.testing.assert_allclose(checked(seen), seen, rtol=0, atol=1e-15)
    absent = sorted(set(range(5)) - set(clean.tolist()))
    np.testing.assert_array_equal(seen[absent], np.eye(5)[absent])


def test_empirical_by_hand():
    seen = empirical(np.array([0, 0, 0, 0, 1, 1]), np.array([0, 1, 1, 2, 1, 0]), 3)
    np.testing.assert_array_equal(seen, [[0.25, 0.5, 0.25], [0.5, 0.5, 0], [0, 0, 1]])


@pytest.mark.parametrize("make", [symmetric, pairflip, lambda rate, _: asymmetric(rate, 10, "mnist")])
@pytest.mark.parametrize("noise_rate", [-0.1, 1.1, float("nan")])
def test_a_noise_rate_is_a_share(make, noise_rate):
    with pytest.raises(ValueError, match=r"noise_rate=.*\[0, 1\]"):
        make(noise_rate, 10)


@pytest.mark.parametrize("make", [symmetric, pairflip])
def test_one_class_has_no_wrong_label(make):
    with pytest.raises(ValueError, match="num_classes=1"):
        make(0.2, 1)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [([(0, 0)], "flip 0 -> 0"), ([(0, 3)], "flip 0 -> 3"), ([(-1, 0)], "flip -1"), ([(0, 1), (0, 2)], "only one")],
)
def test_a_flip_leads_from_one_class_to_another(pairs, message):
    with pytest.raises(ValueError, match=message):
        flips(0.4, 3, pairs)


def test_asymmetric_noise_knows_its_datasets():
    with pytest.raises(ValueError, match=r"dataset='food101'.*mnist.*cifar100.*matrix:FILE"):
        asymmetric(0.4, 101, "food101")
    with pytest.raises(ValueError, match="super-class of each of the 100"):
        asymmetric(0.4, 100, "cifar100")
    with pytest.raises(ValueError, match="coarse=3 super-classes"):
        asymmetric(0.4, 100, "cifar100", "paper", [0, 1, 2])
    with pytest.raises(ValueError, match=r"protocol='author'.*paper, authors"):
        asymmetric(0.4, 10, "mnist", "author")
    with pytest.raises(ValueError, match="one integer per class"):
        within_groups(0.4, [0.5, 1.5])


def test_rounded_rows_are_normalised_and_exact_ones_unchanged():
    thirds = checked([[0.3333, 0.3333, 0.3333], [1, 0, 0], [0.1, 0.2, 0.7]])
    np.testing.assert_allclose(thirds.sum(axis=1), 1, rtol=0, atol=1e-15)
    assert thirds[2].tolist() == [0.1, 0.2, 0.7]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.ones((2, 3)) / 3, r"shape \(2, 3\)"),
        ([0.5, 0.5], r"shape \(2,\)"),
        ([[1.0]], "2x2"),
        ([[1.2, -0.2], [0.0, 1.0]], r"transition\[0, 1\] = -0.2"),
        ([[1.0, 0.0], [np.nan, 1.0]], r"transition\[1, 0\] = nan"),
        ([[0.5, 0.5], [0.5, 0.4]], "Row 1 of transition sums to 0.9"),
        ([[0.5, 0.5], [0.5, 0.502]], "Row 1 of transition sums to 1.002"),
    ],
)
def test_invalid_matrices_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        checked(bad)
