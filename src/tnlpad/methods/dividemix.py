"""DivideMix: two networks tell right labels from wrong for each other, and learn the images of the wrong unlabelled.

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
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from tnlpad.methods.casting import casting_anew
from tnlpad.methods.dividemix_config import DividemixConfig, DividemixTnlpadConfig, check
from tnlpad.methods.forward import counted_as, forward
from tnlpad.methods.gaussian_mixture import clean_probability, normalised
from tnlpad.methods.mixing import (
    linear_ramp,
    mixed,
    negative_entropy,
    prior_penalty,
    refined,
    sharpened,
    soft_cross_entropy,
    squared_distance,
)
from tnlpad.methods.peers import NAMES
from tnlpad.methods.protocol import Judged, Setup
from tnlpad.methods.rows import Rows, cycled
from tnlpad.methods.saving import restore, state_of
from tnlpad.methods.tnlpad import Part
from tnlpad.methods.trainee import Trainee
from tnlpad.types import Batch, Clock

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
