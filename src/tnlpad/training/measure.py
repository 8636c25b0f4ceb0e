"""Measurements after every epoch: accuracy, loss, memorisation, selection, norms.

Clean labels are used here to measure and never to choose: `validation` has the given labels, and it alone chooses the
epoch.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tnlpad.core.decomposition import Decomposition
from tnlpad.core.update import norms
from tnlpad.methods.protocol import Method
from tnlpad.ranks import group
from tnlpad.training.engine import Captured, compiled_if, current_event
from tnlpad.types import ImagesAt


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """Some samples of a dataset with the labels to compare with."""

    images_at: ImagesAt
    index: Tensor
    labels: Tensor
    batch_size: int = 1024


@dataclass(frozen=True, kw_only=True, eq=False)
class Sets:
    """The samples to measure a network on.

    Args:
        validation: Held-out samples with their given labels.
        test: Samples with clean labels; None if there are none, as for most people's own data.
        wrong: Training samples whose given label is wrong, with that label; None if there are none or it is unknown.
        correct: For every sample of the training dataset, whether its given label is right; None if unknown.
    """

    validation: Samples
    test: Samples | None
    wrong: Samples | None
    correct: Tensor | None


def measure(method: Method, sets: Sets, evaluator: "Evaluator") -> dict[str, Any]:
    """Return all measurements as plain numbers."""
    judged = {name: _judge(weights, sets, evaluator) for name, weights in method.judged.items()}
    selection = {}
    if sets.correct is not None:
        for name, picked in method.selections.items():
            selection[name] = {"picked": picked.sum(), "right": (picked & sets.correct).sum()}
    numbers = _to_numbers({"judged": judged, "selection": selection, "norms": _norms(method)})
    numbers["selection"] = {name: _precision(**counts) for name, counts in numbers["selection"].items()}
    return numbers


def _judge(
    weights: Callable[[], AbstractContextManager[nn.Module]], sets: Sets, evaluator: "Evaluator"
) -> dict[str, Tensor]:
    results: dict[str, Tensor] = {}
    with weights() as network:
        for name, samples in (("validation", sets.validation), ("test", sets.test)):
            if samples is not None:
                measured = evaluator(network, samples)
                results |= {f"{name}_accuracy": measured.accuracy, f"{name}_loss": measured.loss}
        if sets.wrong is not None:
            results["memorised"] = evaluator(network, sets.wrong).accuracy
    return results


def _precision(picked: float, right: float) -> dict[str, float | None]:
    """Return how many samples a method picked this epoch, and the share of them whose given label is right."""
    return {"picked": int(picked), "precision": right / picked if picked else None}


def _norms(method: Method) -> dict[str, Tensor]:
    """Return ‖g‖ of the epoch's last step, and the norms of a decomposition."""
    parameters = [p for o in method.optimizers for group in o.param_groups for p in group["params"]]
    wide = torch.promote_types
    gradients = [p.grad.to(wide(p.grad.dtype, torch.float32)) for p in parameters if p.grad is not None]
    values = {"gradient": norms(gradients)} if gradients else {}
    for optimizer in method.optimizers:
        if isinstance(optimizer, Decomposition):
            values |= optimizer.norms()
    return values


def _to_numbers(tree: dict[str, Any]) -> dict[str, Any]:
    """Convert tensors to numbers in one transfer, the only one of a measurement that waits for the device."""
    scalars = list(_leaves(tree))
    if scalars and scalars[0].is_cuda:
        current_event().synchronize()
    numbers = iter(torch.stack([scalar.double() for scalar in scalars]).tolist() if scalars else [])
    return _replace_leaves(tree, numbers)


def _leaves(tree: dict[str, Any]) -> Iterator[Tensor]:
    for value in tree.values():
        if isinstance(value, dict):
            yield from _leaves(value)
        else:
            yield value


def _replace_leaves(tree: dict[str, Any], numbers: Iterator[float]) -> dict[str, Any]:
    """Return the tree with a number in place of each tensor, in the order of `_leaves`."""
    return {
        key: _replace_leaves(value, numbers) if isinstance(value, dict) else next(numbers)
        for key, value in tree.items()
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """Accuracy and loss of a network on some samples, as tensors on the device so that nothing waits."""

    accuracy: Tensor
    loss: Tensor


class Evaluator:
    """Calls `evaluate`; with `captured`, each pass is a CUDA graph from its second time on."""

    def __init__(self, *, bf16: bool = False, captured: bool = False) -> None:
        self.bf16, self.captured = bf16, captured
        # By network and samples. σ and w are one network that holds one or the other, so they share a graph.
        self.passes: dict[tuple[nn.Module, Samples], Captured[Measured]] = {}

    def __call__(self, network: nn.Module, samples: Samples) -> Measured:
        """Measure the network with its current weights."""
        if not self.captured:
            return evaluate(network, samples, bf16=self.bf16)
        if (network, samples) not in self.passes:
            self.passes[network, samples] = Captured(lambda: evaluate(network, samples, bf16=self.bf16), eager_runs=1)
        measured = self.passes[network, samples]()
        # The next replay overwrites its results.
        return Measured(accuracy=measured.accuracy.clone(), loss=measured.loss.clone())


def evaluate(network: nn.Module, samples: Samples, *, bf16: bool = False) -> Measured:
    """Measure a network on some samples, in large batches, without changing it."""
    mine = samples.labels[group.share(len(samples.labels))]

    def judged(logits: Tensor, start: int) -> Tensor:
        labels = mine[start : start + len(logits)]
        loss, right = F.cross_entropy(logits, labels, reduction="none"), logits.argmax(1) == labels
        return torch.stack([loss, right.float()], 1)

    # Two numbers of each sample are kept, not its logits: with many classes, those of all samples take much memory.
    table = _in_batches(network, samples.images_at, samples.index, samples.batch_size, bf16, judged)
    loss, right = (column.double().mean() for column in table.unbind(1))
    return Measured(accuracy=right, loss=loss)


def outputs(
    network: nn.Module, images_at: ImagesAt, index: Tensor, *, batch_size: int = 1024, bf16: bool = False
) -> Tensor:
    """Return the network's logits of the samples at `index`, in single precision. Several ranks share the work."""
    return _in_batches(network, images_at, index, batch_size, bf16, lambda logits, start: logits)


@torch.no_grad()
def _in_batches(
    network: nn.Module,
    images_at: ImagesAt,
    index: Tensor,
    batch_size: int,
    bf16: bool,
    kept: Callable[[Tensor, int], Tensor],
) -> Tensor:
    """Return what `kept` makes of the logits of each batch and the number of this rank's samples before it."""
    if len(index) == 0:
        raise ValueError("No samples to measure on: index is empty.")
    total, index = len(index), index[group.share(len(index))]
    size = min(batch_size, len(index))
    # All batches have one size, because compiled networks are compiled for one: the last sample is repeated.
    filled = torch.cat([index, index[-1:].expand(-len(index) % size)])
    # Not the index's device: for images in files the index is on the CPU.
    device = next((parameter.device for parameter in network.parameters()), index.device)
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=bf16)
    with evaluation_mode(network), autocast, compiled_if(size == batch_size):
        rows = [
            kept(network(images_at(part)).float()[: len(index) - start], start)
            for start, part in zip(range(0, len(index), size), filled.split(size), strict=True)
        ]
    return group.whole(torch.cat(rows), total)


@contextmanager
def evaluation_mode(network: nn.Module) -> Iterator[None]:
    """Put the network into evaluation mode within the block, then every module back into its previous mode."""
    modes = {module: module.training for module in network.modules()}
    network.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training
