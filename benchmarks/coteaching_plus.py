"""Causes of Co-teaching+'s loss of accuracy on MNIST: the authors' set-up beside ours, one difference at a time.

Two parts. In `fall`, all variants start from the same two networks, trained by five epochs of Co-teaching in our set-up
(the perceptron from its own), and train for some epochs on disagreements. In `start`, they train on disagreements from
the first epoch. After every epoch: the test accuracy (mean of both networks), the share of samples in disagreement, the
share of wrong labels among those and among the selected ones, and the share of batches without disagreement.

Ours: LeNet on standardised images, SGD with learning rate 0.01, momentum 0.9 and weight decay 0.001, batches of 32. The
authors': a perceptron with 256 hidden units on pixels in [0, 1], Adam with learning rate 0.001, batches of 128, softmax
applied twice, the loss divided twice by the number of selected samples, and a forget rate that is one epoch ahead. Both
use the whole batch if the networks agree on it, while epoch × step < 5000. Indented variants change one thing in the
one above them.

    python -m benchmarks.coteaching_plus --root FOLDER [--samples 10000] [--seeds 1 2] [--save record.json]
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.machine import leave, machine, versions
from tnlpad.data import load
from tnlpad.data.catalogue import find
from tnlpad.methods import Setup
from tnlpad.methods.coteaching_plus import CoteachingPlus, CoteachingPlusConfig
from tnlpad.methods.selection import masked_mean
from tnlpad.networks import build
from tnlpad.noise import make_noisy_labels, parse_noise
from tnlpad.types import Batch, Clock

NOISE = "symmetric:0.4"
FIRST_PHASE = 5  # epochs
EPOCHS = {"fall": 3, "start": 10}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A set-up; the defaults are ours."""

    network: Literal["lenet", "perceptron"] = "lenet"
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = 0.01
    batch_size: int = 32
    softmax_twice: bool = False
    average_over: Literal["batch", "selected", "selected, twice"] = "batch"
    whole_batch_until: int = 5000
    epochs_ahead: int = 0  # of the schedule of the forget rate: the authors skip its first epoch, the one with 0


OURS = Variant()
PLAIN = replace(OURS, average_over="selected", whole_batch_until=0)
AUTHORS = Variant(
    network="perceptron",
    optimizer="adam",
    learning_rate=0.001,
    batch_size=128,
    softmax_twice=True,
    average_over="selected, twice",
    epochs_ahead=1,
)
ADAM = {"optimizer": "adam", "learning_rate": 0.001}
FALL = {
    "mean over the selected, nothing for empty D": PLAIN,
    "  network: perceptron": replace(PLAIN, network="perceptron"),
    "  optimizer: Adam 0.001": replace(PLAIN, **ADAM),
    "  learning rate: 0.001": replace(PLAIN, learning_rate=0.001),
    "  softmax twice": replace(PLAIN, softmax_twice=True),
    "  divided twice": replace(PLAIN, average_over="selected, twice"),
    "  whole batch for empty D": replace(PLAIN, whole_batch_until=5000),
    "  batches of 128": replace(PLAIN, batch_size=128),
    "  divided by the batch size": replace(PLAIN, average_over="batch"),
    "ours: divided by the batch size, whole batch for empty D": OURS,
    "  softmax twice, too": replace(OURS, softmax_twice=True),
}
START = {
    "mean over the selected, nothing for empty D": PLAIN,
    "  whole batch for empty D": replace(PLAIN, whole_batch_until=5000),
    "  loss divided by the batch size": replace(PLAIN, average_over="batch"),
    "ours: divided by the batch size, whole batch for empty D": OURS,
    "authors' set-up": AUTHORS,
    "  network: LeNet": replace(AUTHORS, network="lenet"),
    "  optimizer: SGD 0.01": replace(AUTHORS, optimizer="sgd", learning_rate=0.01),
    "  softmax once": replace(AUTHORS, softmax_twice=False),
    "  divided once": replace(AUTHORS, average_over="selected"),
    "  divided by the batch size": replace(AUTHORS, average_over="batch"),
    "  nothing for empty D": replace(AUTHORS, whole_batch_until=0),
    "  batches of 32": replace(AUTHORS, batch_size=32),
}


