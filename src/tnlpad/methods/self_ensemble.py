"""SELF: a mean teacher whose averaged predictions filter the labels, over several iterations.

Paper: Nguyen et al., "SELF: Learning to Filter Noisy Labels with Self-Ensembling" (ICLR 2020). L_0 is the set of all
given labels. In iteration i, a student learns the labels in L_i and is kept consistent with its teacher on all images:

    loss = CE(student, y) over samples of L_i + λ(j)·MSE(softmax student, softmax teacher) over all samples,

where λ rises to `consistency_weight` as exp(−5·(1 − (j − 1)/r)²) in the first r = `consistency_rampup` epochs of every
iteration. After every epoch j, the teacher's predictions ẑ_j of all training samples update the ensemble z̄_j =
α·z̄_{j−1} + (1 − α)·ẑ_j. An iteration ends after its epochs, or when the noisy validation accuracy has not risen for
`iteration_patience` epochs. Then the model and z̄ of its best epoch are restored. L_{i+1} is the part of L_0 that
agrees with argmax z̄, or all of it if nothing agrees. The next iteration starts from there, without momentum. Labels
that were filtered out may return, and no label is replaced. Training ends after an iteration that does not beat the
previous one.

The teacher is a moving average of the student (Tarvainen and Valpola, "Mean teachers are better role models", NeurIPS
2017). After the n-th step

    θᵗ ← a·θᵗ + (1 − a)·θˢ   with   a = min(1 − 1/(n + 1), ema_decay),

over parameters only. It sees separately augmented images in training mode, so it has its own BatchNorm statistics.

A step takes the loader's batch as its part of all samples, and as many samples again from L_i. An epoch is one pass
over the training split. The iterations share the run's epochs: the first gets `first_share` of them, and the others
share the rest equally. At 220 epochs these are 100 and three times 40. The first follows the run's learning rate
schedule; later ones go through it in fewer epochs.

With TNLPAD, the student is decomposed into σ + γ. Both losses act on w, and the teacher averages both w and σ. The
teacher's σ, with its own BatchNorm statistics, predicts, filters and is evaluated, unless `filter_with` or `judge_by`
choose w. The penalties count the epochs of the whole run. With `restart_decomposition`, they restart in every iteration
with γ = 0. `decompose="first"` continues from the σ of the first iteration without a decomposition.

How we differ from the paper, which has no public code: there is one classifier head instead of two, the cross entropy
is the mean over the labelled part of a batch, and α, which the paper does not give, is 0.9.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from tnlpad.core.compiled import compile_options
from tnlpad.methods.decomposable import Learner, any_nonzero
from tnlpad.methods.forward import forward, gradient_step
from tnlpad.methods.protocol import Judged, Setup, Source
from tnlpad.methods.rows import Rows, cycled
from tnlpad.methods.saving import restore, state_of
from tnlpad.methods.tnlpad import Part, TnlpadConfig
from tnlpad.ranks import group
from tnlpad.types import Batch, Clock


@dataclass(frozen=True, kw_only=True)
class SelfConfig:
    """The iterations, the teacher, and the consistency loss."""

    iterations: int = 4  # maximum number of iterations
    first_share: float = 0.4545  # share of the run's epochs in the first iteration
    iteration_patience: int = 50  # epochs without a better validation accuracy that end an iteration
    ema_decay: float = 0.999  # largest a of the teacher's moving average
    consistency_weight: float = 10.0  # largest λ
    consistency_rampup: int = 5  # epochs until λ is reached
    ensemble_momentum: float = 0.9  # α of the ensemble
    predict_with: Literal["teacher", "student"] = "teacher"  # network that predicts, filters and is evaluated


@dataclass(frozen=True, kw_only=True)
class SelfTnlpadConfig(SelfConfig, TnlpadConfig):
    """SELF with a decomposed student."""

    decompose: Literal["always", "first"] = "always"  # in every iteration, or in the first one only
    restart_decomposition: bool = False  # restart with γ = 0 and t = 1 in every iteration
    filter_with: Part = "sigma"  # weights that predict for the ensemble


@dataclass(kw_only=True)
class Progress:
    """Progress within the iterations."""

    iteration: int = 0
    epoch: int = 0  # of this iteration, from 1
    best: float = -1.0
    best_epoch: int = 0
    previous_best: float = -1.0
    ended: bool = False  # this iteration
    finished: bool = False  # all iterations


class SelfEnsemble:
    """A student, its teacher, the ensemble of predictions, and the filtered labels."""

    def __init__(self, config: SelfConfig, setup: Setup) -> None:
        _check(config)
        self.config, self.generator, self.labels = config, setup.generator, setup.labels
        tnlpad = config if isinstance(config, SelfTnlpadConfig) else None
        self.source = setup.required_source("self" if tnlpad is None else "self+tnlpad")
        penalty = None if tnlpad is None else tnlpad.gamma_penalty(setup.epochs)
        self.student = Learner(setup.network(0), setup, tnlpad, penalty)
        self.teacher = MeanTeacher(setup.network(0), self.student, config.ema_decay)
        self.first_length, self.later_length = iteration_lengths(config, setup.epochs)
        self.progress = Progress()
        device = setup.labels.device
        self.index = self.source.index.to(device)
        self.ensemble = torch.zeros(len(self.index), setup.num_classes, device=device)
        self.weight = torch.zeros((), device=device)
        self.selections: Mapping[str, Tensor] = {"labelled": torch.zeros_like(setup.labels, dtype=torch.bool)}
        self.selections["labelled"][self.index] = True
        self.columns = self.source.draw(1, torch.Generator()).shape[1]
        # For each image of an epoch: a labelled sample, its two views, and the teacher's view of the loader's sample.
        self.rows = Rows(len(self.index), 1 + 3 * self.columns, dtype=torch.int64, device=device)
        self.best_model = [tensor.detach().clone() for tensor in self._model()]
        self.filter_with: Part = "w" if tnlpad is None else tnlpad.filter_with
        self.judged: Judged
        if tnlpad is None:
            names = sorted(("teacher", "student"), key=lambda name: name != config.predict_with)
            self.judged = {name: partial(self._using, name, "w") for name in names}
            self.reported = self.chosen_by = (names[0],)
        else:
            parts: list[Part] = ["sigma", "w"] if tnlpad.reported() == "sigma" else ["w", "sigma"]
            self.judged = {part: partial(self._using, config.predict_with, part) for part in parts}
            self.reported, self.chosen_by = (parts[0],), (tnlpad.chosen_by(),)

    @property
    def optimizers(self) -> Sequence[Optimizer]:
        return [self.student.optimizer]

    @property
    def phase(self) -> str:
        return "decomposed" if self.student.decomposed else "plain"

    @property
    def schedule_epoch(self) -> int:
        """Epoch of the learning rate schedule; later iterations go through it in their own number of epochs."""
        if self.progress.iteration == 0:
            return self.progress.epoch
        return -(-self.progress.epoch * self.first_length // self.later_length)

    @property
    def finished(self) -> bool:
        return self.progress.finished

    @contextmanager
    def _using(self, who: str, part: Part) -> Iterator[nn.Module]:
        if who == "teacher":
            with self.teacher.using(part, self.source) as network:
                yield network
        elif part == "sigma" and self.student.has_gamma():
            with self.student.using(part) as network, self.source.reestimated(network):
                yield network
        else:
            yield self.student.network

    def begin_epoch(self, clock: Clock) -> None:
        if self.progress.ended:
            self._next_iteration()
        self.progress.epoch += 1
        self.student.begin_epoch()
        self.teacher.network.train()
        ramp = ramp_up(self.progress.epoch - 1, self.config.consistency_rampup)
        self.weight.fill_(self.config.consistency_weight * ramp)
        labelled = self.source.index[self.selections["labelled"].cpu()[self.source.index]]
        count = len(self.index)
        drawn = [cycled(labelled, count, self.generator).unsqueeze(1)]
        drawn += [self.source.draw(count, self.generator) for _ in range(3)]
        self.rows.fill(torch.cat(drawn, 1))

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        index, first, second, third = self.rows.next(len(batch.labels)).split([1, *3 * [self.columns]], 1)
        index, labelled = index.squeeze(1), len(batch.labels)
        mine = group.share(labelled)
        with torch.no_grad():
            views = [self.source.augmented(index[mine], second[mine])]
            views.append(self.source.augmented(batch.index[mine], third[mine]))
            targets = forward(self.teacher.network, *views)
        logits = forward(self.student.network, self.source.augmented(index[mine], first[mine]), batch.images)
        fit = F.cross_entropy(logits[:labelled], self.labels[index])
        loss = gradient_step(self.student.optimizer, fit + self.weight * consistency(logits, targets))
        self.teacher.update()
        return loss

    @torch.no_grad()
    def end_epoch(self, validation_accuracy: float) -> None:
        with self._using(self.config.predict_with, self.filter_with) as network:
            predictions = self.source.outputs(network).softmax(1)
        self.ensemble.lerp_(predictions, 1 - self.config.ensemble_momentum)
        progress = self.progress
        if validation_accuracy > progress.best:
            progress.best, progress.best_epoch = validation_accuracy, progress.epoch
            torch._foreach_copy_(self.best_model, self._model())
        last = progress.iteration == self.config.iterations - 1
        length = self.first_length if progress.iteration == 0 else self.later_length
        out_of_patience = progress.epoch - progress.best_epoch >= self.config.iteration_patience
        progress.ended = out_of_patience or (progress.epoch >= length and not last)
        progress.finished = progress.ended and (last or progress.best <= progress.previous_best)

    @torch.no_grad()
    def _next_iteration(self) -> None:
        """Restore the best epoch's model, and filter the labels by its ensemble."""
        torch._foreach_copy_(self._model(), self.best_model)
        self.progress = Progress(iteration=self.progress.iteration + 1, previous_best=self.progress.best)
        self.selections["labelled"][self.index] = agreeing(self.ensemble, self.labels[self.index])
        if isinstance(self.config, SelfTnlpadConfig) and self.student.decomposed:
            if self.config.decompose == "first":
                self.teacher.drop_gamma()
                self.student.drop_gamma()
            elif self.config.restart_decomposition:
                self.teacher.drop_gamma()
                self.student.restart_decomposition()
        self.student.reset_momentum()

    def _model(self) -> list[Tensor]:
        """Return the tensors to copy for the best epoch, and to restore in place."""
        return [*self.student.tensors(), *self.teacher.tensors(), self.ensemble]

    def _tensors(self) -> dict[str, Tensor]:
        return {
            "ensemble": self.ensemble,
            "weight": self.weight,
            "teacher_steps": self.teacher.steps,
            **self.selections,
            **self.rows.tensors("rows"),
            **{f"teacher_sigma_{k}": tensor for k, tensor in enumerate(self.teacher.sigma)},
            **{f"kept_{k}": tensor for k, tensor in enumerate(self.best_model)},
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            **state_of([self.student.network, self.teacher.network], self.optimizers, self._tensors()),
            "decomposed": self.student.decomposed,
            "standing": asdict(self.progress),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.student.decomposed = state["decomposed"]
        restore(state, [self.student.network, self.teacher.network], self.optimizers, self._tensors())
        self.progress = Progress(**state["standing"])
        self.generator.set_state(state["generator"].cpu())


class MeanTeacher:
    """A moving average of the student's weights. Its network starts with them.

    For a decomposed student it averages w, its own weights, and σ. Their difference is the average of γ.
    """

    def __init__(self, network: nn.Module, student: Learner, decay: float) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"ema_decay={decay}: must lie in [0, 1). At 1 the teacher would never change.")
        self.network, self.student, self.decay = network, student, decay
        network.load_state_dict(student.network.state_dict())
        for parameter in network.parameters():
            parameter.requires_grad_(False)
        self.steps = torch.zeros((), device=next(network.parameters()).device)
        parts = student.parts()
        pairs = list(zip(network.parameters(), student.network.parameters(), strict=True))
        self.decomposed = [mine for mine, theirs in pairs if theirs in parts]
        self.sigma = [parts[theirs]["sigma"].clone() for _, theirs in pairs if theirs in parts]

    @torch.no_grad()
    def update(self) -> None:
        """Update the average after a step of the student."""
        mine: list[Tensor] = [*self.network.parameters()]
        theirs: list[Tensor] = [*self.student.network.parameters()]
        if parts := self.student.parts():  # empty once γ has been dropped
            mine += self.sigma
            theirs += [parts[weight]["sigma"] for weight in theirs if weight in parts]
        compiled = self.network._compiled_call_impl is not None
        (_compiled_average() if compiled else _average)(mine, theirs, self.steps, self.decay)

    @contextmanager
    def using(self, part: Part, source: Source) -> Iterator[nn.Module]:
        """Within the block, the weights are the average of σ, with BatchNorm statistics of its own, or that of w."""
        if part == "w" or not self.student.decomposed or not self.has_gamma():
            yield self.network
            return
        w = [weight.clone() for weight in self.decomposed]
        self.drop_gamma()
        try:
            with source.reestimated(self.network):
                yield self.network
        finally:
            torch._foreach_copy_(list[Tensor](self.decomposed), w)

    def has_gamma(self) -> bool:
        """Return whether the average of γ has any nonzero element. Waits for the device."""
        return any_nonzero([w != sigma for w, sigma in zip(self.decomposed, self.sigma, strict=True)])

    def drop_gamma(self) -> None:
        """Make the average of σ the weights."""
        torch._foreach_copy_(list[Tensor](self.decomposed), self.sigma)

    def tensors(self) -> list[Tensor]:
        """Return all tensors that `update` and forward passes change, except the number of steps."""
        return [*self.network.parameters(), *self.network.buffers(), *self.sigma]


