"""Test features during training, as t-SNE pictures with two measures of how well the classes are separated.

Each run is trained up to the last epoch of interest. Its folder keeps the features of each of these epochs and each
picture, so that an interrupted computation resumes.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from tnlpad.array_files import ArrayFile
from tnlpad.atomic_files import replacing, write_by_rename
from tnlpad.core.batchnorm import reestimated_batchnorm
from tnlpad.data.catalogue import find
from tnlpad.json_text import load_json
from tnlpad.methods import Method
from tnlpad.records.store import RunFolder
from tnlpad.rng import numpy_stream
from tnlpad.runs.config import RunConfig, command, configure, departures
from tnlpad.runs.prepare import Data, features_of, prepare_loader
from tnlpad.runs.run import run
from tnlpad.training.loop import Record
from tnlpad.training.measure import Sets, evaluate
from tnlpad.types import ProtocolName

NAME = "tsne"
METHODS = ("standard", "tnlpad")
COMPONENTS = 50  # of the PCA before t-SNE
PERPLEXITY = 30
NEIGHBOURS = 10
BATCHES_FOR_STATISTICS = 200
CHECKPOINT_SECONDS = 60
REESTIMATED = "sigma_reestimated"

Features = NDArray[np.float64]
Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Runs and epochs of the figure; by default the paper's.

    Args:
        dataset, noises, epochs: Both methods are trained on each noise, and shown after each of these epochs.
        settings, protocol: Of both methods; see `configure`.
        seed: Of the runs, and of the pictures.
    """

    dataset: str = "cifar10"
    noises: tuple[str, ...] = ("pairflip:0.4", "instance:0.4")
    epochs: tuple[int, ...] = (5, 25, 45)
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 1
    protocol: ProtocolName = "paper"


def configurations(shown: Shown, device: str) -> list[RunConfig]:
    """Return the runs; raises ValueError if they do not reach these epochs."""
    configs = [
        configure(
            shown.dataset,
            noise=noise,
            protocol=shown.protocol,
            method=method,
            seed=shown.seed,
            device=device,
            settings=shown.settings,
        )
        for noise in shown.noises
        for method in METHODS
    ]
    for config in configs:
        if not shown.epochs or not all(1 <= epoch <= config.epochs for epoch in shown.epochs):
            raise ValueError(f"epochs={shown.epochs}: give at least one, from 1 to {config.epochs}.")
        if config.patience is not None:
            raise ValueError(f"patience={config.patience}: may stop a run before these epochs. Leave it out.")
    return configs


def compute(
    out: Path,
    shown: Shown,
    *,
    root: Path | None = None,
    device: str = "cpu",
    samples: int | None = None,
    tell: Tell | None = None,
) -> Path:
    """Write `OUT/tsne.json`, or resume.

    Args:
        out: Folder of all runs.
        shown: Runs and epochs to show.
        root: Folder of datasets.
        device: Device to train on.
        samples: Number of test images to show, drawn once; None shows all.
        tell: Called with a line about the current step.
    """
    configs = configurations(shown, device)
    say = tell or (lambda line: None)
    epochs = sorted({*shown.epochs})
    folders = [RunFolder(out / NAME / config.run_id) for config in configs]
    # First everything that needs the device: the rest can be done on any machine.
    for config, folder in zip(configs, folders, strict=True):
        collect(config, folder, epochs, root, device, say)
    panels = []
    for config, folder in zip(configs, folders, strict=True):
        panels += embed(config, folder, epochs, samples, say)
    labels = read_features(folders[0], epochs[0])["labels"]
    document = {
        "kind": NAME,
        "dataset": configs[0].dataset,
        "class_names": list(find(shown.dataset).class_names),
        "epochs": epochs,
        "seed": shown.seed,
        "protocol": shown.protocol,
        "settings": departures(configs[0]),
        "test_images": len(labels),
        "recipe": {"components": COMPONENTS, "perplexity": PERPLEXITY, "neighbours": NEIGHBOURS, "init": "pca"},
        "runs": {c.run_id: {"config": c.to_json(), "command": command(c), "up_to_epoch": epochs[-1]} for c in configs},
        "labels": labels[shown_images(len(labels), samples, shown.seed)].tolist(),
        "panels": panels,
    }
    path = out / f"{NAME}.json"
    write_by_rename(path, compact(document))
    return path


