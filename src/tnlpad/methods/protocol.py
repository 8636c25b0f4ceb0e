"""The interface of a method, and the inputs that a method is built from.

A method owns its networks and optimizers, and updates them for a batch in `step`. It never receives clean labels.

A step may be captured once as a CUDA graph and replayed, so it must not depend on Python numbers that change.
`begin_epoch` writes what changes from epoch to epoch into device tensors. Selections are masks or weights of fixed
shape, and a step never reads values back to the host.

A method may define further attributes. The functions at the end of this file read them, or return the default.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tnlpad.types import Batch, Clock

Judged = Mapping[str, Callable[[], AbstractContextManager[nn.Module]]]


class Method(Protocol):
    """A training method: how a batch updates the networks, and which networks are evaluated."""

    @property
    def optimizers(self) -> Sequence[Optimizer]:
        """Optimizers whose learning rates the loop sets, per group and times the group's `lr_scale` if it has one."""

    @property
    def judged(self) -> Judged:
        """Networks to evaluate after each epoch, by name, as context managers; the first one is shipped.

        If the shipped network combines several networks of the run, `Entry.shipped` builds it.
        """

    @property
    def reported(self) -> Sequence[str]:
        """Names of the judged networks whose mean accuracy is reported, and selects the epoch on validation data."""

    @property
    def selections(self) -> Mapping[str, Tensor]:
        """Samples selected so far in this epoch: one bool per sample of the dataset. Empty if it selects none."""

    def begin_epoch(self, clock: Clock) -> None:
        """Prepare an epoch; called before its learning rate is set."""

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        """Update the parameters; return the mean loss, detached, on the device."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume bit for bit: networks, optimizers, per-sample state."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a saved state."""


class Source(Protocol):
    """The training images, for methods that draw images beyond their batch or predict all images between epochs."""

    @property
    def index(self) -> Tensor:
        """Dataset indices of the training samples, on the CPU."""

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw random augmentations for `count` images: one row of integers per image, on the CPU."""

    def augmented(self, index: Tensor, rows: Tensor) -> Tensor:
        """Return the images at `index`, each augmented by its row. Both are on the device; it can be captured."""

    def outputs(self, network: nn.Module) -> Tensor:
        """Return the logits of all samples of `index`, not augmented, in evaluation mode, without gradients."""

    def reestimated(self, network: nn.Module) -> AbstractContextManager[None]:
        """Within the block, use BatchNorm statistics estimated for the network's current weights."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Setup:
    """Inputs that a method is built from.

    Args:
        network: Returns the k-th fresh network on the device; each k has its own initialisation.
        sgd: Options for `torch.optim.SGD`, including the learning rate.
        labels: Given (noisy) labels of the whole dataset, by dataset index, on the device.
        num_classes: Number of classes.
        epochs: Number of epochs of the run.
        noise_rate: Assumed share of wrong labels, or None.
        generator: Random stream of the method, on the CPU.
        source: Returns the training images; None if they cannot be accessed by index.
        working_dtype: Dtype of decomposed weights, if forward passes use them in no other (see `Decomposition`).
    """

    network: Callable[[int], nn.Module]
    sgd: Mapping[str, Any]
    labels: Tensor
    num_classes: int
    epochs: int
    noise_rate: float | None
    generator: torch.Generator
    source: Callable[[], Source] | None = None
    working_dtype: torch.dtype | None = None

    def required_noise_rate(self, method: str) -> float:
        """Return the noise rate, or raise an error that names the method."""
        if self.noise_rate is None:
            raise ValueError(
                f"{method} needs to know the share of wrong labels. Set it, for example with --set noise_rate=0.3, or "
                "choose a method that does not need it (standard, adacorr, tnlpad)."
            )
        if not 0 <= self.noise_rate < 1:
            raise ValueError(f"noise_rate={self.noise_rate}: must lie in [0, 1).")
        return self.noise_rate

    def required_source(self, method: str) -> Source:
        """Return the training images, or raise an error that names the method."""
        if self.source is None:
            raise ValueError(
                f"{method} draws augmented images, so the images must be in memory. These are streamed from files, or "
                "are not images. Choose another method, such as tnlpad, or decode your own images with --set crop=none."
            )
        return self.source()


def phase_of(method: Method) -> Hashable:
    """Return `phase`, which changes when the steps change, so that they are captured again. Default: None."""
    phase: Hashable = getattr(method, "phase", None)
    return phase


def schedule_epoch(method: Method, clock: Clock) -> int:
    """Return `schedule_epoch`, the epoch whose learning rate applies. Default: the current one."""
    return int(getattr(method, "schedule_epoch", clock.epoch))


def steps_of(method: Method, batches: int) -> int:
    """Return `steps_of_epoch`, the number of steps of this epoch, given the loader's. Default: one per batch.

    If the method takes more steps, the loader starts again with a new order.
    """
    return int(method.steps_of_epoch(batches)) if hasattr(method, "steps_of_epoch") else batches


def end_epoch(method: Method, validation_accuracy: float) -> None:
    """Call `end_epoch` with the noisy validation accuracy, if defined, after an epoch and before it is saved."""
    if hasattr(method, "end_epoch"):
        method.end_epoch(validation_accuracy)


def chosen_by(method: Method) -> Sequence[str]:
    """Return `chosen_by`, the judged networks whose validation accuracy selects the epoch. Default: `reported`."""
    names: Sequence[str] = getattr(method, "chosen_by", method.reported)
    return names


def finished(method: Method) -> bool:
    """Return `finished`: whether training ends before the last epoch. Default: False."""
    return bool(getattr(method, "finished", False))
