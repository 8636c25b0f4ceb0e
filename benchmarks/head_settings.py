"""Choice of the settings of the out-of-fold heads, by the accuracy on noisy labels alone.

Each cell is a dataset with some of its labels moved at random. A candidate is trained by the recipe for features, and
judged by its out-of-fold accuracy on the noisy labels: the number that a user without right labels sees as well. Right
labels are not used, and the photographs of `benchmarks/features.py` are not among the data.

The settings are chosen one after the other, in the order of `SEARCH`, beginning with `START`: of the values of a
setting, the one with the highest mean over the cells is kept. More epochs and smaller batches take more time, so they
must be better by more than two standard errors. Momentum and the decay of the learning rate stay as they are.

The weight decay is searched again at the end, also on data of 5,000 samples, since more samples need less of it. This
was added when a first measurement by `benchmarks/features.py`, with one draw of noise, had shown too low an accuracy.

The record also has the accuracy of a linear classifier on features of photographs, at several sides of the input, on
their published labels by cross-validation: the reason why small photographs are enlarged.

    python -m benchmarks.head_settings [--root FOLDER] [--food FOLDER] [--texts FOLDER] [--log trainings.jsonl]
                                       [--save record.json]

`--root` is the folder of datasets, `--food` a folder as Food-101 has it, and `--texts` holds NAME_train.csv.
"""

import argparse
import csv
import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.machine import leave, machine, versions
from tnlpad.data import load
from tnlpad.data.own import OwnDataset
from tnlpad.data.own.objects import open_samples
from tnlpad.networks import NETWORKS
from tnlpad.networks.head import Head
from tnlpad.noise import make_noisy_labels, parse_noise
from tnlpad.runs.config import configure
from tnlpad.runs.recipes import DECAY_AFTER, feature_recipe
from tnlpad.runs.run import run
from tnlpad.types import RawDataset

START: dict[str, float] = {
    "learning_rate": 0.01,
    "weight_decay": 1e-3,
    "dropout": 0.5,
    "mixed": 0.0,
    "hidden": 256,
    "epochs": 60,
    "batch_size": 128,
}
SEARCH: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("weight_decay", (1e-3, 5e-3, 0.015, 0.04, 0.1)),
    ("mixed", (0.0, 0.5)),
    ("dropout", (0.0, 0.25, 0.5)),
    ("hidden", (128, 256)),
    ("epochs", (60, 120)),
    ("learning_rate", (0.003, 0.01, 0.03)),
    ("batch_size", (32, 128)),
)
AT_THE_END = ("weight_decay", (0.015, 0.04, 0.1))  # with the large cells as well
TAKE_TIME = ("epochs", "batch_size")
LARGE = ("mnist", "fashion_mnist", "cifar10")  # of the last, features of a pretrained network
LARGE_SAMPLES, LARGE_EPOCHS, LARGE_SIDE = 5000, 20, 96
OF_THE_NETWORK = ("dropout", "mixed", "hidden")
NOISES = (("symmetric:0.2", 1), ("symmetric:0.4", 2))  # with its seed
TABLES = ("digits", "wine", "breast_cancer")
IMAGES = ("mnist", "fashion_mnist")
TEXTS = ("youtube", "sms", "semeval")
MOST_SAMPLES = 1000  # of data other than photographs
FOLDS, REPEATS = 3, 1  # fewer than by default, to save time
SIDES = (64, 96, 128, 160)
STRENGTHS = (0.001, 0.003, 0.01)  # C of the linear classifier
FIXED_SEED = 5  # of the choice of samples
Labels = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where data are; None leaves them out."""

    root: Path | None = None
    food: Path | None = None
    texts: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A dataset with labels moved at random."""

    data: str
    noise: str
    seed: int
    samples: int = MOST_SAMPLES  # at most; all of the photographs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in Places.__dataclass_fields__:
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--log", type=Path, help="a line for each training; those in it are not repeated")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    places = Places(**{name: getattr(options, name) for name in Places.__dataclass_fields__})
    trainings = Trainings(places, options.log)
    chosen = searched(trainings)
    print("chosen", chosen)
    record: dict[str, object] = {
        "benchmark": "head_settings",
        "machine": machine("cpu"),
        "versions": versions(),
        "cells": [asdict(cell) for cell in trainings.cells],
        "chosen": chosen,
        "steps": trainings.steps,
        "sides": sides(places.food) if places.food is not None else None,
        "candidates": trainings.candidates,
    }
    leave(record, options.save)


