"""The 1,797 digits of 8x8 pixels that come with scikit-learn. They need no files, and nobody published a split."""

import numpy as np

from tnlpad.data.catalogue.digits import DIGITS
from tnlpad.types import RawDataset


def read_digits(split: str) -> RawDataset:
    """The first four fifths for training, the rest for testing; gray values 0 to 16 are stretched to 0 to 255."""
    from sklearn.datasets import load_digits  # here, because it takes most of a second

    bunch = load_digits()
    # 255/16 is not whole: adding half of the divisor rounds to the nearest, and no two values become one.
    images = ((bunch.images.astype(np.int64) * 255 + 8) // 16).astype(np.uint8)[:, None]
    chosen = slice(DIGITS.train_size) if split == "train" else slice(DIGITS.train_size, None)
    return RawDataset(
        images=images[chosen],
        labels=bunch.target[chosen].astype(np.int64),
        class_names=DIGITS.class_names,
    )
