"""Everything that determines the demo's numbers."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """Everything that determines the demo's numbers."""

    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    noise_rate: float = 0.4
    train_size: int = 1000
    validation_size: int = 300
    epochs: int = 60
    batch_size: int = 64
    learning_rate: float = 0.01
    learning_rate_drop: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-3
    c1: float = 1e-4
    c2_candidates: tuple[float, ...] = (0.5, 1.0, 2.0)

    def __post_init__(self) -> None:
        for name in ("seeds", "c2_candidates"):
            values = getattr(self, name)
            if not values or len(set(values)) != len(values):
                raise ValueError(f"{name}={values!r}: give at least one, and none of them twice.")
        for name in ("train_size", "validation_size", "epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)!r}: must be at least 1.")

    def learning_rate_at(self, epoch: int) -> float:
        """Constant for three quarters of the epochs (1-based), then `learning_rate_drop` times that."""
        late = epoch > math.ceil(0.75 * self.epochs)
        return self.learning_rate * (self.learning_rate_drop if late else 1.0)
