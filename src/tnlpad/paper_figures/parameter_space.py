"""Paths of w, σ and γ during training: on a problem with two weights, and of a small network on digits.

Two weights: images have two features. The first separates the two classes. The second is noise, but on training images
with a wrong label it leans towards that label. A large network has many such features by chance, and memorises wrong
labels through them. The loss is ½(1 − y·w·x)², so the clean and the noisy optimum solve linear equations: the first
over many new images with clean labels, the second over the training images with their given labels. The first feature
is much larger, so gradient descent first approaches the clean optimum and then, slowly, the noisy one. Every step uses
all training images.

Network: its path is projected onto the plane of its two main directions. The end of standard training on clean labels,
from the same initial weights, stands in for the clean optimum, since a network has many.
"""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tnlpad.atomic_files import write_by_rename
from tnlpad.core.decomposition import Decomposition
from tnlpad.core.penalties import PowerDecay
from tnlpad.core.split import parameter_groups
from tnlpad.json_text import load_json
from tnlpad.methods import Method
from tnlpad.records.store import to_json
from tnlpad.runs.config import RunConfig, command, configure, departures
from tnlpad.runs.run import run
from tnlpad.training.loop import Record

NAME = "parameter_space"
DATASET, NOISE, C2 = "digits", "symmetric:0.4", 1.0
DECIMALS = 5
Points = NDArray[np.float64]  # one point, or a path: a row for the start and one after every epoch


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Two features, two classes, and how to train on them.

    Args:
        seed: Of the features and of the wrong labels.
        train_images, validation_images, test_images: Number of images; test images are judged by clean labels.
        noise_rate: Share of wrong labels.
        spread: Standard deviation of the first feature around +1 and −1.
        lean: How far the second feature leans towards a wrong label, on training images.
        noise: Standard deviation of the second feature.
        start: Initial weights, chosen so that the gradient is below 1, as a network's is; γ starts at 0.
        epochs, steps_per_epoch, learning_rate, momentum, c1, c2: As in other runs.
        other_c2: Values of c2 to compare with.
        stages: Epochs at which to show how far σ and γ move.
        contour_margin, contour_points: Grid for the contour lines of the two losses.
    """

    seed: int = 1
    train_images: int = 100
    validation_images: int = 2000
    test_images: int = 20000
    noise_rate: float = 0.3
    spread: float = 0.5
    lean: float = 0.5
    noise: float = 0.2
    start: tuple[float, float] = (-0.4, -0.4)
    epochs: int = 100
    steps_per_epoch: int = 10
    learning_rate: float = 0.004
    momentum: float = 0.9
    c1: float = 1e-4
    c2: float = 1.5
    other_c2: tuple[float, ...] = (0.3, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0)
    stages: tuple[int, int, int] = (2, 10, 100)
    contour_margin: float = 0.5
    contour_points: int = 61


def compute(
    out: Path,
    *,
    settings: Mapping[str, Any],
    seed: int = 1,
    root: Path | None = None,
    device: str = "cpu",
    problem: Problem = Problem(),
) -> Path:
    """Write `OUT/parameter_space.json`, unless it is there; takes seconds and is deterministic.

    Args:
        out: Folder of all runs.
        settings, seed, root, device: Of the network's runs.
        problem: The problem with two weights.
    """
    configs = configurations(settings=settings, seed=seed)
    path = out / f"{NAME}.json"
    if not is_there(out, configs, problem):
        document = {
            "kind": NAME,
            "two_weights": two_weights(problem),
            "real_run": network_paths(configs, root, device),
        }
        out.mkdir(parents=True, exist_ok=True)
        write_by_rename(path, to_json(document))
    return path


def is_there(out: Path, configs: Mapping[str, RunConfig], problem: Problem = Problem()) -> bool:
    """Whether the file can be read and belongs to these runs and this problem."""
    try:
        found = load_json(out / f"{NAME}.json")
        known = (found["two_weights"]["problem"], found["real_run"]["commands"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return known == (json.loads(json.dumps(asdict(problem))), commands(configs))


# Two weights ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Images:
    """Features, a row for each image, with labels ±1."""

    features: Tensor
    clean: Tensor
    given: Tensor

    def accuracy(self, weights: Points, labels: Tensor) -> list[float]:
        """Return the accuracy of each row of weights."""
        agree = (torch.from_numpy(weights) @ self.features.T) * labels > 0
        return [float(share) for share in agree.double().mean(dim=1)]


def make_images(problem: Problem) -> tuple[Images, Images, Images]:
    """Return training, validation and test images; the second feature leans only in training."""
    generator = torch.Generator().manual_seed(problem.seed)

    def draw(count: int, leaning: bool) -> Images:
        clean = torch.ones(count, dtype=torch.float64)
        clean[1::2] = -1
        wrong = torch.zeros(count, dtype=torch.float64)
        wrong[torch.randperm(count, generator=generator)[: round(problem.noise_rate * count)]] = 1
        given = clean * (1 - 2 * wrong)
        noise = torch.randn(2, count, generator=generator, dtype=torch.float64)
        second = problem.noise * noise[1] + (problem.lean * wrong * given if leaning else 0)
        features = torch.stack([clean + problem.spread * noise[0], second], dim=1)
        return Images(features=features, clean=clean, given=given)

    sizes = (problem.train_images, problem.validation_images, problem.test_images)
    train, validation, test = (draw(size, leaning=number == 0) for number, size in enumerate(sizes))
    return train, validation, test


def optimum(features: Tensor, labels: Tensor) -> Points:
    """Return the weights of least loss."""
    weights: Points = torch.linalg.lstsq(features, labels.unsqueeze(1)).solution.squeeze(1).numpy()
    return weights


def loss(weights: Tensor, features: Tensor, labels: Tensor) -> Tensor:
    """Return ½(1 − y·w·x)², the mean over the images, for each row of weights."""
    return 0.5 * (1 - labels * (weights @ features.T)).square().mean(dim=-1)


def two_weights(problem: Problem) -> dict[str, Any]:
    """Return optima, paths, chosen epochs, distances and results of other values of c2 as plain data."""
    train, validation, test = make_images(problem)
    clean, noisy = optimum(test.features, test.clean), optimum(train.features, train.given)
    plain = _plain_path(problem, train)
    paths = {"plain": plain, **_decomposed_paths(problem, train, problem.c2)}
    judged = {name: paths[name] for name in ("plain", "w", "sigma")}
    validated = {name: validation.accuracy(path, validation.given) for name, path in judged.items()}
    return {
        "problem": asdict(problem),
        "clean_optimum": rounded(clean),
        "noisy_optimum": rounded(noisy),
        "paths": {name: rounded(path) for name, path in paths.items()},
        "distance_to_clean": {name: rounded(distances_to(clean, path)) for name, path in judged.items()},
        "test_accuracy": {name: rounded(test.accuracy(path, test.clean)) for name, path in judged.items()},
        "chosen_epoch": {name: first_best(shares) for name, shares in validated.items()},
        "beta2": rounded([PowerDecay(problem.c2)(t) for t in range(1, problem.epochs + 1)]),
        "other_c2": [_with_c2(problem, c2, train, test, clean) for c2 in problem.other_c2],
        "losses": _losses(problem, paths, clean, noisy, train, test),
    }


def _layer(problem: Problem) -> nn.Linear:
    layer = nn.Linear(2, 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([problem.start]))
    return layer


def _descend(
    problem: Problem, layer: nn.Linear, optimizer: torch.optim.Optimizer, train: Images, record: Callable[[], None]
) -> None:
    """Train, and call `record` before the first epoch and after every epoch."""
    record()
    for _ in range(problem.epochs):
        if isinstance(optimizer, Decomposition):
            optimizer.start_epoch()
        for _ in range(problem.steps_per_epoch):
            optimizer.zero_grad()
            loss(layer.weight[0], train.features, train.given).backward()
            optimizer.step()
        record()


def _plain_path(problem: Problem, train: Images) -> Points:
    layer, points = _layer(problem), []
    optimizer = torch.optim.SGD(layer.parameters(), lr=problem.learning_rate, momentum=problem.momentum)
    _descend(problem, layer, optimizer, train, lambda: points.append(layer.weight[0].detach().clone()))
    return torch.stack(points).numpy()


def _decomposed_paths(problem: Problem, train: Images, c2: float) -> dict[str, Points]:
    layer = _layer(problem)
    optimizer = Decomposition(
        parameter_groups(layer),
        torch.optim.SGD,
        lr=problem.learning_rate,
        momentum=problem.momentum,
        c1=problem.c1,
        c2=c2,
    )
    points: dict[str, list[Tensor]] = {"w": [], "sigma": [], "gamma": []}

    def record() -> None:
        points["w"].append(layer.weight[0].detach().clone())
        for name in ("sigma", "gamma"):
            points[name].append(optimizer.state[layer.weight][name][0].clone())

    _descend(problem, layer, optimizer, train, record)
    return {name: torch.stack(path).numpy() for name, path in points.items()}


def _with_c2(problem: Problem, c2: float, train: Images, test: Images, clean: Points) -> dict[str, float]:
    """Return the end of training with another c2."""
    paths = _decomposed_paths(problem, train, c2)
    ends = {name: paths[name][-1:] for name in ("w", "sigma")}
    return {
        "c2": c2,
        **{f"{name}_distance": round(float(distances_to(clean, end)[0]), 4) for name, end in ends.items()},
        **{f"{name}_accuracy": round(test.accuracy(end, test.clean)[0], 4) for name, end in ends.items()},
        "gamma_norm": round(float(np.linalg.norm(paths["gamma"][-1])), 4),
    }


def _losses(
    problem: Problem, paths: Mapping[str, Points], clean: Points, noisy: Points, train: Images, test: Images
) -> dict[str, Any]:
    """Return both losses on a grid that covers everything that is drawn."""
    corners = np.concatenate([*paths.values(), clean[None], noisy[None]])
    low, high = corners.min(axis=0) - problem.contour_margin, corners.max(axis=0) + problem.contour_margin
    x, y = (np.linspace(low[k], high[k], problem.contour_points) for k in (0, 1))
    grid = torch.from_numpy(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2))
    shape = (len(y), len(x))
    return {
        "x": rounded(x),
        "y": rounded(y),
        "given_labels": rounded(loss(grid, train.features, train.given).numpy().reshape(shape)),
        "clean_labels": rounded(loss(grid, test.features[:2000], test.clean[:2000]).numpy().reshape(shape)),
    }


# A network ------------------------------------------------------------------------------------------------------------


def configurations(*, settings: Mapping[str, Any], seed: int) -> dict[str, RunConfig]:
    """Return the runs: on clean labels, on noisy labels, and on noisy labels by TNLPAD.

    γ starts at 0, so that all start from the same weights.
    """

    def config(method: str, noise: str, options: Mapping[str, Any]) -> RunConfig:
        return configure(DATASET, noise=noise, method=method, seed=seed, settings={**settings, **options})

    return {
        "clean": config("standard", "none", {}),
        "plain": config("standard", NOISE, {}),
        "tnlpad": config("tnlpad", NOISE, {"init": "zero", "c2": C2}),
    }


def commands(configs: Mapping[str, RunConfig]) -> dict[str, str]:
    """Return the command of each run."""
    return {name: command(each) for name, each in configs.items()}


def network_paths(configs: Mapping[str, RunConfig], root: Path | None, device: str) -> dict[str, Any]:
    """Return three paths of a network in the plane, and their distances in the full space, as plain data."""
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
    """Weights and accuracies of a judged network, before training and after every epoch."""

    weights: list[Points] = field(default_factory=list)
    test: list[float] = field(default_factory=lambda: [np.nan])  # not measured before training
    validation: list[float] = field(default_factory=lambda: [np.nan])


def _watched(config: RunConfig, root: Path | None, device: str) -> dict[str, Watched]:
    """Finish a run and return the paths of its judged networks by name."""
    methods: list[Method] = []
    found: dict[str, Watched] = {}

    def record_weights() -> None:
        for name, held in methods[0].judged.items():
            with held() as network:
                vector = torch.cat([p.detach().flatten() for p in network.parameters()])
            found.setdefault(name, Watched()).weights.append(vector.double().cpu().numpy())

    def before(method: Method, *_: Any) -> None:
        methods.append(method)
        record_weights()

    def after(record: Record) -> None:
        record_weights()
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
    """Return the mean, the two main directions as columns, and the share of the variance along each."""
    middle = points.mean(axis=0)
    _, lengths, directions = np.linalg.svd(points - middle, full_matrices=False)
    axes = directions[:2].T
    axes *= np.where((points[-1] - points[0]) @ axes < 0, -1.0, 1.0)  # choose the sign so that paths go right and up
    return middle, axes, lengths[:2] ** 2 / (lengths**2).sum()


# Paths ----------------------------------------------------------------------------------------------------------------


def distances_to(point: Points, path: Points) -> Points:
    """Return the distance of every point of a path."""
    distances: Points = np.linalg.norm(path - point, axis=1)
    return distances


def first_best(accuracies: Sequence[float] | Points) -> int:
    """Return the first epoch of the highest accuracy; element 0, before training, is not eligible."""
    return int(np.argmax(np.asarray(accuracies)[1:])) + 1


def rounded(values: Any) -> Any:
    """Return rounded numbers as plain lists, with None for NaN."""
    array = np.asarray(values, dtype=float)
    if array.ndim == 0:
        return None if np.isnan(array) else round(float(array), DECIMALS)
    return [rounded(value) for value in array]
