"""What can be said to DivideMix, with and without the decomposition, and what of it makes no sense."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tnlpad.core.penalties import Penalty
from tnlpad.methods.tnlpad import TnlpadConfig


@dataclass(frozen=True, kw_only=True)
class DividemixConfig:
    """The warm-up, the split, and the semi-supervised loss."""

    warmup_epochs: int = 10
    warmup_entropy: bool = False  # hold predictions back in the warm-up: for noise that goes from class to class
    threshold: float = 0.5  # of w
    averaged_losses: int = 1  # split by the mean over so many epochs; the authors take 5 at 90 % noise
    temperature: float = 0.5
    mixing_alpha: float = 4.0  # α
    lambda_u: float = 25.0
    rampup_epochs: int = 16


@dataclass(frozen=True, kw_only=True)
class DividemixTnlpadConfig(DividemixConfig, TnlpadConfig):
    """The same, and where the decomposition is active and asked for σ."""

    decompose_in: Literal["warmup", "all"] = "warmup"
    warmup_clock: int = 40  # the epoch of the paper's at which the warm-up ends
    split_with: Literal["sigma", "w"] = "sigma"
    guess_with: Literal["sigma", "w"] = "sigma"

    def decomposes(self) -> bool:
        """Whether there is an epoch in which the networks are decomposed."""
        return self.decompose_in == "all" or self.warmup_epochs > 0

    def penalty(self, epochs: int) -> Penalty | None:
        """β2 by the clock of this method."""
        penalty = self.gamma_penalty(epochs)
        if penalty is None or self.decompose_in == "all":
            return penalty
        return Faster(penalty, self.warmup_clock / self.warmup_epochs)  # type: ignore[arg-type]  # all take fractions


@dataclass(frozen=True)
class Faster:
    """β(factor·t): a penalty whose clock runs faster."""

    penalty: Callable[[float], float]
    factor: float

    def __call__(self, epoch: int) -> float:
        return float(self.penalty(self.factor * epoch))


def check(config: DividemixConfig) -> None:
    """Refuse what cannot work, or would do nothing."""
    for name, least in (("warmup_epochs", 0), ("rampup_epochs", 0), ("averaged_losses", 1)):
        if getattr(config, name) < least:
            raise ValueError(f"{name}={getattr(config, name)}: must be at least {least}.")
    if not 0 <= config.threshold < 1:
        raise ValueError(f"threshold={config.threshold}: must lie in [0, 1), a probability.")
    for name in ("temperature", "mixing_alpha"):
        if not getattr(config, name) > 0:
            raise ValueError(f"{name}={getattr(config, name)}: must be > 0.")
    if isinstance(config, DividemixTnlpadConfig):
        _check_wiring(config)
    if config.lambda_u < 0:
        raise ValueError(f"lambda_u={config.lambda_u}: must be >= 0; 0 switches the unlabelled term off.")


def _check_wiring(config: DividemixTnlpadConfig) -> None:
    if config.warmup_clock < 1:
        raise ValueError(f"warmup_clock={config.warmup_clock}: must be at least 1, an epoch of the paper's.")
    for name in ("split_with", "guess_with"):
        if getattr(config, name) == "w" and config.decompose_in == "warmup":
            raise ValueError(
                f'{name}="w": with decompose_in="warmup" γ is dropped before anything is split or guessed, and w is σ. '
                'Leave it out, or take decompose_in="all".'
            )
