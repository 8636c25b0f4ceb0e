"""The update over any base optimizer: give σ and γ their gradients, let the base step, write w.

A penalty β·‖v‖ over many tensors adds β·v/‖v‖ to the gradient of v, and 0 where v = 0; the proximal form of it shrinks
v after the step instead. Everything stays on the device: β, norms and quotients are tensors, so that no step waits for
the host. Vectors are scaled in place, since weight-sized temporaries are what this update costs on a CPU.

How large the parts of the decomposed weights are.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from tnlpad.core.parts import Parts


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Which penalties act, and how."""

    pull_sigma: bool
    pull_gamma: bool
    shrink_gamma: bool
    per_tensor_norms: bool


@torch.no_grad()
def step_parts(base: Optimizer, every: Sequence[Parts], beta: Tensor, rule: Rule) -> None:
    """One step of the base over σ and γ (and over the ordinary parameters it holds), then w = σ + γ."""
    try:
        for parts, sigma_force, gamma_force in zip(every, *_forces(every, beta, rule), strict=True):
            for k in parts.with_gradient():
                g = parts.gradient(k)
                # γ gets a copy even without a force: a base may change gradients in place (Nesterov SGD does).
                parts.sigma[k].grad = sigma_force[k].add_(g) if sigma_force else g
                parts.gamma[k].grad = gamma_force[k].add_(g) if gamma_force else g.clone()
        base.step()
    finally:
        for parts in every:
            for leaf in (*parts.sigma, *parts.gamma):
                leaf.grad = None
    if rule.shrink_gamma:
        _soft_threshold(every, beta[1], rule)
    for parts in every:
        parts.write(1.0)


def _forces(every: Sequence[Parts], beta: Tensor, rule: Rule) -> tuple[list[list[Tensor]], list[list[Tensor]]]:
    """The penalties' gradients β1·d/‖d‖ and β2·γ/‖γ‖ for every group; empty lists where there is none."""
    sigma_forces: list[list[Tensor]] = [[] for _ in every]
    gamma_forces: list[list[Tensor]] = [[] for _ in every]
    if rule.pull_sigma:
        sigma_forces = [list(torch._foreach_sub(parts.sigma, parts.anchor)) for parts in every]
        _pull_(every, sigma_forces, beta[0], rule)
    if rule.pull_gamma:
        gamma_forces = [[gamma.clone() for gamma in parts.gamma] for parts in every]
        _pull_(every, gamma_forces, beta[1], rule)
    return sigma_forces, gamma_forces


def _pull_(every: Sequence[Parts], vectors: list[list[Tensor]], beta: Tensor, rule: Rule) -> None:
    """v ← β·v/‖v‖, and 0 where the norm is 0."""
    lengths = norms([v for group in vectors for v in group], rule.per_tensor_norms)
    pull = torch.where(lengths == 0, 0.0, beta / lengths)  # not `> 0`: a NaN must show
    for parts, group, factor in zip(every, vectors, _per_group(every, pull), strict=True):
        # Where the base maximises it will negate what it gets; the penalties stay minimised.
        _scale_(group, -factor if parts.group.get("maximize") else factor)


def _soft_threshold(every: Sequence[Parts], beta: Tensor, rule: Rule) -> None:
    """γ ← max(0, 1 − τβ2/‖γ‖)·γ after the base's step on γ.

    From γ = 0 a step with momentum m reaches length η·‖v‖ = τ·‖ḡ‖, with ḡ = (1 − m)·v the averaged gradient and
    τ = η/(1 − m). With this τ, and not with η itself, γ leaves 0 just when ‖ḡ‖ > β2.
    """
    group = every[0].group
    tau = group["lr"] * group["gamma_lr_scale"] * (1 - group["dampening"]) / (1 - group["momentum"])
    # 0·∞, a learning rate of 0 against an infinite penalty, is no threshold: nothing moved.
    threshold = torch.nan_to_num(beta * tau, nan=0.0, posinf=math.inf)
    lengths = norms([gamma for parts in every for gamma in parts.gamma], rule.per_tensor_norms)
    keep = torch.where(lengths == 0, 0.0, (1 - threshold / lengths).clamp(min=0))
    for parts, factor in zip(every, _per_group(every, keep), strict=True):
        if used := parts.with_gradient():
            _scale_([parts.gamma[k] for k in used], factor if factor.ndim == 0 else factor[used])


def norms(vectors: Sequence[Tensor], per_tensor: bool = False) -> Tensor:
    """The norm over all tensors together (a scalar), or one for each of them."""
    each = torch.stack(torch._foreach_norm(list(vectors)))
    return each if per_tensor else torch.linalg.vector_norm(each)


def _per_group(every: Sequence[Parts], values: Tensor) -> list[Tensor]:
    if values.ndim == 0:
        return [values] * len(every)
    return list(torch.split(values, [len(parts.weights) for parts in every]))


def _scale_(vectors: Sequence[Tensor], factor: Tensor) -> None:
    """Multiply every tensor by the one factor, or by its own."""
    torch._foreach_mul_(list(vectors), factor if factor.ndim == 0 else list(factor.unbind()))


def part_norms(every: Sequence[Parts], base_state: Mapping[Tensor, Any]) -> dict[str, Tensor]:
    """What `Decomposition.norms` gives."""
    sigma = [tensor for parts in every for tensor in parts.sigma]
    gamma = [tensor for parts in every for tensor in parts.gamma]
    anchor = [tensor for parts in every for tensor in parts.anchor]
    values = {"sigma": norms(sigma), "gamma": norms(gamma), "drift": norms(torch._foreach_sub(sigma, anchor))}
    if averages := _averaged_gradient(every, base_state):
        values["averaged_gradient"] = norms(averages)
    return values


def _averaged_gradient(every: Sequence[Parts], base_state: Mapping[Tensor, Any]) -> list[Tensor]:
    """(1 − m)·momentum of every σ that has one."""
    return [
        (1 - parts.group["momentum"]) * momentum
        for parts in every
        if parts.group.get("momentum") and not parts.group.get("dampening")
        for sigma in parts.sigma
        if (momentum := base_state.get(sigma, {}).get("momentum_buffer")) is not None
    ]
