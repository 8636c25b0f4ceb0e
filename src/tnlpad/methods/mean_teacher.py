"""The mean teacher: a network whose weights are a moving average of those of the network that is trained.

Paper: Tarvainen and Valpola, "Mean teachers are better role models" (NeurIPS 2017). After the n-th step

    θᵗ ← a·θᵗ + (1 − a)·θˢ   with   a = min(1 − 1/(n + 1), decay),

over parameters only. The teacher looks at images augmented on its own, in training mode, so it owns its BatchNorm
statistics. The student's predictions are held to the teacher's by the mean square distance of class probabilities.

Of a decomposed student the teacher averages w, which it holds, and σ beside it. Their difference is the average of γ.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tnlpad.core.compiled import compile_options
from tnlpad.methods.protocol import Source
from tnlpad.methods.tnlpad import Part
from tnlpad.methods.trainee import Trainee, any_nonzero


def ramp_up(epoch: float, length: int) -> float:
    """exp(−5·(1 − epoch/length)²), and 1 from `length` epochs on; epochs count from 0."""
    return math.exp(-5 * (1 - min(epoch / length, 1.0)) ** 2) if length > 0 else 1.0


def consistency(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean over samples and classes of the squared distance of class probabilities, from logits."""
    return F.mse_loss(F.softmax(student.float(), 1), F.softmax(teacher.float(), 1))


class MeanTeacher:
    """A second network of the student's kind, and how it follows.

    Args:
        network: Of the same shape; it starts with the student's weights.
        student: Whom to follow.
        decay: Of the average.
    """

    def __init__(self, network: nn.Module, student: Trainee, decay: float) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"ema_decay={decay}: must lie in [0, 1); at 1 the teacher would never learn.")
        self.network, self.student, self.decay = network, student, decay
        network.load_state_dict(student.network.state_dict())
        for parameter in network.parameters():
            parameter.requires_grad_(False)
        self.steps = torch.zeros((), device=next(network.parameters()).device)
        parts = student.parts()
        pairs = list(zip(network.parameters(), student.network.parameters(), strict=True))
        self.decomposed = [mine for mine, theirs in pairs if theirs in parts]
        self.sigma = [parts[theirs]["sigma"].clone() for _, theirs in pairs if theirs in parts]

    @torch.no_grad()
    def follow(self) -> None:
        """One step of the average, after one of the student."""
        mine: list[Tensor] = [*self.network.parameters()]
        theirs: list[Tensor] = [*self.student.network.parameters()]
        if parts := self.student.parts():  # or γ has been dropped
            mine += self.sigma
            theirs += [parts[weight]["sigma"] for weight in theirs if weight in parts]
        compiled = self.network._compiled_call_impl is not None
        (_compiled_approach() if compiled else _approach)(mine, theirs, self.steps, self.decay)

    @contextmanager
    def holding(self, part: Part, source: Source) -> Iterator[nn.Module]:
        """Within the block the teacher holds the average of σ, with BatchNorm statistics of its own, or that of w."""
        if part == "w" or not self.student.decomposed or not self.has_gamma():
            yield self.network
            return
        w = [weight.clone() for weight in self.decomposed]
        self._hold(self.sigma)
        try:
            with source.reestimated(self.network):
                yield self.network
        finally:
            self._hold(w)

    def has_gamma(self) -> bool:
        """Whether the average of γ is anything but 0. Asks the device."""
        return any_nonzero([w != sigma for w, sigma in zip(self.decomposed, self.sigma, strict=True)])

    def drop_gamma(self) -> None:
        """Go on from the average of σ."""
        self._hold(self.sigma)

    def _hold(self, values: list[Tensor]) -> None:
        torch._foreach_copy_(list[Tensor](self.decomposed), values)

    def tensors(self) -> list[Tensor]:
        """All that `follow` and forward passes change but for the number of steps."""
        return [*self.network.parameters(), *self.network.buffers(), *self.sigma]


def _approach(mine: list[Tensor], theirs: list[Tensor], steps: Tensor, decay: float) -> None:
    """Count the step, and go a share of the way: mine + (1 − a)·(theirs − mine), in place."""
    steps += 1
    share = torch.maximum(1 / (steps + 1), torch.full_like(steps, 1 - decay))
    way = torch._foreach_sub(theirs, mine)
    torch._foreach_mul_(way, share)
    torch._foreach_add_(mine, way)


@cache
def _compiled_approach() -> Callable[[list[Tensor], list[Tensor], Tensor, float], None]:
    """The same as one kernel, which reads and writes each weight once."""
    return torch.compile(_approach, **compile_options())
