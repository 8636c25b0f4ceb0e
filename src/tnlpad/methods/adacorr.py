"""AdaCorr: labels that the network's recent averaged predictions clearly contradict are replaced.

Paper: Zheng et al., "Error-Bounded Correction of Noisy Labels" (ICML 2020). With epochs e counted from 0: p̄_i is the
mean of sample i's class probabilities in the last 10 epochs, as they came up in training. After every epoch e >= e_u
the likelihood-ratio test

    max_c p̄_i(c) > δ_e · p̄_i(y_i)   with   δ_e = 1.2 + 0.02·(e − e_u + 1)

replaces y_i by the winning class; corrections add up. From epoch e_s on the cross entropy with the current labels is
joined by the retro loss −Σ_c q_i(c)·log p_i(c), where q_i is ρ − ε/(C − 1) for a remembered label and ε elsewhere. The
labels are remembered before epoch e_s, as given, and once more 40 epochs later. The authors' e_s and e_u are 25 and 30
for CIFAR (20 and 25 for asymmetric noise), 10 and 15 for MNIST.

How we differ from the public code: it keeps a C × C matrix per sample for the retro loss, which comes to the same as
one remembered label each; it makes a new optimizer every epoch, and chooses by clean validation labels. A batch of one
sample is trained on like any other.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Optimizer

from tnlpad.methods.forward import forward
from tnlpad.methods.protocol import Judged, Setup
from tnlpad.methods.saving import restore, state_of
from tnlpad.types import Batch, Clock


@dataclass(frozen=True, kw_only=True)
class AdacorrConfig:
    """When labels are remembered and corrected, by how clear a contradiction, and the retro loss."""

    start_epoch: int = 25  # e_s
    update_epoch: int = 30  # e_u
    remember_again_after: int = 40  # epochs after e_s
    window: int = 10  # epochs in p̄
    delta: float = 1.2
    delta_growth: float = 0.02  # from epoch to epoch
    rho: float = 0.9  # ρ
    epsilon: float = 1e-4  # ε


def corrected(labels: Tensor, probabilities: Tensor, delta: float) -> Tensor:
    """The labels after the likelihood-ratio test; sums of probabilities do as well as means."""
    highest, winner = probabilities.max(1)
    own = probabilities.gather(1, labels.unsqueeze(1)).squeeze(1)
    # A sample never seen has probabilities of 0 and keeps its label, and so does one whose own class wins (δ >= 1).
    return torch.where(highest > delta * own, winner, labels)


def retro_loss(log_p: Tensor, remembered: Tensor, rho: float, epsilon: float) -> Tensor:
    """Mean of −Σ_c q(c)·log p(c)."""
    peak = rho - epsilon / (log_p.shape[1] - 1)
    return (peak - epsilon) * F.nll_loss(log_p, remembered) - epsilon * log_p.sum(1).mean()


def _check(config: AdacorrConfig, num_classes: int) -> None:
    for name, least in (("start_epoch", 0), ("update_epoch", 0), ("remember_again_after", 1), ("window", 1)):
        if getattr(config, name) < least:
            raise ValueError(f"{name}={getattr(config, name)}: must be at least {least} epochs.")
    if config.delta < 1 or config.delta_growth < 0:
        raise ValueError(
            f"delta={config.delta}, delta_growth={config.delta_growth}: delta must be >= 1 and its growth >= 0, or "
            "labels would be replaced by less likely ones."
        )
    if not 0 <= config.epsilon <= config.rho:
        raise ValueError(f"rho={config.rho}, epsilon={config.epsilon}: must be ordered as 0 <= epsilon <= rho.")
    if num_classes < 2:
        raise ValueError(f"num_classes={num_classes}: there is nothing to correct to with fewer than 2 classes.")


class Adacorr:
    """One network, one optimizer, labels of its own, and every sample's recent predictions."""

    def __init__(self, config: AdacorrConfig, setup: Setup) -> None:
        _check(config, setup.num_classes)
        if config.update_epoch >= setup.epochs - 1:  # labels are corrected after that epoch, for the next one
            raise ValueError(
                f"update_epoch={config.update_epoch}: a run of {setup.epochs} epochs would never correct a label. Give "
                f"it more epochs, or choose both earlier, such as start_epoch={setup.epochs // 4} and "
                f"update_epoch={max(0, min(setup.epochs // 4 + 1, setup.epochs - 2))}."
            )
        self.config = config
        self.network = setup.network(0)
        self.optimizers: Sequence[Optimizer] = [torch.optim.SGD(self.network.parameters(), **setup.sgd)]
        self.judged: Judged = {"w": lambda: nullcontext(self.network)}
        self.reported = ("w",)
        self.selections: Mapping[str, Tensor] = {}
        device = setup.labels.device
        self.labels, self.remembered = setup.labels.clone(), setup.labels.clone()
        self.predictions = torch.zeros(len(setup.labels), config.window, setup.num_classes, device=device)
        # Of one element and not a scalar: indexing with a scalar tensor would read it on the host.
        self.slot = torch.zeros(1, dtype=torch.int64, device=device)
        self.retro_weight = torch.zeros((), device=device)

    def begin_epoch(self, clock: Clock) -> None:
        self.network.train()
        epoch, config = clock.epoch - 1, self.config
        if epoch in (config.start_epoch, config.start_epoch + config.remember_again_after):
            self.remembered.copy_(self.labels)
        if epoch - 1 >= config.update_epoch:
            delta = config.delta + config.delta_growth * (epoch - config.update_epoch)  # of epoch − 1, which has ended
            self.labels.copy_(corrected(self.labels, self.predictions.sum(1), delta))
        self.slot.fill_(epoch % config.window)
        self.retro_weight.fill_(epoch >= config.start_epoch)

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        (optimizer,) = self.optimizers
        log_p = F.log_softmax(forward(self.network, batch.images), 1)
        self.predictions[batch.index, self.slot] = log_p.detach().exp().to(self.predictions.dtype)
        retro = retro_loss(log_p, self.remembered[batch.index], self.config.rho, self.config.epsilon)
        loss = F.nll_loss(log_p, self.labels[batch.index]) + self.retro_weight * retro
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def _tensors(self) -> dict[str, Tensor]:
        names = ("labels", "remembered", "predictions", "slot", "retro_weight")
        return {name: getattr(self, name) for name in names}

    def state_dict(self) -> dict[str, Any]:
        return state_of([self.network], self.optimizers, self._tensors())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        restore(state, [self.network], self.optimizers, self._tensors())