class Studied(CoteachingPlus):
    """Co-teaching+ with the parts of the authors' code that ours leaves out; counts what it selects."""

    def __init__(self, variant: Variant, init_epoch: int, setup: Setup, wrong: Tensor) -> None:
        average_over: Any = variant.average_over.removesuffix(", twice")
        config = CoteachingPlusConfig(
            init_epoch=init_epoch, whole_batch_until=variant.whole_batch_until, average_over=average_over
        )
        super().__init__(config, setup)
        self.variant, self.wrong, self.counts = variant, wrong, Counts()
        if variant.optimizer == "adam":
            rate = variant.learning_rate
            self.optimizers = [torch.optim.Adam(network.parameters(), lr=rate) for network in self.networks]

    def begin_epoch(self, clock: Clock) -> None:
        super().begin_epoch(clock)
        self.forget.fill_(self.config.forget_rate(clock.epoch + self.variant.epochs_ahead, self.noise_rate))
        self.counts = Counts()

    def select(self, batch: Batch, logits: list[Tensor], losses: list[Tensor]) -> list[Tensor]:
        disagreement = logits[0].argmax(1) != logits[1].argmax(1)
        if self.variant.softmax_twice and not self.whole_batch:
            losses[:] = [F.cross_entropy(each.softmax(1), batch.labels, reduction="none") for each in logits]
        selected = list(super().select(batch, logits, losses))
        wrong = self.wrong[batch.index]
        self.counts.add(disagreement, selected[0], wrong)
        return selected

    def mean(self, losses: Tensor, selected: Tensor) -> Tensor:
        if self.variant.average_over == "selected, twice" and not self.whole_batch:
            return masked_mean(losses, selected) / selected.sum().clamp(min=1)
        return super().mean(losses, selected)


