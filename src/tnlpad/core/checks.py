"""What the optimizer refuses, because it cannot work or would give silently wrong numbers."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer

from tnlpad.core.parts import Parts


def check_arguments(
    base: type[Optimizer], norm: str, gamma_update: str, steps_per_epoch: int | None, base_options: dict[str, Any]
) -> None:
    """Refuse what cannot work, or would do something else than it says."""
    if not isinstance(base, type):
        raise TypeError(f"base is {type(base).__name__}(...): give the class itself, and its options by keyword.")
    if base is torch.optim.LBFGS:
        raise ValueError("LBFGS evaluates the loss several times a step: use a first-order base such as SGD.")
    if base_options.get("differentiable"):
        raise ValueError("differentiable=True is not supported: σ and γ are updated in place.")
    if norm not in ("global", "tensor"):
        raise ValueError(f'norm={norm!r}: choose "global" or "tensor".')
    if gamma_update not in ("subgradient", "proximal"):
        raise ValueError(f'gamma_update={gamma_update!r}: choose "subgradient" or "proximal".')
    if steps_per_epoch is not None and steps_per_epoch < 1:
        raise ValueError(f"steps_per_epoch={steps_per_epoch}: must be at least 1, or None to call start_epoch().")


def check_group(group: dict[str, Any]) -> None:
    """Refuse options of a group that would poison its weights."""
    if not 0 <= group["gamma_lr_scale"] < math.inf:
        raise ValueError(f"gamma_lr_scale={group['gamma_lr_scale']}: must be a finite number >= 0.")
    if len(set(group["params"])) < len(group["params"]):
        raise ValueError("A parameter appears twice in one group, and would be decomposed twice: give each once.")


def check_proximal(base: Optimizer, every: Sequence[Parts], gamma_update: str) -> None:
    """The soft-threshold is derived for SGD with one learning rate and momentum over everything decomposed."""
    if gamma_update != "proximal":
        return
    if type(base) is not SGD:
        raise ValueError(f'gamma_update="proximal" is defined for SGD only, not for {type(base).__name__}.')
    groups = [parts.group for parts in every]
    for option in ("lr", "gamma_lr_scale", "momentum", "dampening"):
        # Learning rates that are tensors are compared as objects: reading them would wait for the device.
        if len({id(v) if isinstance(v := group[option], Tensor) else v for group in groups}) > 1:
            values = [group[option] for group in groups]
            raise ValueError(f'gamma_update="proximal" needs one {option} over all decomposed groups, not {values}.')
    if any(group["nesterov"] or group["maximize"] or not group["momentum"] < 1 for group in groups):
        raise ValueError('gamma_update="proximal" needs momentum < 1, nesterov=False and maximize=False.')


def check_trainable(groups: Sequence[dict[str, Any]], every: Sequence[Parts]) -> None:
    """Refuse a step over groups that are not as they were built, or weights that cannot take one."""
    built = {id(parts.group): parts.weights for parts in every}
    for group in groups:
        weights = group["params"] if group["decompose"] and group["params"] else None
        if weights is not built.get(id(group)):
            raise RuntimeError(
                "A group's `decompose` or `params` changed after the optimizer was built, which it cannot follow: "
                "build a new optimizer."
            )
    for parts in every:
        parts.require_trainable()


def check_capturable(groups: Sequence[dict[str, Any]], base: Optimizer, steps_per_epoch: int | None) -> None:
    """Refuse to be captured in a CUDA graph with what a replay would not follow."""
    if steps_per_epoch is not None:
        raise RuntimeError("A replayed CUDA graph cannot count steps: call start_epoch() between replays.")
    if not all(isinstance(group["lr"], Tensor) and group["lr"].is_cuda for group in groups):
        raise RuntimeError(
            "The learning rate is a number, which a CUDA graph would freeze: build the optimizer with "
            "lr=torch.tensor(lr, device=...) and change it with lr.fill_()."
        )
    if type(base) is SGD and not all(group["fused"] for group in groups):
        raise RuntimeError("Only torch's fused SGD reads the learning rate on the device: give fused=True.")


def check_state(state_dict: dict[str, Any], optimizer: Optimizer) -> None:
    """Refuse a saved state that does not fit, before anything is changed by it."""
    if missing := {"state", "param_groups", "base", "decomposition"} - state_dict.keys():
        raise ValueError(f"Not a state dict of Decomposition: {', '.join(sorted(missing))} is missing.")
    ours, theirs = optimizer.state_dict(), state_dict
    if (saved := theirs["decomposition"].get("base")) != (base := ours["decomposition"]["base"]):
        raise ValueError(f"The state was saved with {saved} as its base, this one is {base}.")
    another = "It was saved for another model or another choice of what is decomposed."
    sizes = [[len(group["params"]) for group in state["param_groups"]] for state in (theirs, ours)]
    if sizes[0] != sizes[1]:
        raise ValueError(f"The saved groups hold {sizes[0]} parameters, this optimizer's hold {sizes[1]}. {another}")
    for index in range(sum(sizes[1])):
        shapes = [
            {name: tuple(tensor.shape) for name, tensor in state["state"].get(index, {}).items()}
            for state in (theirs, ours)
        ]
        if shapes[0] != shapes[1]:
            raise ValueError(f"Parameter {index} was saved with {shapes[0]}, this one has {shapes[1]}. {another}")
