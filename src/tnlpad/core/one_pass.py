"""When an update can be the one-pass CUDA kernel of `fused_sgd`, which not every machine and optimizer has."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer

from tnlpad.core.parts import Parts


class OnePass:
    """The kernel over an optimizer's parts, built by the first step that can use it.

    It keeps the norms for its next step and the addresses of all tensors: call `measure` after σ, γ or the anchor were
    written by other means, and `drop` when tensors moved or others take part.
    """

    def __init__(self, *, norm: str, gamma_update: str) -> None:
        self.norm, self.gamma_update = norm, gamma_update
        self.kernel: Any = None

    def step(self, base: Optimizer, every: Sequence[Parts], beta: Tensor) -> bool:
        """As `step_parts`, in one pass over memory; False, with nothing done, if that cannot be."""
        if self.kernel is None and self._fits(base, every, beta):
            from tnlpad.core.fused_sgd import FusedSGD

            self.kernel = FusedSGD(every, base.state, global_norm=self.norm == "global")
        if self.kernel is None or not self.kernel.accepts() or not _options_fit(every):
            return False
        self.kernel.step(beta)
        base.step()  # only the ordinary parameters have a gradient there
        for parts in every:
            parts.remember()
        return True

    def measure(self) -> None:
        """Take the norms anew, if there is a kernel to take them for."""
        if self.kernel is not None:
            self.kernel.measure()

    def drop(self) -> None:
        """Let the next step build the kernel anew."""
        self.kernel = None

    def _fits(self, base: Optimizer, every: Sequence[Parts], beta: Tensor) -> bool:
        return (
            beta.is_cuda
            and type(base) is SGD
            and self.gamma_update == "subgradient"
            and len({weight.dtype for parts in every for weight in parts.weights}) == 1
            and all(sigma.dtype == torch.float32 for parts in every for sigma in parts.sigma)
            and all(s.stride() == w.stride() for p in every for s, w in zip(p.sigma, p.weights, strict=True))
            and _options_fit(every)
            and find_spec("triton") is not None
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "kernel": None}  # it holds device addresses


def _options_fit(every: Sequence[Parts]) -> bool:
    groups = [parts.group for parts in every]
    return not any(group["dampening"] or isinstance(group["weight_decay"], Tensor) for group in groups)
