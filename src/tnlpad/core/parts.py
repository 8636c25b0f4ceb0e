"""The tensors behind one parameter group of decomposed weights, and the watch over who writes them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass(eq=False)
class Parts:
    """σ, γ and the anchor (σ at the start of the epoch) of a group's weights, tensor by tensor in the same order."""

    group: dict[str, Any]
    weights: list[Tensor]
    sigma: list[Tensor] = field(default_factory=list)
    gamma: list[Tensor] = field(default_factory=list)
    anchor: list[Tensor] = field(default_factory=list)
    written: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        group: dict[str, Any],
        sigma: Sequence[Tensor] | None = None,
        gamma: Sequence[Tensor] | None = None,
        sigma_share: Sequence[Tensor] | None = None,
    ) -> "Parts":
        """Take a group's weights apart: σ = w and γ = 0, unless parts are given.

        Args:
            group: The parameter group; its list of parameters is used as it is.
            sigma, gamma: Given parts; their sum becomes the weight.
            sigma_share: Instead, σ = share·w and γ the rest.
        """
        parts = cls(group, group["params"])
        for given, name in ((sigma, "sigma"), (gamma, "gamma"), (sigma_share, "sigma_share")):
            _check_given(given, name, parts.weights)
        for index, weight in enumerate(parts.weights):
            _check_decomposable(weight, parts.name(index))
            whole = _wide(weight if sigma is None else sigma[index], weight)
            rest = torch.zeros_like(whole) if gamma is None else _wide(gamma[index], weight)
            if sigma_share is not None:
                share = whole * sigma_share[index].to(whole)
                whole, rest = share, whole - share
            parts.sigma.append(whole)
            parts.gamma.append(rest)
            parts.anchor.append(whole.clone())
        return parts

    def name(self, index: int) -> str:
        """What to call a weight in a message."""
        shape = "×".join(map(str, self.weights[index].shape))
        names = self.group.get("param_names")
        return f"{names[index] if names else f'decomposed parameter {index}'} ({shape})"

    def with_gradient(self) -> list[int]:
        """The weights that take part in a step: as everywhere in torch, those that have a gradient."""
        return [index for index, weight in enumerate(self.weights) if weight.grad is not None]

    def gradient(self, index: int) -> Tensor:
        """The data gradient of a weight that has one, in the precision of its parts."""
        gradient = self.weights[index].grad
        assert gradient is not None
        return gradient.detach().to(self.sigma[index].dtype)

    @torch.no_grad()
    def write(self, gamma_share: float) -> None:
        """weights ← σ + share·γ, summed in the precision of the parts."""
        values = torch._foreach_add(self.sigma, self.gamma, alpha=gamma_share) if gamma_share else self.sigma
        torch._foreach_copy_(self.weights, values)
        self.remember()

    def remember(self) -> None:
        """Note that the weights are as we wrote them."""
        self.written = [_stamp(weight) for weight in self.weights]

    def moved(self) -> bool:
        """Whether a weight lies elsewhere than where we wrote it."""
        return any(
            weight.data_ptr() != address for weight, (_, address) in zip(self.weights, self.written, strict=True)
        )

    def changed(self, gamma_share: float) -> int | None:
        """The first weight that no longer holds σ + share·γ because someone else wrote it; None if all do.

        Version counters and addresses are known to the host, so the device is asked only where one of them differs.
        What was written may still be the same values, as when DDP sends them around.
        """
        suspects = [k for k, weight in enumerate(self.weights) if _stamp(weight) != self.written[k]]
        for index in suspects:
            if not self._holds(index, gamma_share):
                return index
            self.written[index] = _stamp(self.weights[index])
        return None

    @torch.no_grad()
    def _holds(self, index: int, gamma_share: float) -> bool:
        weight, sigma, gamma = self.weights[index], self.sigma[index], self.gamma[index]
        if weight.device != sigma.device:
            return False
        return torch.equal(weight, torch.add(sigma, gamma, alpha=gamma_share).to(weight.dtype))

    def require_trainable(self) -> None:
        """Raise before anything is changed if a weight cannot take a step."""
        for index, weight in enumerate(self.weights):
            if not weight.requires_grad:
                raise RuntimeError(
                    f"{self.name(index)} no longer requires a gradient, but is decomposed: unfreeze it, or build a new "
                    "optimizer over the parameters that are still trained."
                )
            if weight.grad is not None and weight.grad.layout != torch.strided:
                raise RuntimeError(
                    f"{self.name(index)} has a sparse gradient, and a step on σ + γ changes every element: build its "
                    "layer with sparse=False, or put it into a group with decompose=False."
                )

    def adopt_weights(self) -> None:
        """σ = w as it is now, γ = 0."""
        for index, (weight, sigma) in enumerate(zip(self.weights, self.sigma, strict=True)):
            if (weight.device, _wide_dtype(weight)) != (sigma.device, sigma.dtype):
                raise RuntimeError(
                    f"{self.name(index)} is {weight.dtype} on {weight.device} now, while σ is {sigma.dtype} on "
                    f"{sigma.device}: build a new optimizer."
                )
        torch._foreach_copy_(self.sigma, [weight.detach() for weight in self.weights])
        torch._foreach_copy_(self.anchor, self.sigma)
        torch._foreach_zero_(self.gamma)
        self.remember()


def _stamp(weight: Tensor) -> tuple[int, int]:
    return weight._version, weight.data_ptr()


def _check_given(given: Sequence[Tensor] | None, name: str, weights: Sequence[Tensor]) -> None:
    if given is None:
        return
    if len(given) != len(weights):
        raise ValueError(f"{len(given)} tensors in {name} for {len(weights)} parameters: give one each.")
    for part, weight in zip(given, weights, strict=True):
        if part.shape != weight.shape:
            raise ValueError(f"{name} has shape {tuple(part.shape)} for a parameter of shape {tuple(weight.shape)}.")


def _check_decomposable(weight: Tensor, name: str) -> None:
    if not weight.requires_grad:
        raise ValueError(f"{name} requires no gradient and cannot be decomposed: unfreeze it or leave it out.")
    if not weight.is_floating_point():
        raise ValueError(f"{name} is {weight.dtype}: only real floating-point parameters can be decomposed.")


def _wide(value: Tensor, like: Tensor) -> Tensor:
    """A private copy in at least single precision, laid out in memory like the weight."""
    return torch.empty_like(like, dtype=_wide_dtype(like), requires_grad=False).copy_(value.detach())


def _wide_dtype(weight: Tensor) -> torch.dtype:
    return torch.promote_types(weight.dtype, torch.float32)


def same_layout(first: Tensor, second: Tensor) -> bool:
    """Whether equal positions lie at equal places; the stride of a dimension of one element means nothing."""
    return first.shape == second.shape and all(
        a == b for size, a, b in zip(first.shape, first.stride(), second.stride(), strict=True) if size > 1
    )
