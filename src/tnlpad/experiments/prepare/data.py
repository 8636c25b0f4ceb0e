"""A dataset of the catalogue made ready for a run: read, its labels corrupted, split."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tnlpad.data import CIFAR100_SUPERCLASS, human_labels, load
from tnlpad.data.catalogue import DatasetInfo, Normalisation, find
from tnlpad.data.errors import DataError
from tnlpad.data.split import legacy_split, split
from tnlpad.experiments.config import RunConfig, check_noise_file
from tnlpad.experiments.prepare.images import Images
from tnlpad.noise import make_noisy_labels, parse_noise
from tnlpad.rng import numpy_stream
from tnlpad.types import ImageFiles, NoisyLabels, RawDataset, Split


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
