"""What a method is: a small protocol, and what it is given to start from.

A method owns its networks and optimizers, and everything that happens to them for a batch happens visibly in `step`.
It never sees clean labels: they are not among the things it is given.

A step may be captured once as a CUDA graph and replayed, so it must not depend on Python numbers that change: what
changes from epoch to epoch is written into device tensors by `begin_epoch`, selections are masks or weights of fixed
shape, and nothing is read back to the host.

A few methods need more than that, and have some of these beside:

    phase            an attribute: what tells apart epochs whose steps are different work. Each phase is captured anew.
    schedule_epoch   an attribute: the epoch of the schedule whose learning rate holds now, for methods that start over.
    end_epoch(a)     is told the noisy validation accuracy after every epoch, before anything is saved.
    chosen_by        an attribute: the judged networks that choose the epoch, if they are others than those reported.
    finished         an attribute: whether there is nothing left to train, though there are epochs left.

The loop asks for them by the functions at the end of this file.
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
    """How a batch changes the networks, and which network is judged."""

    @property
    def optimizers(self) -> Sequence[Optimizer]:
        """The loop sets their learning rates, group by group, times the group's `lr_scale` if it has one."""

    @property
    def judged(self) -> Judged:
        """Networks to measure after each epoch by name, each ready within its block; the first is the one to ship.

        Where that is more than one of the run's networks, `Entry.shipped` says how to make it again.
        """

    @property
    def reported(self) -> Sequence[str]:
        """The judged networks whose mean accuracy is the method's number, and chooses the epoch on validation."""

    @property
    def selections(self) -> Mapping[str, Tensor]:
        """For methods that pick samples: one bool per sample of the dataset, what this epoch picked so far."""

    def begin_epoch(self, clock: Clock) -> None:
        """Called before the first step of every epoch, and before the learning rate of the epoch is set."""

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        """Update the parameters; returns the mean loss, detached, on the device."""

    def state_dict(self) -> dict[str, Any]:
        """Everything to go on from here bit for bit: networks, optimizers, per-sample state."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""


class Source(Protocol):
    """The images trained on, for methods that draw images beside their batch, or look at all between epochs."""

    @property
    def index(self) -> Tensor:
        """The samples trained on, by dataset index, on the CPU."""

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Random augmentations for so many images, a row of whole numbers for each, on the CPU."""

    def augmented(self, index: Tensor, rows: Tensor) -> Tensor:
        """The images at `index`, each augmented by its row; both on the device. It can be captured."""

    def outputs(self, network: nn.Module) -> Tensor:
        """The network's logits of every sample of `index`, not augmented, in evaluation mode, without gradients."""

    def reestimated(self, network: nn.Module) -> AbstractContextManager[None]:
        """Within the block BatchNorm's statistics are those of the weights that the network holds now."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Setup:
    """What a method starts from.

    Args:
        network: Gives the k-th fresh network on the device; each k has an initialisation of its own.
        sgd: Options for `torch.optim.SGD`, learning rate included.
        labels: The given (noisy) label of every sample of the dataset, by dataset index, on the device.
        num_classes: How many there are.
        epochs: How long the run is.
        noise_rate: What the run assumes about the share of wrong labels; None if it assumes nothing.
        generator: The method's own random stream, on the CPU.
        source: Gives the images trained on; None if they cannot be had by index.
    """

    network: Callable[[int], nn.Module]
    sgd: Mapping[str, Any]
    labels: Tensor
    num_classes: int
    epochs: int
    noise_rate: float | None
    generator: torch.Generator
    source: Callable[[], Source] | None = None

    def required_noise_rate(self, method: str) -> float:
        """The noise rate, for a method that cannot do without one."""
        if self.noise_rate is None:
            raise ValueError(
                f"{method} needs to know the share of wrong labels: say it, as with --set noise_rate=0.3, or choose a "
                "method that does not (standard, adacorr, tnlpad)."
            )
        if not 0 <= self.noise_rate < 1:
            raise ValueError(f"noise_rate={self.noise_rate}: must lie in [0, 1).")
        return self.noise_rate

    def required_source(self, method: str) -> Source:
        """The images trained on, for a method that draws from them by itself."""
        if self.source is None:
            raise ValueError(
                f"{method} draws augmented images by itself, so they must be in memory, and these are read from files "
                "or are no images: choose another method, such as tnlpad."
            )
        return self.source()


def phase_of(method: Method) -> Hashable:
    """What tells apart epochs whose steps are different work; None for methods whose steps are always the same."""
    phase: Hashable = getattr(method, "phase", None)
    return phase


def schedule_epoch(method: Method, clock: Clock) -> int:
    """Which epoch's learning rate holds now: this one's, unless the method says otherwise."""
    return int(getattr(method, "schedule_epoch", clock.epoch))


def end_epoch(method: Method, validation_accuracy: float) -> None:
    """Tell a method that wants to know how well it does; by noisy labels, never by the test set."""
    told = getattr(method, "end_epoch", None)
    if told is not None:
        told(validation_accuracy)


def chosen_by(method: Method) -> Sequence[str]:
    """The judged networks whose validation accuracy chooses the epoch: those reported, unless it names others."""
    names: Sequence[str] = getattr(method, "chosen_by", method.reported)
    return names


def finished(method: Method) -> bool:
    """Whether a method says that there is nothing left to train."""
    return bool(getattr(method, "finished", False))