class Trainings:
    """Trains candidates on cells, and keeps their accuracies in the order of the cells, the large ones last."""

    def __init__(self, places: Places, log: Path | None) -> None:
        self.places, self.log = places, log
        self.cells = [Cell(data=name, noise=noise, seed=seed) for name in names(places) for noise, seed in NOISES]
        self.small = len(self.cells)
        for name in LARGE if places.root is not None else ():
            self.cells += [Cell(data=name, noise=noise, seed=seed, samples=LARGE_SAMPLES) for noise, seed in NOISES]
        lines = log.read_text().splitlines() if log is not None and log.exists() else []
        self.logged: list[dict[str, Any]] = [json.loads(line) for line in lines]
        self.candidates: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []

    def accuracies(self, candidate: Mapping[str, float], count: int) -> list[float]:
        """Return the out-of-fold accuracy on the noisy labels for so many cells."""
        known = next((each for each in self.candidates if candidate.items() <= each.items()), None)
        if known is None:
            known = {**candidate, "accuracy": []}
            self.candidates.append(known)
        found: list[float] = known["accuracy"]
        found += [self._accuracy(candidate, cell) for cell in self.cells[len(found) : count]]
        return found[:count]

    def _accuracy(self, candidate: Mapping[str, float], cell: Cell) -> float:
        key = {"candidate": dict(candidate), "cell": asdict(cell)}
        for each in self.logged:
            if key.items() <= each.items():
                return float(each["accuracy"])
        accuracy = trained(candidate, cell, self.places)
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(json.dumps(key | {"accuracy": accuracy}) + "\n")
        return accuracy


def searched(trainings: Trainings) -> dict[str, float]:
    """Choose one setting after the other."""
    current = dict(START)
    for name, values in SEARCH:
        current = step(trainings, current, name, values, trainings.small)
    return step(trainings, current, *AT_THE_END, len(trainings.cells))


def step(
    trainings: Trainings, current: Mapping[str, float], name: str, values: Sequence[float], count: int
) -> dict[str, float]:
    """Return the settings with the best value of one of them, over so many cells."""
    ordered = [current[name], *(value for value in values if value != current[name])]
    candidates = [{**current, name: value} for value in ordered]
    found = [trainings.accuracies(candidate, count) for candidate in candidates]
    means = [mean(each) for each in found]
    best = int(np.argmax(means))
    if name in TAKE_TIME and not clearly_better(found[best], found[0]):
        best = 0
    trainings.steps.append(
        {
            "setting": name,
            "cells": count,
            "others": {key: value for key, value in current.items() if key != name},
            "values": ordered,
            "mean_accuracy": means,
            "mean_rank": mean_ranks(found),
            "chosen": ordered[best],
        }
    )
    print(name, {value: round(100 * each, 2) for value, each in zip(ordered, means, strict=True)}, flush=True)
    return candidates[best]


def clearly_better(these: Sequence[float], those: Sequence[float]) -> bool:
    """Whether the mean difference is more than two standard errors."""
    gains = np.subtract(these, those)
    return bool(gains.mean() > 2 * gains.std(ddof=1) / math.sqrt(len(gains)))


