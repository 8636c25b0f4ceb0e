"""DivideMix: two networks find wrong labels for each other, and treat the images with wrong labels as unlabelled.

Papers: Li et al., "DivideMix: Learning with Noisy Labels as Semi-supervised Learning" (ICLR 2020), which builds on
Berthelot et al., "MixMatch" (NeurIPS 2019). After a warm-up by cross entropy with all labels, every epoch:

  1. A mixture of two normal distributions (`gaussian_mixture`) is fitted to each network's losses on all training
     samples, scaled to [0, 1]. w_i is the probability that sample i belongs to the component of small losses.
  2. Each network uses the split of the other one: samples with w > threshold are labelled, the rest is unlabelled.
  3. A step takes B labelled and B unlabelled samples, two augmented views of each. The target of an unlabelled sample
     is the mean prediction of both networks over both views. The target of a labelled sample is
     w·y + (1 − w)·(own mean prediction). Both are sharpened. All 4B images are mixed with the same images in another
     order, λ ~ Beta(α, α), λ ← max(λ, 1 − λ), one λ per step. Then

         loss = CE(labelled) + λ_u(e)·(squared distance, unlabelled) + Σ_c π·log(π/p̄_c),

     where λ_u rises linearly to `lambda_u` over `rampup_epochs` epochs after the warm-up.

The sum of both networks' logits is evaluated and shipped.

Steps have a fixed shape although the split has not: a batch of 2B stands for B labelled and B unlabelled samples. An
epoch is a pass over the labelled samples, |labelled|/B steps, as in the public code. As both networks take the same
number of steps, it is a pass over the larger one of their labelled sets. With `steps="all"`, an epoch has as many steps
as the loader has batches, N/2B for N training samples: fewer if more than half of the samples are labelled. Both sides
of the split are drawn in random order, repeatedly if they are too small (`rows`). Only the warm-up uses the images of
the loader's batches.

With TNLPAD (`decompose_in="warmup"`), both networks are decomposed during the warm-up, the only phase that learns the
given labels as they are. Then σ becomes the network, with its momentum and with BatchNorm statistics estimated for it.
β2 runs faster, so that the warm-up ends at epoch `warmup_clock` of the paper's β2. With `decompose_in="all"`, the
decomposition continues to the end, and `split_with`, `guess_with` and `judge_by` choose σ or w. When σ splits or is
evaluated, BatchNorm statistics are estimated for it; when it predicts targets, it uses those of training.

How we differ from the public code: both networks alternate steps, where that code trains one for an epoch and then the
other, and they warm up on the same batches. The training network predicts its targets in one pass instead of four.
BatchNorm sees all 4B images together in it, and counts it as four passes in the running statistics, of which mixed
images would otherwise make up half. The epoch is selected by noisy validation accuracy, not on the test set. An empty
side of a split is replaced by all samples. The network is the run's, where theirs is `preact_resnet18_dividemix`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from tnlpad.core.penalties import Penalty
from tnlpad.methods.coteaching import NAMES
from tnlpad.methods.decomposable import Learner
from tnlpad.methods.forward import counted_as, forward, gradient_step
from tnlpad.methods.gaussian_mixture import clean_probability, normalised
from tnlpad.methods.protocol import Judged, Setup, Source
from tnlpad.methods.rows import Rows, cycled
from tnlpad.methods.saving import restore, state_of
from tnlpad.methods.tnlpad import Part, TnlpadConfig
from tnlpad.ranks import group
from tnlpad.types import Batch, Clock

VIEWS = 4  # two of a labelled sample, two of an unlabelled one


@dataclass(frozen=True, kw_only=True)
class DividemixConfig:
    """The warm-up, the split, and the semi-supervised loss."""

    warmup_epochs: int = 10  # epochs with all labels as given
    warmup_entropy: bool = False  # penalise confident predictions in the warm-up, for pairflip and asymmetric noise
    threshold: float = 0.5  # samples with w above this are labelled
    averaged_losses: int = 1  # epochs whose losses are averaged for the split; the authors use 5 at 90 % noise
    temperature: float = 0.5  # T of the sharpening p^(1/T)
    mixing_alpha: float = 4.0  # α of the mixing weight λ ~ Beta(α, α)
    lambda_u: float = 25.0  # λ_u, weight of the unlabelled term
    rampup_epochs: int = 16  # epochs after the warm-up until λ_u is reached
    steps: Literal["labelled", "all"] = "labelled"  # an epoch passes over the labelled samples, or has N/2B steps


@dataclass(frozen=True, kw_only=True)
class DividemixTnlpadConfig(DividemixConfig, TnlpadConfig):
    """DivideMix with decomposed networks."""

    decompose_in: Literal["warmup", "all"] = "warmup"  # epochs in which the networks are decomposed
    warmup_clock: int = 40  # epoch of the paper's β2 at the end of the warm-up
    split_with: Part = "sigma"  # weights that compute the losses for the split
    guess_with: Part = "sigma"  # weights that predict the targets

    def penalty(self, epochs: int) -> Penalty | None:
        """Return β2, or β2(factor·t) if it must reach `warmup_clock` by the end of the warm-up."""
        penalty = self.gamma_penalty(epochs)
        if penalty is None or self.decompose_in == "all":
            return penalty
        factor = self.warmup_clock / self.warmup_epochs
        return lambda epoch: float(penalty(factor * epoch))  # type: ignore[arg-type]  # penalties take fractions


class Dividemix:
    """Two networks, and the split of the training samples that each one learns from."""

    def __init__(self, config: DividemixConfig, setup: Setup) -> None:
        _check(config, setup.epochs)
        self.config, self.generator, self.labels = config, setup.generator, setup.labels
        tnlpad = config if isinstance(config, DividemixTnlpadConfig) else None
        self.source = setup.required_source("dividemix" if tnlpad is None else "dividemix+tnlpad")
        self.split_with: Part = "w" if tnlpad is None else tnlpad.split_with
        self.guess_with: Part = "w" if tnlpad is None else tnlpad.guess_with
        self.drops_gamma = tnlpad is not None and tnlpad.decompose_in == "warmup"
        decomposed = None if self.drops_gamma and config.warmup_epochs == 0 else tnlpad
        penalty = None if decomposed is None else decomposed.penalty(setup.epochs)
        self.learners = [Learner(setup.network(k), setup, decomposed, penalty) for k in range(2)]
        self.both = SummedLogits(*(learner.network for learner in self.learners))
        reported: Part = "w" if tnlpad is None else tnlpad.reported()
        self.judged: Judged = {"both": partial(self._judging, reported)}
        self.reported = self.chosen_by = ("both",)
        if tnlpad is not None and tnlpad.chosen_by() != reported:
            self.judged = {**self.judged, "both_w": partial(self._judging, "w")}
            self.chosen_by = ("both_w",)
        self.phase = "warm-up"
        device = setup.labels.device
        self.index = self.source.index.to(device)
        self.selections: Mapping[str, Tensor] = {
            name: torch.zeros_like(setup.labels, dtype=torch.bool) for name in NAMES
        }
        # Per network and sample: the losses of the last epochs, newest first, and w.
        self.losses = torch.zeros(2, config.averaged_losses, len(self.index), dtype=torch.float64, device=device)
        self.divided = 0  # number of splits so far
        self.clean = torch.zeros(2, len(setup.labels), device=device)
        self.epochs_mixed = torch.zeros((), device=device)
        self.columns = self.source.draw(1, torch.Generator()).shape[1]
        # For each network and each side of its split: a sample and its two views.
        count = -(-len(self.index) // (2 if config.steps == "all" else 1))
        columns = 2 * 2 * (1 + 2 * self.columns)
        self.rows = Rows(count, columns, dtype=torch.int64, device=device)
        # For each network: sort keys that permute the views, and λ.
        self.mixing = Rows(count, 2 * (VIEWS + 1), dtype=torch.float32, device=device)
        self.rows_per_epoch = torch.full((), count, device=device)

    @property
    def optimizers(self) -> Sequence[Optimizer]:
        return [learner.optimizer for learner in self.learners]

    @contextmanager
    def _judging(self, part: Part) -> Iterator[nn.Module]:
        with ExitStack() as stack:
            for learner in self.learners:
                stack.enter_context(self._using(learner, part))
            yield self.both

    @contextmanager
    def _using(self, learner: Learner, part: Part) -> Iterator[nn.Module]:
        """Yield the network with σ or w, and with BatchNorm statistics that match."""
        if part == "w" or not learner.has_gamma():
            yield learner.network
        else:
            with learner.using(part) as network, self.source.reestimated(network):
                yield network

    def begin_epoch(self, clock: Clock) -> None:
        mixing = clock.epoch > self.config.warmup_epochs
        self.phase = "mixing" if mixing else "warm-up"
        if mixing:
            self.epochs_mixed.fill_(clock.epoch - 1 - self.config.warmup_epochs)
            if self.drops_gamma:
                self._drop_gamma()
            self._divide()
            self._draw()
        else:
            for selection in self.selections.values():  # all labels are used
                selection[self.index] = True
        for learner in self.learners:
            learner.begin_epoch()

    def steps_of_epoch(self, batches: int) -> int:
        """Return how many steps of B rows read the rows of this epoch: N/2B steps read N/2."""
        if self.phase == "warm-up" or self.config.steps == "all":
            return batches
        return -(-2 * int(self.rows_per_epoch) * batches // len(self.index))

    @torch.no_grad()
    def _drop_gamma(self) -> None:
        """Make σ the network, with BatchNorm statistics of σ. If γ is 0, nothing changes."""
        for learner in self.learners:
            had_gamma = learner.has_gamma()
            learner.drop_gamma()
            if had_gamma:
                with self.source.reestimated(learner.network):
                    estimated = [buffer.clone() for buffer in learner.network.buffers()]
                for buffer, value in zip(learner.network.buffers(), estimated, strict=True):
                    buffer.copy_(value)

    @torch.no_grad()
    def _divide(self) -> None:
        """Compute w of every sample by each network, and split the samples for the other one."""
        for k, learner in enumerate(self.learners):
            with self._using(learner, self.split_with) as network:
                losses = F.cross_entropy(self.source.outputs(network), self.labels[self.index], reduction="none")
            self.losses[k] = self.losses[k].roll(1, 0)
            self.losses[k, 0] = normalised(losses)
            known = self.losses[k, : self.divided + 1]  # fewer than `averaged_losses` in the first epochs
            self.clean[k, self.index] = clean_probability(known.mean(0)).float()
        self.divided += 1
        for k, name in enumerate(NAMES):
            self.selections[name].copy_(self.clean[1 - k] > self.config.threshold)

    def _draw(self) -> None:
        """Draw an epoch's samples and views from both sides of each split, and how they are mixed."""
        count, drawn, sizes = len(self.rows.table), [], []
        for name in NAMES:
            labelled = self.selections[name].cpu()[self.source.index]
            sizes.append(int(labelled.sum()) or len(labelled))
            for side in (labelled, ~labelled):
                among = self.source.index[side] if side.any() else self.source.index
                drawn.append(cycled(among, count, self.generator).unsqueeze(1))
                drawn += [self.source.draw(count, self.generator) for _ in range(2)]
        self.rows.fill(torch.cat(drawn, 1))
        self.rows_per_epoch.fill_(count if self.config.steps == "all" else max(sizes))
        # A draw from Beta(α, α) is g/(g + h) with g and h from Gamma(α).
        alpha = torch.full((count, 2, 2), self.config.mixing_alpha)
        gamma = torch._standard_gamma(alpha, generator=self.generator)
        share = gamma[..., 0] / gamma.sum(2)
        weight = torch.maximum(share, 1 - share)
        keys = torch.rand(count, 2, VIEWS, generator=self.generator)
        self.mixing.fill(torch.cat([keys, weight.unsqueeze(2)], 2).flatten(1))

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        if self.phase == "warm-up":
            losses = [self._warm_up(learner, batch) for learner in self.learners]
        else:
            count = -(-len(batch.labels) // 2)
            ramp = linear_ramp(self.epochs_mixed + self.rows.share_of(self.rows_per_epoch), self.config.rampup_epochs)
            rows, mixing = self.rows.next(count).chunk(2, 1), self.mixing.next(count).chunk(2, 1)
            with without_autocast_cache():
                losses = [self._mix(k, rows[k], mixing[k], self.config.lambda_u * ramp) for k in range(2)]
        return torch.stack(losses).mean()

    def _warm_up(self, learner: Learner, batch: Batch) -> Tensor:
        logits = forward(learner.network, batch.images)
        loss = F.cross_entropy(logits, batch.labels)
        loss = loss + negative_entropy(logits) if self.config.warmup_entropy else loss
        return gradient_step(learner.optimizer, loss)

    def _mix(self, k: int, rows: Tensor, mixing: Tensor, lambda_u: Tensor) -> Tensor:
        """Take one step of network k; the other one only predicts targets."""
        labelled, unlabelled = (side.split([1, self.columns, self.columns], 1) for side in rows.chunk(2, 1))
        views = Views(self.source, [(index, view) for index, *two in (labelled, unlabelled) for view in two])
        targets = self._targets(k, views.images, labelled[0].squeeze(1))
        order, weight = mixing[:, :VIEWS].flatten().argsort(stable=True), mixing[:1, VIEWS]
        blended = weight * views.images + (1 - weight) * views.in_order(order)
        logits = forward(self.learners[k].network, *blended.chunk(VIEWS), total=len(rows)).float()
        targets, with_label = mixed(targets, order, weight), len(targets) // 2
        loss = soft_cross_entropy(logits[:with_label], targets[:with_label])
        loss = loss + lambda_u * squared_distance(logits[with_label:], targets[with_label:]) + prior_penalty(logits)
        return gradient_step(self.learners[k].optimizer, loss)

    @torch.no_grad()
    def _targets(self, k: int, images: Tensor, labelled: Tensor) -> Tensor:
        """Return class probabilities for all views: refined labels for the first half, guesses for the second."""
        views, total = images.chunk(VIEWS), len(labelled)
        with self.learners[k].using(self.guess_with) as own, counted_as(VIEWS, own):
            first, second, *own_guesses = forward(own, *views, total=total).float().softmax(1).chunk(VIEWS)
        with self.learners[1 - k].using(self.guess_with) as other:
            other.eval()
            other_guesses = forward(other, *views[2:], total=total).float().softmax(1).chunk(2)
            other.train()
        clean = self.clean[1 - k][labelled]
        p_x = sharpened(refined((first + second) / 2, self.labels[labelled], clean), self.config.temperature)
        guesses = (own_guesses[0] + own_guesses[1]) + (other_guesses[0] + other_guesses[1])
        p_u = sharpened(guesses / VIEWS, self.config.temperature)
        return torch.cat([p_x, p_x, p_u, p_u])

    def _tensors(self) -> dict[str, Tensor]:
        own = {"losses": self.losses, "clean": self.clean, "epochs_mixed": self.epochs_mixed}
        own["rows_per_epoch"] = self.rows_per_epoch
        return {**own, **self.selections, **self.rows.tensors("rows"), **self.mixing.tensors("mixing")}

    def state_dict(self) -> dict[str, Any]:
        return {
            **state_of([learner.network for learner in self.learners], self.optimizers, self._tensors()),
            "decomposed": [learner.decomposed for learner in self.learners],
            "phase": self.phase,
            "divided": self.divided,
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for learner, decomposed in zip(self.learners, state["decomposed"], strict=True):
            learner.decomposed = decomposed
        restore(state, [learner.network for learner in self.learners], self.optimizers, self._tensors())
        self.phase, self.divided = state["phase"], state["divided"]
        self.generator.set_state(state["generator"].cpu())


class Views:
    """Augmented images of a step, view by view. On several ranks, `images` are this rank's share of each view.

    Args:
        source: The training images.
        drawn: For each view: a column of samples, and a row of random numbers per sample.
    """

    def __init__(self, source: Source, drawn: Sequence[tuple[Tensor, Tensor]]) -> None:
        self.source, self.index = source, torch.cat([index.squeeze(1) for index, _ in drawn])
        self.rows, total = torch.cat([rows for _, rows in drawn]), len(drawn[0][0])
        places = torch.arange(len(self.index), device=self.index.device).view(len(drawn), total)
        self.mine = places[:, group.share(total)].flatten()
        self.complete = not group.divides(total)
        self.images = self._at(self.mine)

    def _at(self, places: Tensor) -> Tensor:
        return self.source.augmented(self.index[places], self.rows[places])

    def in_order(self, order: Tensor) -> Tensor:
        """Return the images in another order; those of other ranks are augmented here once more."""
        return self.images[order] if self.complete else self._at(order[self.mine])


class SummedLogits(nn.Module):
    """Two networks as one: the sum of their logits."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, images: Tensor) -> Tensor:
        total: Tensor = self.first(images) + self.second(images)
        return total


def summed_logits(network: Callable[[int], nn.Module]) -> SummedLogits:
    """Build the network that is evaluated and shipped."""
    return SummedLogits(network(0), network(1))


def sharpened(p: Tensor, temperature: float) -> Tensor:
    """Return p^(1/T), scaled to sum to 1."""
    raised = p ** (1 / temperature)
    return raised / raised.sum(1, keepdim=True)


def refined(p: Tensor, labels: Tensor, clean: Tensor) -> Tensor:
    """Return w·y + (1 − w)·p, for predictions p and given labels y."""
    w = clean.unsqueeze(1)
    return ((1 - w) * p).scatter_add(1, labels.unsqueeze(1), w)  # one_hot would wait for the device


def mixed(values: Tensor, order: Tensor, weight: Tensor) -> Tensor:
    """Return λ·v + (1 − λ)·v′, where v′ are the same rows in another order."""
    return weight * values + (1 - weight) * values[order]


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean over rows of −Σ_c t_c·log p_c."""
    return -(targets * F.log_softmax(logits, 1)).sum(1).mean()


def squared_distance(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean over rows and classes of (p − t)²."""
    return F.mse_loss(F.softmax(logits, 1), targets)


def prior_penalty(logits: Tensor) -> Tensor:
    """Return Σ_c π·log(π/p̄_c) with p̄ the mean prediction and π uniform, which penalises missing classes."""
    log_mean = F.softmax(logits, 1).mean(0).log()
    uniform = torch.full_like(log_mean, 1 / logits.shape[1])
    return (uniform * (uniform.log() - log_mean)).sum()


def negative_entropy(logits: Tensor) -> Tensor:
    """Return the mean over rows of Σ_c p_c·log p_c, which is lowest for uniform predictions."""
    log_p = F.log_softmax(logits, 1)
    return (log_p.exp() * log_p).sum(1).mean()


def linear_ramp(epochs: Tensor, length: int) -> Tensor:
    """Return epochs/length, clamped to [0, 1]; 1 if the length is 0."""
    return (epochs / length).clamp(0, 1) if length > 0 else torch.ones_like(epochs)


@contextmanager
def without_autocast_cache() -> Iterator[None]:
    """Within the block, autocast does not cache its casts of weights.

    An `autocast` block casts each weight once and keeps the cast, even if the weight changes. A step that updates or
    swaps weights and then runs the network again would use outdated weights.
    """
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def _check(config: DividemixConfig, epochs: int) -> None:
    for name, least in (("warmup_epochs", 0), ("rampup_epochs", 0), ("averaged_losses", 1)):
        if getattr(config, name) < least:
            raise ValueError(f"{name}={getattr(config, name)}: must be at least {least}.")
    if not 0 <= config.threshold < 1:
        raise ValueError(f"threshold={config.threshold}: must lie in [0, 1), a probability.")
    for name in ("temperature", "mixing_alpha"):
        if not getattr(config, name) > 0:
            raise ValueError(f"{name}={getattr(config, name)}: must be > 0.")
    if config.lambda_u < 0:
        raise ValueError(f"lambda_u={config.lambda_u}: must be >= 0. 0 switches the unlabelled term off.")
    if config.steps not in ("labelled", "all"):
        raise ValueError(f'steps={config.steps!r}: choose "labelled" or "all".')
    if config.warmup_epochs >= epochs:
        raise ValueError(
            f"warmup_epochs={config.warmup_epochs}: all {epochs} epochs would be warm-up. Use a shorter warm-up, or "
            "train for more epochs."
        )
    if isinstance(config, DividemixTnlpadConfig):
        _check_decomposition(config)


def _check_decomposition(config: DividemixTnlpadConfig) -> None:
    if config.warmup_clock < 1:
        raise ValueError(f"warmup_clock={config.warmup_clock}: must be at least 1, an epoch of the paper's β2.")
    for name in ("split_with", "guess_with"):
        if getattr(config, name) == "w" and config.decompose_in == "warmup":
            raise ValueError(
                f'{name}="w": has no effect with decompose_in="warmup", because γ is dropped after the warm-up, and w '
                f'is then σ. Remove {name}, or use decompose_in="all".'
            )
