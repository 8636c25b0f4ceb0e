"""Networks by name. Each constructor takes `num_classes` and `in_channels` by keyword.

Each is a `Network`: it offers `forward(images) -> logits`, `features(images)`, the penultimate layer with one row per
image, and `classifier`, the linear layer between the two. The decomposition lives in the optimizer, not here.

To add one: write its file, and add its constructor to the table; the tests find it there.
"""

import inspect
from collections.abc import Callable

from tnlpad.networks.lenet import LeNet, lenet
from tnlpad.networks.mlp import MLP, mlp
from tnlpad.networks.network import Network
from tnlpad.networks.preact_resnet import PreActResNet, preact_resnet18, preact_resnet18_dividemix
from tnlpad.networks.pretrained import Pretrained, load_pretrained
from tnlpad.networks.resnet import ImageNetResNet, ResNet, imagenet_resnet50, resnet18, resnet34, resnet50
from tnlpad.networks.resnext import ResNeXt, resnext29_2x64d, resnext29_4x64d, resnext29_32x4d
from tnlpad.networks.small import SmallCNN, SmallResNet, small_cnn, small_resnet
from tnlpad.networks.vgg import VGG, vgg19
from tnlpad.networks.wide_resnet import WideResNet, wide_resnet28_2, wide_resnet28_4, wide_resnet28_10
from tnlpad.suggestions import nearest

NETWORKS: dict[str, Callable[..., Network]] = {
    "lenet": lenet,
    "resnet18": resnet18,
    "resnet34": resnet34,
    "resnet50": resnet50,
    "preact_resnet18": preact_resnet18,
    "preact_resnet18_dividemix": preact_resnet18_dividemix,
    "wide_resnet28_2": wide_resnet28_2,
    "wide_resnet28_4": wide_resnet28_4,
    "wide_resnet28_10": wide_resnet28_10,
    "vgg19": vgg19,
    "resnext29_32x4d": resnext29_32x4d,
    "resnext29_2x64d": resnext29_2x64d,
    "resnext29_4x64d": resnext29_4x64d,
    "imagenet_resnet50": imagenet_resnet50,
    "small_cnn": small_cnn,
    "small_resnet": small_resnet,
    "mlp": mlp,
}


def build(name: str, **options: int) -> Network:
    """The network of that name; unknown names and options are refused with the nearest known one.

    >>> build("resnet18", num_classes=100, stem_padding=0).classifier
    Linear(in_features=512, out_features=100, bias=True)
    """
    if name not in NETWORKS:
        raise ValueError(f"network={name!r} is unknown{_instead(name, list(NETWORKS))}")
    known = list(inspect.signature(NETWORKS[name]).parameters)
    for option in options:
        if option not in known:
            raise ValueError(f"{name} has no option {option!r}{_instead(option, known)}")
    return NETWORKS[name](**options)


def _instead(word: str, known: list[str]) -> str:
    """The end of a sentence that says what to write instead."""
    meant = nearest(word, known)
    return f": did you mean {meant}?" if meant else f": choose one of {', '.join(known)}."


__all__ = [
    "MLP",
    "NETWORKS",
    "VGG",
    "ImageNetResNet",
    "LeNet",
    "Network",
    "PreActResNet",
    "Pretrained",
    "ResNeXt",
    "ResNet",
    "SmallCNN",
    "SmallResNet",
    "WideResNet",
    "build",
    "imagenet_resnet50",
    "lenet",
    "load_pretrained",
    "mlp",
    "preact_resnet18",
    "preact_resnet18_dividemix",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnext29_2x64d",
    "resnext29_4x64d",
    "resnext29_32x4d",
    "small_cnn",
    "small_resnet",
    "vgg19",
    "wide_resnet28_2",
    "wide_resnet28_4",
    "wide_resnet28_10",
]
