"""Let the samples nearest to a sample vote on its label, and combine the votes with a model's probabilities.

The neighbours vote with their given labels, so a sample's own label never judges itself. From the votes v and the
probabilities p follow the probabilities of the true class,

    q ∝ p^a · v^b,  a, b ≥ 0.

A share π of the labels is replaced at random, as in `random_errors.py`, and a, b and π make the given labels most
likely. So features that say nothing get a weight near 0, and a model that is worse than its neighbours' votes gets
little. Without π, wrong labels would count against a model that is sure of itself and right. The number of neighbours,
and whether distance is the angle of centred rows or that between standardised rows, are those whose votes alone make
the labels most likely.

`benchmarks/predictions.py` measures what this brings.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tnlpad.memory import row_slices
from tnlpad.suspects.random_errors import log_probabilities, sharpened
from tnlpad.types import Index, Labels

Floats = NDArray[np.float64]
NUMBERS = (5, 10, 20, 40, 80)  # of neighbours
MAX_SHARE = 0.25  # of all samples that may be neighbours
MAX_VOTERS = 20_000  # of more samples, a random part votes
MAX_FITTED = 5_000
MAX_EXPONENT, MAX_REPLACED = 8.0, 0.9
STARTS = ((1.0, 0.2, 0.1), (0.3, 1.5, 0.1))  # of the exponents and the replaced share


@dataclass(frozen=True, kw_only=True, eq=False)
class Neighbours:
    """The nearest samples of each sample, as rows; samples × their number."""

    rows: Index

    def votes(self, labels: Labels, classes: int) -> NDArray[np.float32]:
        """Return the share of each label among the neighbours, with one more vote for the shares of the classes."""
        count = self.rows.shape[1]
        prior = np.bincount(labels, minlength=classes) / len(labels)
        votes = np.tile((prior / (count + 1)).astype(np.float32), (len(labels), 1))
        for column in self.rows.T:
            votes[np.arange(len(labels)), labels[column]] += np.float32(1 / (count + 1))
        return votes


def nearest(features: Floats, labels: Labels) -> Neighbours:
    """Find the neighbours whose votes make the given labels most likely."""
    from sklearn.neighbors import NearestNeighbors

    samples = len(features)
    voters = np.arange(samples)
    if samples > MAX_VOTERS:
        voters = np.sort(np.random.default_rng(0).choice(samples, MAX_VOTERS, replace=False))
    numbers = [number for number in NUMBERS if number <= MAX_SHARE * samples] or [1]
    prior = (np.bincount(labels) / samples)[labels]
    best, chosen = -np.inf, np.empty((samples, 0), dtype=np.int64)
    for points in (_directions(features), _standardised(features)):
        search = NearestNeighbors(n_neighbors=min(max(numbers) + 1, len(voters))).fit(points[voters])
        found = voters[search.kneighbors(points, return_distance=False)]
        # A sample is not its own neighbour; where it is not among the found ones, the last is left out instead.
        itself = found == np.arange(samples)[:, None]
        itself[~itself.any(1), -1] = True
        rows = found[~itself].reshape(samples, -1)
        agreeing = (labels[rows] == labels[:, None]).cumsum(1)
        for number in numbers:
            likelihood = float(np.log((agreeing[:, number - 1] + prior) / (number + 1)).mean())
            if likelihood > best:
                best, chosen = likelihood, rows[:, :number]
    return Neighbours(rows=chosen)


def combined(
    probabilities: NDArray[np.float32], votes: NDArray[np.float32], labels: Labels
) -> tuple[NDArray[np.float32], tuple[float, float]]:
    """Return q, and the exponents a of the probabilities and b of the votes."""
    from scipy.optimize import minimize  # type: ignore[import-untyped, unused-ignore]

    rows = np.arange(len(labels))
    if len(rows) > MAX_FITTED:
        rows = np.sort(np.random.default_rng(0).choice(rows, MAX_FITTED, replace=False))
    parts = [log_probabilities(each[rows]) for each in (probabilities, votes)]
    given = np.arange(len(rows)), labels[rows]
    others = probabilities.shape[1] - 1

    def loss(parameters: Floats) -> tuple[float, Floats]:
        """Return minus the mean log-likelihood, and its slope."""
        *exponents, replaced = parameters
        q = _combined(parts, exponents)
        right = q[given]
        likelihood = np.maximum((1 - replaced) * right + replaced * (1 - right) / others, 1e-12)
        weight = (1 - replaced - replaced / others) * right / likelihood
        slopes = [(weight * (part[given] - (q * part).sum(1))).mean() for part in parts]
        slopes.append((((1 - right) / others - right) / likelihood).mean())
        return -float(np.log(likelihood).mean()), -np.array(slopes)

    limits = [(0.0, MAX_EXPONENT)] * 2 + [(0.0, MAX_REPLACED)]
    fits = [minimize(loss, start, jac=True, bounds=limits, method="L-BFGS-B") for start in STARTS]
    exponents = min(fits, key=lambda fit: float(fit.fun)).x[:2]
    result = np.empty_like(probabilities)
    for part in row_slices(*result.shape):
        result[part] = _combined([log_probabilities(each[part]) for each in (probabilities, votes)], exponents)
    return result, (float(exponents[0]), float(exponents[1]))


def _combined(logs: Sequence[Floats], exponents: Sequence[float]) -> Floats:
    """Return q from the logarithms of p and v."""
    return sharpened(exponents[0] * logs[0] + exponents[1] * logs[1], 1.0)


def _directions(features: Floats) -> NDArray[np.float32]:
    centred: Floats = features - features.mean(0)
    centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
    return centred.astype(np.float32)


def _standardised(features: Floats) -> NDArray[np.float32]:
    spread = features.std(0)
    standardised: Floats = (features - features.mean(0)) / np.where(spread > 0, spread, 1)
    return standardised.astype(np.float32)
