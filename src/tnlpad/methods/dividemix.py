"""What can be said to DivideMix, with and without the decomposition, and what of it makes no sense.

Reduced precision for steps in which a network is run more than once.

Within an `autocast` block torch casts a weight once and keeps the cast to the end of the block, whatever becomes of the
weight in the meantime. A step that updates a network, or swaps its weights, and then asks it again would get answers of
weights that are gone.

The formulas of DivideMix: targets for labelled and unlabelled images, mixing, and the loss of what was mixed.

Papers: Li et al., "DivideMix: Learning with Noisy Labels as Semi-supervised Learning" (ICLR 2020), which builds on
Berthelot et al., "MixMatch" (NeurIPS 2019). Targets are class probabilities, one row per image; everything is a
function of tensors, of fixed shape.

DivideMix: two networks tell right labels from wrong for each other, and learn the images of the wrong unlabelled.

Paper: Li et al., "DivideMix: Learning with Noisy Labels as Semi-supervised Learning" (ICLR 2020); formulas in `mixing`.
After a warm-up by cross entropy on all labels, every epoch:

  1. each network's losses on all training samples, scaled to [0, 1], are a mixture of two normal distributions
     (`gaussian_mixture`); w_i is the probability that sample i belongs to the small ones.
  2. each network takes the split of the other: labelled are samples with w > threshold, the rest is unlabelled.
  3. a step takes B labelled and B unlabelled samples, two augmented views of each. Targets of unlabelled ones are the
     mean prediction of both networks over both views; those of labelled ones w·y + (1 − w)·(own mean prediction); both
     sharpened. All 4B images are mixed with all others, λ ~ Beta(α, α), λ ← max(λ, 1 − λ), one λ per step. Then

         loss = CE(labelled) + λ_u(e)·(squared distance, unlabelled) + Σ_c π·log(π/p̄_c),

     where λ_u rises linearly to `lambda_u` in `rampup_epochs` after the warm-up.

What is judged is the sum of both networks' logits.

Steps have a fixed shape, though the split has not: an epoch has as many steps as the loader has batches, a batch of 2B
stands for B labelled and B unlabelled samples, and both sides of the split are gone through in random order, again and
again where they are too small (`rows`). Of the loader's batches only the warm-up uses the images.

With TNLPAD (`decompose_in="warmup"`) both networks are decomposed in the warm-up, the only time when given labels are
learnt as they are; then σ stays as the network, with its momentum and with BatchNorm statistics estimated anew. β2 runs
so fast that the end of the warm-up is epoch `warmup_clock` of the paper's. With `decompose_in="all"` the decomposition
goes on to the end, and `split_with`, `guess_with` and `judge_by` say where σ or w is used; where σ splits or is judged,
BatchNorm's statistics are estimated for it, and where it guesses they are those of training.

How we differ from the public code: both networks take a step in turn where it trains one for an epoch and then the
other, and warm up on the same batches; an epoch is as many images as the training split has, not one pass over the
labelled set; the training network's four passes for its own guesses are one, in which BatchNorm sees all 4B images
together, counted as four in its running statistics, which mixed images would otherwise fill by half; the epoch is
chosen by noisy validation and not on the test set; an empty side of a split is replaced by all samples; the network is
that of the run, where theirs is `preact_resnet18_dividemix`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from tnlpad.core.penalties import Penalty
from tnlpad.methods.decomposable import Trainee
from tnlpad.methods.forward import counted_as, forward
from tnlpad.methods.gaussian_mixture import clean_probability, normalised
from tnlpad.methods.peers import NAMES
from tnlpad.methods.protocol import Judged, Setup
from tnlpad.methods.rows import Rows, cycled
from tnlpad.methods.saving import restore, state_of
from tnlpad.methods.tnlpad import Part, TnlpadConfig
from tnlpad.types import Batch, Clock


@dataclass(frozen=True, kw_only=True)
class DividemixConfig:
    """The warm-up, the split, and the semi-supervised loss."""

    warmup_epochs: int = 10
    warmup_entropy: bool = False  # hold predictions back in the warm-up: for noise that goes from class to class
    threshold: float = 0.5  # of w
    averaged_losses: int = 1  # split by the mean over so many epochs; the authors take 5 at 90 % noise
    temperature: float = 0.5
    mixing_alpha: float = 4.0  # α
    lambda_u: float = 25.0
    rampup_epochs: int = 16


@dataclass(frozen=True, kw_only=True)
class DividemixTnlpadConfig(DividemixConfig, TnlpadConfig):
    """The same, and where the decomposition is active and asked for σ."""

    decompose_in: Literal["warmup", "all"] = "warmup"
    warmup_clock: int = 40  # the epoch of the paper's at which the warm-up ends
    split_with: Literal["sigma", "w"] = "sigma"
    guess_with: Literal["sigma", "w"] = "sigma"

    def decomposes(self) -> bool:
        """Whether there is an epoch in which the networks are decomposed."""
        return self.decompose_in == "all" or self.warmup_epochs > 0

    def penalty(self, epochs: int) -> Penalty | None:
        """β2 by the clock of this method."""
        penalty = self.gamma_penalty(epochs)
        if penalty is None or self.decompose_in == "all":
            return penalty
        return Faster(penalty, self.warmup_clock / self.warmup_epochs)  # type: ignore[arg-type]  # all take fractions


@dataclass(frozen=True)
class Faster:
    """β(factor·t): a penalty whose clock runs faster."""

    penalty: Callable[[float], float]
    factor: float

    def __call__(self, epoch: int) -> float:
        return float(self.penalty(self.factor * epoch))


def check(config: DividemixConfig) -> None:
    """Refuse what cannot work, or would do nothing."""
    for name, least in (("warmup_epochs", 0), ("rampup_epochs", 0), ("averaged_losses", 1)):
        if getattr(config, name) < least:
            raise ValueError(f"{name}={getattr(config, name)}: must be at least {least}.")
    if not 0 <= config.threshold < 1:
        raise ValueError(f"threshold={config.threshold}: must lie in [0, 1), a probability.")
    for name in ("temperature", "mixing_alpha"):
        if not getattr(config, name) > 0:
            raise ValueError(f"{name}={getattr(config, name)}: must be > 0.")
    if isinstance(config, DividemixTnlpadConfig):
        _check_wiring(config)
    if config.lambda_u < 0:
        raise ValueError(f"lambda_u={config.lambda_u}: must be >= 0; 0 switches the unlabelled term off.")


def _check_wiring(config: DividemixTnlpadConfig) -> None:
    if config.warmup_clock < 1:
        raise ValueError(f"warmup_clock={config.warmup_clock}: must be at least 1, an epoch of the paper's.")
    for name in ("split_with", "guess_with"):
        if getattr(config, name) == "w" and config.decompose_in == "warmup":
            raise ValueError(
                f'{name}="w": with decompose_in="warmup" γ is dropped before anything is split or guessed, and w is σ. '
                'Leave it out, or take decompose_in="all".'
            )


@contextmanager
def casting_anew() -> Iterator[None]:
    """Within the block weights are cast at every pass, of which each uses them once anyway."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def sharpened(p: Tensor, temperature: float) -> Tensor:
    """p^(1/T), made to sum to 1 again."""
    raised = p ** (1 / temperature)
    return raised / raised.sum(1, keepdim=True)


