"""Everything that determines the demo's numbers.

The task of the demo: scikit-learn's digits, split and with wrong labels, by seed.

One network of the demo, trained by plain SGD or by the decomposition over it, and measured after every epoch.

Every network of the demo, for every seed and candidate c2, and the choice of c2.

The demo's record as plain JSON values.
"""

import math
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tnlpad.core.decomposition import Decomposition
from tnlpad.core.split import parameter_groups
from tnlpad.grid.executors import execute
from tnlpad.networks import small_cnn
from tnlpad.noise import corrupt, symmetric
from tnlpad.rng import global_torch_stream, numpy_stream, torch_stream
from tnlpad.types import RawDataset, Split


@dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """Everything that determines the demo's numbers."""

    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    noise_rate: float = 0.4
    train_size: int = 1000
    validation_size: int = 300
    epochs: int = 60
    batch_size: int = 64
    learning_rate: float = 0.01
    learning_rate_drop: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-3
    c1: float = 1e-4
    c2_candidates: tuple[float, ...] = (0.5, 1.0, 2.0)

    def __post_init__(self) -> None:
        for name in ("seeds", "c2_candidates"):
            values = getattr(self, name)
            if not values or len(set(values)) != len(values):
                raise ValueError(f"{name}={values!r}: give at least one, and none of them twice.")
        for name in ("train_size", "validation_size", "epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)!r}: must be at least 1.")

    def learning_rate_at(self, epoch: int) -> float:
        """Constant for three quarters of the epochs (1-based), then `learning_rate_drop` times that."""
        late = epoch > math.ceil(0.75 * self.epochs)
        return self.learning_rate * (self.learning_rate_drop if late else 1.0)


DIGITS = 1797
NUM_CLASSES = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Digits:
    """One seed's tensors: images float32 in [0, 1], labels int64."""

    train_images: Tensor
    train_labels: Tensor
    validation_images: Tensor
    validation_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    wrong_images: Tensor  # training images with a wrong label, and that label
    wrong_labels: Tensor


def load_raw_digits() -> RawDataset:
    """scikit-learn's bundled digits: 17 grey levels from 0 to 16, one channel of 8x8 pixels."""
    from sklearn.datasets import load_digits  # here, because it takes most of a second and the workers do without

    bunch = load_digits()
    return RawDataset(
        images=bunch.images.astype(np.uint8)[:, None],
        labels=bunch.target.astype(np.int64),
        class_names=tuple(str(name) for name in bunch.target_names),
    )


