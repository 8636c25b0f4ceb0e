"""BatchNorm statistics that fit σ, without disturbing those of w.

While training, BatchNorm collects the means and variances of a network that runs on w = σ + γ. The paper evaluates σ
with these statistics, and so do we by default. They no longer fit once γ is large. This module estimates them again
from forward passes of the current network, like torch's `update_bn`, and restores the old ones afterwards. Labels are
not used. Pass images augmented as in training: plain images can lower accuracy.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def reestimated_batchnorm(model: nn.Module, batches: Iterable[Any]) -> Iterator[None]:
    """Let BatchNorm use statistics averaged over `batches` within the block; then restore its own, bit for bit.

    A batch is what the model takes, alone or as the first of several items, like images with labels.

    >>> with optimizer.sigma_weights(), reestimated_batchnorm(model, batches):  # doctest: +SKIP
    ...     accuracy = evaluate(model)

    Within the block the whole network is in evaluation mode (dropout off); then its modules return to their modes.
    Layers whose `train()` leaves them in evaluation mode keep their statistics, as they do in training.

    Raises:
        ValueError: if there is no batch to estimate from.
    """
    modes = {module: module.training for module in model.modules()}
    model.train()
    kind = nn.modules.batchnorm._BatchNorm
    layers = [m for m in model.modules() if isinstance(m, kind) and m.track_running_stats and m.training]
    buffers = [{name: buffer.clone() for name, buffer in layer.named_buffers(recurse=False)} for layer in layers]
    momenta = [layer.momentum for layer in layers]
    try:
        model.eval()
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None  # a cumulative average: every batch counts the same
            layer.training = True
        if layers:
            with torch.no_grad():
                for batch in batches:
                    model(batch[0] if isinstance(batch, (list, tuple)) else batch)
        if layers and not any(layer.num_batches_tracked for layer in layers):
            raise ValueError("No batch reached BatchNorm: `batches` is empty, or the layers are not used.")
        for layer, saved in zip(layers, buffers, strict=True):
            layer.training = False
            if not layer.num_batches_tracked:  # for example a head that only training uses
                _restore(layer, saved)
        yield
    finally:
        for layer, saved, momentum in zip(layers, buffers, momenta, strict=True):
            layer.momentum = momentum
            _restore(layer, saved)
        for module, training in modes.items():
            module.training = training


def _restore(layer: nn.Module, saved: dict[str, Tensor]) -> None:
    for name, value in saved.items():
        getattr(layer, name).copy_(value)
