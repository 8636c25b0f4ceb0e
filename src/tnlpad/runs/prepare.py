"""The parts of a run: data of the catalogue with noise and split, training batches, sets to measure on, and the method.

`own_data` prepares user data in the same form.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

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
from tnlpad.features.encoder import Encoder
from tnlpad.features.projection import Projection
from tnlpad.methods import METHODS, Method, Setup
from tnlpad.methods.protocol import Source
from tnlpad.networks import NETWORKS, Network, build, load_pretrained
from tnlpad.networks.pretrained import StandardisedLinear, fix_statistics, head_name, standardise_features
from tnlpad.noise import make_noisy_labels, parse_noise
from tnlpad.ranks import group
from tnlpad.ranks.batchnorm import share_statistics
from tnlpad.rng import global_torch_stream, numpy_stream, torch_stream
from tnlpad.runs.config import RunConfig, check_noise_file
from tnlpad.runs.devices import available_cores
from tnlpad.runs.folds import CrossFitted, held_out_rows
from tnlpad.runs.images import (
    Images,
    TrainingImages,
    augmentation,
    image_shape,
    images_at,
    inference_batch_size,
    memory_format,
    resize_and_crop,
)
from tnlpad.training.measure import Samples, Sets, evaluation_mode
from tnlpad.training.sample_scores import SampleStatistics
from tnlpad.types import ImageFiles, Index, NoisyLabels, RawDataset, Split


@dataclass(frozen=True, kw_only=True, eq=False)
class Data:
    """A dataset with noise and split; labels are on the device, and images too unless they stay in files.

    Args:
        normalisation: Mean and standard deviation of each channel; features are already standardised by theirs.
        num_classes: Number of classes that are present; a subset of Food-101 may lack some.
        class_names: By label.
        train, test: Images by dataset index; user data may have no test part.
        test_labels: Clean labels; of user data the given ones.
        noisy: Labels of the training images, before and after corruption.
        given: Labels of the training images after corruption, on the device.
        correct: Where the given labels are right; None if unknown.
        parts: Indices of the training images to train on, and of those held out for validation.
        published: Other images to validate on, with clean labels; None to validate on the held-out ones.
        fold: Repeats × training images: the fold of each, if they are judged out of fold.
        encoder, projection: What turned texts, tables or many features into the rows of `train`.
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
    fold: Tensor | None = None
    encoder: Encoder | None = None
    projection: Projection | None = None

    @property
    def sizes(self) -> dict[str, int]:
        """Number of images in each set."""
        held_out = self.parts.validation if self.published is None else self.published.labels
        return {"train": len(self.parts.train), "validation": len(held_out), "test": len(self.test_labels)}


def prepare_data(config: RunConfig, root: Path | None, device: torch.device) -> Data:
    """Read a dataset of the catalogue, corrupt its labels and split it; noise and split depend only on the seed."""
    info = find(config.dataset)
    source = info.images_of or info.name
    train_set, test_set = (load(source, root, part, config.resize) for part in ("train", "test"))
    in_memory = isinstance(train_set, RawDataset)
    _require_size(config, info, len(train_set.labels))
    published = load("clothing1m", root, "validation", config.resize) if config.validation == "clean" else None
    noisy = _noisy_labels(config, source, train_set, root)
    return Data(
        normalisation=info.normalisation,
        num_classes=len(train_set.class_names),
        class_names=train_set.class_names,
        train=_images(replace(train_set, labels=noisy.clean), device),  # one array of labels instead of two
        test=_images(test_set, device),
        test_labels=torch.from_numpy(test_set.labels).to(device),
        noisy=noisy,
        given=torch.from_numpy(noisy.given).to(device),
        correct=torch.from_numpy(noisy.given == noisy.clean).to(device) if in_memory else None,
        parts=held_out_parts(config, len(train_set.labels)),
        published=published,
    )


def held_out_parts(config: RunConfig, size: int) -> Split:
    """Split the indices of the samples into training and validation."""
    if config.validation == "clean":
        return Split(train=np.arange(size), validation=np.arange(0))
    if config.legacy_streams:
        return legacy_split(size, config.validation_fraction, config.seed)
    return split(size, config.validation_fraction, numpy_stream(config.seed, "split"))


