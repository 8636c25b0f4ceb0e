"""Which losses belong to the small ones? A mixture of two normal distributions, fitted to numbers on the device.

Expectation maximisation as scikit-learn's `GaussianMixture` does it, with the same stopping rule and the same lower
bound of the variance, in double precision. How we differ: the first assignment is by 2-means that starts from the
smallest and the largest number and runs until nothing changes, where scikit-learn starts from random ones; so the same
losses always give the same split.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Mixture(NamedTuple):
    """Two components: their share, mean and variance, each of shape 2."""

    weights: Tensor
    means: Tensor
    variances: Tensor


def two_means(values: Tensor) -> Tensor:
    """True for the numbers nearer to the upper of two centres; they must not all be the same."""
    low, high = values.min(), values.max()
    upper = values > (low + high) / 2
    for _ in range(300):
        count = upper.sum()
        high_mean = torch.where(upper, values, 0.0).sum() / count
        low_mean = torch.where(upper, 0.0, values).sum() / (len(values) - count)
        again = values > (low_mean + high_mean) / 2
        if torch.equal(again, upper):
            break
        upper = again
    return upper


def fit(
    values: Tensor,
    first: Mixture | None = None,
    *,
    max_iterations: int = 10,
    tolerance: float = 1e-2,
    floor: float = 5e-4,
) -> Mixture:
    """The mixture after expectation maximisation: until the mean log likelihood gains less than `tolerance`.

    Args:
        values: Numbers in double precision, of shape N.
        first: Where to start; by 2-means if not given.
        max_iterations: At most so many rounds.
        tolerance: When to stop.
        floor: Added to variances, scikit-learn's `reg_covar`.
    """
    if first is None:
        upper = two_means(values).to(values.dtype)
        first = _maximised(values, torch.stack([1 - upper, upper], 1), floor)
    mixture, reached = first, -math.inf
    for _ in range(max_iterations):
        joint = _log_joint(values, mixture)
        likelihood = joint.logsumexp(1)
        mixture = _maximised(values, (joint - likelihood.unsqueeze(1)).exp(), floor)
        before, reached = reached, float(likelihood.mean())
        if abs(reached - before) < tolerance:
            break
    return mixture


def posterior(values: Tensor, mixture: Mixture) -> Tensor:
    """The probability that each number comes from the component of the smaller mean."""
    return _log_joint(values, mixture).softmax(1)[:, mixture.means.argmin()]


def clean_probability(losses: Tensor) -> Tensor:
    """For every sample the probability that its loss, scaled by `normalised`, is one of the small ones.

    Losses that are all the same tell nothing apart: then every label is believed.
    """
    if bool((losses == losses[0]).all()):
        return torch.ones_like(losses)
    return posterior(losses, fit(losses))


def normalised(losses: Tensor) -> Tensor:
    """In double precision, moved and scaled to lie in [0, 1]; all 0 if they are all the same."""
    values = losses.double()
    low, high = values.min(), values.max()
    return (values - low) / torch.where(high > low, high - low, 1.0)


def _log_joint(values: Tensor, mixture: Mixture) -> Tensor:
    """log(weight·density) of every number under both components: N × 2."""
    away = (values.unsqueeze(1) - mixture.means) ** 2 / mixture.variances
    return mixture.weights.log() - 0.5 * (math.log(2 * math.pi) + mixture.variances.log() + away)


def _maximised(values: Tensor, shares: Tensor, floor: float) -> Mixture:
    """The likeliest mixture when each number belongs to the components by these shares."""
    counts = shares.sum(0) + 10 * torch.finfo(values.dtype).eps
    means = (shares * values.unsqueeze(1)).sum(0) / counts
    variances = (shares * (values.unsqueeze(1) - means) ** 2).sum(0) / counts + floor
    return Mixture(counts / counts.sum(), means, variances)
