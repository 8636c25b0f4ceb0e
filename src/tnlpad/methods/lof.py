"""Local outlier factors of many short lists of numbers at once, on the device.

Paper: Breunig et al., "LOF: Identifying Density-Based Local Outliers" (2000). With the k nearest neighbours of a value,
reach(a, b) = max(|a − b|, distance of b to its k-th neighbour), density lrd = 1/(mean reach + 1e-10), the factor is the
mean density of the neighbours over the value's own. An outlier is a value whose negated factor lies strictly below the
10 % quantile of its list, linearly interpolated. These are scikit-learn's conventions and numbers.

Lists may have gaps: `present` says which entries count.
"""

import math

import torch
from torch import Tensor

NEIGHBOURS = 2
CONTAMINATION = 0.1
AT_LEAST = 5  # values, for any of them to be an outlier


def local_outlier_factors(values: Tensor, present: Tensor) -> Tensor:
    """The factor of every entry, compared within its row; meaningful where more than `NEIGHBOURS` are present."""
    x = values.double()  # ties decide what is strictly below: see `outliers`
    apart = (x.unsqueeze(2) - x.unsqueeze(1)).abs()
    itself = torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
    distance, order = apart.masked_fill(itself | ~present.unsqueeze(1), math.inf).sort(dim=2, stable=True)
    nearest, who = distance[..., :NEIGHBOURS], order[..., :NEIGHBOURS]
    reach = torch.maximum(nearest, _of_neighbours(nearest[..., -1], who))
    density = 1 / (reach.mean(2) + 1e-10)
    return _of_neighbours(density, who).mean(2) / density


def outliers(values: Tensor, present: Tensor) -> Tensor:
    """True for the outliers of every row."""
    negated = -local_outlier_factors(values, present)
    ascending = negated.masked_fill(~present, math.inf).sort(dim=1).values
    count = present.sum(1, keepdim=True)
    place = CONTAMINATION * (count - 1).clamp(min=0)
    below = place.floor().long()
    above = (below + 1).clamp(max=values.shape[1] - 1)
    low, high = ascending.gather(1, below), ascending.gather(1, above)
    quantile = low + (place - below) * (high - low)
    return present & (negated < quantile) & (count >= AT_LEAST)


def _of_neighbours(of_each: Tensor, who: Tensor) -> Tensor:
    """A value per entry, looked up for every entry's neighbours: rows × entries × neighbours."""
    rows, entries, _ = who.shape
    return of_each.unsqueeze(1).expand(rows, entries, entries).gather(2, who)
