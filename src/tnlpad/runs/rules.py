"""Rules for the values of a run's settings, and for their combinations."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tnlpad.data.catalogue import find
from tnlpad.features.backbone import network_of
from tnlpad.networks import NETWORKS
from tnlpad.noise.spec import parse_noise
from tnlpad.runs.settings import check_name
from tnlpad.schema import LIMITS

if TYPE_CHECKING:
    from tnlpad.runs.config import RunConfig


class Rule(NamedTuple):
    """A rule for the value of a field, unless it is None."""

    text: str
    holds: Callable[[Any], bool]


LARGEST = LIMITS[int]
WEIGHTS_NAME = re.compile(r"[^/\\]+-[0-9a-f]{8,64}\.(pth|pt|safetensors)")
RULES = {
    "seed": Rule("a whole number >= 0", lambda value: value >= 0),
    "epochs": Rule("at least 1", lambda value: value >= 1),
    "batch_size": Rule("at least 1", lambda value: value >= 1),
    "batches_per_epoch": Rule("at least 1, or none", lambda value: value >= 1),
    "learning_rate": Rule("a number > 0", lambda value: value > 0),
    "milestones": Rule("epochs in ascending order", lambda value: list(value) == sorted({*value}) and all(value)),
    "decay": Rule("in (0, 1]", lambda value: 0 < value <= 1),
    "momentum": Rule("in [0, 1)", lambda value: 0 <= value < 1),
    "weight_decay": Rule("a number >= 0", lambda value: value >= 0),
    "validation_fraction": Rule("in (0, 1), since validation chooses the epoch", lambda value: 0 < value < 1),
    "subset": Rule("a number of images >= 1, or none", lambda value: value >= 1),
    "resize": Rule("a number of pixels >= 1, or none", lambda value: value >= 1),
    "crop": Rule("a number of pixels >= 1, or none", lambda value: value >= 1),
    "crop_padding": Rule("a number of pixels >= 0", lambda value: value >= 0),
    "cutout": Rule("a number of pixels >= 0", lambda value: value >= 0),
    "stem_padding": Rule("a number of pixels >= 0, or none", lambda value: value >= 0),
    "pretrained": Rule(
        "the name of a file in ROOT/weights, such as resnet50-0676ba61.pth (the digits are the start of its SHA-256), "
        "or none",
        lambda value: WEIGHTS_NAME.fullmatch(value) is not None,
    ),
    "noise_rate": Rule("in [0, 1), or none", lambda value: 0 <= value < 1),
    "patience": Rule("at least 1 epoch, or none", lambda value: value >= 1),
    "folds": Rule("at least 2, or none", lambda value: value >= 2),
    "repeats": Rule("at least 1, or none", lambda value: value >= 1),
}
# Kinds of inputs, and the fields that have no effect on them.
IN_MEMORY, DECODED, STREAMED, FEATURES = "images in memory", "image files in memory", "streamed images", "features"
ENCODED = "features of images"
FEATURE_NETWORKS = ("mlp", "head")
NOT_OF_ROWS = ("crop", "crop_padding", "flip", "cutout", "batches_per_epoch", "subset", "stem_padding", "channels_last")
WITHOUT_EFFECT = {
    IN_MEMORY: ("resize", "crop", "batches_per_epoch", "subset"),
    DECODED: ("batches_per_epoch", "subset"),
    STREAMED: ("crop_padding", "cutout"),
    ENCODED: NOT_OF_ROWS,
    FEATURES: ("resize", *NOT_OF_ROWS),
}


def check(config: "RunConfig") -> None:
    """Raise ValueError if a field breaks its rule, or does not go with the data."""
    check_name("network", config.network, NETWORKS)
    _check_values(config)
    inputs, own = _inputs(config), config.data is not None
    _check_features(config, inputs)
    unused_subset = ("subset",) if own and inputs == STREAMED else ()
    for name in (*WITHOUT_EFFECT[inputs], *unused_subset):
        if value := getattr(config, name):
            raise ValueError(f"{name}={value}: has no effect on {inputs}, such as these data. Leave it out.")
    fits = config.resize is not None and (config.crop or 1) <= config.resize
    if (inputs in (DECODED, STREAMED) and not fits) or (inputs == STREAMED and config.crop is None):
        raise ValueError(
            f"resize={config.resize}, crop={config.crop}: image files are resized, and a square is cut out of them "
            "that must fit into the resized image. Give both."
        )
    kind = parse_noise(config.noise).kind
    if kind == "human" and not config.dataset.startswith("cifar"):
        raise ValueError(f"noise={config.noise!r}: human labels exist for cifar10 and cifar100 only. Use another kind.")
    if inputs in (STREAMED, FEATURES, ENCODED) and kind == "instance":
        raise ValueError(
            f"noise={config.noise!r}: needs all images in memory, and {config.dataset} has {inputs}. Use another kind."
        )
    if config.validation == "clean" and (own or config.dataset != "clothing1m"):
        raise ValueError(f"validation='clean': {config.dataset} has no clean validation set. Use 'noisy'.")


def _check_values(config: "RunConfig") -> None:
    for name, rule in RULES.items():
        value = getattr(config, name)
        if value is not None and not rule.holds(value):
            raise ValueError(f"{name}={value!r}: must be {rule.text}.")
    for name, value in vars(config).items():
        for number in value if isinstance(value, tuple) else [value]:
            if isinstance(number, int) and number >= LARGEST:
                raise ValueError(f"{name}={value!r}: must be below 2^63, the largest number that readers of runs take.")


def _check_features(config: "RunConfig", inputs: str) -> None:
    """Raise ValueError if the network or the folds do not go with the inputs."""
    rows = inputs in (FEATURES, ENCODED)
    if rows and config.network not in FEATURE_NETWORKS:
        advice = "Use mlp or head" + (", or --backbone none." if config.backbone is not None else ".")
        raise ValueError(f"network={config.network!r}: takes images, and this run is on rows of numbers. {advice}")
    if config.finetune:
        _check_finetune(config)
    if config.folds is not None and not rows:
        raise ValueError(
            f"folds={config.folds}: only features are judged out of fold, and these data are {inputs}. Add --backbone."
        )
    if (config.folds is None) != (config.repeats is None):
        raise ValueError(f"folds={config.folds}, repeats={config.repeats}: give both, or none for both.")
    if config.backbone is not None and config.pretrained is not None:
        raise ValueError(
            f"pretrained={config.pretrained!r}: the run is on features of {config.backbone}. Leave it out."
        )


def _check_finetune(config: "RunConfig") -> None:
    if config.backbone is None:
        raise ValueError("finetune=True: there is no pretrained network to train. Add --backbone lite.")
    if config.folds is not None:
        raise ValueError(
            f"folds={config.folds}: only features are judged out of fold. Leave out --finetune or --folds."
        )
    if config.network != (network := network_of(config.backbone)):
        raise ValueError(
            f"network={config.network!r}: --finetune trains the backbone itself, which is {network}. Leave it out."
        )


def _inputs(config: "RunConfig") -> str:
    if config.data is None:
        return STREAMED if find(config.dataset).image_shape is None else IN_MEMORY
    if config.finetune:
        return STREAMED if config.crop is not None else DECODED
    if config.backbone is not None and config.data.kind in ("files", "images"):
        return ENCODED
    if config.data.kind == "files":
        return STREAMED if config.crop is not None else DECODED
    return IN_MEMORY if config.data.kind == "images" else FEATURES
