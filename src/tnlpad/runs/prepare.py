"""A dataset of the catalogue made ready for a run: read, its labels corrupted, split.

The training batches of a run: of images in memory, of images in files, or of rows of features.

What a run is measured on after its epochs, and what counts how it treats each label.

A run's networks: with random weights of the seed or published ones, laid out for the device, tried on an image.

The method of a run, with its networks and optimizers.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tnlpad.core.compiled import compile_options
from tnlpad.data import CIFAR100_SUPERCLASS, human_labels, load
from tnlpad.data.augment import Augmenter
from tnlpad.data.catalogue import DatasetInfo, Normalisation, find
from tnlpad.data.files import default_root
from tnlpad.data.loader import DeviceLoader, RowLoader
from tnlpad.data.split import legacy_split, split
from tnlpad.data.stream import StreamLoader
from tnlpad.errors import DataError
from tnlpad.methods import METHODS, Method, Setup
from tnlpad.methods.protocol import Source
from tnlpad.networks import NETWORKS, build, load_pretrained
from tnlpad.noise import make_noisy_labels, parse_noise
from tnlpad.rng import global_torch_stream, numpy_stream, torch_stream
from tnlpad.runs.config import RunConfig, check_noise_file
from tnlpad.runs.devices import available_cores
from tnlpad.runs.images import (
    Images,
    TrainingImages,
    at_once,
    augmentation,
    image_shape,
    images_at,
    memory_format,
    pixels_of_files,
)
from tnlpad.training.evaluate import evaluation_mode
from tnlpad.training.measure import Samples, Sets
from tnlpad.training.sample_scores import Census
from tnlpad.types import ImageFiles, Index, NoisyLabels, RawDataset, Split


@dataclass(frozen=True, kw_only=True, eq=False)
class Data:
    """A dataset with its noise and split; labels on the device, and images too unless they stay in files.

    Args:
        normalisation: Mean and deviation of each channel; rows of features are standardised by theirs already.
        num_classes: How many there are here: of Food-101 a part may be.
        class_names: Theirs, by label.
        train, test: Images by dataset index; no test images where a person's own data have none.
        test_labels: Clean; of own data as given.
        noisy: Labels of the training images, before and after corruption.
        given: Those after it, on the device.
        correct: Where these are right; None if nobody knows.
        parts: Which of the training images are trained on, and which are held out to validate on.
        published: Other images to validate on, with clean labels; None if on those held out.
    """

    normalisation: Normalisation
    num_classes: int
    class_names: tuple[str, ...]
    train: Images
    test: Images | None
    test_labels: Tensor
    noisy: NoisyLabels
    given: Tensor
    correct: Tensor | None
    parts: Split
    published: ImageFiles | None

    @property
    def sizes(self) -> dict[str, int]:
        """How many images each set has."""
        held_out = self.parts.validation if self.published is None else self.published.labels
        return {"train": len(self.parts.train), "validation": len(held_out), "test": len(self.test_labels)}


def prepare_data(config: RunConfig, root: Path | None, device: torch.device) -> Data:
    """Read, corrupt, split; functions of the seed alone."""
    info = find(config.dataset)
    source = info.images_of or info.name
    train_set, test_set = (load(source, root, part) for part in ("train", "test"))
    in_memory = isinstance(train_set, RawDataset)
    _require_size(config, info, len(train_set.labels))
    published = load("clothing1m", root, "validation") if config.validation == "clean" else None
    noisy = _noisy_labels(config, source, train_set, root)
    return Data(
        normalisation=info.normalisation,
        num_classes=len(train_set.class_names),
        class_names=train_set.class_names,
        train=_images(train_set, device),
        test=_images(test_set, device),
        test_labels=torch.from_numpy(test_set.labels).to(device),
        noisy=noisy,
        given=torch.from_numpy(noisy.given).to(device),
        correct=torch.from_numpy(noisy.given == noisy.clean).to(device) if in_memory else None,
        parts=held_out_parts(config, len(train_set.labels)),
        published=published,
    )


def held_out_parts(config: RunConfig, size: int) -> Split:
    """Which of so many samples are trained on, and which choose the epoch."""
    if config.validation == "clean":
        return Split(train=np.arange(size), validation=np.arange(0))
    if config.legacy_streams:
        return legacy_split(size, config.validation_fraction, config.seed)
    return split(size, config.validation_fraction, numpy_stream(config.seed, "split"))


def _require_size(config: RunConfig, info: DatasetInfo, found: int) -> None:
    """A part of a dataset gives other numbers than the whole, and a run's name must not mean both."""
    expected = config.subset or info.train_size
    if found != expected:
        all_or_subset = "all that were published" if config.subset is None else "as subset says"
        raise DataError(
            f"{info.name} has {found:,} training images here, and this run is one on {expected:,}, {all_or_subset}. "
            f"To train on those that are here, as a run of its own, add --set subset={found}."
        )


