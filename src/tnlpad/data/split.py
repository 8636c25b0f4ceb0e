"""Split samples into training and validation, after the labels were corrupted.

Validation labels are therefore as noisy as training labels. The split is the same for every kind of noise of a seed.
`legacy_split` draws it as the authors' code does, from NumPy's legacy generator.
"""

import numpy as np

from tnlpad.types import Split


def split(size: int, validation_fraction: float, generator: np.random.Generator) -> Split:
    """Draw a random validation part of `size` samples; both parts are in ascending order."""
    held_out = size - _train_size(size, validation_fraction)
    order = generator.permutation(size)
    return Split(train=np.sort(order[held_out:]), validation=np.sort(order[:held_out]))


def legacy_split(size: int, validation_fraction: float, seed: int) -> Split:
    """Draw the authors' split: training samples in the order drawn, the others in ascending order."""
    train = np.random.RandomState(seed).choice(size, _train_size(size, validation_fraction), replace=False)
    validation = np.setdiff1d(np.arange(size), train)
    return Split(train=train.astype(np.int64), validation=validation.astype(np.int64))


def _train_size(size: int, validation_fraction: float) -> int:
    if not 0 <= validation_fraction < 1:
        raise ValueError(f"validation_fraction={validation_fraction!r}: must lie in [0, 1).")
    # Rounded up slightly first: 0.2 · 10 must be 2 although 1 − 0.8 is a little less than 0.2.
    train = int((1 - validation_fraction) * size + 1e-9)
    if train < 1:
        raise ValueError(f"No training sample is left of {size} with validation_fraction={validation_fraction!r}.")
    return train
