"""A small problem for the tests of the methods, and helpers to train on it. Problems to compute by hand: `tables`."""

import io
import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tnlpad.core.batchnorm import reestimated_batchnorm
from tnlpad.methods import METHODS, Method, Setup
from tnlpad.methods.protocol import end_epoch
from tnlpad.types import Batch, Clock

# Settings with which a run of a few epochs goes through every phase of a method.
QUICK: dict[str, dict[str, object]] = {
    "coteaching": {"gradual_epochs": 3},
    "coteaching_plus": {"gradual_epochs": 3, "init_epoch": 2},
    "jocor": {"gradual_epochs": 3},
    "sigua": {"gradual_epochs": 3},
    "cnlcu": {"gradual_epochs": 3, "window": 2, "sigma2": 0.1, "anneal_share": 1.0},
    "cnlcu_hard": {"gradual_epochs": 3, "window": 6, "anneal_share": 1.0},
    "adacorr": {"start_epoch": 1, "update_epoch": 2, "remember_again_after": 3, "window": 3},
    "cdr": {"gradual_epochs": 2},
    "self": {"iterations": 3, "first_share": 0.4, "ema_decay": 0.9, "consistency_rampup": 2},
    "self+tnlpad": {"iterations": 3, "first_share": 0.4, "ema_decay": 0.9, "consistency_rampup": 2},
    "dividemix": {"warmup_epochs": 2, "rampup_epochs": 2, "averaged_losses": 2},
    "dividemix+tnlpad": {"warmup_epochs": 2, "rampup_epochs": 2, "averaged_losses": 2},
}

