"""Load images that do not fit into memory: threads decode the files, and pinned memory goes to the device.

`StreamLoader` yields training batches and decodes some of them ahead; on several ranks, each one decodes its share.
Random numbers are drawn in advance for a whole epoch, as in `DeviceLoader`, so the number of workers does not change a
batch. `StreamImages` returns the images at any indices, for evaluation. Both take images from any `ImageStore`: files,
tar shards, or pixels that were resized before.

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
from torch import Tensor

from tnlpad.data.augment import Normaliser
from tnlpad.data.pixels import UNNAMED, Channels, open_resized
from tnlpad.data.storage import FileImages
from tnlpad.errors import DataError
from tnlpad.ranks import group
from tnlpad.ranks.launch import local_count
from tnlpad.types import Batch, ImageFiles, ImageSource, ImageStore

BATCHES_AHEAD = 2  # per worker
CACHE_BYTES = 2 * 2**30  # of all ranks of a machine; twice the size of Food-101's test images at the paper's 112 pixels
ADVICE = (
    "`tnlpad check` (of your own data) or `tnlpad data check` lists every image that cannot be read. The same command "
    "then resumes the run."
)


def decode(
    source: ImageSource,
    resize: int,
    crop: int,
    top: float = 0.5,
    left: float = 0.5,
    flip: bool = False,
    channels: Channels = 3,
) -> NDArray[np.uint8]:
    """Decode an image, resize its shorter side and cut out a square: uint8, channels × crop × crop.

    Of an image that was resized before, given as height × width × channels, only the square is cut out.
    """
    if isinstance(source, np.ndarray):
        x, y = _corner(source.shape[1], source.shape[0], crop, top, left)
        planes = source[y : y + crop, x : x + crop].transpose(2, 0, 1)
    else:
        pixels = open_resized(source, resize, channels)
        x, y = _corner(*pixels.size, crop, top, left)
        planes = np.atleast_3d(np.asarray(pixels.crop((x, y, x + crop, y + crop)))).transpose(2, 0, 1)
    return planes[:, :, ::-1] if flip else planes


def _corner(width: int, height: int, crop: int, top: float, left: float) -> tuple[int, int]:
    return int(left * (width - crop + 1)), int(top * (height - crop + 1))


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
        size = len(files.paths)
        self.indices = torch.arange(size) if indices is None else torch.as_tensor(indices).long().cpu()
        self.device = torch.device(device)
        self.labels = torch.as_tensor(files.labels if labels is None else labels).to(self.device)
        if len(self.labels) != size:
            raise ValueError(f"{size} images but {len(self.labels)} labels: give one label per image.")
        self.batch_size, self.drop_last, self.flip = batch_size, drop_last, flip
        self.order, self.augment, self.memory_format = order, augment, memory_format
        self.normalise = Normaliser(mean, std, self.device)
        self.images, self.workers = _Images(files, resize, crop), workers
        self.epoch_size, self.balanced = len(self.indices), None
        if samples_per_epoch is not None:
            self.balanced = _Balanced(self.labels.cpu()[self.indices], samples_per_epoch)
            self.epoch_size = self.balanced.size
        if self.epoch_size < (batch_size if drop_last else 1):
            raise ValueError(f"{self.epoch_size} samples give no batch of {batch_size} with drop_last={drop_last}.")

    def __len__(self) -> int:
        full, rest = divmod(self.epoch_size, self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Batch]:
        waiting = self._plan()
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

    def _plan(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Draw an epoch; yield the samples of each batch, and a row of three random numbers for each of them."""
        index, uniform = self._epoch(), None
        if self.augment is not None:
            uniform = torch.rand(len(index), 3, generator=self.augment)
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            part = index[start : start + self.batch_size]
            drawn = torch.full((len(part), 3), 0.5) if uniform is None else uniform[start : start + len(part)]
            yield part, drawn

    def _epoch(self) -> Tensor:
        """Draw the samples of an epoch in their order."""
        if self.order is None:
            return self.indices
        order = torch.randperm(len(self.indices), generator=self.order)
        return self.indices[order if self.balanced is None else self.balanced.part(order)]

    def _decode(self, index: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Decode this rank's share of a batch.

        `uniform`: one row per image with three numbers in [0, 1): vertical and horizontal crop position, and the flip.
        """
        mine = group.share(len(index))
        samples, rows, crop = index[mine].tolist(), uniform[mine].tolist(), self.images.crop
        pixels = np.empty((len(samples), 3, crop, crop), dtype=np.uint8)
        for image, sample, (top, left, coin) in zip(pixels, samples, rows, strict=True):
            image[:] = self.images.decode(sample, top, left, self.flip and coin < 0.5)
        batch = torch.from_numpy(pixels)
        return index, batch.pin_memory() if self.device.type == "cuda" else batch

    def _send(self, index: Tensor, pixels: Tensor) -> Batch:
        index, pixels = (tensor.to(self.device, non_blocking=True) for tensor in (index, pixels))
        images = self.normalise(pixels).contiguous(memory_format=self.memory_format)
        return Batch(index=index, images=images, labels=self.labels[index])


class _Balanced:
    """Chooses samples for epochs that are a part of the data, equally many of each class as far as there are enough.

    Args:
        classes: Class of each sample.
        samples: Approximate number of samples in an epoch.
    """

    def __init__(self, classes: Tensor, samples: int) -> None:
        per_class = torch.bincount(classes) if len(classes) else torch.zeros(1, dtype=torch.int64)
        self.most = max(1, samples // max(1, int((per_class > 0).sum())))
        self.size = int(per_class.clamp(max=self.most).sum())
        # Two bytes per sample are enough for most data.
        self.classes = classes.to(torch.int16) if len(per_class) < 2**15 else classes

    def part(self, order: Tensor) -> Tensor:
        """Return the first samples of each class in an order of all samples, without changing their order."""
        if self.size == len(order):
            return order
        classes, by_class = self.classes[order].sort(stable=True)
        begins = torch.searchsorted(classes, classes)  # where each sample's class begins
        chosen = torch.arange(len(order)) - begins < self.most
        return order[by_class[chosen].sort().values]


class StreamImages:
    """Returns the images at some indices, cropped to their centre and normalised, like `Augmenter.plain`.

    Every epoch evaluates the same images, once per network of a method. So decoded pixels are cached in main memory, up
    to `cache_bytes` in all ranks of this machine together. Other arguments are as in `StreamLoader`.
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
        self.images, self.workers = _Images(files, resize, crop), workers
        self.device, self.memory_format = torch.device(device), memory_format
        self.normalise = Normaliser(mean, std, self.device)
        self.cache_size = cache_bytes // local_count() // (3 * crop * crop)
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
        return np.ascontiguousarray(self.images.decode(sample))


class _Images:
    """Decodes images by sample, wherever they are stored; an error names the file, or the shard and its member."""

    def __init__(self, files: ImageFiles, resize: int, crop: int) -> None:
        self.store: ImageStore = files.store or FileImages(files.paths)
        self.resize, self.crop = resize, crop

    def decode(self, sample: int, top: float = 0.5, left: float = 0.5, flip: bool = False) -> NDArray[np.uint8]:
        """Return the crop of an image; see `decode`."""
        source = self.store.read(sample)
        if isinstance(source, np.ndarray) and min(source.shape[:2]) != self.resize:
            raise DataError(
                f"{self.store.where(sample)} was prepared at {min(source.shape[:2])} pixels, and this run needs "
                f"{self.resize}. Prepare the images for that size."
            )
        try:
            return decode(source, self.resize, self.crop, top, left, flip)
        except DataError as error:
            reason = str(error).replace(UNNAMED, self.store.where(sample), 1)
            raise DataError(f"{reason} {ADVICE}") from error
