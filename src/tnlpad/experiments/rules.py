"""What the values of a run must be: each by itself, and those that only mean something for some data."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tnlpad.data.catalogue import find
from tnlpad.data.own import DataShape
from tnlpad.experiments.reading import check_name
from tnlpad.networks import NETWORKS
from tnlpad.noise.spec import parse_noise

if TYPE_CHECKING:
    from tnlpad.experiments.config import RunConfig

WEIGHTS_NAME = re.compile(r"[^/\\]+-[0-9a-f]{8,64}\.(pth|pt|safetensors)")
# What a value must be, in words and as a test; None is left to the fields that may be None.
RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "seed": ("a whole number >= 0", lambda value: value >= 0),
    "epochs": ("at least 1", lambda value: value >= 1),
    "batch_size": ("at least 1", lambda value: value >= 1),
    "batches_per_epoch": ("at least 1, or none", lambda value: value >= 1),
    "learning_rate": ("a number > 0", lambda value: value > 0),
    "milestones": ("epochs in ascending order", lambda value: list(value) == sorted({*value}) and all(value)),
    "decay": ("in (0, 1]", lambda value: 0 < value <= 1),
    "momentum": ("in [0, 1)", lambda value: 0 <= value < 1),
    "weight_decay": ("a number >= 0", lambda value: value >= 0),
    "validation_fraction": ("in (0, 1), since validation chooses the epoch", lambda value: 0 < value < 1),
    "subset": ("a number of images >= 1, or none", lambda value: value >= 1),
    "resize": ("a number of pixels >= 1, or none", lambda value: value >= 1),
    "crop": ("a number of pixels >= 1, or none", lambda value: value >= 1),
    "crop_padding": ("a number of pixels >= 0", lambda value: value >= 0),
    "cutout": ("a number of pixels >= 0", lambda value: value >= 0),
    "stem_padding": ("a number of pixels >= 0, or none", lambda value: value >= 0),
    "pretrained": (
        "the name of a file in the folder `weights` below the root of datasets that ends in the first digits of its "
        "SHA-256, such as resnet50-0676ba61.pth, or none",
        lambda value: WEIGHTS_NAME.fullmatch(value) is not None,
    ),
    "noise_rate": ("in [0, 1), or none", lambda value: 0 <= value < 1),
    "patience": ("at least 1 epoch, or none", lambda value: value >= 1),
}


def check(config: "RunConfig") -> None:
    """Refuse a run that breaks a rule."""
    check_name("network", config.network, NETWORKS)
    for name, (rule, holds) in RULES.items():
        value = getattr(config, name)
        if value is not None and not holds(value):
            raise ValueError(f"{name}={value!r}: must be {rule}.")
    _check_images(config)


def _check_images(config: "RunConfig") -> None:
    """Images in files are resized, cropped and never all in memory; those in memory are taken as they are."""
    if config.data is not None:
        _check_own(config, config.data)
        return
    info = find(config.dataset)
    in_files = info.image_shape is None
    for name in ("crop_padding", "cutout") if in_files else ("resize", "crop", "subset", "batches_per_epoch"):
        if value := getattr(config, name):
            where, others = ("are read from files", "in memory") if in_files else ("fit into memory", "in files")
            raise ValueError(f"{name}={value}: is for images {others}, and those of {info.name} {where}. Leave it out.")
    if in_files and not 1 <= (config.crop or 0) <= (config.resize or 0):
        raise ValueError(
            f"resize={config.resize}, crop={config.crop}: images of {info.name} are resized, and a square is cut out "
            "of them that must fit into what they are resized to. Give both."
        )
    if in_files and parse_noise(config.noise).kind == "instance":
        raise ValueError(
            f"noise={config.noise!r}: depends on all images at once, and those of {info.name} do not fit into memory. "
            "Use another kind, or a file of labels."
        )
    if config.validation == "clean" and config.dataset != "clothing1m":
        raise ValueError(f"validation='clean': no clean validation set was published for {info.name}. Use 'noisy'.")


# What does nothing to own data of a kind, unless they are image files that are streamed.
WITHOUT_EFFECT = {
    "images": ("resize", "crop", "batches_per_epoch", "subset"),
    "files": ("batches_per_epoch", "subset"),
    "features": ("resize", "crop", "crop_padding", "flip", "cutout", "batches_per_epoch", "subset", "stem_padding"),
}


def _check_own(config: "RunConfig", own: DataShape) -> None:
    """Image files are decoded once and kept in memory, unless a random part is cut out of them each time."""
    streamed = own.kind == "files" and config.crop is not None
    for name in ("crop_padding", "cutout", "subset") if streamed else WITHOUT_EFFECT[own.kind]:
        if value := getattr(config, name):
            what = "images streamed from files" if streamed else f"{own.kind} in memory"
            raise ValueError(f"{name}={value}: has no meaning for {what}. Leave it out.")
    if own.kind == "files" and (config.resize is None or (config.crop or 1) > config.resize):
        raise ValueError(
            f"resize={config.resize}, crop={config.crop}: images in files are resized, and a square that is cut out of "
            "them must fit into what they are resized to."
        )
    if parse_noise(config.noise).kind == "instance" and (streamed or own.kind == "features"):
        raise ValueError(f"noise={config.noise!r}: depends on images that are in memory. Use another kind.")
    if config.validation == "clean":
        raise ValueError("validation='clean': nobody knows which labels of own data are right. Use 'noisy'.")
