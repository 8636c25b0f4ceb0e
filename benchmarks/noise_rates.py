"""Accuracy of the estimated noise rate and of the suspects for weak networks, and of the warning that they are weak.

Small networks on small data: images of 8 by 8 pixels and tables with a few hundred samples or more, with two kinds of
wrong labels and with none. One table has overlapping classes, one a rare class, and one holds random numbers. Each
training records the error of the estimate, whether the interval contains the truth, the number of suspects, how many of
them are wrong, and the gain: how far the network closes the gap between the most frequent label and perfect accuracy.
The warning depends on the gain.

For random numbers and overlapping classes, the label that was drawn counts as right.

    python -m benchmarks.noise_rates --root FOLDER [--data digits ...] [--seeds 3 4] [--save record.json]
"""

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import tnlpad
from benchmarks.machine import leave, machine, versions
from tnlpad.data import load
from tnlpad.noise import make_noisy_labels, parse_noise
from tnlpad.suspects.weakness import MIN_GAIN

SIDE = 8
NOISES = ("symmetric:0.1", "symmetric:0.3", "symmetric:0.5", "pairflip:0.2", "pairflip:0.4")
NOISES_OF_TABLES = ("none", "symmetric:0.1", "symmetric:0.2", "symmetric:0.3", "symmetric:0.4")
# How many samples; of tables all that there are.
IMAGES = {
    "digits": (400, 1797),
    "mnist": (300, 2000),
    "fashion_mnist": (400, 2500),
    "cifar10": (1000, 4000),
}
TABLES = ("breast_cancer", "wine", "seven classes", "rare class", "overlapping")
WITHOUT_MEANING = ("nothing, two classes", "nothing, rare class", "nothing, ten classes")
EPOCHS = {"images": 15, "tables": 30}
SURE = 0.9  # what `tnlpad clean` corrects
GAINS = (-1.0, 0.1, 0.2, MIN_GAIN, 0.4, 0.6, 0.8, 1.01)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Data whose labels are wrong in one way."""

    data: str
    samples: int
    noise: str
    seed: int


@dataclass(frozen=True, kw_only=True)
class Found:
    """Compare the results of one training with the truth."""

    cell: Cell
    wrong: float
    estimate: float
    interval: tuple[float, float]
    gain: float
    cautioned: bool
    suspects: int
    wrong_suspects: int
    sure: int
    wrong_sure: int

    @property
    def covered(self) -> bool:
        return self.interval[0] <= self.wrong <= self.interval[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = [*IMAGES, *TABLES, *WITHOUT_MEANING]
    parser.add_argument("--root", type=Path)
    parser.add_argument("--data", nargs="+", choices=every, default=every)
    parser.add_argument("--seeds", nargs="+", type=int, default=[3, 4])
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.perf_counter()
    found = []
    for cell in cells(options.data, options.seeds):
        found.append(measured(cell, options.root))
        print(line(found[-1]), flush=True)
    table = summary(found)
    for row in table:
        print(row)
    record = {"benchmark": "noise_rates", "machine": machine("cpu"), "versions": versions()}
    rows = [{**asdict(each), "covered": each.covered} for each in found]
    leave(record | {"seconds": time.perf_counter() - began, "by_gain": table, "cells": rows}, options.save)


def cells(names: Iterable[str], seeds: Sequence[int]) -> Iterator[Cell]:
    for name in names:
        noises = NOISES if name in IMAGES else NOISES_OF_TABLES if name in TABLES else ("none",)
        for samples in IMAGES.get(name, (0,)):
            for noise in noises:
                yield from (Cell(data=name, samples=samples, noise=noise, seed=seed) for seed in seeds)


def measured(cell: Cell, root: Path | None) -> Found:
    """Train on the cell by the recipe for own data, with fewer epochs."""
    samples, clean = content(cell, root)
    given = clean
    if cell.noise != "none":
        noise = parse_noise(cell.noise)
        classes = int(clean.max()) + 1
        given = make_noisy_labels(noise, dataset=cell.data, labels=clean, num_classes=classes, seed=cell.seed).given
    settings = {"epochs": EPOCHS["images"]} if cell.data in IMAGES else {"epochs": EPOCHS["tables"], "folds": "none"}
    result = tnlpad.fit(samples, given, seed=cell.seed, settings=settings, device="cpu")
    ranking, columns = result.run.ranking, result.run.scores.columns
    held_out = given[columns["index"][columns["part"] == "validation"]]
    usual = float(np.bincount(held_out).max() / len(held_out))
    wrong = (given != clean)[columns["index"]]
    suspect, sure = (ranking.confidence >= least for least in (0.5, SURE))
    return Found(
        cell=cell,
        wrong=float(wrong.mean()),
        estimate=ranking.estimate.noise_rate,
        interval=ranking.estimate.noise_rate_interval,
        gain=(result.validation_accuracy - usual) / (1 - usual),
        cautioned=result.caution is not None,
        suspects=int(suspect.sum()),
        wrong_suspects=int((suspect & wrong).sum()),
        sure=int(sure.sum()),
        wrong_sure=int((sure & wrong).sum()),
    )


def content(cell: Cell, root: Path | None) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Images or rows of numbers, and their right labels: functions of the seed."""
    generator = np.random.default_rng(cell.seed)
    if cell.data in IMAGES:
        images, labels = small_images(cell.data, root)
        chosen = generator.permutation(len(labels))[: cell.samples]
        return images[chosen], labels[chosen]
    return rows(cell.data, generator)


