"""Load images that do not fit into memory: threads decode the files, and pinned memory goes to the device.

`StreamLoader` yields training batches and decodes some of them ahead. Random numbers are drawn in advance for a whole
epoch, as in `DeviceLoader`, so the number of workers does not change a batch. `StreamImages` returns the images at any
indices, for evaluation.

An image is resized to `resize` pixels on its shorter side and cropped to a square of `crop` pixels, at a random place
in training and in the centre otherwise. Normalisation is done on the device for whole batches.

Workers are threads: Pillow releases the GIL, so they are as fast as processes, and need no transfer
between processes (`benchmarks/loader.py` compares).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from tnlpad.data.augment import Normaliser
from tnlpad.data.pixels import Channels, open_pixels
from tnlpad.types import Batch, ImageFiles

BATCHES_AHEAD = 2  # per worker
CACHE_BYTES = 2 * 2**30  # twice the size of Food-101's test images at the paper's 112 pixels


def decode(
    source: str | bytes,
    resize: int,
    crop: int,
    top: float = 0.5,
    left: float = 0.5,
    flip: bool = False,
    channels: Channels = 3,
) -> NDArray[np.uint8]:
    """Decode an image, resize its shorter side and cut out a square: uint8, channels × crop × crop."""
    pixels = open_pixels(source, resize, channels)
    scale = resize / min(pixels.size)
    width, height = (round(side * scale) for side in pixels.size)
    x, y = int(left * (width - crop + 1)), int(top * (height - crop + 1))
    pixels = pixels.resize((width, height), Image.Resampling.BILINEAR).crop((x, y, x + crop, y + crop))
    planes = np.atleast_3d(np.asarray(pixels)).transpose(2, 0, 1)
    return planes[:, :, ::-1] if flip else planes


class StreamLoader:
    """Yields `Batch(index, images, labels)` from image files; index refers to the whole dataset.

    Args:
        files: Paths, labels and class names of the whole dataset.
        labels: Labels to train on instead of those of `files`, such as corrupted ones.
        batch_size, drop_last, indices, order, mean, std, memory_format: As in `DeviceLoader`.
        resize, crop: Pixels of the shorter side, and of the square cut out of it.
        flip: Whether augmentation flips images horizontally.
        augment: Generator of crop positions and flips (default: central crop, no flip).
        samples_per_epoch: Approximate size of an epoch, resampled each epoch with `order`, with equally many samples
            per class as far as there are enough (default: all samples once).
        device: Device of the batches.
        workers: Number of decoding threads.
    """

    def __init__(
        self,
        files: ImageFiles,
        *,
        batch_size: int,
        resize: int,
        crop: int,
        mean: Sequence[float],
        std: Sequence[float],
        labels: Tensor | None = None,
        indices: Tensor | None = None,
        drop_last: bool = False,
        flip: bool = True,
        order: torch.Generator | None = None,
        augment: torch.Generator | None = None,
        samples_per_epoch: int | None = None,
        device: torch.device | str = "cpu",
        workers: int = 2,
        memory_format: torch.memory_format = torch.contiguous_format,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size}: must be at least 1.")
        if workers < 1:
            raise ValueError(f"workers={workers}: must be at least 1.")
        if not 1 <= crop <= resize:
            raise ValueError(f"crop={crop}, resize={resize}: the crop must fit into the resized image.")
        if samples_per_epoch is not None and (samples_per_epoch < 1 or order is None):
            raise ValueError(f"samples_per_epoch={samples_per_epoch}: must be at least 1, and needs an order.")
        self.indices = torch.arange(len(files.paths)) if indices is None else torch.as_tensor(indices).long().cpu()
        self.device = torch.device(device)
        self.labels = torch.as_tensor(files.labels if labels is None else labels).to(self.device)
        if len(self.labels) != len(files.paths):
            raise ValueError(f"{len(files.paths)} images but {len(self.labels)} labels: give one label per image.")
        self.batch_size, self.drop_last, self.flip = batch_size, drop_last, flip
        self.order, self.augment, self.memory_format = order, augment, memory_format
        self.normalise = Normaliser(mean, std, self.device)
        self.paths, self.resize, self.crop, self.workers = files.paths, resize, crop, workers
        self.classes = self.labels.cpu()[self.indices]
        per_class = torch.bincount(self.classes) if len(self.classes) else torch.zeros(1, dtype=torch.int64)
        self.max_per_class = int(per_class.max())
        if samples_per_epoch is not None:
            self.max_per_class = max(1, samples_per_epoch // int((per_class > 0).sum()))
        self.epoch_size = int(per_class.clamp(max=self.max_per_class).sum())
        if self.epoch_size < (batch_size if drop_last else 1):
            raise ValueError(f"{self.epoch_size} samples give no batch of {batch_size} with drop_last={drop_last}.")

    def __len__(self) -> int:
        full, rest = divmod(self.epoch_size, self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Batch]:
        index = self._epoch()
        uniform = torch.full((len(index), 3), 0.5)
        if self.augment is not None:
            uniform = torch.rand(len(index), 3, generator=self.augment)
        parts = (tensor.split(self.batch_size) for tensor in (index, uniform))
        waiting = islice(zip(*parts, strict=True), len(self))
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="decode")
        try:
            first = islice(waiting, BATCHES_AHEAD * self.workers)
            ahead: deque[Future[tuple[Tensor, Tensor]]] = deque(pool.submit(self._decode, *part) for part in first)
            while ahead:
                part, pixels = ahead.popleft().result()
                ahead.extend(pool.submit(self._decode, *part) for part in islice(waiting, 1))
                yield self._send(part, pixels)
        finally:
            pool.shutdown(cancel_futures=True)  # also if the consumer stops early

    def _epoch(self) -> Tensor:
        """Draw an epoch: shuffle, then keep the first `max_per_class` samples of each class."""
        if self.order is None:
            return self.indices
        order = torch.randperm(len(self.indices), generator=self.order)
        if self.epoch_size < len(order):
            classes, by_class = self.classes[order].sort(stable=True)
            begins = torch.searchsorted(classes, classes)  # where each sample's class begins
            place = torch.arange(len(order)) - begins
            order = order[by_class[place < self.max_per_class].sort().values]
        return self.indices[order]

    def _decode(self, index: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Decode a batch.

        `uniform`: one row per image with three numbers in [0, 1): vertical and horizontal crop position, and the flip.
        """
        pixels = np.empty((len(index), 3, self.crop, self.crop), dtype=np.uint8)
        for place, sample, (top, left, coin) in zip(pixels, index.tolist(), uniform.tolist(), strict=True):
            place[:] = decode(self.paths[sample], self.resize, self.crop, top, left, self.flip and coin < 0.5)
        batch = torch.from_numpy(pixels)
        return index, batch.pin_memory() if self.device.type == "cuda" else batch

    def _send(self, index: Tensor, pixels: Tensor) -> Batch:
        index, pixels = (tensor.to(self.device, non_blocking=True) for tensor in (index, pixels))
        images = self.normalise(pixels).contiguous(memory_format=self.memory_format)
        return Batch(index=index, images=images, labels=self.labels[index])


