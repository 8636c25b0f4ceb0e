"""Local outlier factors of many short lists of numbers at once, on the device.

Paper: Breunig et al., "LOF: Identifying Density-Based Local Outliers" (2000). With the k nearest neighbours of a value,
reach(a, b) = max(|a − b|, distance of b to its k-th neighbour), density lrd = 1/(mean reach + 1e-10), the factor is the
mean density of the neighbours over the value's own. An outlier is a value whose negated factor lies strictly below the
10 % quantile of its list, linearly interpolated. These are scikit-learn's conventions and numbers.

Lists may have gaps: `present` says which entries count.

Lower confidence bounds of a sample's loss, from its losses over some epochs: the scores by which CNLCU picks.

Paper: Xia et al., "Sample Selection with Uncertainty of Losses for Learning with Noisy Labels" (ICLR 2022). With t
losses ℓ, t_o of them outliers, and n the times the sample was picked, the score is max(μ − bonus, 0):

    soft:  μ = mean of ψ(ℓ) with ψ(ℓ) = log(1 + ℓ + ℓ²/2),     bonus = s²·(t + s²·log(2t)/t²) / (n + 1 − s²)
    hard:  μ = mean of ℓ without outliers (looked for from 5 losses on),
           bonus = 2·√(2τ_min)·L·(t + √2·t_o) / ((t − t_o)·√t) · √(log(4t)/(n + 1))

Losses are samples × window with gaps: `present` says which entries count, and at least one does. The strength s² or
τ_min is a device scalar, because it changes between epochs.

CNLCU: Co-teaching that ranks by a lower confidence bound of the loss over some epochs, not by the loss of today.

Paper: Xia et al., "Sample Selection with Uncertainty of Losses for Learning with Noisy Labels" (ICLR 2022). Every
`window` epochs each network starts a new window. With a sample's t losses in the window and n the times this network
picked it there, the score is max(μ − bonus, 0), so that samples seldom picked get their chance. The soft variant takes
the mean μ of softened losses, the hard one leaves outliers out of it; both bounds are in `confidence`. Their strengths
s² and τ_min fall linearly to 0 over the first part of the run (80 of 200 epochs in the public code, the same share
here). Equal scores are taken in the order of the dataset.

How we differ from the public code, which in fact ranks by a running mean (the soft bound uses one sample's n for the
whole batch), drops inliers in place of outliers, never trains the first network of the hard variant, and does not
shuffle: history belongs to a sample wherever it appears, t counts the losses in the window and not all epochs, n is the
sample's own, outliers are the ones dropped, and the loss is the plain mean. n counts from 0 and enters both bounds as
n + 1.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Optimizer

from tnlpad.methods.peers import NAMES, Peers
from tnlpad.methods.protocol import Setup
from tnlpad.methods.saving import restore, state_of
from tnlpad.methods.selection import Forgetting, smallest
from tnlpad.types import Batch, Clock

NEIGHBOURS = 2
CONTAMINATION = 0.1
AT_LEAST = 5  # values, for any of them to be an outlier


def local_outlier_factors(values: Tensor, present: Tensor) -> Tensor:
    """The factor of every entry, compared within its row; meaningful where more than `NEIGHBOURS` are present."""
    x = values.double()  # ties decide what is strictly below: see `outliers`
    apart = (x.unsqueeze(2) - x.unsqueeze(1)).abs()
    itself = torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
    distance, order = apart.masked_fill(itself | ~present.unsqueeze(1), math.inf).sort(dim=2, stable=True)
    nearest, who = distance[..., :NEIGHBOURS], order[..., :NEIGHBOURS]
    reach = torch.maximum(nearest, _of_neighbours(nearest[..., -1], who))
    density = 1 / (reach.mean(2) + 1e-10)
    return _of_neighbours(density, who).mean(2) / density


def outliers(values: Tensor, present: Tensor) -> Tensor:
    """True for the outliers of every row."""
    negated = -local_outlier_factors(values, present)
    ascending = negated.masked_fill(~present, math.inf).sort(dim=1).values
    count = present.sum(1, keepdim=True)
    place = CONTAMINATION * (count - 1).clamp(min=0)
    below = place.floor().long()
    above = (below + 1).clamp(max=values.shape[1] - 1)
    low, high = ascending.gather(1, below), ascending.gather(1, above)
    quantile = low + (place - below) * (high - low)
    return present & (negated < quantile) & (count >= AT_LEAST)


def _of_neighbours(of_each: Tensor, who: Tensor) -> Tensor:
    """A value per entry, looked up for every entry's neighbours: rows × entries × neighbours."""
    rows, entries, _ = who.shape
    return of_each.unsqueeze(1).expand(rows, entries, entries).gather(2, who)


def soft_scores(losses: Tensor, present: Tensor, n: Tensor, s2: Tensor) -> Tensor:
    """max(μ − bonus, 0) with the soft mean."""
    t = present.sum(1)
    mu = torch.log(1 + losses + losses**2 / 2).masked_fill(~present, 0).sum(1) / t
    return F.relu(mu - s2 * (t + s2 * torch.log(2 * t) / t**2) / (n + 1 - s2))


