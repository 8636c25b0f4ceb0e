"""The paper's figure of test features: what the penultimate layer makes of the test images, early, midway and late.

For each noise, ordinary training and the decomposition are trained as any run is, up to the last epoch of interest; the
schedule is that of the whole run. At each of those epochs the features of the test images are taken: by w of ordinary
training, and by σ, with BatchNorm's statistics as they are (those of w, as the paper judges it) and estimated anew for
σ. The picture is scikit-learn's t-SNE of their first 50 principal components. Beside it stand two numbers, since a
picture proves nothing: the silhouette of the true classes, and how often an image's class is that of most of its 10
nearest others. Both are taken from the components and not from the picture, in which distances mean little.

Everything finished is kept in `OUT/tsne/`, a file each, and not computed again.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tnlpad.core.batchnorm import reestimated_batchnorm
from tnlpad.data.catalogue import find
from tnlpad.experiments.config import Protocol, RunConfig, command, configure, departures, device_settings
from tnlpad.experiments.prepare import Data, prepare_loader
from tnlpad.experiments.run import run
from tnlpad.methods import Method
from tnlpad.records.store import RunFolder, replacing, write_by_rename
from tnlpad.rng import numpy_stream
from tnlpad.training.evaluate import evaluate, evaluation_mode
from tnlpad.training.loop import Record
from tnlpad.training.measure import Samples, Sets

NAME = "tsne"
METHODS = ("standard", "tnlpad")
DATASET, NOISES, EPOCHS = "cifar10", ("pairflip:0.4", "instance:0.4"), (5, 25, 45)  # the paper's
COMPONENTS = 50
PERPLEXITY = 30
NEIGHBOURS = 10
BATCHES_FOR_STATISTICS = 200
CHECKPOINT_SECONDS = 60
REESTIMATED = "sigma_reestimated"

Features = NDArray[np.float64]
Tell = Callable[[str], None]


class _SeenEnough(Exception):
    """Training has come to the last epoch of interest."""


def compute(
    out: Path,
    *,
    root: Path | None = None,
    device: str = "cpu",
    dataset: str = DATASET,
    noises: Sequence[str] = NOISES,
    epochs: Sequence[int] = EPOCHS,
    settings: Mapping[str, Any] | None = None,
    seed: int = 1,
    protocol: Protocol = "paper",
    samples: int | None = None,
    tell: Tell | None = None,
) -> Path:
    """Make `OUT/tsne.json`, from wherever it stands.

    Args:
        out: The folder of all runs.
        root: Where datasets lie.
        device: Where to train.
        dataset, noises, epochs: What to look at; each noise is trained with both methods.
        settings, protocol: As for `configure`, of both methods.
        seed: Of the runs, and of the pictures.
        samples: How many of the test images to show, drawn once; all by default.
        tell: Told in words what is being done.
    """
    configs = configurations(
        device=device, dataset=dataset, noises=noises, epochs=epochs, settings=settings, seed=seed, protocol=protocol
    )
    say = tell or (lambda words: None)
    wanted = sorted({*epochs})
    folders = [RunFolder(out / NAME / config.run_id) for config in configs]
    # All that needs the device first: with the features at hand the rest can be done anywhere.
    for config, folder in zip(configs, folders, strict=True):
        _collect(config, folder, wanted, root, device, say)
    panels = []
    for config, folder in zip(configs, folders, strict=True):
        panels += _embed(config, folder, wanted, samples, say)
    labels = _read(_features_file(folders[0], wanted[0]))["labels"]
    chosen = _chosen(len(labels), samples, seed)
    document = {
        "kind": NAME,
        "dataset": configs[0].dataset,
        "class_names": list(find(dataset).class_names),
        "epochs": wanted,
        "seed": seed,
        "protocol": protocol,
        "settings": departures(configs[0]),
        "test_images": len(labels),
        "recipe": {"components": COMPONENTS, "perplexity": PERPLEXITY, "neighbours": NEIGHBOURS, "init": "pca"},
        "runs": {c.run_id: {"config": c.to_json(), "command": command(c), "up_to_epoch": wanted[-1]} for c in configs},
        "labels": labels[chosen].tolist(),
        "panels": panels,
    }
    path = out / f"{NAME}.json"
    write_by_rename(path, _compact(document))
    return path


def configurations(
    *,
    device: str = "cpu",
    dataset: str = DATASET,
    noises: Sequence[str] = NOISES,
    epochs: Sequence[int] = EPOCHS,
    settings: Mapping[str, Any] | None = None,
    seed: int = 1,
    protocol: Protocol = "paper",
) -> list[RunConfig]:
    """The runs that `compute` looks at; what would not come to these epochs is refused."""
    own = {**device_settings(device), **(settings or {})}
    configs = [
        configure(dataset, noise=noise, method=method, seed=seed, protocol=protocol, settings=own)
        for noise in noises
        for method in METHODS
    ]
    for config in configs:
        if not epochs or not all(1 <= epoch <= config.epochs for epoch in epochs):
            raise ValueError(f"epochs={tuple(epochs)}: give at least one, from 1 to {config.epochs}.")
        if config.patience is not None:
            raise ValueError(f"patience={config.patience}: might end a run before these epochs. Leave it out.")
    return configs


# Features -------------------------------------------------------------------------------------------------------------


def _collect(
    config: RunConfig, folder: RunFolder, epochs: Sequence[int], root: Path | None, device: str, say: Tell
) -> None:
    """Train up to the last epoch, and keep the features of each epoch of interest."""
    files = {epoch: _features_file(folder, epoch) for epoch in epochs}
    if all(file.exists() for file in files.values()):
        return
    if folder.checkpoint_file.exists() and _missed(folder, files):
        folder.checkpoint_file.unlink()  # without one it starts anew
    looking: list[tuple[Method, Data, Sets]] = []

    def look(record: Record) -> None:
        epoch = record["epoch"]
        say(f"{config.dataset} {config.noise} {config.method}: epoch {epoch} of {epochs[-1]}")
        if epoch in files:
            with replacing(files[epoch]) as file:
                arrays: dict[str, Any] = _snapshot(config, *looking[0], torch.device(device))
                np.savez(file, **arrays)
        if epoch == epochs[-1]:
            raise _SeenEnough

    try:
        run(
            config,
            folder.path.parent,
            root=root,
            device=device,
            checkpoint_every_seconds=CHECKPOINT_SECONDS,
            on_prepared=lambda *prepared: looking.append(prepared),
            on_epoch=look,
        )
    except _SeenEnough:
        folder.checkpoint_file.unlink(missing_ok=True)  # of a large network hundreds of megabytes


def _missed(folder: RunFolder, files: dict[int, Path]) -> bool:
    """Whether the checkpoint lies behind an epoch whose features are not there: a kill came in between."""
    done = len(folder.epochs())
    return any(epoch <= done and not file.exists() for epoch, file in files.items())


def _features_file(folder: RunFolder, epoch: int) -> Path:
    return folder.path / f"features-{epoch}.npz"


def _read(file: Path) -> dict[str, NDArray[Any]]:
    with np.load(file) as arrays:
        return dict(arrays)


def _snapshot(
    config: RunConfig, method: Method, data: Data, sets: Sets, device: torch.device
) -> dict[str, NDArray[Any]]:
    """By view, the components of the test features and the test accuracy; and the test labels."""
    test = sets.test
    assert test is not None, "every dataset of the catalogue has a test set"
    found: dict[str, NDArray[Any]] = {"labels": test.labels.cpu().numpy()}
    for view, held in _views(config, method, data, device).items():
        with held() as network:
            accuracy = evaluate(network, test.images_at, test.index, test.labels, batch_size=test.batch_size).accuracy
            found[view] = _components(_features(network, test))
            found[f"{view}-accuracy"] = np.array(float(accuracy))
    return found


def _views(config: RunConfig, method: Method, data: Data, device: torch.device) -> dict[str, Any]:
    """The weights to look through: w of ordinary training; σ, and σ with statistics of its own where that differs."""
    if "sigma" not in method.judged:
        return {"w": method.judged["w"]}
    views = {"sigma": method.judged["sigma"]}
    with method.judged["sigma"]() as network:
        has_statistics = any(isinstance(module, _BatchNorm) for module in network.modules())
    if has_statistics:

        @contextmanager
        def reestimated() -> Iterator[nn.Module]:
            loader, _ = prepare_loader(config, data, device)  # with streams of its own: training is not disturbed
            images = (batch.images for batch in islice(loader, BATCHES_FOR_STATISTICS))
            with method.judged["sigma"]() as network, reestimated_batchnorm(network, images):
                yield network

        views[REESTIMATED] = reestimated
    return views


@torch.no_grad()
def _features(network: nn.Module, samples: Samples) -> Features:
    """The penultimate layer's outputs, a row for each image, in full precision."""
    features = cast(Callable[[Tensor], Tensor], network.features)
    with evaluation_mode(network):
        parts = [features(samples.images_at(part)) for part in samples.index.split(samples.batch_size)]
    return torch.cat(parts).double().cpu().numpy()


