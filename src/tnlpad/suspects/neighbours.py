"""Let the samples nearest to a sample vote on its label, and combine the votes with a model's probabilities.

The neighbours vote with their given labels, so a sample's own label never judges itself. From the votes v and the
probabilities p follow

    q ∝ p^a · v^b,  a, b ≥ 0,

with the exponents that make the given labels most likely, which may be noisy. So features that say nothing get a weight
near 0, and a model that is worse than its neighbours' votes gets little. The number of neighbours, and whether distance
is the angle of centred rows or that between standardised rows, are those whose votes alone make the labels most likely.

`benchmarks/neighbours.py` measures what this brings.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tnlpad.suspects.random_errors import log_probabilities
from tnlpad.types import Index, Labels

Floats = NDArray[np.float64]
NUMBERS = (5, 10, 20, 40, 80)  # of neighbours
MAX_SHARE = 0.25  # of all samples that may be neighbours
MAX_VOTERS = 20_000  # of more samples, a random part votes
MAX_FITTED = 20_000
MAX_EXPONENT = 8.0
ROWS_AT_ONCE = 8192


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
    of_given = [part[np.arange(len(rows)), labels[rows]] for part in parts]

    def loss(exponents: Floats) -> tuple[float, Floats]:
        shares, norm = _softmax(exponents[0] * parts[0] + exponents[1] * parts[1])
        likelihood = exponents[0] * of_given[0] + exponents[1] * of_given[1] - norm
        slopes = [(given - (shares * part).sum(1)).mean() for given, part in zip(of_given, parts, strict=True)]
        return -float(likelihood.mean()), -np.array(slopes)

    fitted = minimize(loss, [1.0, 0.2], jac=True, bounds=[(0.0, MAX_EXPONENT)] * 2, method="L-BFGS-B").x
    result = np.empty_like(probabilities)
    for start in range(0, len(result), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        logs = fitted[0] * log_probabilities(probabilities[part]) + fitted[1] * log_probabilities(votes[part])
        result[part] = _softmax(logs)[0]
    return result, (float(fitted[0]), float(fitted[1]))


def _softmax(logs: Floats) -> tuple[Floats, Floats]:
    """Return the shares, and the logarithm of the sum of the exponentials."""
    highest = logs.max(1)
    shares = np.exp(logs - highest[:, None])
    total = shares.sum(1)
    return shares / total[:, None], highest + np.log(total)


def _directions(features: Floats) -> NDArray[np.float32]:
    centred: Floats = features - features.mean(0)
    centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
    return centred.astype(np.float32)


def _standardised(features: Floats) -> NDArray[np.float32]:
    spread = features.std(0)
    standardised: Floats = (features - features.mean(0)) / np.where(spread > 0, spread, 1)
    return standardised.astype(np.float32)
