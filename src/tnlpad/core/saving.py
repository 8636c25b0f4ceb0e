"""Saving and loading: the base optimizer's state, options, and a model's weights before rounding."""

from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer

from tnlpad.core.parts import Group, Parts
from tnlpad.core.sharded import check_shardable, shard


def check_state(saved: dict[str, Any], ours: dict[str, Any]) -> None:
    """Raise if a saved state does not fit, before anything is loaded."""
    if missing := {"state", "param_groups", "base", "decomposition"} - saved.keys():
        keys = " and ".join(map(repr, sorted(missing)))
        raise ValueError(
            f"Not a state dict of Decomposition: the {'key' if len(missing) == 1 else 'keys'} {keys} "
            f"{'is' if len(missing) == 1 else 'are'} missing. Load one that Decomposition.state_dict() returned."
        )
    bases = [state["decomposition"].get("base") for state in (saved, ours)]
    if bases[0] != bases[1]:
        raise ValueError(
            f"The state was saved with base {bases[0]}, this optimizer has {bases[1]}. "
            f"Build the optimizer with base={bases[0]}."
        )
    if lost := set(saved["decomposition"].get("base_state", "").split()) - set(state_names(saved["base"]).split()):
        raise ValueError(
            f"{' and '.join(sorted(lost))} of the base optimizer was saved, but not loaded: call prepare_to_load() "
            "before torch.distributed.checkpoint.load()."
        )
    another = "It was saved for another model or another choice of decomposed parameters."
    sizes = [[len(group["params"]) for group in state["param_groups"]] for state in (saved, ours)]
    if sizes[0] != sizes[1]:
        raise ValueError(f"The saved groups have {sizes[0]} parameters, this optimizer's have {sizes[1]}. {another}")
    for index in range(sum(sizes[1])):
        shapes = [
            {name: tuple(tensor.shape) for name, tensor in state["state"].get(index, {}).items()}
            for state in (saved, ours)
        ]
        if shapes[0] != shapes[1]:
            raise ValueError(f"Parameter {index} was saved with {shapes[0]}, this one has {shapes[1]}. {another}")
        for name, tensor in ours["state"].get(index, {}).items():
            check_shardable(saved["state"][index][name], tensor, name)


def allocate_state(base: Optimizer) -> None:
    """Create the state of a base optimizer by a step that changes no parameter: zero gradients, zero learning rate."""
    groups = base.param_groups
    leaves = [leaf for group in groups for leaf in group["params"]]
    gradients, rates = [leaf.grad for leaf in leaves], [group["lr"] for group in groups]
    try:
        for leaf in leaves:
            leaf.grad = torch.zeros_like(leaf)
        for group in groups:
            group["lr"] = group["lr"] * 0
        base.step()
    finally:
        for leaf, gradient in zip(leaves, gradients, strict=True):
            leaf.grad = gradient
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate


def state_names(saved: dict[str, Any]) -> str:
    """Return the names of a base optimizer's state, such as "momentum_buffer"."""
    return " ".join(sorted({name for values in saved["state"].values() for name in values}))


def shard_state(saved: dict[str, Any], base: Optimizer) -> dict[str, Any]:
    """Return a saved state of the base optimizer, with tensors of a parameter's shape sharded like the parameter."""
    leaves = [leaf for group in base.param_groups for leaf in group["params"]]

    def placed(value: Any, name: str, leaf: Tensor) -> Any:
        follows = isinstance(value, Tensor) and value.shape == leaf.shape
        return shard(value, leaf, name) if follows else value

    state = {
        index: {name: placed(value, name, leaves[index]) for name, value in values.items()}
        for index, values in saved["state"].items()
    }
    return {**saved, "state": state}


def keep_tensors(before: Mapping[Tensor, Mapping[str, Any]], optimizer: Optimizer) -> bool:
    """Copy a new state into the tensors of the state before, to which captured CUDA graphs refer by address.

    Momentum of SGD that the new state does not have is 0, which is as good without dampening. Returns whether the
    optimizer has all tensors that it had before.
    """
    zero_is_none = type(optimizer) is SGD and not any(group["dampening"] for group in optimizer.param_groups)
    complete = True
    for parameter, entries in before.items():
        for name, tensor in entries.items():
            if not isinstance(tensor, Tensor):
                continue
            new = optimizer.state.get(parameter, {}).get(name)
            if isinstance(new, Tensor) and new.shape == tensor.shape:
                optimizer.state[parameter][name] = tensor.copy_(new)
            elif zero_is_none:
                optimizer.state[parameter][name] = tensor.zero_()
            else:
                complete = False
    return complete


def load_options(group: Group, saved: Group) -> None:
    """Copy a saved group's options into ours."""
    for key in saved.keys() - {"params", "param_names"}:
        # A learning rate that is a tensor may be part of a captured graph: change its value, not the object.
        if isinstance(group.get(key), Tensor):
            group[key].fill_(saved[key])
        else:
            group[key] = deepcopy(saved[key])


def unrounded(state_dict: dict[str, Any], all_parts: Sequence[Parts], gamma_share: float) -> dict[str, Any]:
    """Return a state dict with σ + share·γ in place of weights that are kept in a narrower dtype."""
    exact = {
        weight: parts.value(k, gamma_share)
        for parts in all_parts
        for k, weight in enumerate(parts.weights)
        if weight.dtype != parts.dtypes[k]
    }
    result = copy(state_dict)  # keeps the version numbers that torch attaches
    for name, value in state_dict.items():
        if isinstance(value, Tensor):
            result[name] = exact.get(value, value).detach()
    return result
