"""What a run is made of: data with its noise and split, batches, the sets to measure on, a method with its networks.

Every random decision has a stream of its own, named in `STREAMS`, so that methods with the same seed see the same wrong
labels, the same split and the same batches.
"""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tnlpad.data import CIFAR100_SUPERCLASS, human_labels, load
from tnlpad.data.augment import Augmentation, Augmenter
from tnlpad.data.catalogue import DatasetInfo, find
from tnlpad.data.loader import DeviceLoader
from tnlpad.data.split import legacy_split, split
from tnlpad.experiments.config import RunConfig, check_noise_file
from tnlpad.methods import METHODS, Method, Setup
from tnlpad.networks import NETWORKS, build
from tnlpad.noise import make_noisy_labels, parse_noise
from tnlpad.rng import global_torch_stream, numpy_stream, torch_stream
from tnlpad.training.evaluate import evaluation_mode
from tnlpad.training.measure import Samples, Sets
from tnlpad.types import NoisyLabels, RawDataset, Split

STREAMS = ("noise", "split", "order", "augment", "network-0", "network-1", "method", "memorisation", "global")
MEMORISATION_SAMPLES = 5000  # wrong labels to measure on; a share of 5,000 is known to within a percent


@dataclass(frozen=True, kw_only=True, eq=False)
class Data:
    """A dataset with its noise and split, on the device."""

    info: DatasetInfo
    train_images: Tensor
    test_images: Tensor
    test_labels: Tensor
    noisy: NoisyLabels
    parts: Split
    given: Tensor
    correct: Tensor


def prepare_data(config: RunConfig, root: Path | None, device: torch.device) -> Data:
    """Read, corrupt, split; functions of the seed alone."""
    info = find(config.dataset)
    source = info.images_of or info.name
    train_set, test_set = (load(source, root, part) for part in ("train", "test"))
    if not isinstance(train_set, RawDataset) or not isinstance(test_set, RawDataset):
        raise ValueError(f"{source} does not fit into memory, and this run needs it to.")
    check_noise_file(config)
    spec = parse_noise(config.noise)
    human = human_labels(info.name, spec.human or "", root) if spec.kind == "human" else None
    noisy = make_noisy_labels(
        spec,
        dataset=source,
        labels=train_set.labels,
        num_classes=len(train_set.class_names),
        seed=config.seed,
        images=train_set.images,
        coarse=CIFAR100_SUPERCLASS if source == "cifar100" else None,
        human=human,
        protocol=config.protocol,
        inputs=config.instance_inputs,
        legacy=config.legacy_streams,
    )
    size, fraction = len(train_set.labels), config.validation_fraction
    parts = (
        legacy_split(size, fraction, config.seed)
        if config.legacy_streams
        else split(size, fraction, numpy_stream(config.seed, "split"))
    )
    return Data(
        info=info,
        train_images=torch.from_numpy(train_set.images).to(device),
        test_images=torch.from_numpy(test_set.images).to(device),
        test_labels=torch.from_numpy(test_set.labels).to(device),
        noisy=noisy,
        parts=parts,
        given=torch.from_numpy(noisy.given).to(device),
        correct=torch.from_numpy(noisy.given == noisy.clean).to(device),
    )


def prepare_loader(
    config: RunConfig, data: Data, device: torch.device
) -> tuple[DeviceLoader, dict[str, torch.Generator]]:
    """Training batches, and the streams that they and the method are drawn from."""
    streams = {name: torch_stream(config.seed, name) for name in ("order", "augment", "method")}
    loader = DeviceLoader(
        data.train_images,
        data.given,
        batch_size=config.batch_size,
        mean=data.info.normalisation.mean,
        std=data.info.normalisation.std,
        indices=torch.from_numpy(data.parts.train),
        augmentation=Augmentation(crop_padding=config.crop_padding, flip=config.flip, cutout=config.cutout),
        memory_format=_memory_format(device),
        order=streams["order"],
        augment=streams["augment"],
    )
    return loader, streams


def prepare_sets(config: RunConfig, data: Data, loader: DeviceLoader, device: torch.device) -> Sets:
    """What to measure on: noisy validation, clean test, and the wrong labels among those trained on."""
    validation = torch.from_numpy(data.parts.validation).to(device)
    train_images = loader.augmenter.plain
    normalisation = data.info.normalisation
    test_images = Augmenter(data.test_images, Augmentation(), normalisation.mean, normalisation.std).plain
    wrong = data.parts.train[data.noisy.given[data.parts.train] != data.noisy.clean[data.parts.train]]
    if len(wrong) > MEMORISATION_SAMPLES:
        wrong = np.sort(numpy_stream(config.seed, "memorisation").choice(wrong, MEMORISATION_SAMPLES, replace=False))
    wrong_index = torch.from_numpy(wrong).to(device)
    return Sets(
        validation=Samples(images_at=train_images, index=validation, labels=data.given[validation]),
        test=Samples(
            images_at=test_images,
            index=torch.arange(len(data.test_labels), device=device),
            labels=data.test_labels,
        ),
        wrong=Samples(images_at=train_images, index=wrong_index, labels=data.given[wrong_index])
        if len(wrong)
        else None,
        correct=data.correct,
    )


def prepare_method(config: RunConfig, data: Data, generator: torch.Generator, device: torch.device) -> Method:
    """The method with its networks and optimizers; the generator is its own stream."""
    channels, height, width = data.train_images.shape[1:]
    options = {"num_classes": len(data.info.class_names), "in_channels": channels}
    if config.stem_padding is not None:
        options["stem_padding"] = config.stem_padding
    if "image_size" in inspect.signature(NETWORKS[config.network]).parameters:
        options["image_size"] = height

    def network(number: int) -> nn.Module:
        with global_torch_stream(config.seed, f"network-{number}"):
            built = build(config.network, **options).to(device)
        for parameter in built.parameters():
            if parameter.ndim == 4:
                parameter.data = parameter.data.contiguous(memory_format=_memory_format(device))
        _require_fit(config.network, built, torch.zeros(1, channels, height, width, device=device))
        return built

    # A graph reads the learning rate from device memory.
    rate: Any = torch.tensor(config.learning_rate, device=device) if device.type == "cuda" else config.learning_rate
    setup = Setup(
        network=network,
        sgd={"lr": rate, "momentum": config.momentum, "weight_decay": config.weight_decay, "fused": True},
        labels=data.given,
        num_classes=options["num_classes"],
        epochs=config.epochs,
        noise_rate=config.noise_rate,
        generator=generator,
    )
    entry = METHODS[config.method]
    return entry.build(entry.config(**config.options), setup)


@torch.no_grad()
def _require_fit(name: str, network: nn.Module, image: Tensor) -> None:
    """Refuse a network that cannot take these images before a run has begun with it."""
    try:
        with evaluation_mode(network):
            network(image)
    except (ValueError, RuntimeError) as error:
        shape = " × ".join(map(str, image.shape[1:]))
        raise ValueError(f"{name} cannot take images of {shape} ({error}) Choose another network.") from error


def _memory_format(device: torch.device) -> torch.memory_format:
    return torch.channels_last if device.type == "cuda" else torch.contiguous_format
