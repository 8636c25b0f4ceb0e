"""How good is a network? Accuracy and loss over a set, in large batches, without touching the network."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tnlpad.training.engine import compiled_if
from tnlpad.types import ImagesAt


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """Of one network on one set of samples; tensors on the device, so that measuring does not wait."""

    accuracy: Tensor
    loss: Tensor


@contextmanager
def evaluation_mode(network: nn.Module) -> Iterator[None]:
    """Within the block the network is in evaluation mode; afterwards every module is in its previous one."""
    modes = {module: module.training for module in network.modules()}
    network.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


@torch.no_grad()
def outputs(
    network: nn.Module, images_at: ImagesAt, index: Tensor, *, batch_size: int = 1024, bf16: bool = False
) -> Tensor:
    """The network's logits of the samples at `index`, in single precision."""
    if len(index) == 0:
        raise ValueError("No samples to measure on: index is empty.")
    size = min(batch_size, len(index))
    # All batches have one size, because compiled networks are compiled for one: the last is filled up with its end.
    filled = torch.cat([index, index[-1:].expand(-len(index) % size)])
    # Not the index's device: that of images in files lies where it is read, on the CPU.
    device = next((parameter.device for parameter in network.parameters()), index.device)
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=bf16)
    with evaluation_mode(network), autocast, compiled_if(size == batch_size):
        logits = [network(images_at(part)).float() for part in filled.split(size)]
    return torch.cat(logits)[: len(index)]


def evaluate(
    network: nn.Module,
    images_at: ImagesAt,
    index: Tensor,
    labels: Tensor,
    *,
    batch_size: int = 1024,
    bf16: bool = False,
) -> Measured:
    """Measure a network on the samples at `index`; `labels` are those of the samples, in the same order."""
    logits = outputs(network, images_at, index, batch_size=batch_size, bf16=bf16)
    loss, right = F.cross_entropy(logits, labels, reduction="none"), logits.argmax(1) == labels
    return Measured(accuracy=right.double().mean(), loss=loss.double().mean())
