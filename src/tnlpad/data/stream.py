"""Batches from images that do not fit into memory: decoded by worker processes, sent ahead to the device.

The interface of `DeviceLoader`, and the same division of labour: what is random is drawn in the main process, for a
whole epoch, from two streams of its own; workers only turn a path and a crop position into pixels, so their number does
not change a batch. An image is resized so that its shorter side has `resize` pixels, then cropped to a square of `crop`
pixels, at a random place in training and in the centre otherwise. Flip and normalisation are done on the device, for
whole batches.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from tnlpad.data.augment import Normaliser, flip_where
from tnlpad.data.errors import DataError
from tnlpad.types import Batch, ImageFiles


class Request(NamedTuple):
    """One image to decode: its place in the dataset, and where to crop, as shares of the free space."""

    sample: int
    top: float
    left: float


def decode(path: str, resize: int, crop: int, top: float = 0.5, left: float = 0.5) -> NDArray[np.uint8]:
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
    return np.ascontiguousarray(np.asarray(pixels).transpose(2, 0, 1))


class _Decoder(Dataset[NDArray[np.uint8]]):
    """What a worker does: a request in, pixels out."""

    def __init__(self, paths: Sequence[str], resize: int, crop: int) -> None:
        self.paths, self.resize, self.crop = paths, resize, crop

    def __getitem__(self, request: Request) -> NDArray[np.uint8]:
        return decode(self.paths[request.sample], self.resize, self.crop, request.top, request.left)


class _Requests:
    """The batches of requests of the current epoch; the workers' queue is fed from here."""

    def __init__(self) -> None:
        self.batches: list[list[Request]] = []

    def __iter__(self) -> Iterator[list[Request]]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


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
        workers: Decoding processes; 0 decodes in this one.
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
        self._requests = _Requests()
        self._pixels = DataLoader(
            _Decoder(files.paths, resize, crop),
            batch_sampler=self._requests,
            collate_fn=_stack,
            num_workers=workers,
            prefetch_factor=4 if workers else None,
            persistent_workers=workers > 0,
            pin_memory=self.device.type == "cuda",
        )

    def __len__(self) -> int:
        full, rest = divmod(len(self.indices), self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Batch]:
        index = self.indices
        if self.order is not None:
            index = index[torch.randperm(len(index), generator=self.order)]
        places = torch.full((len(index), 2), 0.5)
        flips = torch.zeros(len(index), dtype=torch.long)
        if self.augment is not None:
            uniform = torch.rand(len(index), 3, generator=self.augment)
            places, flips = uniform[:, :2], (uniform[:, 2] < 0.5).long()
        rows = [Request(i, top, left) for i, (top, left) in zip(index.tolist(), places.tolist(), strict=True)]
        size = self.batch_size
        self._requests.batches = [rows[start : start + size] for start in range(0, len(self) * size, size)]
        parts = zip(torch.split(index, size), torch.split(flips, size), self._pixels, strict=False)
        ahead = (self._send(*part) for part in parts)
        # One batch is on its way to the device while the one before it is being used.
        current = next(ahead)
        for following in ahead:
            yield current
            current = following
        yield current

    def _send(self, index: Tensor, flips: Tensor, pixels: Tensor) -> Batch:
        index, flips, pixels = (tensor.to(self.device, non_blocking=True) for tensor in (index, flips, pixels))
        images = self.normalise(flip_where(pixels, flips))
        return Batch(index=index, images=images.contiguous(memory_format=self.memory_format), labels=self.labels[index])


def _stack(images: list[NDArray[np.uint8]]) -> Tensor:
    return torch.from_numpy(np.stack(images))
