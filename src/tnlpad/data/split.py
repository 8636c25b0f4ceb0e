"""Which samples are trained on and which are held out to choose epochs and settings.

Paper: "we leave out 10 % of the noisy training data as a validation set". The split is made after the labels were made
wrong, so validation labels are as wrong as those of training, and it is the same for every kind of noise of a seed.
`legacy_split` draws it as the authors' code does, from NumPy's old global stream, here a private one.
"""

import numpy as np

from tnlpad.types import Split


def split(size: int, validation_fraction: float, generator: np.random.Generator) -> Split:
    """A random share of `size` samples for validation, the rest for training; both in ascending order."""
    held_out = size - _train_size(size, validation_fraction)
    order = generator.permutation(size)
    return Split(train=np.sort(order[held_out:]), validation=np.sort(order[:held_out]))


def legacy_split(size: int, validation_fraction: float, seed: int) -> Split:
    """The authors' split: the training samples in the order drawn, the others in ascending order."""
    train = np.random.RandomState(seed).choice(size, _train_size(size, validation_fraction), replace=False)
    validation = np.setdiff1d(np.arange(size), train)
    return Split(train=train.astype(np.int64), validation=validation.astype(np.int64))


def _train_size(size: int, validation_fraction: float) -> int:
    if not 0 <= validation_fraction < 1:
        raise ValueError(f"validation_fraction={validation_fraction!r}: must lie in [0, 1).")
    # Rounded a little upwards first: 0.2 · 10 must be 2 although 1 − 0.8 is a shade less than 0.2.
    train = int((1 - validation_fraction) * size + 1e-9)
    if train < 1:
        raise ValueError(f"No training sample is left of {size} with validation_fraction={validation_fraction!r}.")
    return train