def _components(features: Features) -> NDArray[np.float32]:
    from sklearn.decomposition import PCA

    count = min(COMPONENTS, *features.shape)
    components: NDArray[Any] = PCA(count, svd_solver="full").fit_transform(features)
    return components.astype(np.float32)


# Pictures and numbers -------------------------------------------------------------------------------------------------


def _embed(
    config: RunConfig, folder: RunFolder, epochs: Sequence[int], samples: int | None, say: Tell
) -> list[dict[str, Any]]:
    """A panel for each epoch and view; those that are there already are read."""
    panels = []
    for epoch in epochs:
        arrays = _read(_features_file(folder, epoch))
        chosen = _chosen(len(arrays["labels"]), samples, config.seed)
        for view in [name for name in arrays if name != "labels" and not name.endswith("-accuracy")]:
            file = folder.path / f"panel-{epoch}-{view}-{len(chosen)}.json"
            if not file.exists():
                say(f"{config.dataset} {config.noise} {config.method}: t-SNE of {view} at epoch {epoch}")
                panel = {
                    "noise": config.noise,
                    "method": config.method,
                    "view": view,
                    "epoch": epoch,
                    "test_accuracy": float(arrays[f"{view}-accuracy"]),
                    **scores(arrays[view], arrays["labels"]),
                    "positions": _positions(arrays[view][chosen], config.seed),
                    "run_id": config.run_id,
                }
                write_by_rename(file, _compact(panel))
            panels.append(json.loads(file.read_bytes()))
    return panels


def _chosen(count: int, samples: int | None, seed: int) -> NDArray[np.int64]:
    if samples is None or samples >= count:
        return np.arange(count)
    if samples < 2:
        raise ValueError(f"samples={samples}: give at least 2.")
    return np.sort(numpy_stream(seed, NAME).choice(count, samples, replace=False))


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


def _compact(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode() + b"\n"