def refined(p: Tensor, labels: Tensor, clean: Tensor) -> Tensor:
    """w·y + (1 − w)·p: the given label as far as it is believed, the prediction for the rest."""
    w = clean.unsqueeze(1)
    return ((1 - w) * p).scatter_add(1, labels.unsqueeze(1), w)  # one_hot would ask the device


def mixed(values: Tensor, order: Tensor, weight: Tensor) -> Tensor:
    """λ·v + (1 − λ)·v′, where v′ are the same rows in another order."""
    return weight * values + (1 - weight) * values[order]


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean over rows of −Σ_c t_c·log p_c."""
    return -(targets * F.log_softmax(logits, 1)).sum(1).mean()


def squared_distance(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean over rows and classes of (p − t)²."""
    return F.mse_loss(F.softmax(logits, 1), targets)


def prior_penalty(logits: Tensor) -> Tensor:
    """Σ_c π·log(π/p̄_c) with p̄ the mean prediction and π uniform: no class may be forgotten."""
    log_mean = F.softmax(logits, 1).mean(0).log()
    uniform = torch.full_like(log_mean, 1 / logits.shape[1])
    return (uniform * (uniform.log() - log_mean)).sum()


def negative_entropy(logits: Tensor) -> Tensor:
    """Mean over rows of Σ_c p_c·log p_c, which is lowest for predictions that favour no class."""
    log_p = F.log_softmax(logits, 1)
    return (log_p.exp() * log_p).sum(1).mean()