def hard_scores(losses: Tensor, present: Tensor, n: Tensor, tau_min: Tensor, loss_bound: float = 2.0) -> Tensor:
    """max(μ − bonus, 0) with the mean that leaves outliers out."""
    kept = present & ~outliers(losses, present)
    t, t_k = present.sum(1), kept.sum(1)
    mu = losses.masked_fill(~kept, 0).sum(1) / t_k
    spread = 2 * torch.sqrt(2 * tau_min) * loss_bound * (t + math.sqrt(2) * (t - t_k)) / (t_k * torch.sqrt(t))
    return F.relu(mu - spread * torch.sqrt(torch.log(4 * t) / (n + 1)))


# (losses of the window, which of them are there, times picked, s² or τ_min of this epoch) -> scores
Scores = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class CnlcuConfig(Forgetting):
    """The soft variant."""

    window: int = 3
    sigma2: float = 1e-4  # s²
    anneal_share: float = 0.4  # of the run's epochs


@dataclass(frozen=True, kw_only=True)
class CnlcuHardConfig(Forgetting):
    """The hard variant."""

    window: int = 7
    tau_min: float = 1e-4
    loss_bound: float = 2.0  # L
    anneal_share: float = 0.4  # of the run's epochs


def annealed(epoch: int, epochs: int) -> float:
    """1 in the first epoch, falling linearly to 0 in the last of so many."""
    return max(0.0, 1 - (epoch - 1) / (epochs - 1)) if epochs > 1 else float(epoch == 1)


class Cnlcu:
    """Two networks with an optimizer each, and every sample's recent losses under both."""

    def __init__(
        self, config: CnlcuConfig | CnlcuHardConfig, setup: Setup, *, name: str, strength: float, scores: Scores
    ) -> None:
        if config.window < 1:
            raise ValueError(f"window={config.window}: must be at least 1 epoch.")
        if not 0 <= config.anneal_share <= 1:
            raise ValueError(f"anneal_share={config.anneal_share}: must lie in [0, 1], a share of the run's epochs.")
        self.config, self.full_strength, self.scores = config, strength, scores
        self.anneal_epochs = round(config.anneal_share * setup.epochs)
        self.peers = Peers(config, setup, name)
        self.optimizers: Sequence[Optimizer] = self.peers.optimizers
        self.judged, self.reported, self.selections = self.peers.judged, NAMES, self.peers.selections
        samples, device = len(setup.labels), setup.labels.device
        self.history = torch.zeros(2, samples, config.window, device=device)
        self.picks = torch.zeros(2, samples, dtype=torch.int64, device=device)
        self.seen = torch.zeros(samples, dtype=torch.int64, device=device)
        self.strength = torch.zeros((), device=device)

    def begin_epoch(self, clock: Clock) -> None:
        self.peers.begin_epoch(clock)
        self.strength.fill_(self.full_strength * annealed(clock.epoch, self.anneal_epochs))
        if (clock.epoch - 1) % self.config.window == 0:
            for tensor in (self.history, self.picks, self.seen):
                tensor.zero_()

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        losses = [F.cross_entropy(logits, batch.labels, reduction="none") for logits in self.peers.outputs(batch)]
        picked = self._pick(batch, torch.stack(losses).detach())
        return self.peers.exchange(batch, losses, list(picked))

    def _pick(self, batch: Batch, losses: Tensor) -> Tensor:
        """Note both networks' losses and choose by the bounds; a row for each network, here and in what is kept."""
        window, seen = self.config.window, self.seen[batch.index]
        self.seen[batch.index] = seen + 1
        self.history[:, batch.index, seen % window] = losses.to(self.history.dtype)
        present = torch.arange(window, device=seen.device) <= seen.unsqueeze(1)
        histories, picks = self.history[:, batch.index], self.picks[:, batch.index]
        # Both networks as one long list: a GPU takes as long for a hundred samples as for fifty.
        scores = self.scores(histories.flatten(0, 1), present.repeat(2, 1), picks.flatten(), self.strength)
        in_dataset_order = torch.argsort(batch.index)
        chosen = smallest(scores.view(2, -1)[:, in_dataset_order], self.peers.forget)
        picked = torch.empty_like(chosen).scatter_(1, in_dataset_order.expand(2, -1), chosen)
        self.picks[:, batch.index] = picks + picked
        return picked

    def _tensors(self) -> dict[str, Tensor]:
        own = {name: getattr(self, name) for name in ("history", "picks", "seen", "strength")}
        return {**own, **self.peers.tensors()}

    def state_dict(self) -> dict[str, Any]:
        return state_of(self.peers.networks, self.optimizers, self._tensors())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        restore(state, self.peers.networks, self.optimizers, self._tensors())


def cnlcu(config: CnlcuConfig, setup: Setup) -> Cnlcu:
    """The soft variant."""
    if not 0 <= config.sigma2 < 1:
        raise ValueError(
            f"sigma2={config.sigma2}: must lie in [0, 1), or the bound of a sample never picked has no sign."
        )
    return Cnlcu(config, setup, name="cnlcu", strength=config.sigma2, scores=soft_scores)


def cnlcu_hard(config: CnlcuHardConfig, setup: Setup) -> Cnlcu:
    """The hard variant."""
    for name in ("tau_min", "loss_bound"):
        if not 0 <= getattr(config, name) < math.inf:
            raise ValueError(f"{name}={getattr(config, name)}: must be a finite number >= 0; 0 switches the bonus off.")

    def scores(losses: Tensor, present: Tensor, n: Tensor, tau_min: Tensor) -> Tensor:
        return hard_scores(losses, present, n, tau_min, config.loss_bound)

    return Cnlcu(config, setup, name="cnlcu_hard", strength=config.tau_min, scores=scores)