def digits(raw: RawDataset, config: DemoConfig, seed: int) -> Digits:
    """Split the images, corrupt the labels of all but the test images, and lay everything out as tensors."""
    images, labels = raw.images / np.float32(16), raw.labels
    needed = config.train_size + config.validation_size
    if needed >= len(images):
        raise ValueError(
            f"train_size={config.train_size} and validation_size={config.validation_size} need {needed} of the "
            f"{len(images)} digits and leave none for testing: make one of them smaller."
        )
    order = numpy_stream(seed, "split").permutation(len(images))
    split = Split(train=order[: config.train_size], validation=order[config.train_size : needed])
    test = order[needed:]
    noisy = corrupt(labels, symmetric(config.noise_rate, NUM_CLASSES), numpy_stream(seed, "noise"))
    wrong = split.train[noisy.given[split.train] != noisy.clean[split.train]]
    return Digits(
        train_images=torch.from_numpy(images[split.train]),
        train_labels=torch.from_numpy(noisy.given[split.train]),
        validation_images=torch.from_numpy(images[split.validation]),
        validation_labels=torch.from_numpy(noisy.given[split.validation]),
        test_images=torch.from_numpy(images[test]),
        test_labels=torch.from_numpy(noisy.clean[test]),
        wrong_images=torch.from_numpy(images[wrong]),
        wrong_labels=torch.from_numpy(noisy.given[wrong]),
    )


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Shares in [0, 1] after every epoch of one training run."""

    test: tuple[float, ...]
    validation: tuple[float, ...]
    memorised: tuple[float, ...]

    def chosen_epoch(self) -> int:
        """The first epoch (1-based) of the highest noisy validation accuracy."""
        return 1 + self.validation.index(max(self.validation))


class Measured(NamedTuple):
    """Shares in [0, 1] after one epoch."""

    test: float
    validation: float
    memorised: float


class Job(NamedTuple):
    """One network to train: by SGD if c2 is None, else by the decomposition over SGD."""

    config: DemoConfig
    seed: int
    c2: float | None


def train(raw: RawDataset, job: Job) -> dict[str, Curves]:
    """Train one network and measure it after every epoch; "plain", or "w" and "sigma"."""
    config, seed, c2 = job
    data = digits(raw, config, seed)
    with global_torch_stream(seed, "init"):
        network = small_cnn(num_classes=NUM_CLASSES, in_channels=1)
    options: dict[str, Any] = {
        "lr": config.learning_rate,
        "momentum": config.momentum,
        "weight_decay": config.weight_decay,
    }
    optimizer: torch.optim.Optimizer
    if c2 is None:
        optimizer = torch.optim.SGD(network.parameters(), **options)
    else:
        # γ starts at 0, so that both methods start from the very same network.
        groups = parameter_groups(network, init="zero")
        optimizer = Decomposition(groups, torch.optim.SGD, c1=config.c1, c2=c2, **options)
    order = torch_stream(seed, "order")
    measured: dict[str, list[Measured]] = {}
    for epoch in range(1, config.epochs + 1):
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate_at(epoch)
        if isinstance(optimizer, Decomposition):
            optimizer.start_epoch()
        network.train()
        for index in torch.randperm(config.train_size, generator=order).split(config.batch_size):
            loss = F.cross_entropy(network(data.train_images[index]), data.train_labels[index])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        for method, weights in _judged_as(optimizer):
            with weights:
                measured.setdefault(method, []).append(measure(network, data))
    return {method: _curves(epochs) for method, epochs in measured.items()}


def _judged_as(optimizer: torch.optim.Optimizer) -> Iterable[tuple[str, Any]]:
    if isinstance(optimizer, Decomposition):
        return [("w", nullcontext()), ("sigma", optimizer.sigma_weights())]
    return [("plain", nullcontext())]


@torch.no_grad()
def measure(network: nn.Module, data: Digits) -> Measured:
    """Judge the network by the weights it holds now, all images in one pass."""
    network.eval()
    images = torch.cat([data.test_images, data.validation_images, data.wrong_images])
    labels = torch.cat([data.test_labels, data.validation_labels, data.wrong_labels])
    hits = (network(images).argmax(dim=1) == labels).double()
    sizes = [len(data.test_labels), len(data.validation_labels), len(data.wrong_labels)]
    # Without a single wrong label (noise_rate 0) nothing can be memorised: 0, and not 0/0.
    return Measured(*(part.mean().item() if len(part) else 0.0 for part in hits.split(sizes)))


def _curves(epochs: Sequence[Measured]) -> Curves:
    test, validation, memorised = zip(*epochs, strict=True)
    return Curves(test=test, validation=validation, memorised=memorised)


METHODS = ("plain", "w", "sigma")
TUNE_LEARNING_RATES = (0.01, 0.02, 0.05)
TUNE_WEIGHT_DECAYS = (1e-3, 1e-2, 4e-2)

Progress = Callable[[int, int], None]  # networks trained so far, networks in all


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """Curves by method ("plain", "w", "sigma"), one for each seed; σ's and w's are those of the chosen c2."""

    config: DemoConfig
    curves: Mapping[str, tuple[Curves, ...]]
    chosen_c2: float
    validation_by_c2: Mapping[float, tuple[float, ...]]
    seconds: float


def run_demo(config: DemoConfig, *, workers: int = 1, progress: Progress | None = None) -> DemoResult:
    """Train every seed by plain SGD and by the decomposition with every candidate c2, and choose c2.

    Args:
        config: What to train.
        workers: How many networks to train at once; more than one are processes of their own. The numbers do not
            depend on it.
        progress: Called with the number of networks trained and their total, after each.
    """
    start = time.perf_counter()
    outcomes = _train_all(_jobs(config), workers, progress)
    return _result(config, outcomes, time.perf_counter() - start)


def tune(config: DemoConfig, *, workers: int = 1, progress: Progress | None = None) -> list[dict[str, Any]]:
    """Noisy validation accuracy of both methods over learning rates and weight decays; the test set is not reported.

    For every pair: mean over the seeds in the last epoch and in the epoch chosen on noisy validation, with σ's c2
    chosen anew for the pair.
    """
    configs = [
        replace(config, learning_rate=learning_rate, weight_decay=weight_decay)
        for learning_rate in TUNE_LEARNING_RATES
        for weight_decay in TUNE_WEIGHT_DECAYS
    ]
    outcomes = _train_all([job for each in configs for job in _jobs(each)], workers, progress)
    cells = []
    for each in configs:
        result = _result(each, {job: curves for job, curves in outcomes.items() if job.config == each}, math.nan)
        cells.append(
            {
                "learning_rate": each.learning_rate,
                "weight_decay": each.weight_decay,
                "c2": result.chosen_c2,
                "validation_last_epoch": _means(result, lambda curves: curves.validation[-1]),
                "validation_chosen_epoch": _means(result, lambda curves: max(curves.validation)),
            }
        )
    return cells


def _means(result: DemoResult, value: Callable[[Curves], float]) -> dict[str, float]:
    return {method: statistics.fmean(map(value, result.curves[method])) for method in METHODS}


def _jobs(config: DemoConfig) -> list[Job]:
    return [Job(config, seed, c2) for seed in config.seeds for c2 in (None, *config.c2_candidates)]


def _result(config: DemoConfig, outcomes: Mapping[Job, dict[str, Curves]], seconds: float) -> DemoResult:
    validation_by_c2 = {
        c2: tuple(outcomes[Job(config, seed, c2)]["sigma"].validation[-1] for seed in config.seeds)
        for c2 in config.c2_candidates
    }
    # max keeps the first of equals: the smaller c2 when the candidates are given in increasing order.
    chosen = max(config.c2_candidates, key=lambda c2: statistics.fmean(validation_by_c2[c2]))
    curves = {
        method: tuple(
            outcomes[Job(config, seed, None if method == "plain" else chosen)][method] for seed in config.seeds
        )
        for method in METHODS
    }
    return DemoResult(
        config=config, curves=curves, chosen_c2=chosen, validation_by_c2=validation_by_c2, seconds=seconds
    )


def _train_all(jobs: Sequence[Job], workers: int, progress: Progress | None) -> dict[Job, dict[str, Curves]]:
    report = progress or (lambda done, total: None)
    raw = load_raw_digits()
    outcomes: dict[Job, dict[str, Curves]] = {}
    report(0, len(jobs))
    # A process for one worker would only take longer: nothing here is large enough to crash.
    trained = execute(partial(train, raw), jobs, workers=workers if workers > 1 else 0)
    with closing(trained):  # at once, also when `progress` raises: processes must not go on for no one
        for outcome in trained:
            if outcome.value is None:
                raise RuntimeError(f"{outcome.job} failed: {outcome.error}\n{outcome.traceback or ''}")
            outcomes[outcome.job] = outcome.value
            report(len(outcomes), len(jobs))
    return outcomes


def record(result: DemoResult, command: str) -> dict[str, Any]:
    """Everything worth keeping as plain JSON values: settings, curves, summary, and what is needed to run it again."""
    config = result.config
    return {
        "kind": "demo",
        "command": command,
        "versions": versions(),
        "seconds": round(result.seconds, 1),
        "configuration": {field.name: _plain(getattr(config, field.name)) for field in fields(config)},
        "test_size": DIGITS - config.train_size - config.validation_size,
        "selection": {
            "rule": "highest mean noisy validation accuracy of sigma in the last epoch",
            "chosen_c2": result.chosen_c2,
            "candidates": [
                {"c2": c2, "validation_last_epoch": summary(values)} for c2, values in result.validation_by_c2.items()
            ],
        },
        "methods": {method: _method_record(runs) for method, runs in result.curves.items()},
        "gain": _gain(result),
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _method_record(runs: Sequence[Curves]) -> dict[str, Any]:
    epochs = [curves.chosen_epoch() for curves in runs]
    return {
        "test_last_epoch": summary([curves.test[-1] for curves in runs]),
        "test_chosen_epoch": summary([curves.test[epoch - 1] for curves, epoch in zip(runs, epochs, strict=True)]),
        "chosen_epochs": epochs,
        "memorised_last_epoch": summary([curves.memorised[-1] for curves in runs]),
        "curves": [{name: list(values) for name, values in asdict(curves).items()} for curves in runs],
    }


def _gain(result: DemoResult) -> dict[str, Any]:
    """σ against plain training, both in the last epoch, with √(sd² + sd²)."""
    plain, sigma = (summary([c.test[-1] for c in result.curves[method]]) for method in ("plain", "sigma"))
    sds = (plain["sd"], sigma["sd"])
    return {
        "test_last_epoch": sigma["mean"] - plain["mean"],
        "combined_sd": None if None in sds else math.hypot(*sds),
    }


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Mean, sample standard deviation (None for a single value), n, and the values."""
    return {
        "mean": statistics.fmean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else None,
        "n": len(values),
        "values": list(values),
    }


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    packages = ("tnlpad", "torch", "numpy", "scikit-learn")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "platform": f"{platform.system()} {platform.machine()}",
    }
