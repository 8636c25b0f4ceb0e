"""The mean teacher: a network whose weights are a moving average of those of the network that is trained.

Paper: Tarvainen and Valpola, "Mean teachers are better role models" (NeurIPS 2017). After the n-th step

    θᵗ ← a·θᵗ + (1 − a)·θˢ   with   a = min(1 − 1/(n + 1), decay),

over parameters only. The teacher looks at images augmented on its own, in training mode, so it owns its BatchNorm
statistics. The student's predictions are held to the teacher's by the mean square distance of class probabilities.

Of a decomposed student the teacher averages σ and γ apart, and holds their sum: the average of w to rounding.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

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
        self.decomposed = [(mine, parts[theirs]) for mine, theirs in pairs if theirs in parts]
        self.sigma = [own["sigma"].clone() for _, own in self.decomposed]
        self.gamma = [own["gamma"].clone() for _, own in self.decomposed]

    @torch.no_grad()
    def follow(self) -> None:
        """One step of the average, after one of the student."""
        self.steps += 1
        share = torch.maximum(1 / (self.steps + 1), torch.full_like(self.steps, 1 - self.decay))
        parts = self.student.parts()  # none once γ has been dropped
        pairs = zip(self.network.parameters(), self.student.network.parameters(), strict=True)
        ordinary = [(mine, theirs) for mine, theirs in pairs if theirs not in parts]
        if ordinary:
            _approach([mine for mine, _ in ordinary], [theirs for _, theirs in ordinary], share)
        if parts:
            _approach(self.sigma, [own["sigma"] for _, own in self.decomposed], share)
            _approach(self.gamma, [own["gamma"] for _, own in self.decomposed], share)
            self._hold("w")

    @torch.no_grad()
    def _hold(self, part: Part) -> None:
        weights: list[Tensor] = [mine for mine, _ in self.decomposed]
        torch._foreach_copy_(weights, torch._foreach_add(self.sigma, self.gamma) if part == "w" else self.sigma)

    @contextmanager
    def holding(self, part: Part, source: Source) -> Iterator[nn.Module]:
        """Within the block the teacher holds the average of σ, with BatchNorm statistics of its own, or that of w."""
        if part == "w" or not self.student.decomposed or not any_nonzero(self.gamma):
            yield self.network
            return
        self._hold("sigma")
        try:
            with source.reestimated(self.network):
                yield self.network
        finally:
            self._hold("w")

    @torch.no_grad()
    def drop_gamma(self) -> None:
        """Go on from the average of σ."""
        for gamma in self.gamma:
            gamma.zero_()
        self._hold("sigma")

    def tensors(self) -> list[Tensor]:
        """All that `follow` and forward passes change but for the number of steps."""
        return [*self.network.parameters(), *self.network.buffers(), *self.sigma, *self.gamma]


def _approach(mine: list[Tensor], theirs: list[Tensor], share: Tensor) -> None:
    """mine + share·(theirs − mine), in place."""
    way = torch._foreach_sub([tensor.detach() for tensor in theirs], mine)
    torch._foreach_mul_(way, share)
    torch._foreach_add_(mine, way)
