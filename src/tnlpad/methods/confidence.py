"""Lower confidence bounds of a sample's loss, from its losses over some epochs: the scores by which CNLCU picks.

Paper: Xia et al., "Sample Selection with Uncertainty of Losses for Learning with Noisy Labels" (ICLR 2022). With t
losses ℓ, t_o of them outliers, and n the times the sample was picked, the score is max(μ − bonus, 0):

    soft:  μ = mean of ψ(ℓ) with ψ(ℓ) = log(1 + ℓ + ℓ²/2),     bonus = s²·(t + s²·log(2t)/t²) / (n + 1 − s²)
    hard:  μ = mean of ℓ without outliers (looked for from 5 losses on),
           bonus = 2·√(2τ_min)·L·(t + √2·t_o) / ((t − t_o)·√t) · √(log(4t)/(n + 1))

Losses are samples × window with gaps: `present` says which entries count, and at least one does. The strength s² or
τ_min is a device scalar, because it changes between epochs.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from tnlpad.methods.lof import outliers


def soft_scores(losses: Tensor, present: Tensor, n: Tensor, s2: Tensor) -> Tensor:
    """max(μ − bonus, 0) with the soft mean."""
    t = present.sum(1)
    mu = torch.log(1 + losses + losses**2 / 2).masked_fill(~present, 0).sum(1) / t
    return F.relu(mu - s2 * (t + s2 * torch.log(2 * t) / t**2) / (n + 1 - s2))


def hard_scores(losses: Tensor, present: Tensor, n: Tensor, tau_min: Tensor, loss_bound: float = 2.0) -> Tensor:
    """max(μ − bonus, 0) with the mean that leaves outliers out."""
    kept = present & ~outliers(losses, present)
    t, t_k = present.sum(1), kept.sum(1)
    mu = losses.masked_fill(~kept, 0).sum(1) / t_k
    spread = 2 * torch.sqrt(2 * tau_min) * loss_bound * (t + math.sqrt(2) * (t - t_k)) / (t_k * torch.sqrt(t))
    return F.relu(mu - spread * torch.sqrt(torch.log(4 * t) / (n + 1)))
