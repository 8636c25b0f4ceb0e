"""Images that do not fit into memory: decoded from files by threads, sent to the device from pinned memory.

`StreamLoader` gives the batches of training, some of them ahead. It has the interface of `DeviceLoader`, and the same
division of labour: what is random is drawn beforehand, for a whole epoch, from two streams of its own; workers only
turn a path and a crop position into pixels, so their number does not change a batch. `StreamImages` gives the images at
any indices, for measuring.

An image is resized so that its shorter side has `resize` pixels, then cropped to a square of `crop` pixels, at a
random place in training and in the centre otherwise. Normalisation is done on the device, for whole batches; mirroring
costs nothing while the worker copies the pixels anyway.

Threads and not processes: Pillow decodes and resizes without holding Python's lock, so threads are as fast, and nothing
has to be sent between processes (`benchmarks/loader.py` compares).
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
KEPT_BYTES = 2 * 2**30  # Food-101's test images, at the paper's 112 pixels, take half of it


def decode(
    source: str | bytes,
    resize: int,
    crop: int,
    top: float = 0.5,
    left: float = 0.5,
    flip: bool = False,
    channels: Channels = 3,
) -> NDArray[np.uint8]:
    """Read an image, bring its shorter side to `resize` pixels and cut out a square: uint8, channels × crop × crop."""
    pixels = open_pixels(source, resize, channels)
    scale = resize / min(pixels.size)
    width, height = (round(side * scale) for side in pixels.size)
    x, y = int(left * (width - crop + 1)), int(top * (height - crop + 1))
    pixels = pixels.resize((width, height), Image.Resampling.BILINEAR).crop((x, y, x + crop, y + crop))
    planes = np.atleast_3d(np.asarray(pixels)).transpose(2, 0, 1)
    return planes[:, :, ::-1] if flip else planes


class StreamLoader:
    """Yields `Batch(index, images, labels)` from image files; index counts in the whole dataset.

    Args:
        files: Paths, labels and class names of the whole dataset.
        labels: Labels to train on instead of those of `files`, such as corrupted ones.
        indices: The samples to load; all when not given.
        batch_size, drop_last: As in `DeviceLoader`.
        resize, crop: Pixels of the shorter side, and of the square cut out of it.
        flip: Whether augmentation mirrors every other image.
        mean, std: Per channel, of pixel values in [0, 1].
        order: Stream of the order of samples; without one the order is that of `indices`.
        augment: Stream of crop positions and flips; without one the centre is cut out and nothing flipped.
        samples_per_epoch: An epoch is about so many samples, drawn anew each time from `order`, the same number of
            every class as far as there are enough; all of them once when not given.
        device: Where batches are wanted.
        workers: Decoding threads.
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
            raise ValueError(f"samples_per_epoch={samples_per_epoch}: must be at least 1, and drawn from an order.")
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
        self.most_per_class = int(per_class.max())
        if samples_per_epoch is not None:
            self.most_per_class = max(1, samples_per_epoch // int((per_class > 0).sum()))
        self.epoch_size = int(per_class.clamp(max=self.most_per_class).sum())
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
            pool.shutdown(cancel_futures=True)  # also when the reader stops early

    def _epoch(self) -> Tensor:
        """The samples of an epoch in the order of training: the first of each class in a random order of all."""
        if self.order is None:
            return self.indices
        order = torch.randperm(len(self.indices), generator=self.order)
        if self.epoch_size < len(order):
            classes, by_class = self.classes[order].sort(stable=True)
            begins = torch.searchsorted(classes, classes)  # where each sample's class begins
            place = torch.arange(len(order)) - begins
            order = order[by_class[place < self.most_per_class].sort().values]
        return self.indices[order]

    def _decode(self, index: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """A batch's pixels. Shares of the free space say where to crop, and a third number whether to mirror."""
        pixels = np.empty((len(index), 3, self.crop, self.crop), dtype=np.uint8)
        for place, sample, (top, left, mirror) in zip(pixels, index.tolist(), uniform.tolist(), strict=True):
            place[:] = decode(self.paths[sample], self.resize, self.crop, top, left, self.flip and mirror < 0.5)
        batch = torch.from_numpy(pixels)
        return index, batch.pin_memory() if self.device.type == "cuda" else batch

    def _send(self, index: Tensor, pixels: Tensor) -> Batch:
        index, pixels = (tensor.to(self.device, non_blocking=True) for tensor in (index, pixels))
        images = self.normalise(pixels).contiguous(memory_format=self.memory_format)
        return Batch(index=index, images=images, labels=self.labels[index])


class StreamImages:
    """The images at some indices, their centre cut out, normalised: what `Augmenter.plain` is to images in memory.

    After every epoch the same images are measured on again, by each of a method's networks. So the first ones are kept
    in main memory, as pixels, and decoded once: all of them if they fit into `kept_bytes`.

    Args:
        files: Paths of the whole dataset.
        resize, crop, mean, std, device, workers, memory_format: As in `StreamLoader`.
        kept_bytes: How much memory to use at most.
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
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self.paths, self.resize, self.crop, self.workers = files.paths, resize, crop, workers
        self.device, self.memory_format = torch.device(device), memory_format
        self.normalise = Normaliser(mean, std, self.device)
        self.most_kept = kept_bytes // (3 * crop * crop)
        self.kept: dict[int, NDArray[np.uint8]] = {}

    def __call__(self, index: Tensor) -> Tensor:
        """One image for each entry of the index, which had better be on the CPU: reading it from a GPU waits."""
        samples = index.tolist()
        fresh = self._decoded([sample for sample in dict.fromkeys(samples) if sample not in self.kept])
        pixels = torch.from_numpy(np.stack([fresh[i] if i in fresh else self.kept[i] for i in samples]))
        pixels = pixels.pin_memory() if self.device.type == "cuda" else pixels
        images = self.normalise(pixels.to(self.device, non_blocking=True))
        return images.contiguous(memory_format=self.memory_format)

    def _decoded(self, samples: Sequence[int]) -> dict[int, NDArray[np.uint8]]:
        with ThreadPoolExecutor(self.workers, thread_name_prefix="decode") as pool:
            decoded = dict(zip(samples, pool.map(self._decode, samples), strict=True))
        self.kept.update(islice(decoded.items(), self.most_kept - len(self.kept)))
        return decoded

    def _decode(self, sample: int) -> NDArray[np.uint8]:
        return np.ascontiguousarray(decode(self.paths[sample], self.resize, self.crop))
