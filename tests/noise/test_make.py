import numpy as np
import pytest

from tests.noise.counts import CIFAR10, CIFAR100, FASHION_MNIST, MNIST, tolerance, wrong_share
from tnlpad.noise import (
    LabelFile,
    LabelMismatchError,
    corrupt,
    expected_noise_rate,
    human_noise,
    instance_dependent,
    legacy_corrupt,
    legacy_instance_dependent,
    make_noisy_labels,
    noise_rate_of,
    parse_noise,
    symmetric,
    transition_counts,
    write_label_file,
)
from tnlpad.rng import numpy_stream
from tnlpad.types import NoisyLabels

SUPERCLASS = np.random.default_rng(0).permutation(np.repeat(np.arange(20), 5)).tolist()
SMALL = np.arange(300) % 10
IMAGES = np.random.default_rng(0).integers(0, 256, (300, 1, 4, 4), dtype=np.uint8)


def make(text, labels=SMALL, dataset="digits", num_classes=10, seed=1, **options):
    return make_noisy_labels(
        parse_noise(text), dataset=dataset, labels=labels, num_classes=num_classes, seed=seed, **options
    )


LABELS = {"mnist": MNIST, "fashion_mnist": FASHION_MNIST, "cifar10": CIFAR10, "cifar100": CIFAR100}


@pytest.mark.parametrize("noise_rate", [0.2, 0.4])
@pytest.mark.parametrize("legacy", [False, True], ids=["ours", "legacy"])
@pytest.mark.parametrize(
    ("dataset", "protocol", "share"),
    [
        ("mnist", "paper", 0.3905),
        ("mnist", "authors", 0.3905),
        ("fashion_mnist", "paper", 0.3),
        ("fashion_mnist", "authors", 0.4),
        ("cifar10", "paper", 0.5),
        ("cifar100", "paper", 1),
        ("cifar100", "authors", 1),
    ],
)
def test_asymmetric_rates(dataset, protocol, share, noise_rate, legacy):
    labels, num_classes = LABELS[dataset], 100 if dataset == "cifar100" else 10
    noisy = make(
        f"asymmetric:{noise_rate}",
        labels,
        dataset,
        num_classes,
        protocol=protocol,
        coarse=SUPERCLASS if dataset == "cifar100" else None,
        legacy=legacy,
    )
    expected = share * noise_rate
    assert expected_noise_rate(noisy.transition, noisy.clean) == pytest.approx(expected, abs=5e-5)
    assert abs(noise_rate_of(noisy) - expected) <= tolerance(expected, len(labels))
    # Labels occur exactly in the nonzero cells of the matrix.
    np.testing.assert_array_equal(transition_counts(noisy.clean, noisy.given, num_classes) > 0, noisy.transition > 0)


@pytest.mark.parametrize("legacy", [False, True], ids=["ours", "legacy"])
@pytest.mark.parametrize(("noise_rate", "cat"), [(0.2, 0.16), (0.4, 0.24)])
def test_the_protocols_differ_for_cats_and_dogs(noise_rate, cat, legacy):
    text = f"asymmetric:{noise_rate}"
    paper, authors = (
        make(text, CIFAR10, "cifar10", protocol=protocol, legacy=legacy) for protocol in ("paper", "authors")
    )
    assert abs(wrong_share(paper, 3) - noise_rate) <= tolerance(noise_rate, 5_000)
    assert abs(wrong_share(authors, 3) - cat) <= tolerance(cat, 5_000)
    assert abs(wrong_share(paper, 5) - noise_rate) <= tolerance(noise_rate, 5_000)
    assert abs(wrong_share(authors, 5) - noise_rate) <= tolerance(noise_rate, 5_000)
    assert wrong_share(authors, 9) == noise_rate


def test_the_authors_flips_draw_from_their_generator_in_their_order():
    random, expected = np.random.RandomState(1), CIFAR10.copy()
    for source, target in ((9, 1), (2, 0), (3, 5), (5, 3), (4, 7)):
        pool = np.where(expected == source)[0]
        for index in random.choice(pool, int(0.4 * len(pool)), replace=False):
            expected[index] = target
    noisy = make("asymmetric:0.4", CIFAR10, "cifar10", protocol="authors", legacy=True)
    np.testing.assert_array_equal(noisy.given, expected)


@pytest.mark.parametrize("protocol", ["paper", "authors"])
@pytest.mark.parametrize("text", ["symmetric:0.4", "pairflip:0.4"])
def test_both_protocols_agree_on_the_rest(text, protocol):
    np.testing.assert_array_equal(make(text, protocol=protocol).given, make(text).given)


def test_the_random_streams():
    ours = corrupt(SMALL, symmetric(0.4, 10), numpy_stream(1, "noise"))
    np.testing.assert_array_equal(make("symmetric:0.4").given, ours.given)
    np.testing.assert_array_equal(
        make("symmetric:0.4", legacy=True).given, legacy_corrupt(SMALL, symmetric(0.4, 10), 1).given
    )
    for inputs in ("raw", "standardized"):
        ours = instance_dependent(SMALL, IMAGES, 0.4, 10, numpy_stream(1, "noise"), inputs)
        np.testing.assert_array_equal(make("instance:0.4", images=IMAGES, inputs=inputs).given, ours.given)
        theirs = legacy_instance_dependent(SMALL, IMAGES, 0.4, 10, 1, inputs)
        np.testing.assert_array_equal(
            make("instance:0.4", images=IMAGES, inputs=inputs, legacy=True).given, theirs.given
        )


