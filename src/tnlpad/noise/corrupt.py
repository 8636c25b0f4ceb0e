"""Draw noisy labels: each given label is drawn from its clean label's row of a transition matrix.

`corrupt` draws one uniform number per label. This gives the same distribution as the authors' code from another random
stream. `legacy_corrupt` reproduces their stream: one multinomial draw per sample from NumPy's legacy generator.

`flip_in_sequence` reproduces their asymmetric noise on CIFAR-10. It changes an exact number of labels per class, in
place, one class after the other. So cats that became dogs are among the dogs of which some become cats. Their code
draws from the global generator, separately for the training and the validation set; here both are parts of one draw.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tnlpad.noise.transition import Flip, checked, checked_labels, flips_in_sequence
from tnlpad.types import Labels, NoisyLabels

MAX_LEGACY_SEED = 2**32 - 1


def corrupt(labels: ArrayLike, transition: ArrayLike, generator: np.random.Generator) -> NoisyLabels:
    """Draw every given label from transition[clean label]. The labels passed in are not changed."""
    matrix = checked(transition)
    clean = checked_labels(labels, num_classes=len(matrix))
    cumulative = matrix.cumsum(axis=1)
    cumulative /= cumulative[:, -1:]  # rounding must not leave a gap below 1
    uniform = generator.random(len(clean))
    given = np.empty_like(clean)
    # One class at a time, so that memory does not grow with samples times classes.
    for label in np.unique(clean):
        chosen = clean == label
        # "right" counts the boundaries at or below u, so that a class of probability 0 is never drawn, even at u = 0.
        given[chosen] = np.searchsorted(cumulative[label], uniform[chosen], side="right")
    return NoisyLabels(given=given, clean=clean, transition=matrix)


def legacy_corrupt(labels: ArrayLike, transition: ArrayLike, seed: int) -> NoisyLabels:
    """Draw from the same distribution in the random stream of the authors' code, which NumPy guarantees to keep."""
    matrix = checked(transition)
    clean = checked_labels(labels, num_classes=len(matrix))
    random_state = legacy_stream(seed)
    # Sample by sample, because the result of a draw decides how many numbers it takes from the stream.
    given = [int(random_state.multinomial(1, matrix[label]).argmax()) for label in clean]
    return NoisyLabels(given=np.array(given, dtype=np.int64), clean=clean, transition=matrix)


def flip_in_sequence(
    labels: ArrayLike,
    noise_rate: float,
    num_classes: int,
    pairs: Sequence[Flip],
    generator: np.random.Generator | np.random.RandomState,
) -> NoisyLabels:
    """For each pair (from, to) in turn, relabel ⌊n · count⌋ of the samples labelled `from` at that point as `to`."""
    clean = checked_labels(labels, num_classes)
    transition = flips_in_sequence(noise_rate, num_classes, pairs)
    given = clean.copy()
    for source, target in pairs:
        pool = np.flatnonzero(given == source)
        given[generator.choice(pool, int(noise_rate * len(pool)), replace=False)] = target
    return NoisyLabels(given=given, clean=clean, transition=transition)


def legacy_stream(seed: int) -> np.random.RandomState:
    """Return a new instance of NumPy's legacy generator."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed <= MAX_LEGACY_SEED:
        raise ValueError(f"seed={seed!r}: the legacy stream takes integers from 0 to {MAX_LEGACY_SEED}.")
    return np.random.RandomState(int(seed))


def noise_rate_of(noisy: NoisyLabels) -> float:
    """Return the share of wrong labels; 0 if there are no labels."""
    return float(np.mean(noisy.given != noisy.clean)) if len(noisy.clean) else 0.0


def expected_noise_rate(transition: ArrayLike, labels: Labels) -> float:
    """Return the expected share of wrong labels for a matrix and clean labels; 0 if there are no labels."""
    matrix = checked(transition)
    return float(1 - matrix.diagonal()[labels].mean()) if len(labels) else 0.0
