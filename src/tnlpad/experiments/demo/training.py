"""One network of the demo, trained by plain SGD or by the decomposition over it, and measured after every epoch."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from tnlpad.core.decomposition import Decomposition
from tnlpad.core.split import parameter_groups
from tnlpad.experiments.demo.config import DemoConfig
from tnlpad.experiments.demo.task import NUM_CLASSES, Digits, digits
from tnlpad.networks import small_cnn
from tnlpad.rng import global_torch_stream, torch_stream
from tnlpad.types import RawDataset


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
