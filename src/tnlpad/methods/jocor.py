"""JoCoR: two networks with one loss, trained on the samples where both fit the label and agree with each other.

Paper: Wei et al., "Combating Noisy Labels by Agreement: A Joint Training Method with Co-Regularization" (CVPR 2020).
With p1, p2 the networks' class probabilities, every sample has the loss

    ℓ = (1 − λ)·(CE(p1, y) + CE(p2, y)) + λ·(KL(p1‖p2) + KL(p2‖p1)).

The ⌊(1 − forget)·B⌋ smallest losses of a batch are kept, and one optimizer over both networks minimises their mean.
Gradients flow through both arguments of both divergences.

The final forget rate is the assumed noise rate. Asymmetric noise changes labels of at most half of the classes, so the
authors' code halves the rate there. `tnlpad train` does so too, except on CIFAR-100, where every class is flipped. λ is
worth tuning on noisy validation accuracy. The authors use 0.9 on most of CIFAR-10, 0.65 at 80 % noise, and 0.85 on
CIFAR-100; the default of their program is 0.1. `tnlpad train` uses 0.1 on MNIST and 0.3 on Fashion-MNIST and CIFAR: of
0.1, 0.3, 0.5, 0.7 and 0.9 (on MNIST also 0.05), the best at 40 % symmetric noise in runs of 5 or 12 epochs with one
seed. There, values up to 0.5 differ little, and 0.9 is much worse (`benchmarks/records/jocor_lambda-*.json`). It leaves
a tenth of the labels' gradient, which slows down SGD; the authors use Adam. Food-101 gets 0.3 as well, digits 0.5.
Other data get 0.9, so tune λ there: `tnlpad tune DATA --method jocor --field co_lambda --values 0.1,0.3,0.5,0.9`.

How we differ from the public code: if no sample of a batch would be kept, all are, where that code divides by zero.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from tnlpad.methods.coteaching import Coteaching
from tnlpad.methods.forward import forward, gradient_step
from tnlpad.methods.protocol import Setup
from tnlpad.methods.selection import Forgetting, masked_mean, smallest
from tnlpad.types import Batch, Clock


@dataclass(frozen=True, kw_only=True)
class JocorConfig(Forgetting):
    """Weight of the agreement term."""

    co_lambda: float = 0.9  # λ, weight of the agreement term


class Jocor(Coteaching):
    """Co-teaching's two networks, with one optimizer over both and one selection."""

    def __init__(self, config: JocorConfig, setup: Setup) -> None:
        if not 0 <= config.co_lambda < 1:
            raise ValueError(f"co_lambda={config.co_lambda}: must lie in [0, 1). At 1 the labels would be ignored.")
        super().__init__(config, setup, "jocor")
        self.co_lambda = config.co_lambda
        parameters = [parameter for network in self.networks for parameter in network.parameters()]
        self.optimizers = [torch.optim.SGD(parameters, **setup.sgd)]
        self.selections = {"joint": torch.zeros_like(setup.labels, dtype=torch.bool)}

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        first, second = (forward(network, batch.images) for network in self.networks)
        losses = joint_losses(first, second, batch.labels, self.co_lambda)
        selected = smallest(losses, self.forget)
        self.selections["joint"][batch.index] = selected
        return gradient_step(self.optimizers[0], masked_mean(losses, selected))


def joint_losses(first: Tensor, second: Tensor, labels: Tensor, co_lambda: float) -> Tensor:
    """Return ℓ of every sample from both networks' logits."""
    log_p1, log_p2 = F.log_softmax(first, 1), F.log_softmax(second, 1)
    fit = F.nll_loss(log_p1, labels, reduction="none") + F.nll_loss(log_p2, labels, reduction="none")
    # KL(p1‖p2) + KL(p2‖p1) = Σ p1·(log p1 − log p2) + Σ p2·(log p2 − log p1)
    disagreement = ((log_p1.exp() - log_p2.exp()) * (log_p1 - log_p2)).sum(1)
    return (1 - co_lambda) * fit + co_lambda * disagreement