@dataclass(kw_only=True)
class Counts:
    """Sums over an epoch."""

    samples: int = 0
    batches: int = 0
    empty: int = 0
    disagreed: int = 0
    wrong_disagreed: int = 0
    selected: int = 0
    wrong_selected: int = 0

    def add(self, disagreement: Tensor, selected: Tensor, wrong: Tensor) -> None:
        self.samples += len(wrong)
        self.batches += 1
        self.empty += int(not disagreement.any())
        self.disagreed += int(disagreement.sum())
        self.wrong_disagreed += int((disagreement & wrong).sum())
        self.selected += int(selected.sum())
        self.wrong_selected += int((selected & wrong).sum())

    def shares(self) -> dict[str, float]:
        return {
            "disagreement": self.disagreed / self.samples,
            "wrong_in_disagreement": self.wrong_disagreed / max(1, self.disagreed),
            "wrong_in_selected": self.wrong_selected / max(1, self.selected),
            "batches_without_disagreement": self.empty / self.batches,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Mnist:
    """Some training images with given and right labels, and all test images, as each network takes them."""

    images: Tensor
    given: Tensor
    wrong: Tensor
    test_images: Tensor
    test_labels: Tensor
    seed: int
    pixels: dict[str, Callable[[Tensor], Tensor]] = field(default_factory=dict)


def mnist(root: Path | None, samples: int, seed: int) -> Mnist:
    train, test = load("mnist", root, "train"), load("mnist", root, "test")
    noise = make_noisy_labels(parse_noise(NOISE), dataset="mnist", labels=train.labels, num_classes=10, seed=seed)
    chosen = torch.randperm(len(train.labels), generator=torch.Generator().manual_seed(seed))[:samples]
    given, clean = (torch.from_numpy(labels).long()[chosen] for labels in (noise.given, train.labels))
    scale = find("mnist").normalisation
    mean, std = scale.mean[0], scale.std[0]
    return Mnist(
        images=torch.from_numpy(train.images)[chosen].float() / 255,
        given=given,
        wrong=given != clean,
        test_images=torch.from_numpy(test.images).float() / 255,
        test_labels=torch.from_numpy(test.labels).long(),
        seed=seed,
        pixels={"lenet": lambda images: (images - mean) / std, "perceptron": lambda images: images},
    )


def fresh_network(name: str, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    if name == "lenet":
        return build("lenet", num_classes=10, in_channels=1)
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def studied(variant: Variant, data: Mnist, init_epoch: int) -> Studied:
    setup = Setup(
        network=lambda k: fresh_network(variant.network, 100 * data.seed + k),
        sgd={"lr": variant.learning_rate, "momentum": 0.9, "weight_decay": 1e-3},
        labels=data.given,
        num_classes=10,
        epochs=100,
        noise_rate=parse_noise(NOISE).noise_rate,
        generator=torch.Generator(),
    )
    return Studied(variant, init_epoch, setup, data.wrong)


def trained(method: Studied, data: Mnist, epochs: range) -> Iterator[dict[str, float]]:
    """Train; yield what was counted and measured in each epoch."""
    pixels = data.pixels[method.variant.network]
    for epoch in epochs:
        clock = Clock(epoch=epoch, epochs=100)
        method.begin_epoch(clock)
        order = torch.randperm(len(data.given), generator=torch.Generator().manual_seed(1000 * data.seed + epoch))
        for index in order.split(method.variant.batch_size):
            batch = Batch(index=index, images=pixels(data.images[index]), labels=data.given[index])
            method.step(batch, clock)
        yield {"epoch": epoch, "test_accuracy": accuracy(method, data), **method.counts.shares()}


@torch.no_grad()
def accuracy(method: Studied, data: Mnist) -> float:
    images = data.pixels[method.variant.network](data.test_images)
    right = [(network(images).argmax(1) == data.test_labels).double().mean() for network in method.networks]
    return torch.stack(right).mean().item()


def first_phases(data: Mnist) -> dict[str, tuple[list[dict[str, Tensor]], dict[str, float]]]:
    """Both networks after the first phase in our set-up, and the last epoch of it."""
    phases = {}
    for name in ("lenet", "perceptron"):
        method = studied(replace(OURS, network=name), data, FIRST_PHASE)
        *_, last = trained(method, data, range(1, FIRST_PHASE + 1))
        phases[name] = ([network.state_dict() for network in method.networks], last)
        print(f"Co-teaching, {name}: {last['test_accuracy']:.2%} after {FIRST_PHASE} epochs", flush=True)
    return phases


def fall(data: Mnist) -> Iterator[dict[str, Any]]:
    phases = first_phases(data)
    for name, variant in FALL.items():
        states, last = phases[variant.network]
        method = studied(variant, data, FIRST_PHASE)
        for network, state in zip(method.networks, states, strict=True):
            network.load_state_dict(state)
        after = range(FIRST_PHASE + 1, FIRST_PHASE + 1 + EPOCHS["fall"])
        yield {"part": "fall", "variant": name, "before": last, "epochs": list(trained(method, data, after))}


def start(data: Mnist) -> Iterator[dict[str, Any]]:
    for name, variant in START.items():
        method = studied(variant, data, 0)
        yield {"part": "start", "variant": name, "epochs": list(trained(method, data, range(1, EPOCHS["start"] + 1)))}


def line(row: dict[str, Any]) -> str:
    last = row["epochs"][-1]
    accuracies = " ".join(f"{100 * each['test_accuracy']:.1f}" for each in row["epochs"])
    return (
        f"{row['part']:5} {row['variant']:57} {accuracies}  D {last['disagreement']:.1%}, "
        f"wrong in D {last['wrong_in_disagreement']:.0%}, selected {last['wrong_in_selected']:.0%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    began, rows = time.perf_counter(), []
    for seed in options.seeds:
        data = mnist(options.root, options.samples, seed)
        for part in (fall, start):
            for row in part(data):
                rows.append({"seed": seed, **row})
                print(line(row), flush=True)
    record = {"benchmark": "coteaching_plus", "machine": machine("cpu"), "versions": versions()}
    record |= {"noise": NOISE, "samples": options.samples, "seeds": options.seeds, "first_phase": FIRST_PHASE}
    leave(record | {"seconds": time.perf_counter() - began, "variants": rows}, options.save)


if __name__ == "__main__":
    main()
