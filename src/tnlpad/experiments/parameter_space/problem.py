"""A problem with two weights, on which the clean and the noisy optimum are known.

Images have two features. The first tells the two classes apart. The second is noise, but on training images with a
wrong label it leans towards that label: a large network has plenty of such features by chance, and learns wrong labels
through them. On new images it is noise and nothing else. The loss is ½(1 − y·w·x)², so clean and noisy optimum are
solutions of linear equations: the first over many new images with clean labels, the second over the training images
with the labels as given.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from tnlpad.experiments.parameter_space.numbers import Points


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Two features, two classes, and how to train on them.

    Args:
        seed: Of the features and of which labels are wrong.
        train_images, validation_images, test_images: How many of each; of the last the clean labels count.
        noise_rate: The share of labels that are wrong.
        spread: Standard deviation of the first feature around +1 and −1.
        lean: How far the second feature leans towards a wrong label, on training images.
        noise: Standard deviation of the second feature.
        start: The weights before training, where the gradient is below 1 as that of a network is; γ starts at 0.
        epochs, steps_per_epoch, learning_rate, momentum, c1, c2: As everywhere.
        other_c2: Values of c2 to compare with.
        stages: Epochs at which to show how far σ and γ go.
        contour_margin, contour_points: Of the grid on which the two losses are computed, for contour lines.
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Images:
    """Features, a row for each image, with labels ±1."""

    features: Tensor
    clean: Tensor
    given: Tensor

    def accuracy(self, weights: Points, labels: Tensor) -> list[float]:
        """Of each row of weights."""
        agree = (torch.from_numpy(weights) @ self.features.T) * labels > 0
        return [float(share) for share in agree.double().mean(dim=1)]


def make_images(problem: Problem) -> tuple[Images, Images, Images]:
    """For training, validation and testing; the last two are new images."""
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
    """The weights of least loss."""
    weights: Points = torch.linalg.lstsq(features, labels.unsqueeze(1)).solution.squeeze(1).numpy()
    return weights


def loss(weights: Tensor, features: Tensor, labels: Tensor) -> Tensor:
    """½(1 − y·w·x)², mean over the images; several rows of weights at once if there are."""
    return 0.5 * (1 - labels * (weights @ features.T)).square().mean(dim=-1)
