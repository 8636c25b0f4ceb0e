"""What a run is measured on after its epochs, and what counts how it treats each label."""

import numpy as np
import torch
from torch import Tensor

from tnlpad.experiments.config import RunConfig
from tnlpad.experiments.prepare.data import Data
from tnlpad.experiments.prepare.images import Images, at_once, images_at
from tnlpad.rng import numpy_stream
from tnlpad.training.census import Census
from tnlpad.training.measure import Samples, Sets
from tnlpad.types import ImageFiles, Index

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
