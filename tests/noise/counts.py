"""Class counts of the published training sets, and tolerances."""

import numpy as np

MNIST_COUNTS = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
MNIST = np.repeat(np.arange(10), MNIST_COUNTS)
FASHION_MNIST = np.arange(60_000) % 10
CIFAR10 = np.arange(50_000) % 10
CIFAR100 = np.arange(50_000) % 100


def tolerance(p, samples):
    """Return four standard deviations of a share: a correct generator exceeds it for one in sixteen thousand seeds."""
    return 4 * np.sqrt(p * (1 - p) / samples)


def wrong_share(noisy, label=None):
    chosen = slice(None) if label is None else noisy.clean == label
    return np.mean(noisy.given[chosen] != noisy.clean[chosen])
