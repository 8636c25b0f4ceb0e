"""The task of the demo: scikit-learn's digits, split and with wrong labels, by seed."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tnlpad.experiments.demo.config import DemoConfig
from tnlpad.noise import corrupt, symmetric
from tnlpad.rng import numpy_stream
from tnlpad.types import RawDataset, Split

DIGITS = 1797
NUM_CLASSES = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Digits:
    """One seed's tensors: images float32 in [0, 1], labels int64."""

    train_images: Tensor
    train_labels: Tensor
    validation_images: Tensor
    validation_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    wrong_images: Tensor  # training images with a wrong label, and that label
    wrong_labels: Tensor


def load_raw_digits() -> RawDataset:
    """scikit-learn's bundled digits: 17 grey levels from 0 to 16, one channel of 8x8 pixels."""
    from sklearn.datasets import load_digits  # here, because it takes most of a second and the workers do without

    bunch = load_digits()
    return RawDataset(
        images=bunch.images.astype(np.uint8)[:, None],
        labels=bunch.target.astype(np.int64),
        class_names=tuple(str(name) for name in bunch.target_names),
    )


def digits(raw: RawDataset, config: DemoConfig, seed: int) -> Digits:
    """Split the images, corrupt the labels of all but the test images, and lay everything out as tensors."""
    images, labels = raw.images / np.float32(16), raw.labels
    needed = config.train_size + config.validation_size
    if needed >= len(images):
        raise ValueError(
            f"train_size={config.train_size} and validation_size={config.validation_size} need {needed} of the "
            f"{len(images)} digits and leave none for testing: make one of them smaller."
        )
    order = numpy_stream(seed, "split").permutation(len(images))
    split = Split(train=order[: config.train_size], validation=order[config.train_size : needed])
    test = order[needed:]
    noisy = corrupt(labels, symmetric(config.noise_rate, NUM_CLASSES), numpy_stream(seed, "noise"))
    wrong = split.train[noisy.given[split.train] != noisy.clean[split.train]]
    return Digits(
        train_images=torch.from_numpy(images[split.train]),
        train_labels=torch.from_numpy(noisy.given[split.train]),
        validation_images=torch.from_numpy(images[split.validation]),
        validation_labels=torch.from_numpy(noisy.given[split.validation]),
        test_images=torch.from_numpy(images[test]),
        test_labels=torch.from_numpy(noisy.clean[test]),
        wrong_images=torch.from_numpy(images[wrong]),
        wrong_labels=torch.from_numpy(noisy.given[wrong]),
    )
