"""Small-loss selection: how many samples of a batch to keep, and which, as masks of fixed shape.

Shared by Co-teaching, Co-teaching+, JoCoR, SIGUA and CNLCU. The forget rate rises from 0 to τ over the first epochs,
because networks fit clean labels first: forget(t) = τ·min((t − 1)/(T_k − 1), 1) with T_k = 10, as in the public code of
the family, whose epochs count from 0; the Co-teaching paper writes τ·min(t/T_k, 1), by option.

A mask instead of an index list keeps every tensor's shape independent of the data, so that a step never waits for the
host and can be captured in a graph.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Schedule = Literal["code", "paper"]


def forget_rate(epoch: int, noise_rate: float, gradual_epochs: int = 10, schedule: Schedule = "code") -> float:
    """The share of a batch to leave out in this 1-based epoch."""
    if gradual_epochs < 1:
        raise ValueError(f"gradual_epochs={gradual_epochs}: must be at least 1, which forgets in full at once.")
    if schedule == "paper":
        return noise_rate * min(epoch / gradual_epochs, 1.0)
    if schedule != "code":
        raise ValueError(f'schedule={schedule!r}: choose "code" or "paper".')
    return noise_rate * (min((epoch - 1) / (gradual_epochs - 1), 1.0) if gradual_epochs > 1 else 1.0)


@dataclass(frozen=True, kw_only=True)
class Forgetting:
    """How fast the forget rate rises to the noise rate."""

    gradual_epochs: int = 10  # until as much of a batch is left out as labels are wrong
    schedule: Schedule = "code"  # nothing is left out in the first epoch, or already a part

    def forget_rate(self, epoch: int, noise_rate: float) -> float:
        """The share of a batch to leave out in this 1-based epoch."""
        return forget_rate(epoch, noise_rate, self.gradual_epochs, self.schedule)


def ranks(scores: Tensor, among: Tensor | None = None) -> Tensor:
    """The place of every sample when sorted by score, smallest first; equal scores keep their order.

    Scores may have several rows, each a ranking of its own. With a mask `among` only its samples are counted, and only
    their places mean something.
    """
    order = torch.argsort(scores.detach(), dim=-1, stable=True)
    counted = torch.ones_like(order) if among is None else among.gather(-1, order).long()
    return torch.empty_like(order).scatter_(-1, order, torch.cumsum(counted, -1) - 1)


def rounded_down(count: Tensor) -> Tensor:
    """⌊count⌋ after adding a shade, so that (1 − 0.9)·10 counts as 1 and not as 0.99…."""
    return torch.floor(count + 1e-9)


def keep_count(size: Tensor | int, forget: Tensor) -> Tensor:
    """⌊(1 − forget)·size⌋, or everything if that is nothing; a device scalar, as `forget` is (in double precision)."""
    count = rounded_down((1 - forget) * size)
    return count + size * (count < 1)


def smallest(scores: Tensor, forget: Tensor, among: Tensor | None = None) -> Tensor:
    """True for the samples to keep: those of the smallest scores, of the whole batch or of a part of it."""
    if among is None:
        return ranks(scores) < keep_count(scores.shape[-1], forget)
    return among & (ranks(scores, among) < keep_count(among.sum(-1, keepdim=True), forget))


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """The mean over the masked entries, and 0 with a gradient of 0 if there are none."""
    return values.masked_fill(~mask, 0).sum() / mask.sum().clamp(min=1)
