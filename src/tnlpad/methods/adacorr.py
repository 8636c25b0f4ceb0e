"""AdaCorr: replace labels that clearly contradict the network's averaged recent predictions.

Paper: Zheng et al., "Error-Bounded Correction of Noisy Labels" (ICML 2020). Epochs e count from 0. p̄_i is the mean of
sample i's class probabilities over the last 10 epochs, as computed in training. After every epoch e >= e_u, the
likelihood-ratio test

    max_c p̄_i(c) > δ_e · p̄_i(y_i)   with   δ_e = 1.2 + 0.02·(e − e_u + 1)

replaces y_i by the most probable class. Corrections accumulate. From epoch e_s on, the retro loss −Σ_c q_i(c)·log
p_i(c) is added to the cross entropy with the current labels. q_i is ρ − ε/(C − 1) for a stored label and ε elsewhere.
The labels are stored before epoch e_s, as given, and once more 40 epochs later. The authors' e_s and e_u are 25 and 30
for CIFAR (20 and 25 for asymmetric noise), 10 and 15 for MNIST (5 and 10 for asymmetric noise). At 80 % noise they
start earlier on MNIST and CIFAR-10, and later on CIFAR-100.

How we differ from the public code: for the retro loss it stores a C × C matrix per sample, which is equivalent to one
stored label per sample. It creates a new optimizer every epoch, and tests the network of the last epoch; we keep the
optimizer, and choose the epoch on noisy validation labels. We train on a batch of one sample like on any other.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from tnlpad.methods.forward import forward, gradient_step
from tnlpad.methods.protocol import Setup
from tnlpad.methods.standard import Standard
from tnlpad.types import Batch, Clock


@dataclass(frozen=True, kw_only=True)
class AdacorrConfig:
    """When labels are stored and corrected, the threshold of the test, and the retro loss."""

    start_epoch: int = 25  # e_s, first epoch with the retro loss
    update_epoch: int = 30  # e_u, first epoch after which labels are corrected
    remember_again_after: int = 40  # epochs after e_s until the labels are stored again
    window: int = 10  # epochs averaged in p̄
    delta: float = 1.2  # δ, threshold of the test
    delta_growth: float = 0.02  # growth of δ per epoch
    rho: float = 0.9  # ρ of the retro loss
    epsilon: float = 1e-4  # ε of the retro loss


class Adacorr(Standard):
    """One network, one optimizer, corrected labels, and every sample's recent predictions."""

    def __init__(self, config: AdacorrConfig, setup: Setup) -> None:
        _check(config, setup)
        self.config = config
        network = setup.network(0)
        super().__init__(network, torch.optim.SGD(network.parameters(), **setup.sgd))
        device = setup.labels.device
        self.labels, self.remembered = setup.labels.clone(), setup.labels.clone()
        self.predictions = torch.zeros(len(setup.labels), config.window, setup.num_classes, device=device)
        # One element, not a scalar: indexing with a scalar tensor would read it on the host.
        self.slot = torch.zeros(1, dtype=torch.int64, device=device)
        self.retro_weight = torch.zeros((), device=device)

    def begin_epoch(self, clock: Clock) -> None:
        self.network.train()
        epoch, config = clock.epoch - 1, self.config
        if epoch in (config.start_epoch, config.start_epoch + config.remember_again_after):
            self.remembered.copy_(self.labels)
        if epoch - 1 >= config.update_epoch:
            delta = config.delta + config.delta_growth * (epoch - config.update_epoch)  # δ of the epoch that has ended
            self.labels.copy_(corrected(self.labels, self.predictions.sum(1), delta))
        self.slot.fill_(epoch % config.window)
        self.retro_weight.fill_(epoch >= config.start_epoch)

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        log_p = F.log_softmax(forward(self.network, batch.images), 1)
        self.predictions[batch.index, self.slot] = log_p.detach().exp().to(self.predictions.dtype)
        retro = retro_loss(log_p, self.remembered[batch.index], self.config.rho, self.config.epsilon)
        return gradient_step(
            self.optimizers[0], F.nll_loss(log_p, self.labels[batch.index]) + self.retro_weight * retro
        )

    def tensors(self) -> dict[str, Tensor]:
        names = ("labels", "remembered", "predictions", "slot", "retro_weight")
        return {name: getattr(self, name) for name in names}


def corrected(labels: Tensor, probabilities: Tensor, delta: float) -> Tensor:
    """Return the labels after the likelihood-ratio test. Sums of probabilities work as well as means."""
    highest, winner = probabilities.max(1)
    own = probabilities.gather(1, labels.unsqueeze(1)).squeeze(1)
    # A sample not seen yet has probabilities 0 and keeps its label, as does one whose own class wins (δ >= 1).
    return torch.where(highest > delta * own, winner, labels)


def retro_loss(log_p: Tensor, remembered: Tensor, rho: float, epsilon: float) -> Tensor:
    """Return the mean of −Σ_c q(c)·log p(c)."""
    peak = rho - epsilon / (log_p.shape[1] - 1)
    return (peak - epsilon) * F.nll_loss(log_p, remembered) - epsilon * log_p.sum(1).mean()


def _check(config: AdacorrConfig, setup: Setup) -> None:
    for name, least in (("start_epoch", 0), ("update_epoch", 0), ("remember_again_after", 1), ("window", 1)):
        if getattr(config, name) < least:
            raise ValueError(f"{name}={getattr(config, name)}: must be at least {least} epochs.")
    if config.delta < 1 or config.delta_growth < 0:
        raise ValueError(
            f"delta={config.delta}, delta_growth={config.delta_growth}: delta must be >= 1 and its growth >= 0. "
            "Otherwise labels would be replaced by less probable ones."
        )
    if not 0 <= config.epsilon <= config.rho:
        raise ValueError(f"rho={config.rho}, epsilon={config.epsilon}: must satisfy 0 <= epsilon <= rho.")
    if setup.num_classes < 2:
        raise ValueError(f"num_classes={setup.num_classes}: correcting labels needs at least 2 classes.")
    if config.update_epoch >= setup.epochs - 1:  # labels are corrected after that epoch, for the next one
        raise ValueError(
            f"update_epoch={config.update_epoch}: no label would be corrected in {setup.epochs} epochs. Train for more "
            f"epochs, or start earlier, for example with start_epoch={setup.epochs // 4} and "
            f"update_epoch={max(0, min(setup.epochs // 4 + 1, setup.epochs - 2))}."
        )
