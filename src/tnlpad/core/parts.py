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
    def of(cls, group: dict[str, Any], sigma: Sequence[Tensor] | None, gamma: Sequence[Tensor] | None) -> "Parts":
        """Take a group's weights apart; without given parts σ = w and γ = 0."""
        parts = cls(group, group["params"])
        for given, name in ((sigma, "sigma"), (gamma, "gamma")):
            if given is not None and len(given) != len(parts.weights):
                raise ValueError(f"{len(given)} tensors in {name} for {len(parts.weights)} parameters: give one each.")
        for index, weight in enumerate(parts.weights):
            _check_decomposable(weight, parts.name(index))
            parts.sigma.append(_wide(weight if sigma is None else sigma[index], weight))
            parts.gamma.append(torch.zeros_like(parts.sigma[-1]) if gamma is None else _wide(gamma[index], weight))
            parts.anchor.append(parts.sigma[-1].clone())
        return parts

    def name(self, index: int) -> str:
        """What to call a weight in a message."""
        shape = "×".join(map(str, self.weights[index].shape))
        names = self.group.get("param_names")
        return f"{names[index] if names else f'decomposed parameter {index}'} ({shape})"

    def gradient(self, index: int) -> Tensor:
        """The data gradient of a weight that has one, in the precision of its parts."""
        gradient = self.weights[index].grad
        assert gradient is not None
        if gradient.layout != torch.strided:
            raise RuntimeError(
                f"{self.name(index)} has a sparse gradient, and a step on σ + γ changes every element: build its layer "
                "with sparse=False, or put it into a group with decompose=False."
            )
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

    def require_untouched(self) -> None:
        """Raise if someone else wrote the weights since we did: σ + γ would overwrite that without a word.

        Version counters and addresses are known to the host; the device is not asked.
        """
        for index, (weight, written) in enumerate(zip(self.weights, self.written, strict=True)):
            if _stamp(weight) != written:
                raise RuntimeError(
                    f"{self.name(index)} was changed or moved from outside after the optimizer was built (by "
                    "load_state_dict, .to() or an in-place change), and σ + γ would overwrite it. Build the optimizer "
                    "after loading and moving the model (to resume, load the model first and then the optimizer), or "
                    "call adopt_weights() to restart from the weights as they are."
                )
            if not weight.requires_grad:
                raise RuntimeError(
                    f"{self.name(index)} no longer requires a gradient, but is decomposed: unfreeze it, or build a new "
                    "optimizer over the parameters that are still trained."
                )

    def adopt_weights(self) -> None:
        """σ = w as it is now, γ = 0."""
        for index, (weight, sigma) in enumerate(zip(self.weights, self.sigma, strict=True)):
            if weight.device != sigma.device:
                raise RuntimeError(
                    f"{self.name(index)} moved from {sigma.device} to {weight.device}: build a new optimizer."
                )
        torch._foreach_copy_(self.sigma, [weight.detach() for weight in self.weights])
        torch._foreach_copy_(self.anchor, self.sigma)
        torch._foreach_zero_(self.gamma)
        self.remember()


def _stamp(weight: Tensor) -> tuple[int, int]:
    return weight._version, weight.data_ptr()


def _check_decomposable(weight: Tensor, name: str) -> None:
    if not weight.requires_grad:
        raise ValueError(f"{name} requires no gradient and cannot be decomposed: unfreeze it or leave it out.")
    if not weight.is_floating_point():
        raise ValueError(f"{name} is {weight.dtype}: only real floating-point parameters can be decomposed.")


def _wide(value: Tensor, like: Tensor) -> Tensor:
    """A private copy in at least single precision, laid out in memory like the weight."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    return torch.empty_like(like, dtype=dtype, requires_grad=False).copy_(value.detach())
