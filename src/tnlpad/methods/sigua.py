"""SIGUA: small losses are learnt, and the ones just above them are unlearnt a little.

Paper: Han et al., "SIGUA: Forgetting May Make Learning with Noisy Labels More Robust" (ICML 2020), in its form with
small-loss selection. Of a batch sorted by loss the first ⌊(1 − forget)·B⌋ are kept; of the n_f left out the next
⌊n_f·rate⌋ (at least one) form the ascent set, and

    loss = mean over the kept − scale · mean over the ascent set.

The ascent set is next to the kept samples, not at the far end. The authors use scale 0.01 with rate 0.4 for 20 % noise
and 0.3 for 45 or 50 %; without a given rate we take 0.4 up to a noise rate of 0.3 and 0.3 above.

How we differ from the public code: where nothing is left out there is no ascent, where that code divides 0 by 0. The
ascent has no bound, and training may collapse as it does in the paper's large deviations; `ascent_limit` stops pushing
a sample whose loss is above that many times log C, the loss of guessing among C classes.
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Optimizer

from tnlpad.methods.forward import forward
from tnlpad.methods.protocol import Judged, Setup
from tnlpad.methods.saving import restore, state_of
from tnlpad.methods.selection import Forgetting, keep_count, masked_mean, ranks, rounded_down
from tnlpad.types import Batch, Clock


@dataclass(frozen=True, kw_only=True)
class SiguaConfig(Forgetting):
    """How strongly and of how many samples the loss is raised."""

    sigua_scale: float = 0.01
    sigua_rate: float | None = None  # by the noise rate
    ascent_limit: float | None = None


def kept_and_ascent(losses: Tensor, forget: Tensor, rate: float) -> tuple[Tensor, Tensor]:
    """Masks of the samples to learn and of those to unlearn."""
    place = ranks(losses)
    keep = keep_count(len(losses), forget)
    left_out = len(losses) - keep
    ascent = torch.minimum(rounded_down(left_out * rate).clamp(min=1), left_out)
    return place < keep, (place >= keep) & (place < keep + ascent)


def _check(config: SiguaConfig) -> None:
    if not 0 <= config.sigua_scale < math.inf:
        raise ValueError(f"sigua_scale={config.sigua_scale}: must be a finite number >= 0; 0 switches the ascent off.")
    if config.sigua_rate is not None and not 0 <= config.sigua_rate <= 1:
        raise ValueError(f"sigua_rate={config.sigua_rate}: must lie in [0, 1], or be None to follow the noise rate.")
    if config.ascent_limit is not None and not config.ascent_limit > 0:
        raise ValueError(f"ascent_limit={config.ascent_limit}: must be > 0, or None for no limit.")


class Sigua:
    """One network, one optimizer."""

    def __init__(self, config: SiguaConfig, setup: Setup) -> None:
        _check(config)
        self.config = config
        self.noise_rate = setup.required_noise_rate("sigua")
        self.rate = (0.4 if self.noise_rate <= 0.3 else 0.3) if config.sigua_rate is None else config.sigua_rate
        self.limit = math.inf if config.ascent_limit is None else config.ascent_limit * math.log(setup.num_classes)
        self.network = setup.network(0)
        self.optimizers: Sequence[Optimizer] = [torch.optim.SGD(self.network.parameters(), **setup.sgd)]
        self.judged: Judged = {"w": lambda: nullcontext(self.network)}
        self.reported = ("w",)
        self.selections = {"w": torch.zeros_like(setup.labels, dtype=torch.bool)}
        self.forget = torch.zeros((), dtype=torch.float64, device=setup.labels.device)

    def begin_epoch(self, clock: Clock) -> None:
        self.network.train()
        self.selections["w"].zero_()
        self.forget.fill_(self.config.forget_rate(clock.epoch, self.noise_rate))

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        (optimizer,) = self.optimizers
        losses = F.cross_entropy(forward(self.network, batch.images), batch.labels, reduction="none")
        kept, ascent = kept_and_ascent(losses, self.forget, self.rate)
        self.selections["w"][batch.index] = kept
        raised = masked_mean(losses.clamp(max=self.limit), ascent)
        loss = masked_mean(losses, kept) - self.config.sigua_scale * raised
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def _tensors(self) -> dict[str, Tensor]:
        return {"forget": self.forget, **self.selections}

    def state_dict(self) -> dict[str, Any]:
        return state_of([self.network], self.optimizers, self._tensors())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        restore(state, [self.network], self.optimizers, self._tensors())
