"""The learning rate as an explicit function of the epoch; no scheduler object, so nothing hidden to restore.

The training loop, the same for every method: read it from top to bottom.

One epoch: set the learning rate, train on every batch, measure, record, save. The chosen epoch is the first with the
highest accuracy on the noisy validation set; the test set is measured and chooses nothing.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.optim import Optimizer

from tnlpad.methods.protocol import Method, chosen_by, end_epoch, finished, schedule_epoch
from tnlpad.training.checkpoint import Progress, Streams, Weights, load_checkpoint, save_checkpoint
from tnlpad.training.engine import EngineName, OnStep, Replayed, choose_engine, own_stream
from tnlpad.training.measure import Evaluator, Sets, measure
from tnlpad.training.sample_scores import Census
from tnlpad.types import BatchSource, Clock, RunFiles

DecayTakesEffect = Literal["in", "after"]


def learning_rate(
    epoch: int, initial: float, milestones: Sequence[int], factor: float, takes_effect: DecayTakesEffect = "in"
) -> float:
    """The rate of a 1-based epoch: `initial`, times `factor` for every milestone reached.

    "decayed at the 40th epoch" takes effect in epoch 40 in the authors' runs, since their torch stepped the scheduler
    before each epoch; "after" is the conventional reading, from epoch 41 on.
    """
    late = 0 if takes_effect == "in" else 1
    return initial * factor ** sum(epoch >= milestone + late for milestone in milestones)


def set_learning_rate(optimizers: Sequence[Optimizer], rate: float) -> None:
    """Write the rate into every group, times its `lr_scale`; a tensor is filled, since a graph may hold it."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            value = rate * group.get("lr_scale", 1.0)
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(value)
            else:
                group["lr"] = value


Record = dict[str, Any]
HOPELESS_LOSS = 1e6  # guessing among a thousand classes costs 7: a loss of this size is a failure, finite or not
LIKELY_CAUSES = (
    "The usual cause is a learning rate that is too high for this network, method or precision: try a lower one, such "
    "as a tenth. The last checkpoint is kept."
)


class Diverged(Exception):
    """The loss is no longer a number, or no longer one that training comes back from."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long, and how fast."""

    epochs: int
    learning_rate: float
    milestones: tuple[int, ...]
    decay: float
    decay_takes_effect: DecayTakesEffect = "in"
    patience: int | None = None

    def rate(self, epoch: int) -> float:
        return learning_rate(epoch, self.learning_rate, self.milestones, self.decay, self.decay_takes_effect)


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """What training leaves: the record of every epoch, and the weights to ship, which are those of the chosen one."""

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
    census: Census | None = None,
    on_step: OnStep = None,
    on_epoch: Callable[[Record], None] | None = None,
) -> Trained:
    """Train to the end, from wherever the folder's last checkpoint stands.

    Args:
        method, loader, sets, schedule: What to train, on what, measured how, for how long.
        folder: Where records and checkpoints go.
        streams: The random generators that are drawn from on the way, to be saved and restored.
        device: Where it happens.
        bf16: Forward passes in bfloat16 where torch's autocast deems it safe.
        compiled: Whether to compile what lies between the plan of an epoch and the network; networks come compiled.
        engine: How steps are carried out: see `tnlpad.training.engine`.
        checkpoint_every_seconds: Leave out checkpoints that would follow the previous one sooner; the last epoch always
            gets one. A killed run repeats the epochs since its last checkpoint, and their records with them.
        census: Counts what becomes of every sample's label; it is saved with the checkpoint and changes no number.
        on_step: Told epoch, step and steps per epoch, for a progress bar.
        on_epoch: Told every finished epoch's record.
    """
    progress = load_checkpoint(folder.checkpoint_file, method, streams, device)
    folder.keep_epochs(progress.epoch)
    history, best = folder.epochs(), progress.best
    if census is not None and progress.census is not None:
        census.load_state_dict(progress.census)
    saved = time.perf_counter()
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
            history.append(record)
            if is_best := chosen(history) is record:
                best = shipped_weights(method)
            if census is not None:
                census.take(method, epoch, best=is_best)
            end_epoch(method, record["validation_accuracy"])
            folder.append_epoch(record)
            last = epoch == schedule.epochs or finished(method) or out_of_patience(history, schedule.patience)
            if last or time.perf_counter() - saved >= checkpoint_every_seconds:
                counted = None if census is None else census.state_dict()
                progress = Progress(epoch=epoch, best=best, census=counted)
                save_checkpoint(folder.checkpoint_file, progress, method, streams, device)
                saved = time.perf_counter()
            if on_epoch is not None:
                on_epoch(record)
    if best is None:
        raise ValueError(f"epochs={schedule.epochs}: there is no epoch to train.")
    return Trained(history=history, best=best)


def chosen(history: Sequence[Record]) -> Record:
    """The first epoch of the highest noisy validation accuracy."""
    return max(history, key=lambda record: (record["validation_accuracy"], -record["epoch"]))


def out_of_patience(history: Sequence[Record], patience: int | None) -> bool:
    """Whether the best epoch lies `patience` or more epochs back."""
    return patience is not None and bool(history) and len(history) - chosen(history)["epoch"] >= patience


def _mean(record: Record, names: Sequence[str], what: str) -> float:
    values = [record["judged"][name][what] for name in names]
    return float(sum(values) / len(values))


def shipped_weights(method: Method) -> Weights:
    """A copy of the first judged network's state; for a decomposition that is σ."""
    with next(iter(method.judged.values()))() as network:
        return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}


def _finite_mean(losses: Sequence[float], epoch: int, rate: float) -> float:
    for step, loss in enumerate(losses, start=1):
        if not abs(loss) < HOPELESS_LOSS:  # also catches NaN
            raise Diverged(
                f"The loss is {loss:g} in step {step} of epoch {epoch}, at learning rate {rate:g}. {LIKELY_CAUSES}"
            )
    return sum(losses) / len(losses)


def _require_finite(record: Record, epoch: int, steps: int) -> None:
    """Every loss may have been a number and the weights none after the epoch's last step."""
    for name, value in _named_numbers(record):
        if not math.isfinite(value):
            raise Diverged(f"{name} is {value:g} after step {steps} of epoch {epoch}. {LIKELY_CAUSES}")


def _named_numbers(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _named_numbers(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value