def linear_ramp(epochs: Tensor, length: int) -> Tensor:
    """epochs/length, held within 0 and 1; 1 from the start if there is nothing to ramp up in."""
    return (epochs / length).clamp(0, 1) if length > 0 else torch.ones_like(epochs)


VIEWS = 4  # two of a labelled sample, two of an unlabelled one


class SummedLogits(nn.Module):
    """Two networks as one."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, images: Tensor) -> Tensor:
        """The sum of their logits, one row per image."""
        total: Tensor = self.first(images) + self.second(images)
        return total


def summed_logits(network: Callable[[int], nn.Module]) -> SummedLogits:
    """What is judged and shipped."""
    return SummedLogits(network(0), network(1))


class Dividemix:
    """Two networks, and for each the split of the training samples that it learns from."""

    def __init__(self, config: DividemixConfig, setup: Setup) -> None:
        check(config)
        if config.warmup_epochs >= setup.epochs:
            raise ValueError(
                f"warmup_epochs={config.warmup_epochs}: a run of {setup.epochs} epochs would warm up and never divide. "
                "Warm up for fewer, or train for more."
            )
        self.config, self.generator, self.labels = config, setup.generator, setup.labels
        own = config if isinstance(config, DividemixTnlpadConfig) else None
        self.source = setup.required_source("dividemix" if own is None else "dividemix+tnlpad")
        self.split_with: Part = "w" if own is None else own.split_with
        self.guess_with: Part = "w" if own is None else own.guess_with
        self.drops_gamma = own is not None and own.decompose_in == "warmup"
        decomposed = own if own is not None and own.decomposes() else None
        penalty = None if decomposed is None else decomposed.penalty(setup.epochs)
        self.trainees = [Trainee(setup.network(k), setup, decomposed, penalty) for k in range(2)]
        self.both = SummedLogits(*(trainee.network for trainee in self.trainees))
        self.judged, self.chosen_by = self._judged(own)
        self.reported = ("both",)
        self.phase = "warm-up"
        device = setup.labels.device
        self.index = self.source.index.to(device)
        self.selections: Mapping[str, Tensor] = {
            name: torch.zeros_like(setup.labels, dtype=torch.bool) for name in NAMES
        }
        # What each network says of every sample: its losses of the last epochs, newest first, and w of them.
        self.losses = torch.zeros(2, config.averaged_losses, len(self.index), dtype=torch.float64, device=device)
        self.divided = 0  # how often
        self.clean = torch.zeros(2, len(setup.labels), device=device)
        self.epochs_mixed = torch.zeros((), device=device)
        self.columns = self.source.draw(1, torch.Generator()).shape[1]
        # Two networks, two sides of the split: a sample and its two views. And by which the views change places, and λ.
        count, columns = -(-len(self.index) // 2), 2 * 2 * (1 + 2 * self.columns)
        self.rows = Rows(count, columns, dtype=torch.int64, device=device)
        self.mixing = Rows(count, 2 * (VIEWS + 1), dtype=torch.float32, device=device)

    @property
    def optimizers(self) -> Sequence[Optimizer]:
        return [trainee.optimizer for trainee in self.trainees]

    def _judged(self, own: DividemixTnlpadConfig | None) -> tuple[Judged, Sequence[str]]:
        """What is judged, and which of it chooses the epoch; w is judged beside σ only where it chooses for it."""
        reported: Part = "w" if own is None else own.reported()
        if own is None or own.chosen_by() == reported:
            return {"both": partial(self._judging, reported)}, ("both",)
        return {"both": partial(self._judging, reported), "both_w": partial(self._judging, "w")}, ("both_w",)

    @contextmanager
    def _judging(self, part: Part) -> Iterator[nn.Module]:
        with ExitStack() as stack:
            for trainee in self.trainees:
                stack.enter_context(self._holding(trainee, part))
            yield self.both

    @contextmanager
    def _holding(self, trainee: Trainee, part: Part) -> Iterator[nn.Module]:
        """The network with σ or w, and with BatchNorm statistics that fit."""
        if part == "w" or not trainee.has_gamma():
            yield trainee.network
        else:
            with trainee.holding(part) as network, self.source.reestimated(network):
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
            for selection in self.selections.values():  # every label is learnt
                selection[self.index] = True
        for trainee in self.trainees:
            trainee.begin_epoch()

    @torch.no_grad()
    def _drop_gamma(self) -> None:
        """σ stays as the network, and BatchNorm's statistics become those of σ. A γ of 0 leaves all as it is."""
        for trainee in self.trainees:
            had_gamma = trainee.has_gamma()
            trainee.drop_gamma()
            if had_gamma:
                with self.source.reestimated(trainee.network):
                    fitting = [buffer.clone() for buffer in trainee.network.buffers()]
                for buffer, value in zip(trainee.network.buffers(), fitting, strict=True):
                    buffer.copy_(value)

    @torch.no_grad()
    def _divide(self) -> None:
        """What each network thinks of every label, and by that what the other is to believe."""
        for k, trainee in enumerate(self.trainees):
            with self._holding(trainee, self.split_with) as network:
                losses = F.cross_entropy(self.source.outputs(network), self.labels[self.index], reduction="none")
            self.losses[k] = self.losses[k].roll(1, 0)
            self.losses[k, 0] = normalised(losses)
            known = self.losses[k, : self.divided + 1]  # of all epochs so far, or of as many as there is room for
            self.clean[k, self.index] = clean_probability(known.mean(0)).float()
        self.divided += 1
        for k, name in enumerate(NAMES):
            self.selections[name].copy_(self.clean[1 - k] > self.config.threshold)

    def _draw(self) -> None:
        """An epoch's images for each network from both sides of its split, and how they are mixed."""
        count, drawn = len(self.rows.table), []
        for name in NAMES:
            labelled = self.selections[name].cpu()[self.source.index]
            for side in (labelled, ~labelled):
                among = self.source.index[side] if side.any() else self.source.index
                drawn.append(cycled(among, count, self.generator).unsqueeze(1))
                drawn += [self.source.draw(count, self.generator) for _ in range(2)]
        self.rows.fill(torch.cat(drawn, 1))
        # A draw from Beta(α, α) is g/(g + h) with g and h from Gamma(α).
        alpha = torch.full((count, 2, 2), self.config.mixing_alpha)
        gamma = torch._standard_gamma(alpha, generator=self.generator)
        share = gamma[..., 0] / gamma.sum(2)
        weight = torch.maximum(share, 1 - share)
        keys = torch.rand(count, 2, VIEWS, generator=self.generator)
        self.mixing.fill(torch.cat([keys, weight.unsqueeze(2)], 2).flatten(1))

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        if self.phase == "warm-up":
            taught = [self._warm_up(trainee, batch) for trainee in self.trainees]
        else:
            count = -(-len(batch.labels) // 2)
            ramp = linear_ramp(self.epochs_mixed + self.rows.share, self.config.rampup_epochs)
            rows, mixing = self.rows.next(count).chunk(2, 1), self.mixing.next(count).chunk(2, 1)
            with casting_anew():  # the second asks the first after its step
                taught = [self._mix(k, rows[k], mixing[k], self.config.lambda_u * ramp) for k in range(2)]
        return torch.stack(taught).mean()

    def _warm_up(self, trainee: Trainee, batch: Batch) -> Tensor:
        logits = forward(trainee.network, batch.images)
        loss = F.cross_entropy(logits, batch.labels)
        return trainee.descend(loss + negative_entropy(logits) if self.config.warmup_entropy else loss)

    def _mix(self, k: int, rows: Tensor, mixing: Tensor, lambda_u: Tensor) -> Tensor:
        """One step of network k; the other one only guesses."""
        labelled, unlabelled = (side.split([1, self.columns, self.columns], 1) for side in rows.chunk(2, 1))
        views = [
            self.source.augmented(index.squeeze(1), view) for index, *two in (labelled, unlabelled) for view in two
        ]
        images = torch.cat(views)
        targets = self._targets(k, images, labelled[0].squeeze(1))
        order, weight = mixing[:, :VIEWS].flatten().argsort(stable=True), mixing[:1, VIEWS]
        logits = forward(self.trainees[k].network, mixed(images, order, weight)).float()
        targets, with_label = mixed(targets, order, weight), len(images) // 2
        loss = soft_cross_entropy(logits[:with_label], targets[:with_label])
        loss = loss + lambda_u * squared_distance(logits[with_label:], targets[with_label:]) + prior_penalty(logits)
        return self.trainees[k].descend(loss)

    @torch.no_grad()
    def _targets(self, k: int, images: Tensor, labelled: Tensor) -> Tensor:
        """Class probabilities for all views: refined labels for the first half, guesses for the second."""
        with self._guessing(k) as own, counted_as(VIEWS, own):
            first, second, *of_unlabelled = forward(own, images).float().softmax(1).chunk(VIEWS)
        with self._guessing(1 - k) as other:
            other.eval()
            guesses = other(images[len(images) // 2 :]).float().softmax(1).chunk(2)
            other.train()
        clean = self.clean[1 - k][labelled]
        p_x = sharpened(refined((first + second) / 2, self.labels[labelled], clean), self.config.temperature)
        p_u = sharpened((sum(of_unlabelled) + sum(guesses)) / VIEWS, self.config.temperature)
        return torch.cat([p_x, p_x, p_u, p_u])

    def _guessing(self, k: int) -> AbstractContextManager[nn.Module]:
        return self.trainees[k].holding(self.guess_with)

    def _tensors(self) -> dict[str, Tensor]:
        own = {"losses": self.losses, "clean": self.clean, "epochs_mixed": self.epochs_mixed}
        return {**own, **self.selections, **self.rows.tensors("rows"), **self.mixing.tensors("mixing")}

    def state_dict(self) -> dict[str, Any]:
        return {
            **state_of([trainee.network for trainee in self.trainees], self.optimizers, self._tensors()),
            "decomposed": [trainee.decomposed for trainee in self.trainees],
            "phase": self.phase,
            "divided": self.divided,
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for trainee, decomposed in zip(self.trainees, state["decomposed"], strict=True):
            trainee.decomposed = decomposed
        restore(state, [trainee.network for trainee in self.trainees], self.optimizers, self._tensors())
        self.phase, self.divided = state["phase"], state["divided"]
        self.generator.set_state(state["generator"].cpu())
