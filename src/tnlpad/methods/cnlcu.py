"""CNLCU: Co-teaching that ranks samples by a lower confidence bound of their loss over several epochs.

Paper: Xia et al., "Sample Selection with Uncertainty of Losses for Learning with Noisy Labels" (ICLR 2022). Every
`window` epochs, each network starts a new window. A sample has t losses ℓ in the window, t_o of them outliers, and this
network selected it n times there. Its score is max(μ − bonus, 0), which favours samples that were rarely selected:

    soft:  μ = mean of ψ(ℓ) with ψ(ℓ) = log(1 + ℓ + ℓ²/2),     bonus = s²·(t + s²·log(2t)/t²) / (n + 1 − s²)
    hard:  μ = mean of ℓ without outliers (searched for in 5 or more losses),
           bonus = 2·√(2τ_min)·L·(t + √2·t_o) / ((t − t_o)·√t) · √(log(4t)/(n + 1))

The strengths s² and τ_min fall linearly to 0 over the first part of the run: 80 of 200 epochs in the public code, the
same share here. Equal scores are ranked in dataset order.

How we differ from the public code: that code in fact ranks by a running mean: its soft bound uses one sample's n
for the whole batch. It drops inliers instead of outliers, never trains the first network of the hard variant, and
does not shuffle. Here the history belongs to a sample wherever it appears in the data, t counts the losses in the
window and not all epochs, n is the sample's own, outliers are dropped, and the loss is the plain mean. n counts from 0,
so both bounds contain n + 1.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from tnlpad.methods.coteaching import Coteaching
from tnlpad.methods.protocol import Setup
from tnlpad.methods.selection import Forgetting, smallest
from tnlpad.types import Batch, Clock

# (losses in the window, mask of the losses recorded so far, times selected, current s² or τ_min) -> scores
Scores = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
NEIGHBOURS = 2
CONTAMINATION = 0.1
MIN_LOSSES_FOR_OUTLIERS = 5


@dataclass(frozen=True, kw_only=True)
class CnlcuConfig(Forgetting):
    """Options of the soft variant."""

    window: int = 3  # epochs in a window
    sigma2: float = 1e-4  # s², strength of the bonus
    anneal_share: float = 0.4  # share of the run's epochs until the bonus is 0


@dataclass(frozen=True, kw_only=True)
class CnlcuHardConfig(Forgetting):
    """Options of the hard variant."""

    window: int = 7  # epochs in a window
    tau_min: float = 1e-4  # τ_min, strength of the bonus
    loss_bound: float = 2.0  # L, assumed bound of the loss
    anneal_share: float = 0.4  # share of the run's epochs until the bonus is 0


def cnlcu(config: CnlcuConfig, setup: Setup) -> "Cnlcu":
    """Build the soft variant."""
    if not 0 <= config.sigma2 < 1:
        raise ValueError(f"sigma2={config.sigma2}: must lie in [0, 1), so that n + 1 − s² is positive.")
    return Cnlcu(config, setup, name="cnlcu", strength=config.sigma2, scores=soft_scores)


def cnlcu_hard(config: CnlcuHardConfig, setup: Setup) -> "Cnlcu":
    """Build the hard variant."""
    for name in ("tau_min", "loss_bound"):
        if not 0 <= getattr(config, name) < math.inf:
            raise ValueError(f"{name}={getattr(config, name)}: must be finite and >= 0. 0 switches the bonus off.")

    def scores(losses: Tensor, present: Tensor, n: Tensor, tau_min: Tensor) -> Tensor:
        return hard_scores(losses, present, n, tau_min, config.loss_bound)

    return Cnlcu(config, setup, name="cnlcu_hard", strength=config.tau_min, scores=scores)


class Cnlcu(Coteaching):
    """Co-teaching by scores, with every sample's recent losses under both networks."""

    def __init__(
        self, config: CnlcuConfig | CnlcuHardConfig, setup: Setup, *, name: str, strength: float, scores: Scores
    ) -> None:
        if config.window < 1:
            raise ValueError(f"window={config.window}: must be at least 1 epoch.")
        if not 0 <= config.anneal_share <= 1:
            raise ValueError(f"anneal_share={config.anneal_share}: must lie in [0, 1], a share of the run's epochs.")
        super().__init__(config, setup, name)
        self.window, self.full_strength, self.scores = config.window, strength, scores
        self.anneal_epochs = round(config.anneal_share * setup.epochs)
        samples, device = len(setup.labels), setup.labels.device
        self.history = torch.zeros(2, samples, config.window, device=device)
        self.picks = torch.zeros(2, samples, dtype=torch.int64, device=device)
        self.seen = torch.zeros(samples, dtype=torch.int64, device=device)
        self.strength = torch.zeros((), device=device)

    def begin_epoch(self, clock: Clock) -> None:
        super().begin_epoch(clock)
        self.strength.fill_(self.full_strength * annealed(clock.epoch, self.anneal_epochs))
        if (clock.epoch - 1) % self.window == 0:
            for tensor in (self.history, self.picks, self.seen):
                tensor.zero_()

    def select(self, batch: Batch, logits: list[Tensor], losses: list[Tensor]) -> Sequence[Tensor]:
        """Store both networks' losses, and select by the scores of all losses in the window."""
        seen = self.seen[batch.index]
        self.seen[batch.index] = seen + 1
        self.history[:, batch.index, seen % self.window] = torch.stack(losses).detach().to(self.history.dtype)
        present = torch.arange(self.window, device=seen.device) <= seen.unsqueeze(1)
        histories, picks = self.history[:, batch.index], self.picks[:, batch.index]
        # Both networks in one call: it takes a GPU no longer than one of them.
        scores = self.scores(histories.flatten(0, 1), present.repeat(2, 1), picks.flatten(), self.strength)
        in_dataset_order = torch.argsort(batch.index)
        chosen = smallest(scores.view(2, -1)[:, in_dataset_order], self.forget)
        selected = torch.empty_like(chosen).scatter_(1, in_dataset_order.expand(2, -1), chosen)
        self.picks[:, batch.index] = picks + selected
        return list(selected)

    def tensors(self) -> dict[str, Tensor]:
        own = {name: getattr(self, name) for name in ("history", "picks", "seen", "strength")}
        return {**own, **super().tensors()}