def _require_size(config: RunConfig, info: DatasetInfo, found: int) -> None:
    """Refuse a part of a dataset under the name of the whole: it gives other numbers."""
    expected = config.subset or info.train_size
    if found != expected:
        source = "as published" if config.subset is None else "by --set subset"
        raise DataError(
            f"{info.name} has {found:,} training images here, but this run needs {expected:,} ({source}). "
            f"To train on those that are here, as a separate run, add --set subset={found}."
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
    """Return the training batches, and the random streams of their order, their augmentation and the method."""
    streams = {name: torch_stream(config.seed, name) for name in ("order", "augment", "method")}
    common: dict[str, Any] = {
        "batch_size": config.batch_size,
        "indices": torch.from_numpy(data.parts.train),
        "order": streams["order"],
    }
    if isinstance(data.train, Tensor) and data.train.ndim == 2:
        return RowLoader(data.train, data.given, **common), streams
    common |= {
        "mean": data.normalisation.mean,
        "std": data.normalisation.std,
        "augment": streams["augment"],
        "memory_format": memory_format(config, device),
    }
    if isinstance(data.train, Tensor):
        return DeviceLoader(data.train, data.given, augmentation=augmentation(config), **common), streams
    resize, crop = resize_and_crop(config)
    batches = config.batches_per_epoch
    loader = StreamLoader(
        data.train,
        labels=data.given,
        resize=resize,
        crop=crop,
        flip=config.flip,
        samples_per_epoch=None if batches is None else batches * config.batch_size,
        device=device,
        workers=available_cores(),  # threads that decode; their number changes no image
        **common,
    )
    return loader, streams


NETWORKS_PER_MEMBER = 8  # more than any method has
MEMORISATION_SAMPLES = 5000  # wrong labels to measure on; a share of 5,000 is accurate to about one percent


def prepare_sets(config: RunConfig, data: Data, device: torch.device) -> Sets:
    """Return the sets to measure on: validation, clean test, and training samples whose label is known to be wrong."""

    def whole(images: Images, labels: Tensor) -> Samples:
        return _samples(config, data, images, labels, np.arange(len(labels)), device)

    if data.fold is not None:
        validation = out_of_fold(config, data, device)
    elif data.published is None:
        validation = _samples(config, data, data.train, data.given, data.parts.validation, device)
    else:
        validation = whole(data.published, torch.from_numpy(data.published.labels).to(device))
    wrong = _wrong_labels(config, data)
    return Sets(
        validation=validation,
        test=None if data.test is None else whole(data.test, data.test_labels),
        wrong=_samples(config, data, data.train, data.given, wrong, device) if len(wrong) else None,
        correct=data.correct,
    )


def prepare_statistics(
    config: RunConfig, data: Data, device: torch.device, every: int, folder: Path | None = None
) -> SampleStatistics:
    """Return the statistics that score all samples, held-out ones included, after every `every` epochs."""
    if data.fold is not None:
        samples = out_of_fold(config, data, device)
    else:
        index = np.sort(np.concatenate([data.parts.train, data.parts.validation]))
        samples = _samples(config, data, data.train, data.given, index, device)
    bf16 = scored_in_bf16(config, device)
    return SampleStatistics(samples, data.num_classes, every=every, bf16=bf16, folder=folder)


def scored_in_bf16(config: RunConfig, device: torch.device) -> bool:
    """Return whether samples are scored in bfloat16: in runs in bfloat16, and on processors that multiply it.

    On a CPU, to score all samples takes a third of the time of an epoch, and half of that in bfloat16. Training and the
    choice of the epoch keep the precision of the run: where other programs use the cores, gradients in bfloat16 are
    slow, since oneDNN's threads spin while they wait for each other. Only user data with a layout are scored so:
    published datasets keep their scores, and so do runs begun by earlier versions, which name no layout.
    """
    own_images = device.type == "cpu" and config.data is not None and config.channels_last is True
    return config.precision == "bfloat16" or (own_images and torch.cpu._is_avx512_bf16_supported())


def out_of_fold(config: RunConfig, data: Data, device: torch.device) -> Samples:
    """Return all samples, each to be judged by the networks that were not trained on it."""
    assert isinstance(data.train, Tensor), "features are in memory"
    assert data.fold is not None, "the caller has checked it"
    return Samples(
        images_at=held_out_rows(data.train, data.fold),
        index=torch.arange(len(data.given), device=device),
        labels=data.given,
        batch_size=inference_batch_size(config, data.train, device),
    )


def _samples(
    config: RunConfig, data: Data, images: Images, labels: Tensor, rows: Index, device: torch.device
) -> Samples:
    index, in_files = torch.from_numpy(rows), isinstance(images, ImageFiles)
    return Samples(
        images_at=images_at(config, images, data.normalisation, device),
        index=index if in_files else index.to(device),  # files are read by the host
        labels=labels[index.to(device)],
        batch_size=inference_batch_size(config, images, device),
    )


def _wrong_labels(config: RunConfig, data: Data) -> Index:
    """Return training samples with a wrong label; none if it is unknown which labels are wrong."""
    train = data.parts.train
    if data.correct is None:
        return train[:0]
    wrong: Index = train[data.noisy.given[train] != data.noisy.clean[train]]
    if len(wrong) > MEMORISATION_SAMPLES:
        wrong = np.sort(numpy_stream(config.seed, "memorisation").choice(wrong, MEMORISATION_SAMPLES, replace=False))
    return wrong


def prepare_method(
    config: RunConfig,
    data: Data,
    generator: torch.Generator,
    device: torch.device,
    root: Path | None = None,
    weights: Path | None = None,
) -> Method:
    """Build the method with its networks and optimizers, or one for every fold and repeat.

    Args:
        config, data, device: The run.
        generator: The method's random stream.
        root: Folder of datasets, with pretrained weights in its folder `weights`.
        weights: File of pretrained weights, if it is elsewhere.
    """
    build = partial(_method, config, data, generator, device, root, weights)
    if data.fold is None:
        return build(0)
    assert config.folds is not None, "the data were divided by it"
    members = [build(NETWORKS_PER_MEMBER * number) for number in range(config.folds * len(data.fold))]
    return CrossFitted(members, data.fold, config.folds)


def _method(
    config: RunConfig,
    data: Data,
    generator: torch.Generator,
    device: torch.device,
    root: Path | None,
    weights: Path | None,
    first_network: int,
) -> Method:
    """Build one method; its networks are initialised as number `first_network` and following."""
    # A CUDA graph reads the learning rate from device memory.
    rate: Any = torch.tensor(config.learning_rate, device=device) if device.type == "cuda" else config.learning_rate
    setup = Setup(
        network=lambda number: prepare_network(config, data, first_network + number, device, root, weights),
        sgd={"lr": rate, "momentum": config.momentum, "weight_decay": config.weight_decay, "fused": True},
        labels=data.given,
        num_classes=data.num_classes,
        epochs=config.epochs,
        noise_rate=config.noise_rate,
        generator=generator,
        source=_source(config, data, device),
        working_dtype=working_dtype(config, device),
    )
    entry = METHODS[config.method]
    return entry.build(entry.config(**config.options), setup)


def working_dtype(config: RunConfig, device: torch.device) -> torch.dtype | None:
    """Return bfloat16 if autocast casts every use of convolutional and linear weights to it anyway.

    That is known of our own networks, except LeNet with its own kernels. On several ranks, gradients are added up in
    single precision. On a CPU there is nothing to gain.
    """
    alone_on_gpu = device.type == "cuda" and group.count() == 1
    known = NETWORKS[config.network].__module__.startswith("tnlpad.networks.") and config.network != "lenet"
    return torch.bfloat16 if config.precision == "bfloat16" and alone_on_gpu and known else None


def _source(config: RunConfig, data: Data, device: torch.device) -> Callable[[], Source] | None:
    """Return what builds the images for methods that draw their own batches; None unless images are in memory."""
    if not isinstance(data.train, Tensor) or data.train.ndim != 4:
        return None
    images = data.train

    def source() -> TrainingImages:
        return TrainingImages(
            Augmenter(images, augmentation(config), data.normalisation.mean, data.normalisation.std),
            torch.from_numpy(data.parts.train),
            memory_format=memory_format(config, device),
            batch_size=inference_batch_size(config, images, device),
            bf16=config.precision == "bfloat16",
            captured=device.type == "cuda" and group.count() == 1,
        )

    return source


# Networks -------------------------------------------------------------------------------------------------------------

WEIGHTS_FOLDER = "weights"  # in the folder of datasets


def prepare_network(
    config: RunConfig, data: Data, number: int, device: torch.device, root: Path | None, weights: Path | None
) -> nn.Module:
    """Build one network of a run on its device; each `number`, from 0, has its own random weights."""
    shape = image_shape(config, data.train)
    with global_torch_stream(config.seed, f"network-{number}"):
        network = build_network(config, shape, data.num_classes)
    initial = config.backbone if config.finetune else config.pretrained
    if initial is not None:
        _load_weights(config, initial, network, root, weights)
    network.to(device)
    if config.finetune:
        fix_statistics(network)
        _fit_last_layer(config, data, network, device)
    for parameter in network.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=memory_format(config, device))
    _check_forward(config.network, network, torch.zeros(1, *shape, device=device))
    if group.count() > 1:
        share_statistics(network)
    elif config.compiled:
        network.compile(**compile_options())
    return network


