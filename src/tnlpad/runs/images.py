"""How a run takes its images: at which size, augmented how, in which layout; in memory or from files.

The training images as a method sees them that draws from them by itself: see `tnlpad.methods.protocol.Source`.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from tnlpad.core.batchnorm import reestimated_batchnorm
from tnlpad.data.augment import Augmentation, Augmenter, draw
from tnlpad.data.catalogue import Normalisation
from tnlpad.data.stream import StreamImages
from tnlpad.runs.config import RunConfig
from tnlpad.runs.devices import available_cores
from tnlpad.training.engine import Captured, compiled_if
from tnlpad.training.evaluate import outputs
from tnlpad.types import ImageFiles, ImagesAt

Images = Tensor | ImageFiles  # in memory, or not; rows of features count as images of no height
AT_ONCE, FILES_AT_ONCE = 1024, 128  # the images of files are larger, and so is what networks make of them
# On a CPU: of more at once the maps leave its caches, and memory for each is asked of the system and given back.
PIXELS_AT_ONCE, LEAST_AT_ONCE = 2**18, 16


def image_shape(config: RunConfig, images: Images) -> tuple[int, int, int]:
    """Channels, height, width."""
    if isinstance(images, Tensor) and images.ndim == 2:
        return images.shape[1], 1, 1
    if isinstance(images, Tensor):
        channels, height, width = images.shape[1:]
        return channels, height, width
    _, crop = pixels_of_files(config)
    return 3, crop, crop


def at_once(config: RunConfig, images: Images, device: torch.device) -> int:
    """How many to show to a network that is only asked and not trained."""
    most = FILES_AT_ONCE if isinstance(images, ImageFiles) else AT_ONCE
    if device.type != "cpu":
        return most
    _, height, width = image_shape(config, images)
    return min(most, max(LEAST_AT_ONCE, PIXELS_AT_ONCE // (height * width)))


def pixels_of_files(config: RunConfig) -> tuple[int, int]:
    """Of the shorter side, and of the square cut out of it."""
    assert config.resize is not None, "checked with the configuration"
    assert config.crop is not None, "checked with the configuration"
    return config.resize, config.crop


def augmentation(config: RunConfig) -> Augmentation:
    """What training does to images in memory."""
    return Augmentation(crop_padding=config.crop_padding, flip=config.flip, cutout=config.cutout)


def memory_format(device: torch.device) -> torch.memory_format:
    """The layout in which convolutions are fastest there."""
    return torch.channels_last if device.type == "cuda" else torch.contiguous_format


def images_at(config: RunConfig, images: Images, normalisation: Normalisation, device: torch.device) -> ImagesAt:
    """Whoever is asked for images by their indices gives them normalised and not augmented."""
    mean, std = normalisation.mean, normalisation.std
    if isinstance(images, Tensor) and images.ndim == 2:
        return images.__getitem__
    if isinstance(images, Tensor):
        return Augmenter(images, Augmentation(), mean, std).plain
    resize, crop = pixels_of_files(config)
    return StreamImages(
        images,
        resize=resize,
        crop=crop,
        mean=mean,
        std=std,
        device=device,
        workers=available_cores(),  # threads that decode; their number changes no image
        memory_format=memory_format(device),
    )


ESTIMATION_BATCHES, ESTIMATION_SIZE = 10, 128  # for BatchNorm; about as many images as its running average remembers


class TrainingImages:
    """Images in memory, by dataset index.

    Args:
        augmenter: Of the whole dataset.
        index: The samples trained on.
        memory_format: Of augmented images.
        batch_size: For passes over all of them.
        bf16: Forward passes in bfloat16.
        captured: Replay a pass over all as a CUDA graph from its second time on.
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
        """Random augmentations for so many images, a row each."""
        return draw(self.augmenter.augmentation, count, self.augmenter.height, self.augmenter.width, generator)

    def augmented(self, index: Tensor, rows: Tensor) -> Tensor:
        """The images at `index`, each augmented by its row."""
        return self.augmenter(index, rows).contiguous(memory_format=self.memory_format)

    def outputs(self, network: nn.Module) -> Tensor:
        """The network's logits of every sample trained on, not augmented, in evaluation mode."""

        def whole() -> Tensor:
            return outputs(network, self.augmenter.plain, self.on_device, batch_size=self.batch_size, bf16=self.bf16)

        if not self.captured:
            return whole()
        if network not in self.passes:
            self.passes[network] = Captured(whole, eager_runs=1)
        return self.passes[network]().clone()  # the next replay writes over it

    @contextmanager
    def reestimated(self, network: nn.Module) -> Iterator[None]:
        """Within the block BatchNorm's statistics are those of the weights that the network holds now."""
        with ExitStack() as block:
            # Modes are mixed in this pass, which is not worth compiling for.
            with compiled_if(False), torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
                block.enter_context(reestimated_batchnorm(network, self._estimation()))
            yield

    def _estimation(self) -> Iterator[Tensor]:
        """Some augmented images, always the same: no stream of the run is drawn from."""
        generator = torch.Generator().manual_seed(0)
        order = torch.randperm(len(self.index), generator=generator)
        for part in order[: ESTIMATION_BATCHES * ESTIMATION_SIZE].split(ESTIMATION_SIZE):
            rows = self.draw(len(part), generator)
            if len(part) > 1:  # one image has no variance
                yield self.augmented(self.index[part].to(self.device), rows.to(self.device))
