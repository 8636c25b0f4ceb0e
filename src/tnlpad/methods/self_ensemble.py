"""The mean teacher: a network whose weights are a moving average of those of the network that is trained.

Paper: Tarvainen and Valpola, "Mean teachers are better role models" (NeurIPS 2017). After the n-th step

    θᵗ ← a·θᵗ + (1 − a)·θˢ   with   a = min(1 − 1/(n + 1), decay),

over parameters only. The teacher looks at images augmented on its own, in training mode, so it owns its BatchNorm
statistics. The student's predictions are held to the teacher's by the mean square distance of class probabilities.

Of a decomposed student the teacher averages w, which it holds, and σ beside it. Their difference is the average of γ.

SELF: a mean teacher whose averaged predictions filter the labels, again and again.

Paper: Nguyen et al., "SELF: Learning to Filter Noisy Labels with Self-Ensembling" (ICLR 2020). Labels L_0 are all given
ones. In iteration i a student learns the labels of L_i, and agrees with its teacher (`mean_teacher`) on all images:

    loss = CE(student, y) over samples of L_i + λ(j)·MSE(softmax student, softmax teacher) over all samples,

where λ rises to `consistency_weight` as exp(−5·(1 − (j − 1)/r)²) in the first r epochs of every iteration, r being
`consistency_rampup`. After every epoch j the teacher predicts every training sample, ẑ_j, and the ensemble
z̄_j = α·z̄_{j−1} + (1 − α)·ẑ_j follows. An iteration ends after its epochs, or when the noisy validation accuracy has not
risen for some. Then model and z̄ of its best epoch come back, L_{i+1} is what of L_0 agrees with argmax z̄ (all of it, if
nothing does), and the next iteration starts from there, without momentum. Labels that were left out may return; none is
replaced. An iteration that does not beat the one before is the last.

A step takes the batch of the loader as its share of all samples, and as many samples again from L_i; an epoch is one
pass over the training split. Iterations share the run's epochs: the first gets `first_share` of them, the others the
same part of the rest each. The first follows the run's schedule of learning rates, a later one goes through it in fewer
epochs. At 220 epochs these are 100 and three times 40.

With TNLPAD the student is decomposed into σ + γ; both losses act on w, and the teacher averages σ beside w. What
predicts, filters and is judged is the teacher's σ, with BatchNorm statistics of its own, unless `filter_with` or
`judge_by` say w. The penalties' clock counts the epochs of the whole run, or begins again in every iteration, with
γ = 0 (`restart_decomposition`); `decompose="first"` goes on from the first iteration's σ without a decomposition.

How we differ from the paper, of which there is no public code: one classifier head in place of two, the cross entropy
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
from tnlpad.methods.decomposable import Trainee, any_nonzero
from tnlpad.methods.forward import forward
from tnlpad.methods.protocol import Judged, Setup, Source
from tnlpad.methods.rows import Rows, cycled
from tnlpad.methods.saving import restore, state_of
from tnlpad.methods.tnlpad import Part, TnlpadConfig
from tnlpad.types import Batch, Clock


def ramp_up(epoch: float, length: int) -> float:
    """exp(−5·(1 − epoch/length)²), and 1 from `length` epochs on; epochs count from 0."""
    return math.exp(-5 * (1 - min(epoch / length, 1.0)) ** 2) if length > 0 else 1.0


def consistency(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean over samples and classes of the squared distance of class probabilities, from logits."""
    return F.mse_loss(F.softmax(student.float(), 1), F.softmax(teacher.float(), 1))


class MeanTeacher:
    """A second network of the student's kind, and how it follows.

    Args:
        network: Of the same shape; it starts with the student's weights.
        student: Whom to follow.
        decay: Of the average.
    """

    def __init__(self, network: nn.Module, student: Trainee, decay: float) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"ema_decay={decay}: must lie in [0, 1); at 1 the teacher would never learn.")
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
    def follow(self) -> None:
        """One step of the average, after one of the student."""
        mine: list[Tensor] = [*self.network.parameters()]
        theirs: list[Tensor] = [*self.student.network.parameters()]
        if parts := self.student.parts():  # or γ has been dropped
            mine += self.sigma
            theirs += [parts[weight]["sigma"] for weight in theirs if weight in parts]
        compiled = self.network._compiled_call_impl is not None
        (_compiled_approach() if compiled else _approach)(mine, theirs, self.steps, self.decay)

    @contextmanager
    def holding(self, part: Part, source: Source) -> Iterator[nn.Module]:
        """Within the block the teacher holds the average of σ, with BatchNorm statistics of its own, or that of w."""
        if part == "w" or not self.student.decomposed or not self.has_gamma():
            yield self.network
            return
        w = [weight.clone() for weight in self.decomposed]
        self._hold(self.sigma)
        try:
            with source.reestimated(self.network):
                yield self.network
        finally:
            self._hold(w)

    def has_gamma(self) -> bool:
        """Whether the average of γ is anything but 0. Asks the device."""
        return any_nonzero([w != sigma for w, sigma in zip(self.decomposed, self.sigma, strict=True)])

    def drop_gamma(self) -> None:
        """Go on from the average of σ."""
        self._hold(self.sigma)

    def _hold(self, values: list[Tensor]) -> None:
        torch._foreach_copy_(list[Tensor](self.decomposed), values)

    def tensors(self) -> list[Tensor]:
        """All that `follow` and forward passes change but for the number of steps."""
        return [*self.network.parameters(), *self.network.buffers(), *self.sigma]


