"""Where w and σ of a small network go, in the plane of the two main directions of both.

Its clean optimum is where plain training ends that starts from the same weights and sees the clean labels: a stand-in,
since a network has many.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tnlpad.experiments.config import RunConfig, command, configure, departures
from tnlpad.experiments.parameter_space.numbers import Points, distances_to, first_best, rounded
from tnlpad.experiments.run import run
from tnlpad.methods import Method
from tnlpad.training.loop import Record

DATASET, NOISE, C2 = "digits", "symmetric:0.4", 1.0


def configurations(*, settings: Mapping[str, Any], seed: int) -> dict[str, RunConfig]:
    """The runs: with clean labels, with noisy ones, and with noisy ones and the decomposition.

    γ starts at 0, so that all start alike.
    """

    def config(method: str, noise: str, own: Mapping[str, Any]) -> RunConfig:
        return configure(DATASET, noise=noise, method=method, seed=seed, settings={**settings, **own})

    return {
        "clean": config("standard", "none", {}),
        "plain": config("standard", NOISE, {}),
        "tnlpad": config("tnlpad", NOISE, {"init": "zero", "c2": C2}),
    }


def commands(configs: Mapping[str, RunConfig]) -> dict[str, str]:
    """What to type for each of these runs."""
    return {name: command(each) for name, each in configs.items()}


def network_paths(configs: Mapping[str, RunConfig], root: Path | None, device: str) -> dict[str, Any]:
    """Three paths of a network, flattened into the plane; their distances in full; plain data."""
    clean, plain, tnlpad = (_watched(configs[name], root, device) for name in ("clean", "plain", "tnlpad"))
    judged = {"plain": plain["w"], "w": tnlpad["w"], "sigma": tnlpad["sigma"]}
    paths = {name: np.array(each.weights) for name, each in judged.items()}
    clean_end = clean["w"].weights[-1]
    middle, axes, explained = _plane(np.concatenate([*paths.values(), clean_end[None]]))
    config = configs["plain"]
    return {
        "dataset": config.dataset,
        "noise": config.noise,
        "network": config.network,
        "c2": configs["tnlpad"].options["c2"],
        "seed": config.seed,
        "settings": departures(config),
        "weights": len(clean_end),
        "explained": rounded(explained),
        "clean_end": rounded((clean_end - middle) @ axes),
        "paths": {name: rounded((path - middle) @ axes) for name, path in paths.items()},
        "distance_to_clean": {name: rounded(distances_to(clean_end, path)) for name, path in paths.items()},
        "gamma_norm": rounded(np.linalg.norm(paths["w"] - paths["sigma"], axis=1)),
        "test_accuracy": {name: rounded(each.test) for name, each in judged.items()},
        "chosen_epoch": {name: first_best(each.validation) for name, each in judged.items()},
        "commands": commands(configs),
    }


@dataclass(frozen=True, kw_only=True)
class Watched:
    """All weights that a network is judged by, before training and after every epoch, and how accurate it is."""

    weights: list[Points] = field(default_factory=list)
    test: list[float] = field(default_factory=lambda: [np.nan])  # before training nothing is measured
    validation: list[float] = field(default_factory=lambda: [np.nan])


def _watched(config: RunConfig, root: Path | None, device: str) -> dict[str, Watched]:
    """A run carried to its end, by the names of what it is judged by."""
    methods: list[Method] = []
    found: dict[str, Watched] = {}

    def look() -> None:
        for name, held in methods[0].judged.items():
            with held() as network:
                vector = torch.cat([p.detach().flatten() for p in network.parameters()])
            found.setdefault(name, Watched()).weights.append(vector.double().cpu().numpy())

    def before(method: Method, *_: Any) -> None:
        methods.append(method)
        look()

    def after(record: Record) -> None:
        look()
        for name, judged in record["judged"].items():
            found[name].test.append(judged["test_accuracy"])
            found[name].validation.append(judged["validation_accuracy"])

    with tempfile.TemporaryDirectory() as folder:
        run(
            config,
            Path(folder),
            root=root,
            device=device,
            checkpoint_every_seconds=float("inf"),
            on_prepared=before,
            on_epoch=after,
        )
    return found


def _plane(points: Points) -> tuple[Points, Points, Points]:
    """Mean, two main directions as columns, and the share of the variance along each."""
    middle = points.mean(axis=0)
    _, lengths, directions = np.linalg.svd(points - middle, full_matrices=False)
    axes = directions[:2].T
    axes *= np.where((points[-1] - points[0]) @ axes < 0, -1.0, 1.0)  # the sign is free: paths go right and up
    return middle, axes, lengths[:2] ** 2 / (lengths**2).sum()
