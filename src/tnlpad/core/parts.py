"""A group of decomposed weights: its tensors σ, γ and anchor, its groups in the base optimizer, its checks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Adafactor, Optimizer, Rprop, SparseAdam

from tnlpad.core.sharded import check_not_flat, is_sharded, piece, pieces, reshard, shard

Group = dict[str, Any]
UNSHARDED_BASES = (Adafactor, Rprop, SparseAdam)
OWN_OPTIONS = ("params", "param_names", "decompose", "gamma_lr_scale")  # not for the base optimizer


@dataclass(eq=False)
class Parts:
    """σ, γ and the anchor (σ at the start of the epoch) of a group's weights: one tensor each per weight."""

    group: Group
    weights: list[Tensor]
    sigma: list[Tensor] = field(default_factory=list)
    gamma: list[Tensor] = field(default_factory=list)
    anchor: list[Tensor] = field(default_factory=list)
    written: list[tuple[int, int]] = field(default_factory=list)  # version and address of each weight at our last write
    sharded: bool = False
    fsdp_modules: Sequence[Any] = ()  # hold gathered copies of the weights, to be dropped when we write
    dtypes: list[torch.dtype] = field(default_factory=list)  # of the weights before a working dtype

    @classmethod
    def split(
        cls,
        group: Group,
        sigma: Sequence[Tensor] | None = None,
        gamma: Sequence[Tensor] | None = None,
        sigma_share: Sequence[Tensor] | None = None,
        fsdp_modules: Sequence[Any] | None = None,
    ) -> "Parts":
        """Split a group's weights into σ = w and γ = 0, unless parts are given. The weights do not change yet.

        Args:
            group: The parameter group; its list of parameters is used as it is.
            sigma, gamma: Initial parts; their sum becomes the weight.
            sigma_share: Split w into σ = share·w and γ = w − σ.
            fsdp_modules: The modules that gather sharded weights.
        """
        parts = cls(group, group["params"], fsdp_modules=fsdp_modules or ())
        parts.dtypes = [weight.dtype for weight in parts.weights]
        parts.sharded = any(is_sharded(weight) for weight in parts.weights)
        for given, name in ((sigma, "sigma"), (gamma, "gamma"), (sigma_share, "sigma_share")):
            _check_given(given, name, parts.weights)
        for index, weight in enumerate(parts.weights):
            _check_decomposable(weight, parts.name(index))
            if fsdp_modules is None and is_sharded(weight):
                raise ValueError(f"{parts.name(index)} is sharded: pass groups from parameter_groups(model).")
            whole = _wide_copy(weight if sigma is None else sigma[index], weight)
            rest = torch.zeros_like(whole) if gamma is None else _wide_copy(gamma[index], weight)
            if sigma_share is not None:
                share = whole * _wide_copy(sigma_share[index], weight)
                whole, rest = share, whole - share
            parts.sigma.append(whole)
            parts.gamma.append(rest)
            parts.anchor.append(whole.clone())
        return parts

    def convert(self, dtype: torch.dtype) -> None:
        """Convert the weights, except biases: they are small, and compiled code sums their gradients unrounded."""
        for weight in self.weights:
            if weight.ndim > 1:
                weight.data = weight.data.to(dtype)

    def name(self, index: int) -> str:
        """Return a weight's name and shape, for messages."""
        shape = "×".join(map(str, self.weights[index].shape))
        names = self.group.get("param_names")
        return f"{names[index] if names else f'decomposed parameter {index}'} ({shape})"

    def with_gradient(self) -> list[int]:
        """Return the indices of the weights that have a gradient; as in torch, a step skips the others."""
        return [index for index, weight in enumerate(self.weights) if weight.grad is not None]

    def gradient(self, index: int) -> Tensor:
        """Return the gradient of a weight that has one, in the precision of its parts."""
        gradient = self.weights[index].grad
        assert gradient is not None
        return gradient.detach().to(self.sigma[index].dtype)

    def drift(self) -> list[Tensor]:
        """Return σ − anchor."""
        if self.sharded:
            return [sigma - anchor for sigma, anchor in zip(self.sigma, self.anchor, strict=True)]
        return list(torch._foreach_sub(self.sigma, self.anchor))

    def set_anchor(self) -> None:
        """anchor ← σ."""
        torch._foreach_copy_(pieces(self.anchor), pieces(self.sigma))

    @torch.no_grad()
    def write(self, gamma_share: float) -> None:
        """weights ← σ + share·γ, summed in the precision of the parts."""
        sigma = pieces(self.sigma)
        values = torch._foreach_add(sigma, pieces(self.gamma), alpha=gamma_share) if gamma_share else sigma
        torch._foreach_copy_(pieces(self.weights), values)
        self.mark_written()

    @torch.no_grad()
    def value(self, index: int, gamma_share: float) -> Tensor:
        """Return a copy of σ + share·γ in the dtype that the weight had when it was split."""
        sigma, gamma = self.sigma[index], self.gamma[index]
        value = torch.add(sigma, gamma, alpha=gamma_share) if gamma_share else sigma.clone()
        return value.to(self.dtypes[index])

    def mark_written(self) -> None:
        """Record that the weights are as we wrote them, and drop gathered copies of older ones."""
        reshard(self.fsdp_modules)
        self.written = self._stamps()

    def untouched(self) -> bool:
        """Return whether nothing wrote or moved the weights since we wrote them."""
        return self._stamps() == self.written

    def moved(self) -> bool:
        """Return whether a weight is at another address than when we wrote it."""
        return [address for _, address in self.written] != [address for _, address in self._stamps()]

    def _stamps(self) -> list[tuple[int, int]]:
        if self.sharded:
            return [_stamp(weight) for weight in self.weights]
        return [(weight._version, weight.data_ptr()) for weight in self.weights]  # at every step: few function calls

    @torch.no_grad()
    def changed(self, gamma_share: float) -> int | None:
        """Return the first weight that no longer holds σ + share·γ because other code wrote it; None if all do.

        The host knows version counters and addresses. Values are compared, which waits for the device, only where one
        of them differs: DDP, for example, writes the same values again.
        """
        stamps = self._stamps()
        for index, weight in enumerate(self.weights):
            if stamps[index] == self.written[index]:
                continue
            sigma, gamma = piece(self.sigma[index]), piece(self.gamma[index])
            if weight.device != sigma.device:
                return index
            if not _same_values(piece(weight), torch.add(sigma, gamma, alpha=gamma_share).to(weight.dtype)):
                return index
            self.written[index] = stamps[index]
        return None

    def adopt_weights(self) -> None:
        """Set σ to the current weights and γ to 0."""
        for index, (weight, sigma) in enumerate(zip(self.weights, self.sigma, strict=True)):
            if (weight.device, _wide_dtype(weight)) != (sigma.device, sigma.dtype):
                raise RuntimeError(
                    f"{self.name(index)} is {weight.dtype} on {weight.device}, but its σ is {sigma.dtype} on "
                    f"{sigma.device}. Build a new optimizer."
                )
        torch._foreach_copy_(pieces(self.sigma), pieces(weight.detach() for weight in self.weights))
        torch._foreach_zero_(pieces(self.gamma))
        self.set_anchor()
        self.mark_written()