def _approach(mine: list[Tensor], theirs: list[Tensor], steps: Tensor, decay: float) -> None:
    """Count the step, and go a share of the way: mine + (1 − a)·(theirs − mine), in place."""
    steps += 1
    share = torch.maximum(1 / (steps + 1), torch.full_like(steps, 1 - decay))
    way = torch._foreach_sub(theirs, mine)
    torch._foreach_mul_(way, share)
    torch._foreach_add_(mine, way)


@cache
def _compiled_approach() -> Callable[[list[Tensor], list[Tensor], Tensor, float], None]:
    """The same as one kernel, which reads and writes each weight once."""
    return torch.compile(_approach, **compile_options())


@dataclass(frozen=True, kw_only=True)
class SelfConfig:
    """How long iterations are, how the teacher follows and is followed, and who predicts."""

    iterations: int = 4
    first_share: float = 0.4545  # of the run's epochs
    iteration_patience: int = 50  # epochs
    ema_decay: float = 0.999  # of the teacher
    consistency_weight: float = 10.0
    consistency_rampup: int = 5  # epochs
    ensemble_momentum: float = 0.9  # α
    predict_with: Literal["teacher", "student"] = "teacher"


@dataclass(frozen=True, kw_only=True)
class SelfTnlpadConfig(SelfConfig, TnlpadConfig):
    """The same, and where the decomposition is active."""

    decompose: Literal["always", "first"] = "always"
    restart_decomposition: bool = False
    filter_with: Literal["sigma", "w"] = "sigma"


@dataclass(kw_only=True)
class Standing:
    """Where the iterations stand."""

    iteration: int = 0
    epoch: int = 0  # of this iteration, from 1
    best: float = -1.0
    best_epoch: int = 0
    previous_best: float = -1.0
    ended: bool = False  # the iteration
    finished: bool = False  # all of them