def mean_ranks(found: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean rank of each candidate over the cells, 1 for the best; equals share a rank."""
    from scipy.stats import rankdata  # type: ignore[import-untyped, unused-ignore]

    return [float(rank) for rank in rankdata(-np.array(found), axis=0).mean(1)]


def trained(candidate: Mapping[str, float], cell: Cell, places: Places) -> float:
    """Train by the recipe for features with other settings; return the accuracy of the epoch that the run chooses."""
    own = noisy(cell, places)
    recipe = feature_recipe(own.shape)
    epochs = candidate["epochs"] if cell.samples == MOST_SAMPLES else LARGE_EPOCHS
    recipe |= {name: value for name, value in candidate.items() if name in recipe}
    recipe |= {"epochs": epochs, "milestones": (round(DECAY_AFTER * epochs),), "folds": FOLDS, "repeats": REPEATS}
    recipe["init"] = "zero"
    with tempfile.TemporaryDirectory() as folder, another_head(candidate):
        config = configure(own.shape, seed=cell.seed, settings=recipe)
        finished = run(config, Path(folder), own=own, checkpoint_every_seconds=math.inf)
        return float(finished.summary()["chosen"]["validation_accuracy"])


class MixingHead(Head):
    """A head whose training rows are mixed with another row of the batch, of which at most so large a share.

    A row keeps its own label, so that every method can train the head.
    """

    def __init__(self, *, mixed: float, **options: Any) -> None:
        super().__init__(**options)
        self.mixed = mixed

    def features(self, images: Tensor) -> Tensor:
        if not self.training or not self.mixed:
            return super().features(images)
        rows = images.flatten(1)
        other = self.mixed * torch.rand(len(rows), 1)
        return super().features((1 - other) * rows + other * rows[torch.randperm(len(rows))])


@contextmanager
def another_head(candidate: Mapping[str, float]) -> Iterator[None]:
    """Let `head` be one with these settings."""
    before = NETWORKS["head"]

    def build(*, num_classes: int, in_channels: int) -> MixingHead:
        options: dict[str, Any] = {name: candidate[name] for name in OF_THE_NETWORK}
        return MixingHead(num_classes=num_classes, in_channels=in_channels, **options)

    NETWORKS["head"] = build
    try:
        yield
    finally:
        NETWORKS["head"] = before


def noisy(cell: Cell, places: Places) -> OwnDataset:
    """Return the data with noise added to the labels that they come with."""
    samples, labels = content(cell.data, cell.samples, places)
    given = make_noisy_labels(
        parse_noise(cell.noise), dataset=cell.data, labels=labels, num_classes=int(labels.max()) + 1, seed=cell.seed
    ).given
    return open_samples(samples, given)


# Data -----------------------------------------------------------------------------------------------------------------


def names(places: Places) -> list[str]:
    """Return the data that are there."""
    return [
        *TABLES,
        *(IMAGES if places.root is not None else ()),
        *(("food",) if places.food is not None else ()),
        *(TEXTS if places.texts is not None else ()),
    ]


@cache
def content(name: str, most: int, places: Places) -> tuple[Any, Labels]:
    """Return samples and the labels that they come with."""
    samples, labels = _everything(name, places)
    if name == "food":
        return samples, labels
    chosen = np.sort(np.random.default_rng(FIXED_SEED).permutation(len(labels))[:most])
    if name == "cifar10":
        return small_photographs(samples[chosen], labels[chosen]), labels[chosen]
    if isinstance(samples, list):
        return [samples[row] for row in chosen], labels[chosen]
    return samples[chosen], labels[chosen]


def _everything(name: str, places: Places) -> tuple[Any, Labels]:
    if name in TABLES:
        from sklearn import datasets

        numbers, labels = getattr(datasets, f"load_{name}")(return_X_y=True)
        return numbers.astype(np.float32), labels.astype(np.int64)
    if name in IMAGES or name in LARGE:
        raw = load(name, places.root, "train")
        assert isinstance(raw, RawDataset)
        if name == "cifar10":
            return raw.images, raw.labels
        return raw.images.reshape(len(raw.images), -1).astype(np.float32), raw.labels
    if name in TEXTS:
        assert places.texts is not None
        with (places.texts / f"{name}_train.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return [row["text"] for row in rows], numbered([row["label"] for row in rows])
    assert places.food is not None
    return photographs(places.food, SIDES[-1])


@cache
def photographs(folder: Path, side: int) -> tuple[NDArray[np.float32], Labels]:
    """Return features of the training photographs of Food-101, and their published labels."""
    from tnlpad.features.backbone import lite
    from tnlpad.features.cache import default_cache
    from tnlpad.features.extract import extract

    listed = (folder / "meta" / "train.txt").read_text().split()
    files = [file for each in listed if (file := folder / "images" / f"{each}.jpg").exists()]
    features = extract([str(file) for file in files], lite(side), cache=default_cache())
    return features, numbered([file.parent.name for file in files])


def small_photographs(images: NDArray[np.uint8], labels: Labels) -> NDArray[np.float32]:
    """Return features of images in memory."""
    from tnlpad.features.backbone import lite
    from tnlpad.features.cache import default_cache
    from tnlpad.features.extract import extract_dataset

    return extract_dataset(open_samples(images, labels), lite(LARGE_SIDE), cache=default_cache())


def numbered(words: Sequence[str]) -> Labels:
    classes = sorted(set(words))
    return np.array([classes.index(word) for word in words])


def sides(folder: Path) -> dict[str, float]:
    """Return the accuracy of a linear classifier at its best C, by side of the photographs."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    from tnlpad.features.projection import Projection

    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    found = {}
    for side in SIDES:
        features, labels = photographs(folder, side)
        rows = Projection.fit(features).transform(features)
        rows /= rows.std()
        models = [LogisticRegression(C=strength, max_iter=200, tol=1e-3) for strength in STRENGTHS]
        found[str(side)] = max(float(cross_val_score(model, rows, labels, cv=folds).mean()) for model in models)
    return found


if __name__ == "__main__":
    main()