@pytest.mark.parametrize("legacy", [False, True], ids=["ours", "legacy"])
@pytest.mark.parametrize(
    ("text", "dataset"),
    [
        ("symmetric:0.4", "digits"),
        ("pairflip:0.4", "digits"),
        ("asymmetric:0.4", "digits"),
        ("asymmetric:0.4", "cifar10"),
        ("instance:0.4", "digits"),
    ],
)
@pytest.mark.parametrize("protocol", ["paper", "authors"])
def test_labels_are_a_function_of_the_seed_and_change_nothing_else(text, dataset, protocol, legacy):
    labels, images, state = SMALL.astype(np.uint8), IMAGES.copy(), np.random.get_state()
    first, again, other = (
        make(text, labels, dataset, seed=seed, protocol=protocol, legacy=legacy, images=images) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.given, again.given)
    assert (first.given != other.given).any()
    for noisy in (first, other):
        np.testing.assert_array_equal(noisy.clean, SMALL)
        assert not np.shares_memory(noisy.given, noisy.clean)
    np.testing.assert_array_equal(labels, SMALL)
    np.testing.assert_array_equal(images, IMAGES)
    assert all(np.array_equal(now, then) for now, then in zip(np.random.get_state(), state, strict=True))


def test_no_noise():
    noisy = make("none")
    np.testing.assert_array_equal(noisy.given, SMALL)
    np.testing.assert_array_equal(noisy.clean, SMALL)
    assert not np.shares_memory(noisy.given, noisy.clean)
    np.testing.assert_array_equal(noisy.transition, np.eye(10))


def test_any_matrix(tmp_path):
    path = tmp_path / "m.csv"
    np.savetxt(path, np.roll(np.eye(10), 3, axis=1), delimiter=",")
    np.testing.assert_array_equal(make(f"matrix:{path}").given, (SMALL + 3) % 10)


def test_human_labels():
    human = NoisyLabels(given=(SMALL + 1) % 10, clean=SMALL, transition=np.eye(10))
    noisy = make("human:worse", human=human)
    np.testing.assert_array_equal(noisy.given, human.given)
    np.testing.assert_array_equal(noisy.transition, np.roll(np.eye(10), 1, axis=1))
    with pytest.raises(ValueError, match="human=None: human:worse"):
        make("human:worse")


def test_a_label_file(tmp_path):
    path = tmp_path / "labels.npz"
    noisy = make("symmetric:0.4")
    write_label_file(path, LabelFile(noisy=noisy, dataset="digits", noise="symmetric:0.4", seed=1, protocol="paper"))
    np.testing.assert_array_equal(make(str(path), seed=5).given, noisy.given)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("instance:0.4", {}, "images=None"),
        ("asymmetric:0.4", {"dataset": "letters"}, "dataset='letters'"),
        ("asymmetric:0.4", {"dataset": "cifar100", "num_classes": 100}, "coarse=None"),
        ("symmetric:0.4", {"protocol": "both"}, "protocol='both'"),
        ("symmetric:0.4", {"seed": -1}, "seed=-1"),
        ("symmetric:0.4", {"seed": -1, "legacy": True}, "seed=-1"),
        ("symmetric:0.4", {"num_classes": 9}, r"labels\[9\] = 9"),
        ("none", {"num_classes": 9}, r"labels\[9\] = 9"),
        ("instance:0.4", {"images": IMAGES, "inputs": "pixels"}, "inputs='pixels'"),
    ],
)
def test_wrong_arguments(text, options, message):
    with pytest.raises(ValueError, match=message):
        make(text, **options)


CLEAN = np.array([0, 0, 0, 0, 1, 1, 2])
GIVEN = np.array([0, 2, 2, 1, 1, 0, 2])


def test_human_noise_by_hand():
    noisy = human_noise(CLEAN.astype(np.uint8), GIVEN, CLEAN, 3)
    assert noisy.given.tolist() == GIVEN.tolist()
    assert noisy.clean.tolist() == CLEAN.tolist()
    np.testing.assert_array_equal(noisy.transition, [[0.25, 0.25, 0.5], [0.5, 0.5, 0], [0, 0, 1]])


def test_human_labels_in_another_order_are_refused():
    with pytest.raises(LabelMismatchError, match=r"clean label 2 for sample 0, .* 0; 6 of 7"):
        human_noise(CLEAN, GIVEN[::-1], CLEAN[::-1], 3)


def test_human_labels_of_other_samples_are_refused():
    with pytest.raises(LabelMismatchError, match=r"has 6 labels, .* 7"):
        human_noise(CLEAN, GIVEN[:-1], CLEAN[:-1], 3)


@pytest.mark.parametrize(
    ("given", "message"), [(GIVEN + 1, r"= 3: must lie in 0..2"), (GIVEN[:-1], "7 clean and 6 given")]
)
def test_invalid_human_labels_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        human_noise(CLEAN, given, CLEAN, 3)
