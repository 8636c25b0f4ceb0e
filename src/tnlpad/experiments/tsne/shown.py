"""Which runs the figure looks at, and when."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tnlpad.experiments.config import Protocol, RunConfig, configure

METHODS = ("standard", "tnlpad")


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What to look at; the paper's unless said otherwise.

    Args:
        dataset, noises, epochs: Each noise is trained with both methods, and looked at after each of these epochs.
        settings, protocol: As for `configure`, of both methods.
        seed: Of the runs, and of the pictures.
    """

    dataset: str = "cifar10"
    noises: tuple[str, ...] = ("pairflip:0.4", "instance:0.4")
    epochs: tuple[int, ...] = (5, 25, 45)
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 1
    protocol: Protocol = "paper"


def configurations(shown: Shown, device: str) -> list[RunConfig]:
    """The runs to look at; what would not come to these epochs is refused."""
    configs = [
        configure(
            shown.dataset,
            noise=noise,
            protocol=shown.protocol,
            method=method,
            seed=shown.seed,
            device=device,
            settings=shown.settings,
        )
        for noise in shown.noises
        for method in METHODS
    ]
    for config in configs:
        if not shown.epochs or not all(1 <= epoch <= config.epochs for epoch in shown.epochs):
            raise ValueError(f"epochs={shown.epochs}: give at least one, from 1 to {config.epochs}.")
        if config.patience is not None:
            raise ValueError(f"patience={config.patience}: might end a run before these epochs. Leave it out.")
    return configs
