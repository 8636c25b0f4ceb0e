"""Batches from images that do not fit into memory: decoded ahead by threads, sent to the device from pinned memory.

The interface of `DeviceLoader`, and the same division of labour: what is random is drawn beforehand, for a whole epoch,
from two streams of its own; workers only turn a path and a crop position into pixels, so their number does not change a
batch. An image is resized so that its shorter side has `resize` pixels, then cropped to a square of `crop` pixels, at a
random place in training and in the centre otherwise. Normalisation is done on the device, for whole batches; mirroring
costs nothing while the worker copies the pixels anyway.

Threads and not processes: Pillow decodes and resizes without holding Python's lock, so threads are as fast, and nothing
has to be sent between processes (`benchmarks/loader.py` compares).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from tnlpad.data.augment import Normaliser
from tnlpad.data.errors import DataError
from tnlpad.types import Batch, ImageFiles

BATCHES_AHEAD = 2  # per worker


class Request(NamedTuple):
    """One image to decode: its place in the dataset, where to crop as shares of the free space, whether to mirror."""

    sample: int
    top: float
    left: float
    flip: bool


def decode(
    path: str, resize: int, crop: int, top: float = 0.5, left: float = 0.5, flip: bool = False
) -> NDArray[np.uint8]:
    """Read an image, bring its shorter side to `resize` pixels and cut out a square: uint8, 3 × crop × crop."""
    try:
        with Image.open(path) as image:
            image.draft("RGB", (resize, resize))  # JPEG can be decoded at a fraction of its size; others ignore this
            pixels = image.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{path}: cannot be read as an image ({error}). Restore the file, or leave it out.") from error
    scale = resize / min(pixels.size)
    width, height = (max(resize, round(side * scale)) for side in pixels.size)
    x, y = int(left * (width - crop + 1)), int(top * (height - crop + 1))
    pixels = pixels.resize((width, height), Image.Resampling.BILINEAR).crop((x, y, x + crop, y + crop))
    planes = np.asarray(pixels).transpose(2, 0, 1)
    return planes[:, :, ::-1] if flip else planes


class StreamLoader:
    """Yields `Batch(index, images, labels)` from image files; index counts in the whole dataset.

    Args:
        files: Paths, labels and class names of the whole dataset.
        labels: Labels to train on instead of those of `files`, such as corrupted ones.
        indices: The samples to load; all when not given.
        batch_size, drop_last: As in `DeviceLoader`.
        resize, crop: Pixels of the shorter side, and of the square cut out of it.
        mean, std: Per channel, of pixel values in [0, 1].
        order: Stream of the order of samples; without one the order is that of `indices`.
        augment: Stream of crop positions and flips; without one the centre is cut out and nothing flipped.
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
        order: torch.Generator | None = None,
        augment: torch.Generator | None = None,
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
        self.indices = torch.arange(len(files.paths)) if indices is None else torch.as_tensor(indices).long().cpu()
        if len(self.indices) < (batch_size if drop_last else 1):
            raise ValueError(f"{len(self.indices)} samples give no batch of {batch_size} with drop_last={drop_last}.")
        self.device = torch.device(device)
        self.labels = torch.as_tensor(files.labels if labels is None else labels).to(self.device)
        if len(self.labels) != len(files.paths):
            raise ValueError(f"{len(files.paths)} images but {len(self.labels)} labels: give one label per image.")
        self.batch_size, self.drop_last = batch_size, drop_last
        self.order, self.augment, self.memory_format = order, augment, memory_format
        self.normalise = Normaliser(mean, std, self.device)
        self.paths, self.resize, self.crop, self.workers = files.paths, resize, crop, workers

    def __len__(self) -> int:
        full, rest = divmod(len(self.indices), self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Batch]:
        index = self.indices
        if self.order is not None:
            index = index[torch.randperm(len(index), generator=self.order)]
        uniform = torch.full((len(index), 3), 0.5)
        if self.augment is not None:
            uniform = torch.rand(len(index), 3, generator=self.augment)
        drawn = zip(index.tolist(), uniform.tolist(), strict=True)
        rows = [Request(sample, top, left, flip < 0.5) for sample, (top, left, flip) in drawn]
        size = self.batch_size
        requests = [rows[start : start + size] for start in range(0, len(self) * size, size)]
        for part, pixels in zip(torch.split(index, size), self._decoded(requests), strict=False):
            yield self._send(part, pixels)

    def _decoded(self, requests: Sequence[Sequence[Request]]) -> Iterator[Tensor]:
        """The pixels of every batch in order, some batches ahead of the one that is asked for."""
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="decode")
        try:
            waiting = iter(requests)
            first = islice(waiting, BATCHES_AHEAD * self.workers)
            ahead: deque[Future[Tensor]] = deque(pool.submit(self._decode, batch) for batch in first)
            while ahead:
                pixels = ahead.popleft().result()
                ahead.extend(pool.submit(self._decode, batch) for batch in islice(waiting, 1))
                yield pixels
        finally:
            pool.shutdown(cancel_futures=True)  # also when the reader stops early

    def _decode(self, requests: Sequence[Request]) -> Tensor:
        pixels = np.empty((len(requests), 3, self.crop, self.crop), dtype=np.uint8)
        for place, (sample, top, left, flip) in zip(pixels, requests, strict=True):
            place[:] = decode(self.paths[sample], self.resize, self.crop, top, left, flip)
        batch = torch.from_numpy(pixels)
        return batch.pin_memory() if self.device.type == "cuda" else batch

    def _send(self, index: Tensor, pixels: Tensor) -> Batch:
        index, pixels = (tensor.to(self.device, non_blocking=True) for tensor in (index, pixels))
        images = self.normalise(pixels).contiguous(memory_format=self.memory_format)
        return Batch(index=index, images=images, labels=self.labels[index])
