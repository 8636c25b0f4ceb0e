"""A map of the samples: two coordinates each, so that samples that look alike to the model lie together.

Two blocks of columns are joined, each scaled to the same variance:

- the logits: logarithms of the mean or out-of-fold probabilities, less the mean of each row;
- the features that the run was trained on, if they are cheap to compute: columns of numbers, encoded texts and tables.
  Otherwise how each label was learnt: the statistics of its margins and losses.

With many classes, the logits have most to say. With two, they are a line, and the other block spreads it out. PCA gives
the two directions of the largest variance. UMAP is offered if the package is installed. The axes are compressed towards
the edges, so that a few extreme samples do not press all others together.
"""

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tnlpad.suspects.evidence import Floats
from tnlpad.suspects.listing import RankedRun
from tnlpad.types import Index

if TYPE_CHECKING:
    from tnlpad.review.samples import Samples

MapKind = Literal["pca", "umap"]
Rows = Callable[[Index], NDArray[Any]]  # positions → samples × columns
MIN_PROBABILITY = 1e-4  # smaller ones differ by chance
MAX_ENCODED = 50_000  # texts and rows of a table; more would take minutes
MAX_FITTED = 5000  # samples that the directions are fitted to
MAX_COLUMNS = 256  # more are projected at random first
BLOCK_COMPONENTS = 16
ROWS_AT_ONCE = 4096
STATISTICS = ("margin_", "loss_", "agreed_", "forgotten_")
NEGLIGIBLE = 1e-6  # spread of an axis against the first
ENCODER_FOLDER = "encoder"  # in the run's folder


def map_kinds() -> list[MapKind]:
    """Return the kinds of maps that can be computed here."""
    return ["pca", "umap"] if importlib.util.find_spec("umap") is not None else ["pca"]


def make_map(samples: "Samples", kind: MapKind) -> NDArray[np.float32]:
    """Return the coordinates of all samples by position, 2 × samples, from −1 to 1."""
    run, count = samples.run, len(samples)
    other = _features(samples) or _statistics(run)
    blocks = [_block(rows, count) for rows in (_logits(run), other) if rows is not None]
    joined = np.concatenate(blocks, axis=1)
    if kind == "pca":
        return _scaled(principal_components(lambda at: joined[at], count, 2))
    import umap  # type: ignore[import-not-found, unused-ignore]

    return _scaled(umap.UMAP(n_components=2, random_state=1).fit_transform(joined))


def _logits(run: RankedRun) -> Rows:
    def rows(at: Index) -> Floats:
        probabilities = np.asarray(run.scores.probabilities[run.ranking.order[at]], dtype=np.float64)
        logs: Floats = np.log(np.maximum(probabilities, MIN_PROBABILITY))
        logs -= logs.mean(1, keepdims=True)
        return logs

    return rows


def _statistics(run: RankedRun) -> Rows | None:
    names = [name for name in run.scores.columns if name.startswith(STATISTICS)]
    return _standardised(lambda at: _columns(run, names, at), len(run.ranking.order)) if names else None


def _columns(run: RankedRun, names: list[str], at: Index) -> Floats:
    rows = run.ranking.order[at]
    columns = [np.asarray(run.scores.columns[name][rows], dtype=np.float64) for name in names]
    return np.nan_to_num(np.stack(columns, axis=1))


def _features(samples: "Samples") -> Rows | None:
    """Return the features that the run was trained on; None if they are not there, or take long."""
    from tnlpad.features.encoder import load_encoder

    encoder = samples.run.folder.path / ENCODER_FOLDER
    if samples.kind == "features" and (numbers := samples.numbers()) is not None:
        features = numbers.features
        return _standardised(lambda at: features[at], len(samples))
    if len(samples) > MAX_ENCODED or not encoder.exists():
        return None
    transform: Callable[[Any], NDArray[np.float32]] = load_encoder(encoder).transform
    if samples.kind == "text" and (texts := samples.texts()) is not None:
        return lambda at: transform([texts[int(each)] for each in at])
    if samples.kind == "table" and (data := samples.data()) is not None and data.table is not None:
        table, places = data.table, samples.places(data)
        return lambda at: transform(table.take(places[at]))
    return None


def _standardised(rows: Rows, count: int) -> Rows:
    some = rows(_spread_out(count)).astype(np.float64)
    mean, deviation = some.mean(0), some.std(0)
    deviation[deviation == 0] = 1
    return lambda at: (rows(at) - mean) / deviation


def _block(rows: Rows, count: int) -> NDArray[np.float32]:
    """Return the first components of a block, with a total variance of 1."""
    components = principal_components(rows, count, BLOCK_COMPONENTS)
    components /= float(np.sqrt(components.var(0, dtype=np.float64).sum())) or 1.0
    return components


def principal_components(rows: Rows, count: int, wanted: int) -> NDArray[np.float32]:
    """Return samples × at most `wanted` principal components, with a few rows in memory at a time."""
    fitted = rows(_spread_out(count)).astype(np.float64)
    projection = None
    if fitted.shape[1] > MAX_COLUMNS:
        projection = np.random.default_rng(1).normal(size=(fitted.shape[1], MAX_COLUMNS)) / np.sqrt(MAX_COLUMNS)
        fitted = fitted @ projection
    mean = fitted.mean(0)
    _, directions = np.linalg.eigh((fitted - mean).T @ (fitted - mean))
    directions = directions[:, ::-1][:, :wanted]
    # The sign of a direction is arbitrary: its largest part is positive, so that the map is the same every time.
    largest = np.take_along_axis(directions, np.abs(directions).argmax(0)[None], 0)
    directions = directions * np.where(largest < 0, -1, 1)
    components = np.empty((count, directions.shape[1]), dtype=np.float32)
    for start in range(0, count, ROWS_AT_ONCE):
        at = np.arange(start, min(start + ROWS_AT_ONCE, count))
        chunk = rows(at) if projection is None else rows(at) @ projection
        components[at] = (chunk - mean) @ directions
    return components


def _spread_out(count: int) -> Index:
    """Return at most `MAX_FITTED` positions, from the first to the last."""
    return np.linspace(0, count - 1, min(count, MAX_FITTED)).round().astype(np.int64)


def _scaled(points: NDArray[Any]) -> NDArray[np.float32]:
    """Return the two columns from −1 to 1, compressed towards the edges; a missing one is 0."""
    scaled = np.zeros((2, len(points)), dtype=np.float32)
    spreads = [float(np.diff(np.quantile(column, [0.16, 0.84]))[0]) or float(column.std()) for column in points.T[:2]]
    for axis, (column, spread) in enumerate(zip(points.T[:2], spreads, strict=True)):
        if spread > NEGLIGIBLE * spreads[0]:
            compressed = np.arcsinh((column - np.median(column)) / spread)
            scaled[axis] = compressed / np.abs(compressed).max()
    return scaled
