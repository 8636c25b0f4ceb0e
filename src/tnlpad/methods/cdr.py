"""CDR: only the weights that are important for the current batch follow the gradient; the others only decay.

Paper: Xia et al., "Robust Early-Learning: Hindering the Memorization of Noisy Labels" (ICLR 2021). A weight is
important if |g·w| is among the largest ⌊(1 − τ)·P⌋ of all P weights of convolutions and linear layers together, where τ
is the noise rate. Its gradient is scaled by 1 − τ, and the gradients of the other weights are set to 0. An ordinary SGD
step follows, whose weight decay acts on all weights. Biases and normalisation layers keep their full gradient.

How we differ: the paper shrinks weights by an l1 term, the public code by weight decay, and so do we. That code
computes a rise of τ over 10 epochs and then overwrites it, so τ applies from the start; `gradual_epochs` restores the
rise. That code also runs a second forward pass per step to log accuracy, which updates BatchNorm twice; we do not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tnlpad.core.parts import same_layout
from tnlpad.core.select import kth_largest
from tnlpad.methods.forward import mean_loss
from tnlpad.methods.protocol import Setup
from tnlpad.methods.selection import Forgetting, rounded_down
from tnlpad.methods.standard import Standard
from tnlpad.types import Batch, Clock


@dataclass(frozen=True, kw_only=True)
class CdrConfig:
    """Schedule of the share of unimportant weights."""

    gradual_epochs: int = 1  # epochs until the share of unimportant weights reaches the noise rate; 1: at once


class Cdr(Standard):
    """One network, one optimizer."""

    def __init__(self, config: CdrConfig, setup: Setup) -> None:
        self.forgetting = Forgetting(gradual_epochs=config.gradual_epochs)
        self.noise_rate = setup.required_noise_rate("cdr")
        network = setup.network(0)
        super().__init__(network, torch.optim.SGD(network.parameters(), **setup.sgd))
        # Weights of linear layers and convolutions have at least two dimensions, biases and normalisation one.
        self.weights = [p for p in self.network.parameters() if p.requires_grad and p.ndim >= 2]
        self.keep = torch.ones((), dtype=torch.float64, device=setup.labels.device)

    def begin_epoch(self, clock: Clock) -> None:
        self.network.train()
        self.keep.fill_(1 - self.forgetting.forget_rate(clock.epoch, self.noise_rate))

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        (optimizer,) = self.optimizers
        loss = mean_loss(self.network, batch.images, batch.labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        mask_gradients(self.weights, self.keep)
        optimizer.step()
        return loss.detach()

    def tensors(self) -> dict[str, Tensor]:
        return {"keep": self.keep}


@torch.no_grad()
def mask_gradients(weights: Sequence[Tensor], keep: Tensor) -> None:
    """Scale by `keep` the gradients of the share `keep` of weights with the largest |g·w|; zero the others."""
    pairs = [_in_memory_order(weight.grad, weight) for weight in weights if weight.grad is not None]
    gradients, values = ([pair[k] for pair in pairs] for k in range(2))
    importance = torch.cat(torch._foreach_mul(gradients, values)).abs_()
    threshold = kth_largest(importance, rounded_down(keep * len(importance)).clamp(min=1))
    factors = importance.ge_(threshold).mul_(keep)
    torch._foreach_mul_(gradients, factors.split([len(gradient) for gradient in gradients]))


def _in_memory_order(gradient: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Flatten both, the gradient as a view: one kernel launch then handles tensors of any memory format."""
    moved = weight if same_layout(gradient, weight) else torch.empty_like(gradient).copy_(weight)
    return gradient.as_strided((gradient.numel(),), (1,)), moved.as_strided((gradient.numel(),), (1,))
