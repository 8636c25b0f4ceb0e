"""The training loop, the same for every method.

One epoch: set the learning rate, train on every batch, measure, record, save a checkpoint. The chosen epoch is the
first with the highest accuracy on the noisy validation set; the test set is measured and chooses nothing. The learning
rate is a function of the epoch, so there is no scheduler to restore.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch.optim import Optimizer

from tnlpad.core.decomposition import Decomposition
from tnlpad.methods.protocol import Method, chosen_by, end_epoch, finished, schedule_epoch
from tnlpad.ranks import group
from tnlpad.training.checkpoint import Progress, Streams, Weights, load_checkpoint, save_checkpoint
from tnlpad.training.engine import EngineName, OnStep, Replayed, choose_engine, own_stream
from tnlpad.training.measure import Evaluator, Sets, measure
from tnlpad.training.sample_scores import SampleStatistics
from tnlpad.types import BatchSource, Clock, RunFiles

Record = dict[str, Any]
LARGEST_LOSS = 1e6  # guessing among a thousand classes costs 7: training does not recover from this
DIVERGENCE_ADVICE = (
    "The usual cause is a learning rate that is too high for this network, method or precision: try a lower one, such "
    "as a tenth. The last checkpoint, if there is one, is kept."
)


class Diverged(Exception):
    """The loss is NaN, infinite or too large for training to recover."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Number of epochs, learning rate and patience.

    "decayed at the 40th epoch" takes effect "in" epoch 40 in the authors' runs, since their torch stepped the scheduler
    before each epoch. "after" is the conventional reading, from epoch 41 on.
    """

    epochs: int
    learning_rate: float
    milestones: tuple[int, ...]
    decay: float
    decay_takes_effect: Literal["in", "after"] = "in"
    patience: int | None = None

    def rate(self, epoch: int) -> float:
        """Return the learning rate of a 1-based epoch, decayed once for every milestone reached."""
        late = 0 if self.decay_takes_effect == "in" else 1
        return self.learning_rate * self.decay ** sum(epoch >= milestone + late for milestone in self.milestones)


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """The record of every epoch, and the weights of the chosen one."""

    history: list[Record]
    best: Weights


def train(
    method: Method,
    loader: BatchSource,
    sets: Sets,
    schedule: Schedule,
    *,
    folder: RunFiles,
    streams: Streams,
    device: torch.device,
    bf16: bool = False,
    compiled: bool = False,
    engine: EngineName = "auto",
    checkpoint_every_seconds: float = 0,
    statistics: SampleStatistics | None = None,
    on_step: OnStep = None,
    on_epoch: Callable[[Record], None] | None = None,
) -> Trained:
    """Train to the end, starting from the folder's checkpoint if there is one.

    Args:
        method: The method with its networks, which the caller has compiled if they are to be.
        loader: The training batches.
        sets: The samples to measure on.
        schedule: Epochs and learning rate.
        folder: Where records and checkpoints go.
        streams: The random generators in use, to save and restore.
        device: The device of the method and the data.
        bf16: Run forward passes in bfloat16, under torch's autocast.
        compiled: Compile the loading of a batch and the bookkeeping of a step as well.
        engine: How to run steps: see `tnlpad.training.engine`.
        checkpoint_every_seconds: Minimum time between checkpoints; the last epoch always gets one. A killed run repeats
            the epochs since its last checkpoint.
        statistics: Per-sample statistics to collect; saved with the checkpoint.
        on_step: Called with epoch, step and steps per epoch.
        on_epoch: Called with the record of every finished epoch.
    """
    progress = load_checkpoint(folder.checkpoint_file, method, streams, device)
    history, best = group.on_first(lambda: _kept_epochs(folder, progress.epoch)), progress.best
    if statistics is not None and progress.statistics is not None:
        statistics.load_state_dict(progress.statistics)
    saved_at = time.perf_counter()
    steps = choose_engine(engine, method, loader, device=device, bf16=bf16, compiled=compiled)
    evaluator = Evaluator(bf16=bf16, captured=isinstance(steps, Replayed))
    with own_stream(device):
        for epoch in range(progress.epoch + 1, schedule.epochs + 1):
            if finished(method) or out_of_patience(history, schedule.patience):
                break
            began = time.perf_counter()
            clock = Clock(epoch=epoch, epochs=schedule.epochs)
            method.begin_epoch(clock)
            rate = schedule.rate(schedule_epoch(method, clock))
            set_learning_rate(method.optimizers, rate)
            losses = steps.epoch(clock, on_step)
            mean_loss = _finite_mean(losses.tolist(), epoch, rate)
            trained = time.perf_counter()
            record: Record = {"epoch": epoch, "learning_rate": rate, "train_loss": mean_loss}
            record |= measure(method, sets, evaluator)
            _require_finite(record, epoch, len(losses))
            record["validation_accuracy"] = _mean(record, chosen_by(method), "validation_accuracy")
            record["test_accuracy"] = None if sets.test is None else _mean(record, method.reported, "test_accuracy")
            record["seconds"] = {"training": trained - began, "measuring": time.perf_counter() - trained}
            record = group.from_first(record)  # decides what follows, on every rank
            history.append(record)
            if is_best := chosen(history) is record:
                best = shipped_weights(method)
            if statistics is not None:
                statistics.update(method, epoch, best=is_best)
            end_epoch(method, record["validation_accuracy"])
            group.on_first(partial(folder.append_epoch, record))
            last = epoch == schedule.epochs or finished(method) or out_of_patience(history, schedule.patience)
            due = group.from_first(time.perf_counter() - saved_at >= checkpoint_every_seconds)
            if last or due:
                collected = None if statistics is None else statistics.state_dict()
                progress = Progress(epoch=epoch, best=best, statistics=collected)
                save_checkpoint(folder.checkpoint_file, progress, method, streams, device)
                saved_at = time.perf_counter()
            if on_epoch is not None:
                on_epoch(record)
    if best is None:
        raise ValueError(f"epochs={schedule.epochs}: there is no epoch to train.")
    return Trained(history=history, best=best)


def _kept_epochs(folder: RunFiles, epochs: int) -> list[Record]:
    """Return the records up to the checkpoint, and remove later ones."""
    folder.keep_epochs(epochs)
    return folder.epochs()


def set_learning_rate(optimizers: Sequence[Optimizer], rate: float) -> None:
    """Set the learning rate of every group, times its `lr_scale`; fill a tensor, since a graph may hold it."""
    for optimizer in optimizers:
        for options in optimizer.param_groups:
            value = rate * options.get("lr_scale", 1.0)
            if isinstance(options["lr"], torch.Tensor):
                options["lr"].fill_(value)
            else:
                options["lr"] = value


def chosen(history: Sequence[Record]) -> Record:
    """Return the record of the first epoch with the highest noisy validation accuracy."""
    return max(history, key=lambda record: (record["validation_accuracy"], -record["epoch"]))


def out_of_patience(history: Sequence[Record], patience: int | None) -> bool:
    """Return whether the best epoch is `patience` or more epochs back."""
    return patience is not None and bool(history) and len(history) - chosen(history)["epoch"] >= patience


def _mean(record: Record, names: Sequence[str], what: str) -> float:
    values = [record["judged"][name][what] for name in names]
    return float(sum(values) / len(values))


def shipped_weights(method: Method) -> Weights:
    """Copy the state of the first judged network, which is σ for a decomposition."""
    with next(iter(method.judged.values()))() as network:
        weights = network.state_dict(keep_vars=True)
        for optimizer in method.optimizers:
            if isinstance(optimizer, Decomposition):
                weights = optimizer.full_precision(weights)
        return {name: tensor.detach().clone() for name, tensor in weights.items()}


def _finite_mean(losses: Sequence[float], epoch: int, rate: float) -> float:
    for step, loss in enumerate(losses, start=1):
        if not abs(loss) < LARGEST_LOSS:  # also catches NaN
            raise Diverged(
                f"The loss is {loss:g} in step {step} of epoch {epoch}, at learning rate {rate:g}. {DIVERGENCE_ADVICE}"
            )
    return sum(losses) / len(losses)


def _require_finite(record: Record, epoch: int, steps: int) -> None:
    """Raise if a measurement is not finite: the epoch's last step may have made the weights NaN."""
    for name, value in _named_numbers(record):
        if not math.isfinite(value):
            raise Diverged(f"{name} is {value:g} after step {steps} of epoch {epoch}. {DIVERGENCE_ADVICE}")


def _named_numbers(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _named_numbers(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value