def _noisy_labels(config: RunConfig, source: str, train_set: RawDataset | ImageFiles, root: Path | None) -> NoisyLabels:
    check_noise_file(config)
    spec = parse_noise(config.noise)
    return make_noisy_labels(
        spec,
        dataset=source,
        labels=train_set.labels,
        num_classes=len(train_set.class_names),
        seed=config.seed,
        images=train_set.images if isinstance(train_set, RawDataset) else None,
        coarse=CIFAR100_SUPERCLASS if source == "cifar100" else None,
        human=human_labels(config.dataset, spec.human or "", root) if spec.kind == "human" else None,
        protocol=config.protocol,
        inputs=config.instance_inputs,
        legacy=config.legacy_streams,
    )


def _images(dataset: RawDataset | ImageFiles, device: torch.device) -> Images:
    return torch.from_numpy(dataset.images).to(device) if isinstance(dataset, RawDataset) else dataset


Streams = dict[str, torch.Generator]


def prepare_loader(
    config: RunConfig, data: Data, device: torch.device
) -> tuple[DeviceLoader | StreamLoader | RowLoader, Streams]:
    """Training batches, and the streams that they and the method are drawn from."""
    streams = {name: torch_stream(config.seed, name) for name in ("order", "augment", "method")}
    if isinstance(data.train, ImageFiles):
        return _stream_loader(config, data, data.train, streams, device), streams
    if data.train.ndim == 2:
        return _row_loader(config, data, data.train, streams), streams
    return _device_loader(config, data, data.train, streams, device), streams


def _row_loader(config: RunConfig, data: Data, rows: Tensor, streams: Streams) -> RowLoader:
    return RowLoader(
        rows,
        data.given,
        batch_size=config.batch_size,
        indices=torch.from_numpy(data.parts.train),
        order=streams["order"],
    )


def _device_loader(
    config: RunConfig, data: Data, images: Tensor, streams: Streams, device: torch.device
) -> DeviceLoader:
    return DeviceLoader(
        images,
        data.given,
        batch_size=config.batch_size,
        mean=data.normalisation.mean,
        std=data.normalisation.std,
        indices=torch.from_numpy(data.parts.train),
        augmentation=augmentation(config),
        memory_format=memory_format(device),
        order=streams["order"],
        augment=streams["augment"],
    )


def _stream_loader(
    config: RunConfig, data: Data, files: ImageFiles, streams: Streams, device: torch.device
) -> StreamLoader:
    resize, crop = pixels_of_files(config)
    batches = config.batches_per_epoch
    return StreamLoader(
        files,
        labels=data.given,
        batch_size=config.batch_size,
        resize=resize,
        crop=crop,
        flip=config.flip,
        mean=data.normalisation.mean,
        std=data.normalisation.std,
        indices=torch.from_numpy(data.parts.train),
        samples_per_epoch=None if batches is None else batches * config.batch_size,
        order=streams["order"],
        augment=streams["augment"],
        device=device,
        workers=available_cores(),  # threads that decode; their number changes no image
        memory_format=memory_format(device),
    )


MEMORISATION_SAMPLES = 5000  # wrong labels to measure on; a share of 5,000 is known to within a percent


def prepare_sets(config: RunConfig, data: Data, device: torch.device) -> Sets:
    """What to measure on: validation, clean test, and the wrong labels among those trained on if they are known."""

    def samples(images: Images, labels: Tensor) -> Samples:
        return _samples(config, data, images, labels, np.arange(len(labels)), device)

    if data.published is None:
        validation = _samples(config, data, data.train, data.given, data.parts.validation, device)
    else:
        validation = samples(data.published, torch.from_numpy(data.published.labels).to(device))
    wrong = _wrong_labels(config, data)
    return Sets(
        validation=validation,
        test=None if data.test is None else samples(data.test, data.test_labels),
        wrong=_samples(config, data, data.train, data.given, wrong, device) if len(wrong) else None,
        correct=data.correct,
    )


