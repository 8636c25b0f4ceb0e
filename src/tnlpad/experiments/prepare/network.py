"""A run's networks: with random weights of the seed or published ones, laid out for the device, tried on an image."""

import inspect
from pathlib import Path

import torch
from torch import Tensor, nn

from tnlpad.core.compiled import compile_options
from tnlpad.data.errors import DataError
from tnlpad.data.root import default_root
from tnlpad.experiments.config import RunConfig
from tnlpad.experiments.prepare.data import Data
from tnlpad.experiments.prepare.images import image_shape, memory_format
from tnlpad.networks import NETWORKS, build, load_pretrained
from tnlpad.rng import global_torch_stream
from tnlpad.training.evaluate import evaluation_mode

WEIGHTS_FOLDER = "weights"  # below the root of datasets


def build_network(config: RunConfig, shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """The network that a configuration means, its weights drawn from torch's own generator.

    Args:
        config: The run's.
        shape: Of an input: channels × height × width, or the number of features.
        num_classes: How many outputs it has.
    """
    options = {"num_classes": num_classes, "in_channels": shape[0]}
    if config.stem_padding is not None:
        options["stem_padding"] = config.stem_padding
    if "image_size" in inspect.signature(NETWORKS[config.network]).parameters and len(shape) == 3:
        options["image_size"] = shape[1]
    return build(config.network, **options)


def prepare_network(
    config: RunConfig, data: Data, number: int, device: torch.device, root: Path | None, weights: Path | None
) -> nn.Module:
    """One network of a run, ready to be trained.

    Args:
        config, data, device: What to train, on what, where.
        number: Which of the run's networks, from 0; each has random weights of its own.
        root: Where datasets lie, and weights to begin with beside them.
        weights: The file of weights to begin with, if it lies elsewhere.
    """
    shape = image_shape(config, data.train)
    with global_torch_stream(config.seed, f"network-{number}"):
        network = build_network(config, shape, data.num_classes)
    if config.pretrained is not None:
        _load_weights(config, config.pretrained, network, root, weights)
    network.to(device)
    for parameter in network.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=memory_format(device))
    _require_fit(config.network, network, torch.zeros(1, *shape, device=device))
    if config.compiled:
        network.compile(**compile_options())
    return network


def _load_weights(
    config: RunConfig, pretrained: str, network: nn.Module, root: Path | None, weights: Path | None
) -> None:
    """Published weights from the folder beside the datasets, or from a file that is named; verified by their name.

    The last layer stays as it is if its classes are others. Two networks then differ in that layer alone.
    """
    if config.method == "standard_2x":
        raise ValueError(
            f"standard_2x adds a second random draw to its weights, in which those of {pretrained} would drown. "
            "Use standard, or --set pretrained=none."
        )
    path = weights or (root or default_root()) / WEIGHTS_FOLDER / pretrained
    # A file of another name must still be the one that was meant; a name that has the digits is checked anyway.
    digits = pretrained.rsplit("-", 1)[1].split(".")[0] if weights is not None else None
    if not path.is_file():
        raise DataError(
            f"{path} is missing, the weights that this run begins with. Put the file there (PyTorch publishes its own "
            "at https://download.pytorch.org/models/), or train from scratch with --set pretrained=none."
        )
    head = next(name for name, module in network.named_modules() if module is network.classifier)
    try:
        load_pretrained(network, path, head=head, sha256=digits)
    except (ValueError, OSError) as error:
        raise DataError(f"{config.network} cannot begin with {path}: {error}") from error


@torch.no_grad()
def _require_fit(name: str, network: nn.Module, image: Tensor) -> None:
    """Refuse a network that cannot take these images before a run has begun with it."""
    try:
        with evaluation_mode(network):
            network(image)
    except (ValueError, RuntimeError) as error:
        shape = " × ".join(map(str, image.shape[1:]))
        raise ValueError(f"{name} cannot take images of {shape} ({error}) Choose another network.") from error