def _average(mine: list[Tensor], theirs: list[Tensor], steps: Tensor, decay: float) -> None:
    """Count the step and update the averages in place: mine + (1 − a)·(theirs − mine)."""
    steps += 1
    share = torch.maximum(1 / (steps + 1), torch.full_like(steps, 1 - decay))
    difference = torch._foreach_sub(theirs, mine)
    torch._foreach_mul_(difference, share)
    torch._foreach_add_(mine, difference)


@cache
def _compiled_average() -> Callable[[list[Tensor], list[Tensor], Tensor, float], None]:
    """Compile `_average` into one kernel, which reads and writes each weight once."""
    return torch.compile(_average, **compile_options())


def ramp_up(epoch: float, length: int) -> float:
    """Return exp(−5·(1 − epoch/length)²), and 1 from `length` epochs on; epochs count from 0."""
    return math.exp(-5 * (1 - min(epoch / length, 1.0)) ** 2) if length > 0 else 1.0


def consistency(student: Tensor, teacher: Tensor) -> Tensor:
    """Return the mean squared difference of class probabilities over samples and classes, from logits."""
    return F.mse_loss(F.softmax(student.float(), 1), F.softmax(teacher.float(), 1))


def agreeing(ensemble: Tensor, labels: Tensor) -> Tensor:
    """Return a mask of the labels that are the ensemble's predicted class; all True if none is."""
    agree = ensemble.argmax(1) == labels
    return agree | ~agree.any()


