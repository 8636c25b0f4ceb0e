"""A mixture of two normal distributions, fitted to losses on the device, to separate small losses from large ones.

Expectation maximisation as in scikit-learn's `GaussianMixture`, with the same stopping rule and regularisation, in
double precision. How we differ: the first assignment is by 2-means that starts from the smallest and the largest value
and runs until nothing changes. scikit-learn starts at random; here the same losses always give the same split.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Mixture(NamedTuple):
    """Weights, means and variances of the two components, each of shape 2."""

    weights: Tensor
    means: Tensor
    variances: Tensor


def normalised(losses: Tensor) -> Tensor:
    """Return the losses in double precision, scaled to [0, 1]; all 0 if they are all equal."""
    values = losses.double()
    low, high = values.min(), values.max()
    return (values - low) / torch.where(high > low, high - low, 1.0)


def clean_probability(losses: Tensor) -> Tensor:
    """Return each sample's probability of belonging to the component of small losses, from `normalised` losses.

    If all losses are equal, every probability is 1.
    """
    if bool((losses == losses[0]).all()):
        return torch.ones_like(losses)
    return posterior(losses, fit(losses))


def posterior(values: Tensor, mixture: Mixture) -> Tensor:
    """Return the probability that each value comes from the component with the smaller mean."""
    return _log_joint(values, mixture).softmax(1)[:, mixture.means.argmin()]


def fit(
    values: Tensor, start: Mixture | None = None, *, max_iter: int = 10, tol: float = 1e-2, reg_covar: float = 5e-4
) -> Mixture:
    """Fit a mixture to values in double precision, of shape N. The options are those of scikit-learn.

    Args:
        values: Numbers to fit.
        start: Initial mixture; by default from 2-means.
        max_iter: Maximum number of iterations.
        tol: Stop when the mean log likelihood gains less than this.
        reg_covar: Added to the variances.
    """
    if start is None:
        upper = two_means(values).to(values.dtype)
        start = _maximised(values, torch.stack([1 - upper, upper], 1), reg_covar)
    mixture, reached = start, -math.inf
    for _ in range(max_iter):
        joint = _log_joint(values, mixture)
        likelihood = joint.logsumexp(1)
        mixture = _maximised(values, (joint - likelihood.unsqueeze(1)).exp(), reg_covar)
        before, reached = reached, float(likelihood.mean())
        if abs(reached - before) < tol:
            break
    return mixture


def two_means(values: Tensor) -> Tensor:
    """Return a mask of the values nearer to the upper of two centres. The values must not all be equal."""
    upper = values > (values.min() + values.max()) / 2
    for _ in range(300):
        count = upper.sum()
        high_mean = torch.where(upper, values, 0.0).sum() / count
        low_mean = torch.where(upper, 0.0, values).sum() / (len(values) - count)
        again = values > (low_mean + high_mean) / 2
        if torch.equal(again, upper):
            break
        upper = again
    return upper


def _log_joint(values: Tensor, mixture: Mixture) -> Tensor:
    """Return log(weight·density) of every value under both components: N × 2."""
    distance = (values.unsqueeze(1) - mixture.means) ** 2 / mixture.variances
    return mixture.weights.log() - 0.5 * (math.log(2 * math.pi) + mixture.variances.log() + distance)


def _maximised(values: Tensor, responsibilities: Tensor, reg_covar: float) -> Mixture:
    """Return the most likely mixture for given responsibilities, N × 2."""
    counts = responsibilities.sum(0) + 10 * torch.finfo(values.dtype).eps
    means = (responsibilities * values.unsqueeze(1)).sum(0) / counts
    variances = (responsibilities * (values.unsqueeze(1) - means) ** 2).sum(0) / counts + reg_covar
    return Mixture(counts / counts.sum(), means, variances)
