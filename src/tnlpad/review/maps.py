"""A map of the samples: two coordinates each, so that samples that look alike to the model lie together.

Rows of numbers are mapped by their standardised columns. All other samples are mapped by the logarithms of their mean
or out-of-fold probabilities, less the mean of each row, which are logits. PCA gives the two directions of the largest
variance. UMAP is offered if the package is installed.
"""

import importlib.util
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from tnlpad.suspects.evidence import Floats
from tnlpad.suspects.listing import RankedRun

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset

MapKind = Literal["pca", "umap"]
MIN_PROBABILITY = 1e-4  # smaller ones differ by chance
MAX_COLUMNS = 256  # more are projected at random first
UMAP_COLUMNS = 30
EDGE_SHARE = 0.005  # of the samples on each side that are moved to the edge of the map
ROWS_AT_ONCE = 8192
Rows = Callable[[int, int], NDArray[np.floating]]  # samples from one position to another × columns


def map_kinds() -> list[MapKind]:
    """Return the kinds of maps that can be computed here."""
    return ["pca", "umap"] if importlib.util.find_spec("umap") is not None else ["pca"]


def make_map(run: RankedRun, data: "OwnDataset | None", kind: MapKind) -> NDArray[np.float32]:
    """Return the coordinates of all samples by position, 2 × samples, from −1 to 1.

    Args:
        run: The run.
        data: Its own data, if they have columns of numbers.
        kind: A kind of `map_kinds`.
    """
    rows, samples = _rows(run, data), len(run.ranking.order)
    if kind == "pca":
        return _scaled(principal_components(rows, samples, 2))
    import umap  # type: ignore[import-not-found, unused-ignore]

    reduced = principal_components(rows, samples, UMAP_COLUMNS).astype(np.float32)
    return _scaled(umap.UMAP(n_components=2, random_state=1).fit_transform(reduced))


def _rows(run: RankedRun, data: "OwnDataset | None") -> Rows:
    order = run.ranking.order
    if data is None or data.features is None:
        return lambda start, end: _logits(np.asarray(run.scores.probabilities[order[start:end]], dtype=np.float64))
    features = data.features
    place_of = {name: place for place, name in enumerate(data.ids)}
    places = np.array([place_of[run.names.ids[row]] for row in order.tolist()], dtype=np.int64)
    mean, spread = features.mean(0, dtype=np.float64), features.std(0, dtype=np.float64)
    spread[spread == 0] = 1
    return lambda start, end: (features[places[start:end]] - mean) / spread


def _logits(probabilities: Floats) -> Floats:
    logs: Floats = np.log(np.maximum(probabilities, MIN_PROBABILITY))
    logs -= logs.mean(1, keepdims=True)
    return logs


def principal_components(rows: Rows, samples: int, count: int) -> Floats:
    """Return samples × at most `count` principal components, with a few rows in memory at a time."""

    def chunks() -> Iterator[NDArray[np.floating]]:
        for start in range(0, samples, ROWS_AT_ONCE):
            chunk = rows(start, min(start + ROWS_AT_ONCE, samples))
            yield chunk if projection is None else chunk @ projection

    width = rows(0, 1).shape[1]
    projection = None
    if width > MAX_COLUMNS:
        projection = np.random.default_rng(1).normal(size=(width, MAX_COLUMNS)) / np.sqrt(MAX_COLUMNS)
    total = sum(chunk.sum(0) for chunk in chunks())
    mean = total / samples
    covariance = sum((chunk - mean).T @ (chunk - mean) for chunk in chunks())
    _, directions = np.linalg.eigh(np.asarray(covariance))
    directions = directions[:, ::-1][:, :count]
    # The sign of a direction is arbitrary: its largest part is positive, so that the map is the same every time.
    largest = np.take_along_axis(directions, np.abs(directions).argmax(0)[None], 0)
    directions = directions * np.where(largest < 0, -1, 1)
    return np.concatenate([(chunk - mean) @ directions for chunk in chunks()])


def _scaled(points: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return the two columns from −1 to 1; a missing one is 0."""
    scaled = np.zeros((2, len(points)), dtype=np.float32)
    for axis, column in enumerate(points.T[:2]):
        low, high = np.quantile(column, [EDGE_SHARE, 1 - EDGE_SHARE])
        if high > low:
            scaled[axis] = np.clip(2 * (column - low) / (high - low) - 1, -1, 1)
    return scaled
