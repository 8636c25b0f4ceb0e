"""The update over any base optimizer: set the gradients of σ and γ, step the base, write w.

A penalty β·‖v‖ over many tensors adds β·v/‖v‖ to the gradient of v, and 0 where v = 0. The proximal update shrinks γ
after the step instead. β, norms and quotients are tensors on the device, so no step waits for the host. Vectors are
scaled in place: on a CPU, temporaries as large as the weights take most of the update's time.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from tnlpad.core.parts import Parts
from tnlpad.core.sharded import norms_over_ranks, pieces


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Which penalties act, and on which norms."""

    pull_sigma: bool
    pull_gamma: bool
    shrink_gamma: bool
    per_tensor_norms: bool


@torch.no_grad()
def step_parts(base: Optimizer, all_parts: Sequence[Parts], beta: Tensor, rule: Rule) -> None:
    """Step the base optimizer over σ, γ and the ordinary parameters, then write w = σ + γ."""
    try:
        for parts, sigma_pull, gamma_pull in zip(all_parts, *_pulls(all_parts, beta, rule), strict=True):
            for k in parts.with_gradient():
                g = parts.gradient(k)
                # γ gets a copy even without a pull: some bases, such as Nesterov SGD, change gradients in place.
                parts.sigma[k].grad = sigma_pull[k].add_(g) if sigma_pull else g
                parts.gamma[k].grad = gamma_pull[k].add_(g) if gamma_pull else g.clone()
        base.step()
    finally:
        for parts in all_parts:
            for leaf in (*parts.sigma, *parts.gamma):
                leaf.grad = None
    if rule.shrink_gamma:
        _soft_threshold(all_parts, beta[1], rule)
    for parts in all_parts:
        parts.write(1.0)


def _pulls(all_parts: Sequence[Parts], beta: Tensor, rule: Rule) -> tuple[list[list[Tensor]], list[list[Tensor]]]:
    """Return the penalties' gradients β1·d/‖d‖ and β2·γ/‖γ‖ of every group; empty lists where a penalty is off."""
    sigma_pulls: list[list[Tensor]] = [[] for _ in all_parts]
    gamma_pulls: list[list[Tensor]] = [[] for _ in all_parts]
    if rule.pull_sigma:
        sigma_pulls = [parts.drift() for parts in all_parts]
        _scale_to_length_(all_parts, sigma_pulls, beta[0], rule)
    if rule.pull_gamma:
        gamma_pulls = [[gamma.clone() for gamma in parts.gamma] for parts in all_parts]
        _scale_to_length_(all_parts, gamma_pulls, beta[1], rule)
    return sigma_pulls, gamma_pulls


def _scale_to_length_(all_parts: Sequence[Parts], vectors: list[list[Tensor]], beta: Tensor, rule: Rule) -> None:
    """v ← β·v/‖v‖, and 0 where the norm is 0."""
    lengths = norms([v for group in vectors for v in group], rule.per_tensor_norms)
    scale = torch.where(lengths == 0, 0.0, beta / lengths)  # not `> 0`: a NaN must stay visible
    for parts, group, factor in zip(all_parts, vectors, _per_group(all_parts, scale), strict=True):
        # A base that maximizes negates its gradients; the penalties must still be minimized.
        _scale_(group, -factor if parts.group.get("maximize") else factor)


def _soft_threshold(all_parts: Sequence[Parts], beta: Tensor, rule: Rule) -> None:
    """γ ← max(0, 1 − τβ2/‖γ‖)·γ after the base's step on γ.

    From γ = 0 a step with momentum m reaches length η·‖v‖ = τ·‖ḡ‖, with ḡ = (1 − m)·v the averaged gradient and
    τ = η/(1 − m). With this τ, and not with η itself, γ leaves 0 just when ‖ḡ‖ > β2.
    """
    group = all_parts[0].group
    tau = group["lr"] * group["gamma_lr_scale"] * (1 - group["dampening"]) / (1 - group["momentum"])
    # 0·∞, a learning rate of 0 with an infinite penalty, means no threshold: nothing moved.
    threshold = torch.nan_to_num(beta * tau, nan=0.0, posinf=math.inf)
    lengths = norms([gamma for parts in all_parts for gamma in parts.gamma], rule.per_tensor_norms)
    keep = torch.where(lengths == 0, 0.0, (1 - threshold / lengths).clamp(min=0))
    for parts, factor in zip(all_parts, _per_group(all_parts, keep), strict=True):
        if used := parts.with_gradient():
            _scale_([parts.gamma[k] for k in used], factor if factor.ndim == 0 else factor[used])


def norms(vectors: Sequence[Tensor], per_tensor: bool = False) -> Tensor:
    """Return the norm over all tensors together (a scalar), or the norm of each; over all ranks that share them."""
    each = torch.stack(norms_over_ranks(torch._foreach_norm(pieces(vectors)), vectors))
    return each if per_tensor else torch.linalg.vector_norm(each)


def _per_group(all_parts: Sequence[Parts], values: Tensor) -> list[Tensor]:
    if values.ndim == 0:
        return [values] * len(all_parts)
    return list(torch.split(values, [len(parts.weights) for parts in all_parts]))


def _scale_(vectors: Sequence[Tensor], factor: Tensor) -> None:
    """Multiply all tensors by one factor, or each by its own."""
    torch._foreach_mul_(pieces(vectors), factor if factor.ndim == 0 else list(factor.unbind()))


def part_norms(all_parts: Sequence[Parts], base_state: Mapping[Tensor, Any]) -> dict[str, Tensor]:
    """Compute the norms of `Decomposition.norms`."""
    sigma = [tensor for parts in all_parts for tensor in parts.sigma]
    gamma = [tensor for parts in all_parts for tensor in parts.gamma]
    drift = [tensor for parts in all_parts for tensor in parts.drift()]
    values = {"sigma": norms(sigma), "gamma": norms(gamma), "drift": norms(drift)}
    averages = [
        (1 - parts.group["momentum"]) * momentum
        for parts in all_parts
        if parts.group.get("momentum") and not parts.group.get("dampening")
        for leaf in parts.sigma
        if (momentum := base_state.get(leaf, {}).get("momentum_buffer")) is not None
    ]
    return values | ({"averaged_gradient": norms(averages)} if averages else {})