def _same_values(a: Tensor, b: Tensor) -> bool:
    """Compare like `torch.equal`, but take NaN for equal: a training that has diverged changed nothing from outside."""
    return a.shape == b.shape and bool(((a == b) | (a.isnan() & b.isnan())).all())


def _stamp(weight: Tensor) -> tuple[int, int]:
    own = piece(weight)
    return weight._version + own._version, own.data_ptr()


def _check_given(given: Sequence[Tensor] | None, name: str, weights: Sequence[Tensor]) -> None:
    if given is None:
        return
    if len(given) != len(weights):
        raise ValueError(f"{len(given)} tensors in {name} for {len(weights)} parameters: give one each.")
    for part, weight in zip(given, weights, strict=True):
        if part.shape != weight.shape:
            raise ValueError(f"{name} has shape {tuple(part.shape)} for a parameter of shape {tuple(weight.shape)}.")


def _check_decomposable(weight: Tensor, name: str) -> None:
    check_not_flat(weight)
    if not weight.requires_grad:
        raise ValueError(f"{name} requires no gradient and cannot be decomposed: unfreeze it or leave it out.")
    if not weight.is_floating_point():
        raise ValueError(f"{name} is {weight.dtype}: only real floating-point parameters can be decomposed.")


def _wide_copy(value: Tensor, like: Tensor) -> Tensor:
    """Copy a value in at least single precision, laid out in memory like the weight."""
    wide = torch.empty_like(like, dtype=_wide_dtype(like), requires_grad=False)
    return wide.copy_(shard(value.detach(), like, "An initial part"))


