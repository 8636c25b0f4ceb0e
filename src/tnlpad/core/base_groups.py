"""How our parameter groups stand in the base optimizer: an ordinary one as it is, a decomposed one as σ's and γ's."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

OWN_OPTIONS = ("params", "param_names", "decompose", "gamma_lr_scale")


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


def options_for_base(group: dict[str, Any]) -> dict[str, Any]:
    """What of a group the base optimizer is to see."""
    return {key: value for key, value in group.items() if key not in OWN_OPTIONS}


def gamma_rate(group: dict[str, Any]) -> dict[str, Any]:
    """γ's learning rate, if it is another than σ's; a tensor may have changed in place, so it is taken every step."""
    scale = group["gamma_lr_scale"]
    return {} if scale == 1 or "lr" not in group else {"lr": group["lr"] * scale}


def pass_on_changes(groups: Sequence[dict[str, Any]], passed: Sequence[dict[str, Any]], base: Optimizer) -> None:
    """Give the base what LR schedulers and users wrote into our groups since it was last passed on.

    Only what changed: a base may keep numbers of its own in its groups, and they are not ours to overwrite.
    """
    inner = iter(base.param_groups)
    for group, before in zip(groups, passed, strict=True):
        changed = {k: v for k, v in options_for_base(group).items() if k not in before or not _same(v, before[k])}
        before.update(changed)
        next(inner).update(changed)
        if group["decompose"]:
            next(inner).update(changed | gamma_rate(group))


def _same(a: Any, b: Any) -> bool:
    """Whether an option still has the value it had; tensors are compared as objects."""
    return a is b or (not isinstance(a, Tensor) and not isinstance(b, Tensor) and bool(a == b))


def restore_options(group: dict[str, Any], saved: dict[str, Any]) -> None:
    """Write a saved group's options into ours."""
    for key in saved.keys() - {"params", "param_names"}:
        # A learning rate kept as a tensor may be part of a captured graph: change its value, not the object.
        if isinstance(group.get(key), Tensor):
            group[key].fill_(saved[key])
        else:
            group[key] = deepcopy(saved[key])
