"""The features of the test images at some epochs of a run, kept in a file for each."""

from collections.abc import Callable, Iterator, Sequence
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
from tnlpad.experiments.config import RunConfig
from tnlpad.experiments.prepare import Data, prepare_loader
from tnlpad.experiments.run import run
from tnlpad.methods import Method
from tnlpad.records.store import RunFolder, replacing
from tnlpad.training.evaluate import evaluate, evaluation_mode
from tnlpad.training.loop import Record
from tnlpad.training.measure import Samples, Sets

COMPONENTS = 50
BATCHES_FOR_STATISTICS = 200
CHECKPOINT_SECONDS = 60
REESTIMATED = "sigma_reestimated"

Features = NDArray[np.float64]
Tell = Callable[[str], None]


class _SeenEnough(Exception):
    """Training has come to the last epoch of interest."""


def collect(
    config: RunConfig, folder: RunFolder, epochs: Sequence[int], root: Path | None, device: str, say: Tell
) -> None:
    """Train up to the last epoch, and keep the features of each epoch of interest."""
    files = {epoch: features_file(folder, epoch) for epoch in epochs}
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


def features_file(folder: RunFolder, epoch: int) -> Path:
    """Where a run's features of an epoch are kept."""
    return folder.path / f"features-{epoch}.npz"


def read_features(folder: RunFolder, epoch: int) -> dict[str, NDArray[Any]]:
    """As `_snapshot` gave them."""
    with np.load(features_file(folder, epoch)) as arrays:
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
