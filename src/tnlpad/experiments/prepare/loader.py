"""The training batches of a run: of images in memory, of images in files, or of rows of features."""

import torch
from torch import Tensor

from tnlpad.data.loader import DeviceLoader
from tnlpad.data.rows import RowLoader
from tnlpad.data.stream import StreamLoader
from tnlpad.experiments.config import RunConfig
from tnlpad.experiments.executors import available_cores
from tnlpad.experiments.prepare.data import Data
from tnlpad.experiments.prepare.images import augmentation, memory_format, pixels_of_files
from tnlpad.rng import torch_stream
from tnlpad.types import ImageFiles

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