# Settings that a run of two epochs needs so that the method starts in time.
EARLY: dict[str, dict[str, object]] = {
    "coteaching_plus": {"init_epoch": 1},
    "adacorr": {"start_epoch": 0, "update_epoch": 0},
    "dividemix": {"warmup_epochs": 1},
    "dividemix+tnlpad": {"warmup_epochs": 1},
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """Points in the plane with clean and given labels, and a clean test set."""

    points: Tensor
    clean: Tensor
    given: Tensor
    test_points: Tensor
    test_labels: Tensor
    num_classes: int


def blobs(samples: int = 256, num_classes: int = 4, noise_rate: float = 0.3, seed: int = 0) -> Problem:
    """Draw classes around the corners of a polygon; wrong labels are uniform over the other classes."""
    generator = torch.Generator().manual_seed(seed)

    def draw(count: int) -> tuple[Tensor, Tensor]:
        labels = torch.randint(num_classes, (count,), generator=generator)
        angle = 2 * math.pi * labels / num_classes
        centre = torch.stack([angle.cos(), angle.sin()], 1)
        return 2 * centre + 0.6 * torch.randn(count, 2, generator=generator), labels

    points, clean = draw(samples)
    test_points, test_labels = draw(500)
    wrong = torch.rand(samples, generator=generator) < noise_rate
    shift = torch.randint(1, num_classes, (samples,), generator=generator)
    given = torch.where(wrong, (clean + shift) % num_classes, clean)
    return Problem(
        points=points,
        clean=clean,
        given=given,
        test_points=test_points,
        test_labels=test_labels,
        num_classes=num_classes,
    )


def in_double(problem: Problem) -> Problem:
    return replace(problem, points=problem.points.double(), test_points=problem.test_points.double())


def perceptron(seed: int, num_classes: int = 4, *, batchnorm: bool = False, dtype: torch.dtype = torch.float32):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        norm = [nn.BatchNorm1d(32)] if batchnorm else []
        return nn.Sequential(nn.Linear(2, 32), *norm, nn.ReLU(), nn.Linear(32, num_classes)).to(dtype)


class Points:
    """A `Source` of training points; an augmented point is shifted by a few steps of 1/50.

    It holds no labels. Points that are not in `index` are held out.
    """

    def __init__(self, points: Tensor, index: Tensor | None = None):
        self.points, self.index = points, torch.arange(len(points)) if index is None else index

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        return torch.randint(-2, 3, (count, 2), generator=generator)

    def augmented(self, index: Tensor, rows: Tensor) -> Tensor:
        return self.points[index] + rows.to(self.points.dtype) / 50

    @torch.no_grad()
    def outputs(self, network: nn.Module) -> Tensor:
        modes = {module: module.training for module in network.modules()}
        logits = network.eval()(self.points[self.index])
        for module, mode in modes.items():
            module.training = mode
        return logits

    def reestimated(self, network: nn.Module) -> AbstractContextManager[None]:
        return reestimated_batchnorm(network, [self.points[self.index[:64]]])


def setup_for(problem: Problem, **changes: object) -> Setup:
    """Return a Setup with a perceptron; `changes` also takes `seed`, `batchnorm` and `dtype` of the network."""
    seed, batchnorm = changes.pop("seed", 0), changes.pop("batchnorm", False)
    dtype = changes.pop("dtype", torch.float32)
    options = {
        "network": lambda k: perceptron(10 * seed + k, problem.num_classes, batchnorm=batchnorm, dtype=dtype),
        "sgd": {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-3},
        "labels": problem.given.clone(),
        "num_classes": problem.num_classes,
        "epochs": 8,
        "noise_rate": 0.3,
        "generator": torch.Generator().manual_seed(seed),
        "source": partial(Points, problem.points),
        **changes,
    }
    return Setup(**options)


def build(name: str, setup: Setup, **changes: object) -> Method:
    entry = METHODS[name]
    return entry.build(entry.config(**{**QUICK.get(name, {}), **changes}), setup)


def batches(problem: Problem, epoch: int, size: int = 32) -> list[Batch]:
    """Return the shuffled batches of an epoch; the last one may be short."""
    order = torch.randperm(len(problem.given), generator=torch.Generator().manual_seed(epoch)).to(problem.given.device)
    return [Batch(index=i, images=problem.points[i], labels=problem.given[i]) for i in order.split(size)]


def train(method: Method, problem: Problem, epochs: range | int, size: int = 32) -> list[float]:
    """Train and return the loss of every step; epochs count from 1."""
    chosen = range(1, epochs + 1) if isinstance(epochs, int) else epochs
    losses = []
    for epoch in chosen:
        clock = Clock(epoch=epoch, epochs=8)
        method.begin_epoch(clock)
        losses += [method.step(batch, clock).item() for batch in batches(problem, epoch, size)]
        end_epoch(method, noisy_accuracy(method, problem))
    return losses


@torch.no_grad()
def noisy_accuracy(method: Method, problem: Problem) -> float:
    """Return the accuracy by given labels, in place of a validation accuracy."""
    with method.judged[method.reported[0]]() as network:
        predicted = Points(problem.points).outputs(network).argmax(1)
    return (predicted == problem.given).double().mean().item()


def weights(method: Method) -> list[Tensor]:
    """Return copies of all parameters and buffers of the judged networks."""
    values = []
    for name in method.judged:
        with method.judged[name]() as network:
            values += [value.detach().clone() for value in network.state_dict().values()]
    return values


def same(first: list[Tensor], second: list[Tensor]) -> bool:
    """Return whether the tensors are equal bit for bit."""
    return len(first) == len(second) and all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def two_plain_runs(problem: Problem, epochs: int) -> list[Tensor]:
    """Train the networks 0 and 1 with Standard; return their weights."""
    values = []
    for k in range(2):
        network = setup_for(problem).network(k)
        alone = build("standard", setup_for(problem, network=lambda _, network=network: network))
        train(alone, problem, epochs)
        values += weights(alone)
    return values


def saved_and_loaded(state: dict[str, Any]) -> dict[str, Any]:
    """Save and load a state as a checkpoint does, with tensors and numbers only."""
    torch.save(state, file := io.BytesIO())
    file.seek(0)
    return torch.load(file, weights_only=True)
