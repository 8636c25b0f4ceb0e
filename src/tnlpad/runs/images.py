"""Images of a run, in memory or in files: their size, augmentation and memory layout."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from tnlpad.core.batchnorm import reestimated_batchnorm
from tnlpad.data.augment import Augmentation, Augmenter, draw
from tnlpad.data.catalogue import Normalisation
from tnlpad.data.stream import StreamImages
from tnlpad.ranks import group
from tnlpad.runs.config import RunConfig
from tnlpad.runs.devices import available_cores
from tnlpad.training.engine import Captured, compiled_if
from tnlpad.training.measure import outputs
from tnlpad.types import ImageFiles, ImagesAt

Images = Tensor | ImageFiles  # in memory or not; features are images of height and width 1
# Largest batches for inference. The images of files are larger, and so are their feature maps.
MAX_BATCH, MAX_BATCH_OF_FILES = 1024, 128
# On a CPU: with larger batches the feature maps leave its caches, and their memory is allocated again each time.
MAX_BATCH_PIXELS, MIN_BATCH = 2**18, 16


def image_shape(config: RunConfig, images: Images) -> tuple[int, int, int]:
    """Return channels, height and width."""
    if isinstance(images, Tensor):
        channels, height, width = (*images.shape[1:], 1, 1)[:3]
        return channels, height, width
    _, crop = resize_and_crop(config)
    return 3, crop, crop


def resize_and_crop(config: RunConfig) -> tuple[int, int]:
    """Return the pixels of the shorter side of image files, and of the square cut out of them."""
    assert config.resize is not None, "checked with the configuration"
    assert config.crop is not None, "checked with the configuration"
    return config.resize, config.crop


def inference_batch_size(config: RunConfig, images: Images, device: torch.device) -> int:
    """Return how many images to pass through a network that is not being trained."""
    most = MAX_BATCH_OF_FILES if isinstance(images, ImageFiles) else MAX_BATCH
    if device.type != "cpu":
        return most
    _, height, width = image_shape(config, images)
    return min(most, max(MIN_BATCH, MAX_BATCH_PIXELS // (height * width)))


def augmentation(config: RunConfig) -> Augmentation:
    """Return the augmentation of images in memory."""
    return Augmentation(crop_padding=config.crop_padding, flip=config.flip, cutout=config.cutout)


def memory_format(config: RunConfig, device: torch.device) -> torch.memory_format:
    """Return the layout that the run names, or the one in which convolutions are fastest on this device."""
    # On a CPU, those of EfficientNet-Lite0 take half the time with the channels last.
    by_device = device.type == "cuda" or bool(config.finetune)
    last = by_device if config.channels_last is None else config.channels_last
    return torch.channels_last if last else torch.contiguous_format


def images_at(config: RunConfig, images: Images, normalisation: Normalisation, device: torch.device) -> ImagesAt:
    """Return a function from indices to images, normalised and not augmented."""
    mean, std = normalisation.mean, normalisation.std
    if isinstance(images, Tensor) and images.ndim == 2:
        return images.__getitem__
    if isinstance(images, Tensor):
        return Augmenter(images, Augmentation(), mean, std).plain
    resize, crop = resize_and_crop(config)
    return StreamImages(
        images,
        resize=resize,
        crop=crop,
        mean=mean,
        std=std,
        device=device,
        workers=available_cores(),  # threads that decode; their number changes no image
        memory_format=memory_format(config, device),
    )


ESTIMATION_BATCHES, ESTIMATION_BATCH_SIZE = 10, 128  # for BatchNorm: about what its running average covers


class TrainingImages:
    """Images in memory for methods that draw their own batches: a `tnlpad.methods.protocol.Source`.

    Args:
        augmenter: Augments images of the whole dataset.
        index: Training samples in the dataset.
        memory_format: Layout of augmented images.
        batch_size: For passes over all samples.
        bf16: Whether forward passes are in bfloat16.
        captured: Whether to replay passes over all samples as a CUDA graph, from the second one on.
    """

    def __init__(
        self,
        augmenter: Augmenter,
        index: Tensor,
        *,
        memory_format: torch.memory_format,
        batch_size: int,
        bf16: bool,
        captured: bool,
    ) -> None:
        self.augmenter, self.index, self.memory_format = augmenter, index.cpu(), memory_format
        self.batch_size, self.bf16, self.captured = batch_size, bf16, captured
        self.device = augmenter.normalise.scale.device
        self.on_device = index.to(self.device)
        self.passes: dict[nn.Module, Captured[Tensor]] = {}

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw random augmentations, one row per image."""
        return draw(self.augmenter.augmentation, count, self.augmenter.height, self.augmenter.width, generator)

    def augmented(self, index: Tensor, rows: Tensor) -> Tensor:
        """Return the images at `index`, each augmented by its row."""
        return self.augmenter(index, rows).contiguous(memory_format=self.memory_format)

    def outputs(self, network: nn.Module) -> Tensor:
        """Return the network's logits of every training sample, without augmentation, in evaluation mode."""

        def whole() -> Tensor:
            return outputs(network, self.augmenter.plain, self.on_device, batch_size=self.batch_size, bf16=self.bf16)

        if not self.captured:
            return whole()
        if network not in self.passes:
            self.passes[network] = Captured(whole, eager_runs=1)
        return self.passes[network]().clone()  # the next replay overwrites it

    @contextmanager
    def reestimated(self, network: nn.Module) -> Iterator[None]:
        """Replace BatchNorm's statistics within the block by those of the network's current weights."""
        with ExitStack() as block:
            # This pass mixes training and evaluation mode, which is not worth compiling for.
            # Every rank takes all of these batches, so that their statistics are equal.
            with group.alone(), compiled_if(False), torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
                block.enter_context(reestimated_batchnorm(network, self._estimation()))
            yield

    def _estimation(self) -> Iterator[Tensor]:
        """Yield the same augmented images every time, without drawing from a stream of the run."""
        generator = torch.Generator().manual_seed(0)
        order = torch.randperm(len(self.index), generator=generator)
        for part in order[: ESTIMATION_BATCHES * ESTIMATION_BATCH_SIZE].split(ESTIMATION_BATCH_SIZE):
            rows = self.draw(len(part), generator)
            if len(part) > 1:  # one image has no variance
                yield self.augmented(self.index[part].to(self.device), rows.to(self.device))