def _wide_dtype(weight: Tensor) -> torch.dtype:
    return torch.promote_types(weight.dtype, torch.float32)


def same_layout(first: Tensor, second: Tensor) -> bool:
    """Return whether two tensors have the same shape and strides; where there is one element or none, none matters."""
    return first.shape == second.shape and (
        first.stride() == second.stride()  # as a rule, and quickly compared: the fused step asks for every gradient
        or first.numel() == 0
        or all(a == b for size, a, b in zip(first.shape, first.stride(), second.stride(), strict=True) if size > 1)
    )


# Groups in the base optimizer: an ordinary group has one there, a decomposed one has two, for σ and for γ.


def copy_group(group: Group) -> Group:
    """Copy a user's group, with its parameters as a list."""
    params = group["params"]
    return {**group, "params": [params] if isinstance(params, Tensor) else list(params)}


def match_names(group: Group, first: Group) -> None:
    """Give a group names of its parameters if the first group has them, or drop them: torch takes all or none."""
    group["params"] = copy_group(group)["params"]
    named = "param_names" in group or any(isinstance(each, tuple) for each in group["params"])
    if not named and "param_names" in first:
        group["param_names"] = [f"added parameter {index}" for index in range(len(group["params"]))]
    if named and "param_names" not in first:
        group.pop("param_names", None)
        group["params"] = [each[1] if isinstance(each, tuple) else each for each in group["params"]]


def placeholder(groups: list[Any]) -> Tensor:
    """Return a tensor shaped like the first parameter, without its memory: some base optimizers check shapes."""
    first = groups[0] if groups else torch.zeros(1)
    if isinstance(first, dict):
        first = next(iter(first["params"]), torch.zeros(1))
    if isinstance(first, tuple):  # (name, parameter)
        first = first[1]
    return torch.zeros((), dtype=first.dtype, device=first.device).expand(first.shape)


def base_options(group: Group) -> Group:
    """Return the options of a group that the base optimizer takes."""
    return {key: value for key, value in group.items() if key not in OWN_OPTIONS}


def gamma_lr(group: Group) -> Group:
    """Return γ's learning rate as an option, if it differs from σ's."""
    scale = group["gamma_lr_scale"]
    return {} if scale == 1 or "lr" not in group else {"lr": group["lr"] * scale}


def sync_options(groups: Sequence[Group], synced: Sequence[Group], base: Optimizer) -> None:
    """Copy options that LR schedulers and users changed in our groups to the base optimizer.

    Only changed options are copied, because some base optimizers store state in their groups. γ's learning rate is
    computed at every call, because a learning rate that is a tensor changes in place.
    """
    inner = iter(base.param_groups)
    for group, before in zip(groups, synced, strict=True):
        changed = {k: v for k, v in base_options(group).items() if k not in before or not _same(v, before[k])}
        before.update(changed)
        next(inner).update(changed)
        if group["decompose"]:
            next(inner).update(changed | gamma_lr(group))


def _same(a: Any, b: Any) -> bool:
    """Compare tensors by identity, because reading them would wait for the device; compare the rest by value."""
    return a is b or (not isinstance(a, Tensor) and not isinstance(b, Tensor) and bool(a == b))


# Checks of groups, when the optimizer is built and before every step.


def check_group(group: Group) -> None:
    """Raise for options that would make weights NaN, and for repeated parameters."""
    if not 0 <= group["gamma_lr_scale"] < math.inf:
        raise ValueError(f"gamma_lr_scale={group['gamma_lr_scale']}: must be a finite number >= 0.")
    if len(set(group["params"])) < len(group["params"]):
        raise ValueError("A parameter appears twice in one group, and would be decomposed twice: give each once.")


