"""How a run takes its images: at which size, augmented how, in which layout; in memory or from files."""

import torch
from torch import Tensor

from tnlpad.data.augment import Augmentation, Augmenter
from tnlpad.data.catalogue import Normalisation
from tnlpad.data.stream import StreamImages
from tnlpad.experiments.config import RunConfig
from tnlpad.experiments.executors import available_cores
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