def compact(value: dict[str, Any]) -> bytes:
    """Return JSON without spaces, since pictures are long."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode() + b"\n"


# Features -------------------------------------------------------------------------------------------------------------


class _LastEpochReached(Exception):
    """Stops training after the last epoch of interest."""


def collect(
    config: RunConfig, folder: RunFolder, epochs: Sequence[int], root: Path | None, device: str, say: Tell
) -> None:
    """Train up to the last epoch, and save the features of each epoch of interest."""
    files = {epoch: features_file(folder, epoch) for epoch in epochs}
    if all(file.exists() for file in files.values()):
        return
    if folder.checkpoint_file.exists() and _missed(folder, files):
        folder.checkpoint_file.unlink()  # start over
    prepared: list[tuple[Method, Data, Sets]] = []

    def after_epoch(record: Record) -> None:
        epoch = record["epoch"]
        say(f"{config.dataset} {config.noise} {config.method}: epoch {epoch} of {epochs[-1]}")
        if epoch in files:
            with replacing(files[epoch]) as file:
                arrays: dict[str, Any] = _snapshot(config, *prepared[0], torch.device(device))
                np.savez(file, **arrays)
        if epoch == epochs[-1]:
            raise _LastEpochReached

    try:
        run(
            config,
            folder.path.parent,
            root=root,
            device=device,
            checkpoint_every_seconds=CHECKPOINT_SECONDS,
            on_prepared=lambda *parts: prepared.append(parts),
            on_epoch=after_epoch,
        )
    except _LastEpochReached:
        folder.checkpoint_file.unlink(missing_ok=True)  # hundreds of megabytes for a large network


def _missed(folder: RunFolder, files: dict[int, Path]) -> bool:
    """Whether the checkpoint is later than an epoch whose features were not saved before a kill."""
    done = len(folder.epochs())
    return any(epoch <= done and not file.exists() for epoch, file in files.items())


def has_features(out: Path, config: RunConfig, epochs: Sequence[int]) -> bool:
    """Whether the features of all these epochs of a run are saved."""
    folder = RunFolder(out / NAME / config.run_id)
    return all(features_file(folder, epoch).exists() for epoch in epochs)


def features_file(folder: RunFolder, epoch: int) -> Path:
    """Return the file of a run's features of an epoch."""
    return folder.path / f"features-{epoch}.npz"


def read_features(folder: RunFolder, epoch: int) -> dict[str, NDArray[Any]]:
    """Read what `_snapshot` returned."""
    return dict(ArrayFile(features_file(folder, epoch)))


def _snapshot(
    config: RunConfig, method: Method, data: Data, sets: Sets, device: torch.device
) -> dict[str, NDArray[Any]]:
    """Return the test labels, and by view the components of the test features and the test accuracy."""
    test = sets.test
    assert test is not None, "every dataset of the catalogue has a test set"
    found: dict[str, NDArray[Any]] = {"labels": test.labels.cpu().numpy()}
    for view, held in _views(config, method, data, device).items():
        with held() as network:
            accuracy = evaluate(network, test).accuracy
            found[view] = _components(features_of(network, test).double().cpu().numpy())
            found[f"{view}-accuracy"] = np.array(float(accuracy))
    return found


def _views(config: RunConfig, method: Method, data: Data, device: torch.device) -> dict[str, Any]:
    """Return the weights to show: w of standard training, else σ, and σ with BatchNorm statistics of its own."""
    if "sigma" not in method.judged:
        return {"w": method.judged["w"]}
    views = {"sigma": method.judged["sigma"]}
    with method.judged["sigma"]() as network:
        has_statistics = any(isinstance(module, _BatchNorm) for module in network.modules())
    if has_statistics:

        @contextmanager
        def reestimated() -> Iterator[nn.Module]:
            loader, _ = prepare_loader(config, data, device)  # new random streams, so that training is not changed
            images = (batch.images for batch in islice(loader, BATCHES_FOR_STATISTICS))
            with method.judged["sigma"]() as network, reestimated_batchnorm(network, images):
                yield network

        views[REESTIMATED] = reestimated
    return views


def _components(features: Features) -> NDArray[np.float32]:
    from sklearn.decomposition import PCA

    count = min(COMPONENTS, *features.shape)
    components: NDArray[Any] = PCA(count, svd_solver="full").fit_transform(features)
    return components.astype(np.float32)


# Pictures -------------------------------------------------------------------------------------------------------------


def embed(
    config: RunConfig, folder: RunFolder, epochs: Sequence[int], samples: int | None, say: Tell
) -> list[dict[str, Any]]:
    """Return a panel for each epoch and view; finished ones are read."""
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
            panels.append(load_json(file))
    return panels


def shown_images(count: int, samples: int | None, seed: int) -> NDArray[np.int64]:
    """Return the indices of the images to show."""
    if samples is None or samples >= count:
        return np.arange(count)
    if samples < 2:
        raise ValueError(f"samples={samples}: give at least 2.")
    return np.sort(numpy_stream(seed, "tsne").choice(count, samples, replace=False))


def scores(features: NDArray[Any], labels: NDArray[Any]) -> dict[str, float]:
    """Return how well the true classes are separated: the silhouette in [−1, 1], and the accuracy of neighbours."""
    from sklearn.metrics import silhouette_score

    return {
        "silhouette": round(float(silhouette_score(features, labels)), 4),
        "neighbours_accuracy": round(neighbours_accuracy(features, labels), 4),
    }


def neighbours_accuracy(features: NDArray[Any], labels: NDArray[Any], count: int = NEIGHBOURS) -> float:
    """Return the accuracy of a leave-one-out vote of the nearest samples; the lowest class wins a tie."""
    from sklearn.neighbors import NearestNeighbors

    neighbours = NearestNeighbors(n_neighbors=count).fit(features).kneighbors(return_distance=False)  # without itself
    votes = np.apply_along_axis(np.bincount, 1, labels[neighbours], minlength=int(labels.max()) + 1)
    return float((votes.argmax(axis=1) == labels).mean())


def _positions(features: NDArray[Any], seed: int) -> list[list[float]]:
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(features) - 1) / 3)
    positions = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(features)
    return [[round(float(x), 3), round(float(y), 3)] for x, y in positions]
