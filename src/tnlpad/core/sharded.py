"""Weights that are sharded over ranks, as `torch.distributed.fsdp.fully_shard` (FSDP2) leaves them: `DTensor`s.

σ, γ, the anchor and the state of the base optimizer are sharded like their weight. Our own arithmetic is elementwise,
so it works on each rank's piece of a tensor; only norms are reduced over ranks. The base optimizer gets `DTensor`s, so
that bases which are not elementwise are right as well. Unsharded tensors pass through every function here unchanged.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING or torch.distributed.is_available():
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor, Partial, Placement, Replicate
else:  # a build of torch without distributed training: nothing is an instance of these
    DTensor, FSDPModule = type("DTensor", (), {}), type("FSDPModule", (), {})

FLAT_MARK = "_fsdp_flattened"  # set by torch on the parameters of FSDP1


def is_sharded(tensor: object) -> bool:
    """Return whether a tensor is divided among ranks."""
    return isinstance(tensor, DTensor)


def same_sharding(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors are divided among the same ranks in the same way, or are both whole."""
    if isinstance(a, DTensor) and isinstance(b, DTensor):
        return a.device_mesh == b.device_mesh and a.placements == b.placements
    return not is_sharded(a) and not is_sharded(b)


def piece(tensor: Tensor) -> Tensor:
    """Return this rank's piece of a sharded tensor, in the same memory."""
    if not isinstance(tensor, DTensor):
        return tensor
    with torch.no_grad():
        return tensor.to_local()


def pieces(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Return this rank's piece of every tensor."""
    return [piece(tensor) for tensor in tensors]


def shard(value: Tensor, like: Tensor, name: str) -> Tensor:
    """Return a value sharded like another tensor.

    A full tensor must be the same on every rank: each takes its piece, and nothing is sent.

    Args:
        value: A full tensor, or one that is sharded over the same ranks.
        like: The tensor to follow.
        name: Name of the value, for messages.
    """
    check_shardable(value, like, name)
    if not isinstance(like, DTensor):
        return value
    if isinstance(value, DTensor):
        return value.redistribute(placements=like.placements)
    everywhere = [Replicate()] * like.device_mesh.ndim
    full = DTensor.from_local(value.detach(), like.device_mesh, everywhere, run_check=False)
    return full.redistribute(placements=like.placements).clone()


def check_shardable(value: Tensor, like: Tensor, name: str) -> None:
    """Raise if a value is sharded, and not over the ranks of the tensor to follow."""
    if not isinstance(value, DTensor):
        return
    if not isinstance(like, DTensor):
        raise ValueError(
            f"{name} is sharded, but its weight is not: save with full_state_dict() to load without shards."
        )
    if value.device_mesh != like.device_mesh:
        raise ValueError(
            f"{name} is sharded over {value.device_mesh}, its weight over {like.device_mesh}: load a full state dict, "
            "or let torch.distributed.checkpoint load the shards."
        )


def norms_over_ranks(norms: Sequence[Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the norm of every whole tensor from the norms of this rank's pieces, with one reduction per layout."""
    whole = list(norms)
    layouts: dict[tuple[DeviceMesh, tuple[Placement, ...]], list[int]] = {}
    for index, tensor in enumerate(tensors):
        if isinstance(tensor, DTensor):
            layouts.setdefault((tensor.device_mesh, tensor.placements), []).append(index)
    for indices in layouts.values():
        squares = torch.stack([norms[k] for k in indices]).square()
        total = sum_over_ranks(squares, tensors[indices[0]])
        for k, norm in zip(indices, total.sqrt().unbind(), strict=True):
            whole[k] = norm
    return whole


def sum_over_ranks(values: Tensor, like: Tensor) -> Tensor:
    """Return the sum of what ranks computed from their pieces of a tensor; copies of a piece count once."""
    if not isinstance(like, DTensor):
        return values
    summed_over = [Replicate() if placement.is_replicate() else Partial() for placement in like.placements]
    total = DTensor.from_local(values, like.device_mesh, summed_over, run_check=False).full_tensor()
    return total.to(values.device)  # shards may be kept on the CPU, while ranks communicate between GPUs


def fsdp_modules(model: nn.Module) -> list["FSDPModule"]:
    """Return the modules on which `fully_shard` was called, with their parameters back in shards."""
    for parameter in model.parameters():
        check_not_flat(parameter)
    found: list[FSDPModule] = [module for module in model.modules() if isinstance(module, FSDPModule)]
    reshard(found)
    return found


def check_not_flat(weight: Tensor) -> None:
    """Raise for weights of FSDP1, which are views into one flat tensor."""
    if getattr(weight, FLAT_MARK, False):
        raise ValueError(
            "FullyShardedDataParallel (FSDP1) flattens weights, which cannot be decomposed: shard the model with "
            "torch.distributed.fsdp.fully_shard instead."
        )


def reshard(modules: Iterable["FSDPModule"]) -> None:
    """Drop gathered weights, which FSDP keeps after a forward pass and would use again although shards changed."""
    for module in modules:
        module.reshard()


@torch.no_grad()
def gather(state: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a state dict with full tensors in CPU memory on rank 0, and an empty dict on the other ranks.

    Every rank must call it. Tensors are gathered one after the other, so that a rank holds one at a time.
    """
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    keep = not distributed or torch.distributed.get_rank() == 0
    copied = _gather(state, keep, {})
    return copied if keep else {}


def _gather(value: Any, keep: bool, done: dict[int, Tensor]) -> Any:
    if isinstance(value, dict):
        return {key: _gather(each, keep, done) for key, each in value.items()}
    if isinstance(value, list):
        return [_gather(each, keep, done) for each in value]
    if not isinstance(value, Tensor):
        return deepcopy(value)
    if id(value) not in done:  # tied weights stay tied
        full = value.full_tensor() if isinstance(value, DTensor) else value
        done[id(value)] = full.detach().to("cpu", copy=True) if keep else torch.empty(0)
    return done[id(value)]
