"""Save and restore a method: its networks, its optimizers, and its own tensors (per-sample state, schedules) by name.

Loading writes into the existing tensors, including momentum and learning rates, because a captured CUDA graph refers
to them by address.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tnlpad.core.saving import keep_tensors

Tensors = Mapping[str, Tensor]


def state_of(networks: Sequence[nn.Module], optimizers: Sequence[Optimizer], tensors: Tensors) -> dict[str, Any]:
    """Return the state of a method. As in torch, the tensors are live: save or copy them before training continues."""
    return {
        "networks": [network.state_dict() for network in networks],
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
        "tensors": dict(tensors),
    }


@torch.no_grad()
def restore(
    state: dict[str, Any], networks: Sequence[nn.Module], optimizers: Sequence[Optimizer], tensors: Tensors
) -> None:
    """Load a saved state; raise ValueError if it belongs to another method or other data."""
    wrong_state = "It was saved by another method or for other data. Build the method as it was when it was saved."
    if missing := {"networks", "optimizers", "tensors"} - state.keys():
        raise ValueError(f"Not the state of a method: {', '.join(sorted(missing))} is missing.")
    for name, ours in (("networks", networks), ("optimizers", optimizers)):
        if len(state[name]) != len(ours):
            raise ValueError(f"The state holds {len(state[name])} {name}, this method has {len(ours)}. {wrong_state}")
    saved_shapes = {name: tuple(tensor.shape) for name, tensor in state["tensors"].items()}
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if saved_shapes != shapes:
        raise ValueError(f"The state holds tensors {saved_shapes}, this method has {shapes}. {wrong_state}")

    # Networks before optimizers: the decomposition rejects weights that change after its own state is loaded.
    for network, saved in zip(networks, state["networks"], strict=True):
        network.load_state_dict(saved)
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        _restore_optimizer(optimizer, saved)
    for name, tensor in tensors.items():
        tensor.copy_(state["tensors"][name])


def _restore_optimizer(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    before = {parameter: dict(entries) for parameter, entries in optimizer.state.items()}
    rates = [group["lr"] for group in optimizer.param_groups]
    # Copied, because torch keeps the saved tensors: two optimizers loaded from one state would share momentum.
    optimizer.load_state_dict(deepcopy(saved))
    keep_tensors(before, optimizer)
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        if isinstance(rate, Tensor):
            group["lr"] = rate.copy_(torch.as_tensor(group["lr"]))
