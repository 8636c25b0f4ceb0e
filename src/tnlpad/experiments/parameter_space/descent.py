"""Where w, σ and γ go on the problem with two weights, by plain gradient descent and by the decomposition.

The first feature is much the larger, so plain gradient descent first runs towards the clean optimum and then, slowly,
along the second weight to the noisy one. The decomposition is the real `Decomposition` over SGD. Every step sees all
training images; an epoch is a number of steps.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tnlpad.core.decomposition import Decomposition
from tnlpad.core.penalties import PowerDecay
from tnlpad.core.split import parameter_groups
from tnlpad.experiments.parameter_space.numbers import Points, distances_to, first_best, rounded
from tnlpad.experiments.parameter_space.problem import Images, Problem, loss, make_images, optimum


def two_weights(problem: Problem) -> dict[str, Any]:
    """Optima, paths, chosen epochs, distances, and what other values of c2 do; plain data."""
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
    problem: Problem, layer: nn.Linear, optimizer: torch.optim.Optimizer, train: Images, look: Callable[[], None]
) -> None:
    """Train, and look before the first epoch and after every one."""
    look()
    for _ in range(problem.epochs):
        if isinstance(optimizer, Decomposition):
            optimizer.start_epoch()
        for _ in range(problem.steps_per_epoch):
            optimizer.zero_grad()
            loss(layer.weight[0], train.features, train.given).backward()
            optimizer.step()
        look()


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

    def look() -> None:
        points["w"].append(layer.weight[0].detach().clone())
        for name in ("sigma", "gamma"):
            points[name].append(optimizer.state[layer.weight][name][0].clone())

    _descend(problem, layer, optimizer, train, look)
    return {name: torch.stack(path).numpy() for name, path in points.items()}


def _with_c2(problem: Problem, c2: float, train: Images, test: Images, clean: Points) -> dict[str, float]:
    """Where another c2 ends."""
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
    """Both losses on a grid around everything that is drawn."""
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
