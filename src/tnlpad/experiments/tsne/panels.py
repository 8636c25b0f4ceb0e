"""A picture of a run's test features at an epoch, and two numbers that say how far apart the classes are."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.experiments.config import RunConfig
from tnlpad.experiments.tsne.features import Tell, read_features
from tnlpad.records.store import RunFolder, write_by_rename
from tnlpad.rng import numpy_stream

PERPLEXITY = 30
NEIGHBOURS = 10


def embed(
    config: RunConfig, folder: RunFolder, epochs: Sequence[int], samples: int | None, say: Tell
) -> list[dict[str, Any]]:
    """A panel for each epoch and view; those that are there already are read."""
    panels = []
    for epoch in epochs:
        arrays = read_features(folder, epoch)
        shown = shown_images(len(arrays["labels"]), samples, config.seed)
        for view in [name for name in arrays if name != "labels" and not name.endswith("-accuracy")]:
            file = folder.path / f"panel-{epoch}-{view}-{len(shown)}.json"
            if not file.exists():
                say(f"{config.dataset} {config.noise} {config.method}: t-SNE of {view} at epoch {epoch}")
                panel = {
                    "noise": config.noise,
                    "method": config.method,
                    "view": view,
                    "epoch": epoch,
                    "test_accuracy": float(arrays[f"{view}-accuracy"]),
                    **scores(arrays[view], arrays["labels"]),
                    "positions": _positions(arrays[view][shown], config.seed),
                    "run_id": config.run_id,
                }
                write_by_rename(file, compact(panel))
            panels.append(json.loads(file.read_bytes()))
    return panels


def shown_images(count: int, samples: int | None, seed: int) -> NDArray[np.int64]:
    """Which images to show: so many of them, or all."""
    if samples is None or samples >= count:
        return np.arange(count)
    if samples < 2:
        raise ValueError(f"samples={samples}: give at least 2.")
    return np.sort(numpy_stream(seed, "tsne").choice(count, samples, replace=False))


def scores(features: NDArray[Any], labels: NDArray[Any]) -> dict[str, float]:
    """How well the true classes are apart: silhouette in [−1, 1], and the share that its nearest others would name."""
    from sklearn.metrics import silhouette_score

    return {
        "silhouette": round(float(silhouette_score(features, labels)), 4),
        "neighbours_accuracy": round(neighbours_accuracy(features, labels), 4),
    }


def neighbours_accuracy(features: NDArray[Any], labels: NDArray[Any], count: int = NEIGHBOURS) -> float:
    """The share of samples whose class is the most frequent one, the lowest of equals, of their nearest others."""
    from sklearn.neighbors import NearestNeighbors

    neighbours = NearestNeighbors(n_neighbors=count).fit(features).kneighbors(return_distance=False)  # without itself
    votes = np.apply_along_axis(np.bincount, 1, labels[neighbours], minlength=int(labels.max()) + 1)
    return float((votes.argmax(axis=1) == labels).mean())


def _positions(features: NDArray[Any], seed: int) -> list[list[float]]:
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(features) - 1) / 3)
    positions = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(features)
    return [[round(float(x), 3), round(float(y), 3)] for x, y in positions]


def compact(value: dict[str, Any]) -> bytes:
    """As JSON without a space: pictures are long."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode() + b"\n"
