"""Networks by name. Each constructor takes `num_classes` and `in_channels` by keyword and returns a `Network`.

The decomposition is in the optimizer, not here. To add a network, write its file and add its constructor to the table.
"""

import inspect
from collections.abc import Callable

from tnlpad.networks.efficientnet_lite import efficientnet_lite0
from tnlpad.networks.head import head
from tnlpad.networks.lenet import lenet
from tnlpad.networks.network import Network
from tnlpad.networks.preact_resnet import preact_resnet18, preact_resnet18_dividemix
from tnlpad.networks.pretrained import Pretrained, load_pretrained
from tnlpad.networks.resnet import imagenet_resnet50, resnet18, resnet34, resnet50
from tnlpad.networks.resnext import resnext29_2x64d, resnext29_4x64d, resnext29_32x4d
from tnlpad.networks.small import mlp, small_cnn, small_resnet
from tnlpad.networks.vgg import vgg19
from tnlpad.networks.wide_resnet import wide_resnet28_2, wide_resnet28_4, wide_resnet28_10
from tnlpad.suggestions import nearest

__all__ = ["NETWORKS", "Network", "Pretrained", "build", "load_pretrained"]

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
    "efficientnet_lite0": efficientnet_lite0,
    "small_cnn": small_cnn,
    "small_resnet": small_resnet,
    "mlp": mlp,
    "head": head,
}


def build(name: str, **options: int) -> Network:
    """Build the network of this name.

    >>> build("resnet18", num_classes=100, stem_padding=0).classifier
    Linear(in_features=512, out_features=100, bias=True)
    """
    if name not in NETWORKS:
        raise ValueError(f"network={name!r} is unknown{_suggestion(name, list(NETWORKS))}")
    known = list(inspect.signature(NETWORKS[name]).parameters)
    for option in options:
        if option not in known:
            raise ValueError(f"{name} has no option {option!r}{_suggestion(option, known)}")
    return NETWORKS[name](**options)


def _suggestion(word: str, known: list[str]) -> str:
    meant = nearest(word, known)
    return f": did you mean {meant}?" if meant else f": choose one of {', '.join(known)}."
