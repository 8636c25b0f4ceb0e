"""What a user may ask of the optimizer: checks of arguments, groups and saved states, and what concerns the base."""

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer

from tnlpad.core.parts import Parts
from tnlpad.core.penalties import Penalty

OWN_OPTIONS = ("params", "param_names", "decompose", "gamma_lr_scale")


def chosen(
    short: str,
    value: float | None,
    long: str,
    penalty: Penalty | None,
    default: Penalty,
    schedule: Callable[[float], Penalty],
) -> Penalty | None:
    """The penalty meant by the shorthand (c1, c2) or by the object, but not by both."""
    if value is None:
        return penalty
    if penalty is not default:
        raise ValueError(f"{short}={value} and {long}={penalty!r} say the same thing twice: give one of them.")
    return schedule(value)


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


def own_copy(group: dict[str, Any]) -> dict[str, Any]:
    """A copy of a user's group that we may change, with its parameters as a list."""
    params = group["params"]
    return {**group, "params": [params] if isinstance(params, Tensor) else list(params)}


def stand_in(groups: list[Any]) -> Tensor:
    """What the base sees of our first parameter, without its memory: some bases refuse certain shapes."""
    first = groups[0] if groups else torch.zeros(1)
    if isinstance(first, dict):
        first = next(iter(first["params"]), torch.zeros(1))
    if isinstance(first, tuple):  # (name, parameter)
        first = first[1]
    return torch.zeros((), dtype=first.dtype, device=first.device).expand(first.shape)


def base_options(group: dict[str, Any]) -> dict[str, Any]:
    """What of a group the base optimizer is to see."""
    return {key: value for key, value in group.items() if key not in OWN_OPTIONS}


def gamma_rate(group: dict[str, Any]) -> dict[str, Any]:
    """γ's learning rate, if it is another than σ's; a tensor may have changed in place, so it is taken every step."""
    scale = group["gamma_lr_scale"]
    return {} if scale == 1 or "lr" not in group else {"lr": group["lr"] * scale}


def same(a: Any, b: Any) -> bool:
    """Whether an option still has the value it had; tensors are compared as objects."""
    return a is b or (not isinstance(a, Tensor) and not isinstance(b, Tensor) and bool(a == b))


def set_option(group: dict[str, Any], key: str, value: Any) -> None:
    """Write a loaded option into a group."""
    # A learning rate kept as a tensor may be part of a captured graph: change its value, not the object.
    if isinstance(group.get(key), Tensor):
        group[key].fill_(value)
    else:
        group[key] = deepcopy(value)


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