def iteration_lengths(config: SelfConfig, epochs: int) -> tuple[int, int]:
    """Return the number of epochs of the first iteration, and of each later one."""
    first = min(epochs, max(1, round(config.first_share * epochs)))
    return first, max(1, (epochs - first) // max(1, config.iterations - 1))


def _check(config: SelfConfig) -> None:
    for name in ("iterations", "iteration_patience"):
        if getattr(config, name) < 1:
            raise ValueError(f"{name}={getattr(config, name)}: must be at least 1.")
    if not 0 < config.first_share <= 1:
        raise ValueError(f"first_share={config.first_share}: must lie in (0, 1], a share of the run's epochs.")
    if not 0 <= config.ensemble_momentum < 1:
        raise ValueError(f"ensemble_momentum={config.ensemble_momentum}: must lie in [0, 1).")
    for name in ("consistency_weight", "consistency_rampup"):
        if not getattr(config, name) >= 0:
            raise ValueError(f"{name}={getattr(config, name)}: must be >= 0. A weight of 0 switches the term off.")
    if isinstance(config, SelfTnlpadConfig) and config.restart_decomposition and config.decompose == "first":
        raise ValueError(
            'restart_decomposition=True with decompose="first": no decomposition is left to restart after the first '
            "iteration. Choose one of the two."
        )
