"""Small-loss selection: how many samples of a batch to keep, and which, as masks of fixed shape.

Shared by Co-teaching, Co-teaching+, JoCoR, SIGUA and CNLCU. Networks fit clean labels first, so the forget rate rises
from 0 to the noise rate τ over the first epochs: forget(t) = τ·min((t − 1)/(T_k − 1), 1) with T_k = 10. This is the
rule of these methods' public code, whose epochs count from 0. The Co-teaching paper has τ·min(t/T_k, 1).

Masks, unlike lists of indices, have shapes that do not depend on the data. So a step never waits for the host, and can
be captured as a CUDA graph.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Forgetting:
    """Schedule of the forget rate."""

    gradual_epochs: int = 10  # epochs until the share of a batch left out reaches the noise rate
    schedule: Literal["code", "paper"] = "code"  # in the first epoch `code` keeps all samples, `paper` leaves some out

    def forget_rate(self, epoch: int, noise_rate: float) -> float:
        """Return the share of a batch to leave out in this 1-based epoch."""
        if self.gradual_epochs < 1:
            raise ValueError(f"gradual_epochs={self.gradual_epochs}: must be at least 1, which means no rise.")
        if self.schedule == "paper":
            return noise_rate * min(epoch / self.gradual_epochs, 1.0)
        if self.schedule != "code":
            raise ValueError(f'schedule={self.schedule!r}: choose "code" or "paper".')
        return noise_rate * (min((epoch - 1) / (self.gradual_epochs - 1), 1.0) if self.gradual_epochs > 1 else 1.0)


def smallest(scores: Tensor, forget: Tensor, among: Tensor | None = None) -> Tensor:
    """Return a mask of the samples to keep: those with the smallest scores in the batch, or in the mask `among`."""
    if among is None:
        return ranks(scores) < keep_count(scores.shape[-1], forget)
    return among & (ranks(scores, among) < keep_count(among.sum(-1, keepdim=True), forget))


def ranks(scores: Tensor, among: Tensor | None = None) -> Tensor:
    """Return each sample's rank by score, smallest first; ties keep their order. Rows are ranked separately.

    With a mask `among`, only its samples are counted, and only their ranks are meaningful.
    """
    order = torch.argsort(scores.detach(), dim=-1, stable=True)
    counted = torch.ones_like(order) if among is None else among.gather(-1, order).long()
    return torch.empty_like(order).scatter_(-1, order, torch.cumsum(counted, -1) - 1)


def keep_count(size: Tensor | int, forget: Tensor) -> Tensor:
    """Return ⌊(1 − forget)·size⌋, or `size` if that is 0, as a device scalar. `forget` is in double precision."""
    count = rounded_down((1 - forget) * size)
    return count + size * (count < 1)


def rounded_down(count: Tensor) -> Tensor:
    """Return ⌊count + 1e-9⌋, so that (1 − 0.9)·10 = 0.99… counts as 1."""
    return torch.floor(count + 1e-9)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over the masked entries. If there are none, it is 0, and so is its gradient."""
    return values.masked_fill(~mask, 0).sum() / mask.sum().clamp(min=1)
