"""How large the parts of the decomposed weights are."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tnlpad.core.parts import Parts
from tnlpad.core.update import norms


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