FITTED_SAMPLES = 1024  # for the scale of features


@torch.no_grad()
def _fit_last_layer(config: RunConfig, data: Data, network: nn.Module, device: torch.device) -> None:
    """Standardise the features of a pretrained network by those of some training samples."""
    assert isinstance(network, Network), "a network of ours"
    assert isinstance(network.classifier, StandardisedLinear), "built for it"
    train = data.parts.train
    rows = train[np.linspace(0, len(train) - 1, min(len(train), FITTED_SAMPLES)).astype(int)]
    network.classifier.fit(features_of(network, _samples(config, data, data.train, data.given, rows, device)))


@torch.no_grad()
def features_of(network: nn.Module, samples: Samples) -> Tensor:
    """Return the outputs of the penultimate layer in evaluation mode, a row for each sample."""
    features = cast(Callable[[Tensor], Tensor], network.features)
    with evaluation_mode(network):
        return torch.cat([features(samples.images_at(part)) for part in samples.index.split(samples.batch_size)])


def build_network(config: RunConfig, shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """Build a network with weights from torch's global generator.

    Args:
        config: The run.
        shape: Input shape: channels × height × width, or the number of features.
        num_classes: Number of outputs.
    """
    options = {"num_classes": num_classes, "in_channels": shape[0]}
    if config.stem_padding is not None:
        options["stem_padding"] = config.stem_padding
    if "image_size" in inspect.signature(NETWORKS[config.network]).parameters and len(shape) == 3:
        options["image_size"] = shape[1]
    network = build(config.network, **options)
    if config.finetune:
        standardise_features(network)
    return network


def _load_weights(
    config: RunConfig, pretrained: str, network: nn.Module, root: Path | None, weights: Path | None
) -> None:
    """Load published weights and verify them by the digits in their name.

    The last layer keeps its random weights if its classes are others. Two networks then differ only in that layer.
    """
    if config.method == "standard_2x":
        raise ValueError(
            f"standard_2x adds a second random draw to its weights, which would drown those of {pretrained}. "
            "Use standard, or --set pretrained=none."
        )
    path = weights or (root or default_root()) / WEIGHTS_FOLDER / pretrained
    # A file under another name must still have the content that the configuration names.
    digits = pretrained.rsplit("-", 1)[1].split(".")[0] if weights is not None else None
    if not path.is_file():
        raise DataError(
            f"{path} is missing: this run starts from these weights. Put the file there (PyTorch publishes its own at "
            "https://download.pytorch.org/models/), or train from scratch with --set pretrained=none."
        )
    try:
        load_pretrained(network, path, head=head_name(network), sha256=digits, new_head=bool(config.finetune))
    except (ValueError, OSError) as error:
        raise DataError(f"{config.network} cannot start from {path}: {error}") from error


@torch.no_grad()
def _check_forward(name: str, network: nn.Module, image: Tensor) -> None:
    """Raise ValueError if the network cannot take these images, before the run begins."""
    try:
        with evaluation_mode(network):
            network(image)
    except (ValueError, RuntimeError) as error:
        shape = " × ".join(map(str, image.shape[1:]))
        raise ValueError(
            f"{name} cannot take images of {shape} ({str(error).rstrip('.')}). Choose another network."
        ) from error