def small_images(name: str, root: Path | None) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Means of squares of pixels; of MNIST's kind without the margin."""
    raw = load(name, root, "train")
    side = raw.images.shape[2] // SIDE * SIDE
    margin = (raw.images.shape[2] - side) // 2
    inner = raw.images[:, :, margin : margin + side, margin : margin + side]
    count, channels = inner.shape[:2]
    squares = inner.reshape(count, channels, SIDE, side // SIDE, SIDE, side // SIDE)
    return squares.mean((3, 5)).round().astype(np.uint8), raw.labels


def rows(name: str, generator: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    from sklearn import datasets

    if name in ("breast_cancer", "wine", "iris"):
        numbers, labels = getattr(datasets, f"load_{name}")(return_X_y=True)
        return numbers.astype(np.float32), labels.astype(np.int64)
    if name == "seven classes":
        numbers = generator.normal(size=(2000, 12))
        return numbers.astype(np.float32), (numbers @ generator.normal(size=(12, 7))).argmax(1)
    if name in WITHOUT_MEANING:
        shares = {"two": [0.5, 0.5], "rare": [0.85, 0.15], "ten": [0.1] * 10}[name.split()[1]]
        labels = generator.choice(len(shares), 1000, p=shares)
        return generator.normal(size=(1000, 10)).astype(np.float32), labels
    share, apart = {"rare class": (0.1, 4.0), "overlapping": (0.5, 1.4)}[name]
    labels = (generator.random(1000) < share).astype(np.int64)
    numbers = generator.normal(size=(1000, 6))
    numbers[:, 0] += apart * labels
    return numbers.astype(np.float32), labels


def line(found: Found) -> str:
    cell, (low, high) = found.cell, found.interval
    return (
        f"{cell.data:20} {cell.samples or '':>4} {cell.noise:13} seed {cell.seed}  wrong {found.wrong:.2f}  "
        f"estimate {found.estimate:.2f} ({low:.2f} to {high:.2f})  gain {found.gain:+.2f}  "
        f"{'caution' if found.cautioned else '       '}  {found.wrong_suspects} of {found.suspects} suspects wrong"
    )


def summary(found: Sequence[Found]) -> list[dict[str, Any]]:
    """By how far the network closes the gap."""
    table = []
    for low, high in pairwise(GAINS):
        these = [each for each in found if low <= each.gain < high]
        if not these:
            continue
        table.append(
            {
                "gain": [low, high],
                "cells": len(these),
                "mean_absolute_error": mean(abs(each.estimate - each.wrong) for each in these),
                "covered": mean(each.covered for each in these),
                "wrong_among_suspects": _share(these, "wrong_suspects", "suspects"),
                "wrong_among_sure": _share(these, "wrong_sure", "sure"),
            }
        )
    return table


def _share(found: Sequence[Found], part: str, whole: str) -> float | None:
    total = sum(getattr(each, whole) for each in found)
    return sum(getattr(each, part) for each in found) / total if total else None


if __name__ == "__main__":
    main()
