"""The formulas of DivideMix: targets for labelled and unlabelled images, mixing, and the loss of what was mixed.

Papers: Li et al., "DivideMix: Learning with Noisy Labels as Semi-supervised Learning" (ICLR 2020), which builds on
Berthelot et al., "MixMatch" (NeurIPS 2019). Targets are class probabilities, one row per image; everything is a
function of tensors, of fixed shape.
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def sharpened(p: Tensor, temperature: float) -> Tensor:
    """p^(1/T), made to sum to 1 again."""
    raised = p ** (1 / temperature)
    return raised / raised.sum(1, keepdim=True)


def refined(p: Tensor, labels: Tensor, clean: Tensor) -> Tensor:
    """w·y + (1 − w)·p: the given label as far as it is believed, the prediction for the rest."""
    w = clean.unsqueeze(1)
    return ((1 - w) * p).scatter_add(1, labels.unsqueeze(1), w)  # one_hot would ask the device


def mixed(values: Tensor, order: Tensor, weight: Tensor) -> Tensor:
    """λ·v + (1 − λ)·v′, where v′ are the same rows in another order."""
    return weight * values + (1 - weight) * values[order]


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean over rows of −Σ_c t_c·log p_c."""
    return -(targets * F.log_softmax(logits, 1)).sum(1).mean()


def squared_distance(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean over rows and classes of (p − t)²."""
    return F.mse_loss(F.softmax(logits, 1), targets)


def prior_penalty(logits: Tensor) -> Tensor:
    """Σ_c π·log(π/p̄_c) with p̄ the mean prediction and π uniform: no class may be forgotten."""
    log_mean = F.softmax(logits, 1).mean(0).log()
    uniform = torch.full_like(log_mean, 1 / logits.shape[1])
    return (uniform * (uniform.log() - log_mean)).sum()


def negative_entropy(logits: Tensor) -> Tensor:
    """Mean over rows of Σ_c p_c·log p_c, which is lowest for predictions that favour no class."""
    log_p = F.log_softmax(logits, 1)
    return (log_p.exp() * log_p).sum(1).mean()


def linear_ramp(epochs: Tensor, length: int) -> Tensor:
    """epochs/length, held within 0 and 1; 1 from the start if there is nothing to ramp up in."""
    return (epochs / length).clamp(0, 1) if length > 0 else torch.ones_like(epochs)
