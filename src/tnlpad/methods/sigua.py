"""SIGUA: gradient descent on samples of small loss, and weak gradient ascent on those just above them.

Paper: Han et al., "SIGUA: Forgetting May Make Learning with Noisy Labels More Robust" (ICML 2020), the variant with
small-loss selection. Of a batch sorted by loss, the first ⌊(1 − forget)·B⌋ samples are kept. Of the n_f samples left
out, the next ⌊n_f·rate⌋ (at least one) form the ascent set, and

    loss = mean over the kept samples − scale · mean over the ascent set.

The ascent set follows the kept samples directly; it is not the set of largest losses. The authors use scale 0.01, with
rate 0.4 for 20 % noise and 0.3 for 45 or 50 %. Our default rate is 0.4 up to a noise rate of 0.3, and 0.3 above. For
pairflip noise on MNIST the authors use scale 0.001 and rate 0.7. So does `tnlpad train`, also on Fashion-MNIST
and digits.

How we differ from the public code: if no sample is left out, there is no ascent, where that code divides 0 by 0. The
ascent is unbounded, so training may collapse, as the large deviations in the paper show. `ascent_limit` excludes
samples whose loss exceeds that many times log C, the loss of random guessing among C classes.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from tnlpad.methods.forward import forward, gradient_step
from tnlpad.methods.protocol import Setup
from tnlpad.methods.selection import Forgetting, keep_count, masked_mean, ranks, rounded_down
from tnlpad.methods.standard import Standard
from tnlpad.types import Batch, Clock


@dataclass(frozen=True, kw_only=True)
class SiguaConfig(Forgetting):
    """Strength and size of the ascent."""

    sigua_scale: float = 0.01  # weight of the ascent
    sigua_rate: float | None = None  # share of the left-out samples in the ascent set; none: by the noise rate
    ascent_limit: float | None = None  # largest loss to raise, in multiples of log C; none: no limit


class Sigua(Standard):
    """One network, one optimizer."""

    def __init__(self, config: SiguaConfig, setup: Setup) -> None:
        if not 0 <= config.sigua_scale < math.inf:
            raise ValueError(f"sigua_scale={config.sigua_scale}: must be finite and >= 0. 0 switches the ascent off.")
        if config.sigua_rate is not None and not 0 <= config.sigua_rate <= 1:
            raise ValueError(f"sigua_rate={config.sigua_rate}: must lie in [0, 1], or be None.")
        if config.ascent_limit is not None and not config.ascent_limit > 0:
            raise ValueError(f"ascent_limit={config.ascent_limit}: must be > 0, or None for no limit.")
        self.config = config
        self.noise_rate = setup.required_noise_rate("sigua")
        self.rate = (0.4 if self.noise_rate <= 0.3 else 0.3) if config.sigua_rate is None else config.sigua_rate
        self.limit = math.inf if config.ascent_limit is None else config.ascent_limit * math.log(setup.num_classes)
        network = setup.network(0)
        super().__init__(network, torch.optim.SGD(network.parameters(), **setup.sgd))
        self.selections = {"w": torch.zeros_like(setup.labels, dtype=torch.bool)}
        self.forget = torch.zeros((), dtype=torch.float64, device=setup.labels.device)

    def begin_epoch(self, clock: Clock) -> None:
        self.network.train()
        self.selections["w"].zero_()
        self.forget.fill_(self.config.forget_rate(clock.epoch, self.noise_rate))

    def step(self, batch: Batch, clock: Clock) -> Tensor:
        losses = F.cross_entropy(forward(self.network, batch.images), batch.labels, reduction="none")
        kept, ascent = kept_and_ascent(losses, self.forget, self.rate)
        self.selections["w"][batch.index] = kept
        raised = masked_mean(losses.clamp(max=self.limit), ascent)
        return gradient_step(self.optimizers[0], masked_mean(losses, kept) - self.config.sigua_scale * raised)

    def tensors(self) -> dict[str, Tensor]:
        return {"forget": self.forget, **self.selections}


def kept_and_ascent(losses: Tensor, forget: Tensor, rate: float) -> tuple[Tensor, Tensor]:
    """Return masks of the kept samples and of the ascent set."""
    rank = ranks(losses)
    keep = keep_count(len(losses), forget)
    left_out = len(losses) - keep
    ascent = torch.minimum(rounded_down(left_out * rate).clamp(min=1), left_out)
    return rank < keep, (rank >= keep) & (rank < keep + ascent)