class StreamImages:
    """Returns the images at some indices, cropped to their centre and normalised, like `Augmenter.plain`.

    Every epoch evaluates the same images, once per network of a method. So decoded pixels are cached in main memory, up
    to `cache_bytes`. Other arguments are as in `StreamLoader`.
    """

    def __init__(
        self,
        files: ImageFiles,
        *,
        resize: int,
        crop: int,
        mean: Sequence[float],
        std: Sequence[float],
        device: torch.device | str = "cpu",
        workers: int = 2,
        memory_format: torch.memory_format = torch.contiguous_format,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self.paths, self.resize, self.crop, self.workers = files.paths, resize, crop, workers
        self.device, self.memory_format = torch.device(device), memory_format
        self.normalise = Normaliser(mean, std, self.device)
        self.cache_size = cache_bytes // (3 * crop * crop)
        self.cache: dict[int, NDArray[np.uint8]] = {}

    def __call__(self, index: Tensor) -> Tensor:
        """Return one image per entry of the index, which should be on the CPU: reading it from a GPU waits."""
        samples = index.tolist()
        fresh = self._decoded([sample for sample in dict.fromkeys(samples) if sample not in self.cache])
        pixels = torch.from_numpy(np.stack([fresh[i] if i in fresh else self.cache[i] for i in samples]))
        pixels = pixels.pin_memory() if self.device.type == "cuda" else pixels
        images = self.normalise(pixels.to(self.device, non_blocking=True))
        return images.contiguous(memory_format=self.memory_format)

    def _decoded(self, samples: Sequence[int]) -> dict[int, NDArray[np.uint8]]:
        with ThreadPoolExecutor(self.workers, thread_name_prefix="decode") as pool:
            decoded = dict(zip(samples, pool.map(self._decode, samples), strict=True))
        self.cache.update(islice(decoded.items(), self.cache_size - len(self.cache)))
        return decoded

    def _decode(self, sample: int) -> NDArray[np.uint8]:
        return np.ascontiguousarray(decode(self.paths[sample], self.resize, self.crop))
