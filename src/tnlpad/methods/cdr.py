"""CDR: only the weights that matter now follow the gradient; the others decay.

Paper: Xia et al., "Robust Early-Learning: Hindering the Memorization of Noisy Labels" (ICLR 2021). A weight matters if
|g·w| is among the largest ⌊(1 − τ)·P⌋ of all P weights of convolutions and linear layers together. Its gradient is
scaled by 1 − τ and that of the others is set to 0, before an ordinary SGD step whose weight decay acts on all. Biases
and normalisation keep their full gradient.

How we differ: the paper shrinks by an l1 term, the public code by weight decay, and so do we. That code computes a
rise over 10 epochs and then overwrites it, so 1 − τ holds from the start; `gradual_epochs` brings the rise back. It
also runs a second forward pass per step to log accuracy, which updates BatchNorm twice; we do not.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from tnlpad.core.parts import same_layout
from tnlpad.core.select import kth_largest
from tnlpad.methods.forward import mean_loss
from tnlpad.methods.protocol import Judged, Setup
from tnlpad.methods.saving import restore, state_of
from tnlpad.methods.selection import forget_rate, rounded_down
from tnlpad.types import Batch, Clock


@dataclass(frozen=True, kw_only=True)
class CdrConfig:
    """When how many weights are held back."""

    gradual_epochs: int = 1  # until the share of weights held back is the noise rate; 1 is at once


@torch.no_grad()
def hold_back(weights: Sequence[Tensor], keep: Tensor) -> None:
    """Scale the gradients of the share `keep` of all weights with the largest |g·w|, and zero the others."""
    pairs = [in_memory_order(weight.grad, weight) for weight in weights if weight.grad is not None]
    gradients, values = ([pair[k] for pair in pairs] for k in range(2))
    importance = torch.cat(torch._foreach_mul(gradients, values)).abs_()
    threshold = kth_largest(importance, rounded_down(keep * len(importance)).clamp(min=1))
    factors = importance.ge_(threshold).mul_(keep)
    torch._foreach_mul_(gradients, factors.split([len(gradient) for gradient in gradients]))


def in_memory_order(gradient: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Both in one dimension, the gradient without moving it: one launch then serves tensors of any memory format."""
    moved = weight if same_layout(gradient, weight) else torch.empty_like(gradient).copy_(weight)
    return gradient.as_strided((gradient.numel(),), (1,)), moved.as_strided((gradient.numel(),), (1,))


class Cdr:
    """One network, one optimizer."""

    def __init__(self, config: CdrConfig, setup: Setup) -> None:
        self.config = config
        self.noise_rate = setup.required_noise_rate("cdr")
        self.network = setup.network(0)
        # Weights of linear layers and convolutions have two dimensions or more; biases and normalisation have one.
        self.weights = [p for p in self.network.parameters() if p.requires_grad and p.ndim >= 2]
        self.optimizers: Sequence[Optimizer] = [torch.optim.SGD(self.network.parameters(), **setup.sgd)]
        self.judged: Judged = {"w": lambda: nullcontext(self.network)}
        self.reported = ("w",)
        self.selections: Mapping[str, Tensor] = {}
        self.keep = torch.ones((), dtype=torch.float64, device=setup.labels.device)

    def begin_epoch(self, clock: Clock) -> None:
        self.network.train()
        self.keep.fill_(1 - forget_rate(clock.epoch, self.noise_rate, self.config.gradual_epochs))

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        (optimizer,) = self.optimizers
        loss = mean_loss(self.network, batch.images, batch.labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        hold_back(self.weights, self.keep)
        optimizer.step()
        return loss.detach()

    def state_dict(self) -> dict[str, Any]:
        return state_of([self.network], self.optimizers, {"keep": self.keep})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        restore(state, [self.network], self.optimizers, {"keep": self.keep})
