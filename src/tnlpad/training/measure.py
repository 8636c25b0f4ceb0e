"""What is recorded after every epoch: accuracy, loss, memorisation, selection, norms.

Clean labels are used here to measure and nowhere to choose: `validation` has the given labels, and the epoch is chosen
by it alone.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tnlpad.core.decomposition import Decomposition
from tnlpad.methods.protocol import Method
from tnlpad.training.engine import Captured, reached
from tnlpad.training.evaluate import Measured, evaluate
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
    """What a network is measured on.

    Args:
        validation: Held out, with the labels as given.
        test: With clean labels; None if there are no such samples, as for most people's own data.
        wrong: Training samples whose given label is wrong, with that label; None if there are none or nobody knows.
        correct: For every sample of the training dataset, whether its given label is right; None if nobody knows.
    """

    validation: Samples
    test: Samples | None
    wrong: Samples | None
    correct: Tensor | None


class Evaluator:
    """`evaluate` on whole sets; with `captured` each pass is a CUDA graph from its second time on."""

    def __init__(self, *, bf16: bool = False, captured: bool = False) -> None:
        self.bf16, self.captured = bf16, captured
        # By network and set. σ and w are one network that holds one or the other: they share their passes.
        self.passes: dict[tuple[nn.Module, Samples], Captured[Measured]] = {}

    def __call__(self, network: nn.Module, samples: Samples) -> Measured:
        """Measure the network as it is now."""

        def whole() -> Measured:
            return evaluate(
                network,
                samples.images_at,
                samples.index,
                samples.labels,
                batch_size=samples.batch_size,
                bf16=self.bf16,
            )

        if not self.captured:
            return whole()
        if (network, samples) not in self.passes:
            self.passes[network, samples] = Captured(whole, eager_runs=1)
        measured = self.passes[network, samples]()
        # The next replay writes over its results.
        return Measured(accuracy=measured.accuracy.clone(), loss=measured.loss.clone())


def measure(method: Method, sets: Sets, evaluator: Evaluator) -> dict[str, Any]:
    """All of it, as plain numbers."""
    judged = {name: _judge(held, sets, evaluator) for name, held in method.judged.items()}
    picked = _picked(method, sets.correct)
    numbers = _numbers({"judged": judged, "selection": picked, "norms": _norms(method)})
    numbers["selection"] = {name: _precision(counts) for name, counts in numbers["selection"].items()}
    return numbers


def _judge(
    held: Callable[[], AbstractContextManager[nn.Module]], sets: Sets, evaluator: Evaluator
) -> dict[str, Tensor]:
    results = {}
    with held() as network:
        for name, samples in (("validation", sets.validation), ("test", sets.test), ("wrong", sets.wrong)):
            if samples is None:
                continue
            measured = evaluator(network, samples)
            if name == "wrong":
                results["memorised"] = measured.accuracy
            else:
                results |= {f"{name}_accuracy": measured.accuracy, f"{name}_loss": measured.loss}
    return results


def _picked(method: Method, correct: Tensor | None) -> dict[str, dict[str, Tensor]]:
    """How many samples a method picked this epoch, and how many of them have a right label."""
    if correct is None:
        return {}
    return {
        name: {"picked": picked.sum(), "right": (picked & correct).sum()} for name, picked in method.selections.items()
    }


def _precision(counts: dict[str, float]) -> dict[str, float | None]:
    """Of the samples picked, the share whose given label is right; none were picked: no share."""
    picked = int(counts["picked"])
    return {"picked": picked, "precision": counts["right"] / picked if picked else None}


def _norms(method: Method) -> dict[str, Tensor]:
    """‖g‖ of the epoch's last step, and what a decomposition knows of its parts."""
    parameters = [p for o in method.optimizers for group in o.param_groups for p in group["params"]]
    gradients = [p.grad for p in parameters if p.grad is not None]
    values = {}
    if gradients:
        values["gradient"] = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    for optimizer in method.optimizers:
        if isinstance(optimizer, Decomposition):
            values |= optimizer.norms()
    return values


def _numbers(tree: dict[str, Any]) -> dict[str, Any]:
    """Tensors to numbers in one transfer: the only place where an epoch's measurement waits for the device."""
    scalars = list(_leaves(tree))
    if scalars and scalars[0].is_cuda:
        reached().synchronize()
    numbers = iter(torch.stack([scalar.double() for scalar in scalars]).tolist() if scalars else [])
    return _filled(tree, numbers)


def _leaves(tree: dict[str, Any]) -> Iterator[Tensor]:
    for value in tree.values():
        if isinstance(value, dict):
            yield from _leaves(value)
        else:
            yield value


def _filled(tree: dict[str, Any], numbers: Iterator[float]) -> dict[str, Any]:
    """The same tree with a number in place of each tensor, in the order of `_leaves`."""
    return {key: _filled(value, numbers) if isinstance(value, dict) else next(numbers) for key, value in tree.items()}
