"""Random crop, flip and cutout for whole batches, as tensor operations on the device.

What is random about an image is drawn beforehand, for a whole epoch at once, on the CPU: a table with one row per
sample (`draw`). Turning a row into an image (`Augmenter`) is then a plain function of the row. So an epoch looks the
same on every device, and a CUDA graph that contains the augmentation needs no random generator: it reads new rows.

Crop with padding and flip are those of the paper (random 32 × 32 crop of the image padded by 4 zeros, horizontal flip);
cutout is DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout": a square of zeros
(after normalisation: the mean colour) centred anywhere, so it may be cut by the border.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

TOP, LEFT, FLIP, CUT_ROW, CUT_COLUMN = range(5)
COLUMNS = 5


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """What is done to training images; the default is nothing."""

    crop_padding: int = 0
    flip: bool = False
    cutout: int = 0

    def __post_init__(self) -> None:
        for name in ("crop_padding", "cutout"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)}: must be a number of pixels >= 0 (0 switches it off).")


def draw(
    augmentation: Augmentation, samples: int, height: int, width: int, generator: torch.Generator | None
) -> Tensor:
    """The random decisions for `samples` images, one row each: int64 on the CPU.

    Every column is drawn whether or not it is used, so that switching one augmentation on leaves the others alone.
    """
    choices = torch.tensor([2 * augmentation.crop_padding + 1, 2 * augmentation.crop_padding + 1, 2, height, width])
    uniform = torch.rand(samples, COLUMNS, generator=generator, dtype=torch.float64)
    rows = (uniform * choices).long()
    if not augmentation.flip:
        rows[:, FLIP] = 0
    return rows


class Normaliser:
    """(x/255 − mean)/std, as one multiplication and one addition in float32."""

    def __init__(self, mean: Sequence[float], std: Sequence[float], device: torch.device) -> None:
        if len(mean) != len(std) or not all(value > 0 for value in std):
            raise ValueError(f"mean={mean}, std={std}: give one mean and one positive deviation per channel.")
        exact_mean, exact_std = (torch.tensor(v, dtype=torch.float64).view(1, -1, 1, 1) for v in (mean, std))
        self.scale = (1 / (255 * exact_std)).float().to(device)
        self.shift = (-exact_mean / exact_std).float().to(device)

    def __call__(self, pixels: Tensor) -> Tensor:
        return pixels.float().mul_(self.scale).add_(self.shift)


def flip_where(pixels: Tensor, flips: Tensor) -> Tensor:
    """Every image of a uint8 batch mirrored left to right where its entry of `flips` is 1.

    p ^ ((p ^ mirrored) & mask), where the mask is 0 or 255: six times faster on a CPU than `torch.where`, whose
    broadcast condition is not vectorised.
    """
    mask = (-flips).to(torch.uint8).view(-1, 1, 1, 1)
    return pixels.flip(3).bitwise_xor_(pixels).bitwise_and_(mask).bitwise_xor_(pixels)


class Augmenter:
    """Images of a uint8 dataset tensor by index and row of decisions, normalised to float32.

    The dataset is padded once; a crop is then a window into the padded images, gathered straight from the dataset.
    """

    def __init__(self, images: Tensor, augmentation: Augmentation, mean: Sequence[float], std: Sequence[float]) -> None:
        if images.dtype != torch.uint8 or images.ndim != 4:
            raise ValueError(f"images are {images.dtype} of shape {tuple(images.shape)}: must be uint8, N × C × H × W.")
        channels, self.height, self.width = images.shape[1:]
        if len(mean) != channels:
            raise ValueError(f"mean={mean}: give one per channel, of which there are {channels}.")
        self.augmentation = augmentation
        p = augmentation.crop_padding
        padded = torch.nn.functional.pad(images, (p, p, p, p)) if p else images
        # windows[n, :, top, left] is a crop; a view, no copies.
        self.windows = padded.unfold(2, self.height, 1).unfold(3, self.width, 1)
        self.normalise = Normaliser(mean, std, images.device)
        self.row_numbers = torch.arange(self.height, device=images.device).view(1, 1, -1, 1)
        self.column_numbers = torch.arange(self.width, device=images.device).view(1, 1, 1, -1)

    def __call__(self, index: Tensor, rows: Tensor) -> Tensor:
        """The images at `index`, each augmented as its row of `draw` says."""
        # Indices around a slice put the batch first and the channels second: B × C × H × W.
        pixels = self.windows[index, :, rows[:, TOP], rows[:, LEFT]]
        if self.augmentation.flip:
            pixels = flip_where(pixels, rows[:, FLIP])
        images = self.normalise(pixels)
        if self.augmentation.cutout:
            images = images.masked_fill(self._cut(rows), 0.0)
        return images

    def plain(self, index: Tensor) -> Tensor:
        """The images at `index` as they are, normalised: for evaluation."""
        p = self.augmentation.crop_padding
        return self.normalise(self.windows[index, :, p, p])

    def _cut(self, rows: Tensor) -> Tensor:
        """True within the square of side `cutout` centred at the drawn pixel; an even side extends up and left."""
        before = self.augmentation.cutout // 2
        after = self.augmentation.cutout - before
        row, column = _per_image(rows[:, CUT_ROW]), _per_image(rows[:, CUT_COLUMN])
        in_rows = (self.row_numbers >= row - before) & (self.row_numbers < row + after)
        in_columns = (self.column_numbers >= column - before) & (self.column_numbers < column + after)
        return in_rows & in_columns


def _per_image(values: Tensor) -> Tensor:
    return values.view(-1, 1, 1, 1)