def check_proximal(base: Optimizer, all_parts: Sequence[Parts], gamma_update: str) -> None:
    """Raise where the soft-threshold does not apply: it needs SGD with one learning rate and momentum over all γ."""
    if gamma_update != "proximal":
        return
    if type(base) is not SGD:
        raise ValueError(f'gamma_update="proximal" is defined for SGD only, not for {type(base).__name__}.')
    groups = [parts.group for parts in all_parts]
    for option in ("lr", "gamma_lr_scale", "momentum", "dampening"):
        # Tensors are compared by identity: reading them would wait for the device.
        if len({id(v) if isinstance(v := group[option], Tensor) else v for group in groups}) > 1:
            values = [group[option] for group in groups]
            raise ValueError(f'gamma_update="proximal" needs one {option} over all decomposed groups, not {values}.')
    if any(group["nesterov"] or group["maximize"] or not group["momentum"] < 1 for group in groups):
        raise ValueError('gamma_update="proximal" needs momentum < 1, nesterov=False and maximize=False.')


def check_sharded(base: Optimizer, all_parts: Sequence[Parts], working_dtype: torch.dtype | None) -> None:
    """Raise for base optimizers whose step torch does not define on sharded tensors, and for a working dtype."""
    if not any(parts.sharded for parts in all_parts):
        return
    if working_dtype is not None:
        raise ValueError(
            f"working_dtype={working_dtype} is not for sharded weights: leave it out, and use FSDP2's "
            "MixedPrecisionPolicy(param_dtype=...)."
        )
    if isinstance(base, UNSHARDED_BASES):
        raise ValueError(f"torch's {type(base).__name__} does not take sharded weights: use SGD or AdamW.")
    if isinstance(base, SGD) and any(group["fused"] for group in base.param_groups):
        raise ValueError("torch's SGD with fused=True does not take sharded weights: leave fused=True out.")


def check_trainable(groups: Sequence[Group], all_parts: Sequence[Parts]) -> None:
    """Raise before a step if a group was changed since the optimizer was built, or a weight cannot take a step."""
    built = {id(parts.group): parts.weights for parts in all_parts}
    for group in groups:
        weights = group["params"] if group["decompose"] and group["params"] else None
        if weights is not built.get(id(group)):
            raise RuntimeError(
                "`decompose` or `params` of a group changed after the optimizer was built: build a new optimizer."
            )
    for parts in all_parts:
        for index, weight in enumerate(parts.weights):
            if not weight.requires_grad:
                raise RuntimeError(
                    f"{parts.name(index)} is decomposed but no longer requires a gradient. Unfreeze it, or build a new "
                    "optimizer over the parameters that are still trained."
                )
            if weight.grad is not None and weight.grad.layout != torch.strided:
                raise RuntimeError(
                    f"{parts.name(index)} has a sparse gradient, but a step on σ + γ changes every element. Build its "
                    "layer with sparse=False, or put it into a group with decompose=False."
                )
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        _check_gradients_arrive(all_parts)


def _check_gradients_arrive(all_parts: Sequence[Parts]) -> None:
    # fully_shard() replaces a model's parameters: an optimizer over the old ones would do nothing, without an error.
    if not any(weight.grad is not None for parts in all_parts for weight in parts.weights):
        raise RuntimeError(
            "No decomposed weight has a gradient. Call backward() before step(), and build the optimizer after "
            "fully_shard()."
        )


def check_capturable(groups: Sequence[Group], base: Optimizer, steps_per_epoch: int | None) -> None:
    """Raise if a CUDA graph is being captured that would not follow the learning rate or the epochs."""
    if any(is_sharded(weight) for group in groups for weight in group["params"]):
        raise RuntimeError("A step on sharded weights cannot be captured in a CUDA graph: it communicates.")
    if steps_per_epoch is not None:
        raise RuntimeError("A replayed CUDA graph cannot count steps: call start_epoch() between replays.")
    if not all(isinstance(group["lr"], Tensor) and group["lr"].is_cuda for group in groups):
        raise RuntimeError(
            "A CUDA graph would freeze a learning rate that is a number. Build the optimizer with "
            "lr=torch.tensor(lr, device=...) and change it with lr.fill_()."
        )
    if type(base) is SGD and not all(group["fused"] for group in groups):
        raise RuntimeError("Only torch's fused SGD reads the learning rate on the device: pass fused=True.")