def lengths(config: SelfConfig, epochs: int) -> tuple[int, int]:
    """The epochs of the first iteration, and of each later one."""
    first = min(epochs, max(1, round(config.first_share * epochs)))
    return first, max(1, (epochs - first) // max(1, config.iterations - 1))


def agreeing(ensemble: Tensor, labels: Tensor) -> Tensor:
    """The filter: whose label is the class that the ensemble predicts; everyone, if nobody's is."""
    agree = ensemble.argmax(1) == labels
    return agree | ~agree.any()


class SelfEnsemble:
    """A student, its teacher, the ensemble of predictions, and the labels believed."""

    def __init__(self, config: SelfConfig, setup: Setup) -> None:
        _check(config)
        self.config, self.generator, self.labels = config, setup.generator, setup.labels
        decomposed = config if isinstance(config, SelfTnlpadConfig) else None
        self.source = setup.required_source("self" if decomposed is None else "self+tnlpad")
        penalty = None if decomposed is None else decomposed.gamma_penalty(setup.epochs)
        self.student = Trainee(setup.network(0), setup, decomposed, penalty)
        self.teacher = MeanTeacher(setup.network(0), self.student, config.ema_decay)
        self.first, self.later = lengths(config, setup.epochs)
        self.at = Standing()
        device = setup.labels.device
        self.index = self.source.index.to(device)
        self.ensemble = torch.zeros(len(self.index), setup.num_classes, device=device)
        self.weight = torch.zeros((), device=device)
        self.selections: Mapping[str, Tensor] = {"labelled": torch.zeros_like(setup.labels, dtype=torch.bool)}
        self.selections["labelled"][self.index] = True
        self.columns = self.source.draw(1, torch.Generator()).shape[1]
        # For each image of an epoch: a labelled sample, its two views, and the teacher's view of the loader's sample.
        self.rows = Rows(len(self.index), 1 + 3 * self.columns, dtype=torch.int64, device=device)
        self.kept = [tensor.detach().clone() for tensor in self._live()]
        self.filter_with: Part = "w" if decomposed is None else decomposed.filter_with
        self.judged, self.reported, self.chosen_by = self._judged(decomposed)

    @property
    def optimizers(self) -> Sequence[Optimizer]:
        return [self.student.optimizer]

    @property
    def phase(self) -> str:
        return "decomposed" if self.student.decomposed else "plain"

    @property
    def schedule_epoch(self) -> int:
        """Later iterations go through the schedule of the first in their own number of epochs."""
        return self.at.epoch if self.at.iteration == 0 else -(-self.at.epoch * self.first // self.later)

    @property
    def finished(self) -> bool:
        return self.at.finished

    def _judged(self, decomposed: SelfTnlpadConfig | None) -> tuple[Judged, Sequence[str], Sequence[str]]:
        """What is judged, which of it is reported, and which chooses the epoch."""
        who = self.config.predict_with
        if decomposed is None:
            other = "student" if who == "teacher" else "teacher"
            return {name: partial(self._holding, name, "w") for name in (who, other)}, (who,), (who,)
        reported = decomposed.reported()
        parts: list[Part] = ["sigma", "w"] if reported == "sigma" else ["w", "sigma"]
        judged: Judged = {part: partial(self._holding, who, part) for part in parts}
        return judged, (reported,), (decomposed.chosen_by(),)

    @contextmanager
    def _holding(self, who: str, part: Part) -> Iterator[nn.Module]:
        if who == "teacher":
            with self.teacher.holding(part, self.source) as network:
                yield network
        elif part == "sigma" and self.student.has_gamma():
            with self.student.holding(part) as network, self.source.reestimated(network):
                yield network
        else:
            yield self.student.network

    def begin_epoch(self, clock: Clock) -> None:
        if self.at.ended:
            self._next_iteration()
        self.at.epoch += 1
        self.student.begin_epoch()
        self.teacher.network.train()
        ramp = ramp_up(self.at.epoch - 1, self.config.consistency_rampup)
        self.weight.fill_(self.config.consistency_weight * ramp)
        labelled = self.source.index[self.selections["labelled"].cpu()[self.source.index]]
        count = len(self.index)
        drawn = [cycled(labelled, count, self.generator).unsqueeze(1)]
        drawn += [self.source.draw(count, self.generator) for _ in range(3)]
        self.rows.fill(torch.cat(drawn, 1))

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        index, first, second, third = self.rows.next(len(batch.labels)).split([1, *3 * [self.columns]], 1)
        index, labelled = index.squeeze(1), len(batch.labels)
        with torch.no_grad():
            views = [self.source.augmented(index, second), self.source.augmented(batch.index, third)]
            targets = forward(self.teacher.network, torch.cat(views))
        logits = forward(self.student.network, torch.cat([self.source.augmented(index, first), batch.images]))
        fit = F.cross_entropy(logits[:labelled], self.labels[index])
        loss = self.student.descend(fit + self.weight * consistency(logits, targets))
        self.teacher.follow()
        return loss

    @torch.no_grad()
    def end_epoch(self, validation_accuracy: float) -> None:
        with self._holding(self.config.predict_with, self.filter_with) as network:
            predictions = self.source.outputs(network).softmax(1)
        self.ensemble.lerp_(predictions, 1 - self.config.ensemble_momentum)
        if validation_accuracy > self.at.best:
            self.at.best, self.at.best_epoch = validation_accuracy, self.at.epoch
            torch._foreach_copy_(self.kept, self._live())
        last = self.at.iteration == self.config.iterations - 1
        length = self.first if self.at.iteration == 0 else self.later
        out_of_patience = self.at.epoch - self.at.best_epoch >= self.config.iteration_patience
        self.at.ended = out_of_patience or (self.at.epoch >= length and not last)
        self.at.finished = self.at.ended and (last or self.at.best <= self.at.previous_best)

    @torch.no_grad()
    def _next_iteration(self) -> None:
        """From the best epoch's model, with the labels that its ensemble agrees with."""
        torch._foreach_copy_(self._live(), self.kept)
        self.at = Standing(iteration=self.at.iteration + 1, previous_best=self.at.best)
        self.selections["labelled"][self.index] = agreeing(self.ensemble, self.labels[self.index])
        if isinstance(self.config, SelfTnlpadConfig) and self.student.decomposed:
            if self.config.decompose == "first":
                self.teacher.drop_gamma()
                self.student.drop_gamma()
            elif self.config.restart_decomposition:
                self.teacher.drop_gamma()
                self.student.restart_decomposition()
        self.student.forget_momentum()

    def _live(self) -> list[Tensor]:
        """What makes a model, to be kept and brought back in place."""
        return [*self.student.tensors(), *self.teacher.tensors(), self.ensemble]

    def _tensors(self) -> dict[str, Tensor]:
        return {
            "ensemble": self.ensemble,
            "weight": self.weight,
            "teacher_steps": self.teacher.steps,
            **self.selections,
            **self.rows.tensors("rows"),
            **{f"teacher_sigma_{k}": tensor for k, tensor in enumerate(self.teacher.sigma)},
            **{f"kept_{k}": tensor for k, tensor in enumerate(self.kept)},
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            **state_of([self.student.network, self.teacher.network], self.optimizers, self._tensors()),
            "decomposed": self.student.decomposed,
            "standing": asdict(self.at),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.student.decomposed = state["decomposed"]
        restore(state, [self.student.network, self.teacher.network], self.optimizers, self._tensors())
        self.at = Standing(**state["standing"])
        self.generator.set_state(state["generator"].cpu())


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
            raise ValueError(f"{name}={getattr(config, name)}: must be >= 0; a weight of 0 switches the term off.")
    if isinstance(config, SelfTnlpadConfig) and config.restart_decomposition and config.decompose == "first":
        raise ValueError(
            'restart_decomposition=True with decompose="first": after the first iteration there is no decomposition to '
            "begin again; choose one of the two."
        )
