"""Decide whether the user's image files are decoded into memory or read again in every epoch.

Training on decoded images is faster; files take no memory. The two crop images differently, so the choice is made when
a run is configured, and its settings say which it is.
"""

import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tnlpad.data.own import DataShape
from tnlpad.features.backbone import Backbone
from tnlpad.memory import memory_limits, size_text
from tnlpad.runs.recipes import RESIZE_MARGIN, STREAMED_BYTES, decoded_bytes, finetune_images, own_images

if TYPE_CHECKING:  # both import torch, and `tnlpad check` reads data before it needs that
    from tnlpad.runs.choose_backbone import ChosenBackbone
    from tnlpad.runs.config import RunConfig

VARIABLE = "TNLPAD_MEMORY"
MEMORY_DIVISOR = 4  # decoded images take at most a quarter of a machine's memory
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
BINARY_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def image_memory(given: str | None = None) -> int:
    """Return the bytes that decoded images may take: as given, or in $TNLPAD_MEMORY, or by default.

    The default is 4 GiB, or a quarter of the memory of this machine or container if that is less.
    """
    text = given if given is not None else os.environ.get(VARIABLE)
    if text:
        return _bytes(text, "--memory" if given is not None else f"${VARIABLE}")
    return min([STREAMED_BYTES, *(limit // MEMORY_DIVISOR for limit in memory_limits())])


def _bytes(text: str, where: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?)(i?)B", text.strip(), re.IGNORECASE)
    if found is None:
        raise ValueError(f"{where} {text}: write a number and its unit, such as 8GB, 500MB or 2GiB.")
    number, unit, binary = found.groups()
    return int(float(number) * (BINARY_UNITS if binary else UNITS)[unit.upper()])


def given_pixels(settings: Mapping[str, Any]) -> int | None:
    """Return the side of the images that the user has set; a wrong value is reported with the configuration."""
    resize = str(settings.get("resize"))
    return int(resize) if resize.isdecimal() else None


def fitting_settings(
    shape: DataShape, chosen: "ChosenBackbone", settings: Mapping[str, Any], memory: int, *, finetune: bool = False
) -> dict[str, Any]:
    """Return the settings of a backbone, and those with which image files are streamed or decoded, as memory allows.

    Args:
        shape: The data.
        chosen: The pretrained network for them.
        settings: Settings of the user, which come on top. One for `crop` settles how images are read.
        memory: Bytes that decoded images may take.
        finetune: Whether the pretrained network itself is to be trained.
    """
    on_features = chosen.backbone is not None and not finetune
    if shape.kind != "files" or on_features or "crop" in settings:
        return chosen.settings
    if isinstance(chosen.backbone, Backbone):
        return chosen.settings | finetune_images(shape, chosen.backbone.pixels, memory)
    usual, fitting = own_images(shape), own_images(shape, memory)
    if (pixels := given_pixels(settings)) is not None:
        fitting = _at_size(shape, pixels, memory)
    changes = {name: value for name, value in fitting.items() if value != usual[name]}
    return chosen.settings | changes


def _at_size(shape: DataShape, resize: int, memory: int) -> dict[str, Any]:
    """Return the settings for images whose size was given; a square of them is cut out if they are streamed."""
    if decoded_bytes(shape, resize, shape.channels) > memory:
        return {"resize": resize, "crop": max(1, round(resize / RESIZE_MARGIN)), "crop_padding": 0}
    return own_images(shape, sys.maxsize)


def streaming_sentence(config: "RunConfig", memory: int) -> str | None:
    """Say that images are read from their files since they do not fit; None if they fit, or need not."""
    shape, features = config.data, config.backbone is not None and not config.finetune
    if shape is None or shape.kind != "files" or config.crop is None or features:
        return None
    size = decoded_bytes(shape, config.crop, 3 if config.finetune else shape.channels)
    if size <= memory:
        return None
    return (
        f"{shape.samples:,} images of {config.crop} × {config.crop} pixels would take {size_text(size)} when decoded, "
        f"more than the limit of {size_text(memory)} (--memory, ${VARIABLE}): they are read from their files in every "
        "epoch."
    )
