"""The method of a run, with its networks and optimizers."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tnlpad.data.augment import Augmenter
from tnlpad.experiments.config import RunConfig
from tnlpad.experiments.prepare.data import Data
from tnlpad.experiments.prepare.images import at_once, augmentation, memory_format
from tnlpad.experiments.prepare.network import prepare_network
from tnlpad.experiments.source import TrainingImages
from tnlpad.methods import METHODS, Method, Setup
from tnlpad.methods.protocol import Source


def prepare_method(
    config: RunConfig,
    data: Data,
    generator: torch.Generator,
    device: torch.device,
    root: Path | None = None,
    weights: Path | None = None,
) -> Method:
    """The method with its networks and optimizers.

    Args:
        config, data, device: What to train, on what, where.
        generator: The method's own stream.
        root: Where datasets lie, and weights to begin with beside them.
        weights: The file of weights to begin with, if it lies elsewhere.
    """
    # A graph reads the learning rate from device memory.
    rate: Any = torch.tensor(config.learning_rate, device=device) if device.type == "cuda" else config.learning_rate
    setup = Setup(
        network=lambda number: prepare_network(config, data, number, device, root, weights),
        sgd={"lr": rate, "momentum": config.momentum, "weight_decay": config.weight_decay, "fused": True},
        labels=data.given,
        num_classes=data.num_classes,
        epochs=config.epochs,
        noise_rate=config.noise_rate,
        generator=generator,
        source=_source(config, data, device),
    )
    entry = METHODS[config.method]
    return entry.build(entry.config(**config.options), setup)


def _source(config: RunConfig, data: Data, device: torch.device) -> Callable[[], Source] | None:
    """The training images for methods that draw by themselves, if they are images in memory."""
    if not isinstance(data.train, Tensor) or data.train.ndim != 4:
        return None
    augmenter = partial(Augmenter, data.train, augmentation(config), data.normalisation.mean, data.normalisation.std)

    def source() -> TrainingImages:  # for other methods nothing is made
        return TrainingImages(
            augmenter(),
            torch.from_numpy(data.parts.train),
            memory_format=memory_format(device),
            batch_size=at_once(config, data.train, device),
            bf16=config.precision == "bfloat16",
            captured=device.type == "cuda",
        )

    return source