def prepare_census(config: RunConfig, data: Data, device: torch.device, every: int) -> Census:
    """What counts how training treats each given label: of all samples trained on or held out from them, in order."""
    index = np.sort(np.concatenate([data.parts.train, data.parts.validation]))
    samples = _samples(config, data, data.train, data.given, index, device)
    return Census(samples, data.num_classes, every=every, bf16=config.precision == "bfloat16")


def _samples(
    config: RunConfig, data: Data, images: Images, labels: Tensor, chosen: Index, device: torch.device
) -> Samples:
    index, in_files = torch.from_numpy(chosen), isinstance(images, ImageFiles)
    return Samples(
        images_at=images_at(config, images, data.normalisation, device),
        index=index if in_files else index.to(device),  # where it is used
        labels=labels[index.to(device)],
        batch_size=at_once(config, images, device),
    )


def _wrong_labels(config: RunConfig, data: Data) -> Index:
    """Samples to measure memorisation on, if it is known which labels are wrong."""
    train = data.parts.train
    if data.correct is None:
        return train[:0]
    wrong: Index = train[data.noisy.given[train] != data.noisy.clean[train]]
    if len(wrong) > MEMORISATION_SAMPLES:
        wrong = np.sort(numpy_stream(config.seed, "memorisation").choice(wrong, MEMORISATION_SAMPLES, replace=False))
    return wrong


WEIGHTS_FOLDER = "weights"  # below the root of datasets


def build_network(config: RunConfig, shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """The network that a configuration means, its weights drawn from torch's own generator.

    Args:
        config: The run's.
        shape: Of an input: channels × height × width, or the number of features.
        num_classes: How many outputs it has.
    """
    options = {"num_classes": num_classes, "in_channels": shape[0]}
    if config.stem_padding is not None:
        options["stem_padding"] = config.stem_padding
    if "image_size" in inspect.signature(NETWORKS[config.network]).parameters and len(shape) == 3:
        options["image_size"] = shape[1]
    return build(config.network, **options)


def prepare_network(
    config: RunConfig, data: Data, number: int, device: torch.device, root: Path | None, weights: Path | None
) -> nn.Module:
    """One network of a run, ready to be trained.

    Args:
        config, data, device: What to train, on what, where.
        number: Which of the run's networks, from 0; each has random weights of its own.
        root: Where datasets lie, and weights to begin with beside them.
        weights: The file of weights to begin with, if it lies elsewhere.
    """
    shape = image_shape(config, data.train)
    with global_torch_stream(config.seed, f"network-{number}"):
        network = build_network(config, shape, data.num_classes)
    if config.pretrained is not None:
        _load_weights(config, config.pretrained, network, root, weights)
    network.to(device)
    for parameter in network.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=memory_format(device))
    _require_fit(config.network, network, torch.zeros(1, *shape, device=device))
    if config.compiled:
        network.compile(**compile_options())
    return network


def _load_weights(
    config: RunConfig, pretrained: str, network: nn.Module, root: Path | None, weights: Path | None
) -> None:
    """Published weights from the folder beside the datasets, or from a file that is named; verified by their name.

    The last layer stays as it is if its classes are others. Two networks then differ in that layer alone.
    """
    if config.method == "standard_2x":
        raise ValueError(
            f"standard_2x adds a second random draw to its weights, in which those of {pretrained} would drown. "
            "Use standard, or --set pretrained=none."
        )
    path = weights or (root or default_root()) / WEIGHTS_FOLDER / pretrained
    # A file of another name must still be the one that was meant; a name that has the digits is checked anyway.
    digits = pretrained.rsplit("-", 1)[1].split(".")[0] if weights is not None else None
    if not path.is_file():
        raise DataError(
            f"{path} is missing, the weights that this run begins with. Put the file there (PyTorch publishes its own "
            "at https://download.pytorch.org/models/), or train from scratch with --set pretrained=none."
        )
    head = next(name for name, module in network.named_modules() if module is network.classifier)
    try:
        load_pretrained(network, path, head=head, sha256=digits)
    except (ValueError, OSError) as error:
        raise DataError(f"{config.network} cannot begin with {path}: {error}") from error


@torch.no_grad()
def _require_fit(name: str, network: nn.Module, image: Tensor) -> None:
    """Refuse a network that cannot take these images before a run has begun with it."""
    try:
        with evaluation_mode(network):
            network(image)
    except (ValueError, RuntimeError) as error:
        shape = " × ".join(map(str, image.shape[1:]))
        raise ValueError(f"{name} cannot take images of {shape} ({error}) Choose another network.") from error


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
