"""Make labels wrong on purpose: each given label is drawn from its clean label's row of a transition matrix.

`corrupt` draws one uniform number per label: the distribution of the authors' code, another stream of random numbers.
`legacy_corrupt` is their stream too: one multinomial draw per sample from NumPy's old generator, seeded for itself.

`flip_in_sequence` is what their code does for asymmetric noise on CIFAR-10: an exact number of labels per class,
changed in place, class after class, so that cats that became dogs are among the dogs of which some become cats. (Theirs
draws from the global generator, for the training and the validation set anew; here both are cut from one drawing.)
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tnlpad.noise.labels import checked_labels
from tnlpad.noise.transition import Flip, checked, flips_in_sequence
from tnlpad.types import Labels, NoisyLabels

MOST_LEGACY_SEED = 2**32 - 1


def corrupt(labels: ArrayLike, transition: ArrayLike, generator: np.random.Generator) -> NoisyLabels:
    """Draw every given label from transition[clean label]; the labels passed in are not changed."""
    matrix = checked(transition)
    clean = checked_labels(labels, num_classes=len(matrix))
    cumulative = matrix.cumsum(axis=1)
    cumulative /= cumulative[:, -1:]  # rounding must not leave a gap below 1 that no class owns
    uniform = generator.random(len(clean))
    given = np.empty_like(clean)
    # A class at a time: the memory needed does not grow with samples times classes.
    for label in np.unique(clean):
        chosen = clean == label
        # "right" counts the boundaries at or below u, so that a class of probability 0 is never drawn, even at u = 0.
        given[chosen] = np.searchsorted(cumulative[label], uniform[chosen], side="right")
    return NoisyLabels(given=given, clean=clean, transition=matrix)


def legacy_corrupt(labels: ArrayLike, transition: ArrayLike, seed: int) -> NoisyLabels:
    """The same distribution in the random stream of the authors' code, which NumPy keeps as it is for ever."""
    matrix = checked(transition)
    clean = checked_labels(labels, num_classes=len(matrix))
    random_state = legacy_stream(seed)
    # Sample by sample: how many numbers a draw takes from the stream depends on what the draw before it found.
    given = [int(random_state.multinomial(1, matrix[label]).argmax()) for label in clean]
    return NoisyLabels(given=np.array(given, dtype=np.int64), clean=clean, transition=matrix)


def flip_in_sequence(
    labels: ArrayLike,
    noise_rate: float,
    num_classes: int,
    pairs: Sequence[Flip],
    generator: np.random.Generator | np.random.RandomState,
) -> NoisyLabels:
    """For each pair (from, to) in turn, give `to` to ⌊n · count⌋ of the samples that carry `from` by then."""
    clean = checked_labels(labels, num_classes)
    transition = flips_in_sequence(noise_rate, num_classes, pairs)
    given = clean.copy()
    for source, target in pairs:
        pool = np.flatnonzero(given == source)
        given[generator.choice(pool, int(noise_rate * len(pool)), replace=False)] = target
    return NoisyLabels(given=given, clean=clean, transition=transition)


def unchanged(labels: ArrayLike, num_classes: int) -> NoisyLabels:
    """No noise: every label as it is."""
    clean = checked_labels(labels, num_classes)
    return NoisyLabels(given=clean.copy(), clean=clean, transition=np.eye(num_classes))


def legacy_stream(seed: int) -> np.random.RandomState:
    """NumPy's old generator, private to the caller."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed <= MOST_LEGACY_SEED:
        raise ValueError(f"seed={seed!r}: the legacy stream takes whole numbers from 0 to {MOST_LEGACY_SEED}.")
    return np.random.RandomState(int(seed))


def noise_rate_of(noisy: NoisyLabels) -> float:
    """The share of labels that are wrong; 0 if there are none."""
    return float(np.mean(noisy.given != noisy.clean)) if len(noisy.clean) else 0.0


def expected_noise_rate(transition: ArrayLike, labels: Labels) -> float:
    """The share of wrong labels to expect of this matrix and these clean labels; 0 if there are none."""
    matrix = checked(transition)
    return float(1 - matrix.diagonal()[labels].mean()) if len(labels) else 0.0