def annealed(epoch: int, epochs: int) -> float:
    """Return 1 in the first epoch, falling linearly to 0 in epoch `epochs`."""
    return max(0.0, 1 - (epoch - 1) / (epochs - 1)) if epochs > 1 else float(epoch == 1)


def soft_scores(losses: Tensor, present: Tensor, n: Tensor, s2: Tensor) -> Tensor:
    """Return the soft scores of samples × window losses. Entries outside the mask `present` do not count."""
    t = present.sum(1)
    mu = torch.log(1 + losses + losses**2 / 2).masked_fill(~present, 0).sum(1) / t
    return F.relu(mu - s2 * (t + s2 * torch.log(2 * t) / t**2) / (n + 1 - s2))


def hard_scores(losses: Tensor, present: Tensor, n: Tensor, tau_min: Tensor, loss_bound: float = 2.0) -> Tensor:
    """Return the hard scores of samples × window losses, as in `soft_scores`."""
    kept = present & ~outliers(losses, present)
    t, t_k = present.sum(1), kept.sum(1)
    mu = losses.masked_fill(~kept, 0).sum(1) / t_k
    spread = 2 * torch.sqrt(2 * tau_min) * loss_bound * (t + math.sqrt(2) * (t - t_k)) / (t_k * torch.sqrt(t))
    return F.relu(mu - spread * torch.sqrt(torch.log(4 * t) / (n + 1)))


def outliers(values: Tensor, present: Tensor) -> Tensor:
    """Return a mask of each row's outliers: values whose negated factor is below its row's 10 % quantile."""
    negated = -local_outlier_factors(values, present)
    ascending = negated.masked_fill(~present, math.inf).sort(dim=1).values
    count = present.sum(1, keepdim=True)
    position = CONTAMINATION * (count - 1).clamp(min=0)  # of the quantile, interpolated linearly
    below = position.floor().long()
    above = (below + 1).clamp(max=values.shape[1] - 1)
    low, high = ascending.gather(1, below), ascending.gather(1, above)
    quantile = low + (position - below) * (high - low)
    return present & (negated < quantile) & (count >= MIN_LOSSES_FOR_OUTLIERS)


def local_outlier_factors(values: Tensor, present: Tensor) -> Tensor:
    """Return the local outlier factor of every entry within its row, with scikit-learn's conventions.

    Breunig et al., "LOF: Identifying Density-Based Local Outliers" (2000). With the k nearest neighbours of a value and
    reach(a, b) = max(|a − b|, distance of b to its k-th neighbour), its density is 1/(mean reach + 1e-10). The factor
    is the mean density of the neighbours over the value's own. Rows need more than `NEIGHBOURS` entries present.
    """
    x = values.double()  # so that ties compare as in scikit-learn
    apart = (x.unsqueeze(2) - x.unsqueeze(1)).abs()
    itself = torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
    distance, order = apart.masked_fill(itself | ~present.unsqueeze(1), math.inf).sort(dim=2, stable=True)
    nearest, neighbours = distance[..., :NEIGHBOURS], order[..., :NEIGHBOURS]

    def of_neighbours(of_each: Tensor) -> Tensor:  # one value per entry -> rows × entries × neighbours
        return of_each.unsqueeze(1).expand_as(apart).gather(2, neighbours)

    reach = torch.maximum(nearest, of_neighbours(nearest[..., -1]))
    density = 1 / (reach.mean(2) + 1e-10)
    return of_neighbours(density).mean(2) / density
