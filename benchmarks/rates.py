"""Truth of the estimated share of wrong labels and of the confidences, over many data and kinds of noise.

Features (tables, pixels, pretrained photographs, texts) are judged out of fold; small images are trained from scratch.
Noise is random (`symmetric`), follows the classes (`pairflip`), comes from people (CIFAR-10N) or from rules (the texts'
own labels). Weak networks are trained for two epochs, or on data that they cannot learn. Each training records the
estimate, its interval, whether it was withheld, the order's AUROC and average precision, and the calibration error: the
mean difference between confidence and share of wrong labels over ten bins, weighted by their size. It is measured again
after an audit of 200 labels, with the truth as the person.

Random noise must be inside the interval; errors that follow the classes or a rule cannot be seen in features, as the
printed sentences say, so their rows only show what is missed. The constants of the estimate were chosen with seeds 1
and 2, and the limit beyond which errors seem to follow the classes with seeds 1 to 4, so report others. The tables are
always there; other data are used if their place is given.

    python -m benchmarks.rates [--root FOLDER] [--photos FOLDER] [--food FOLDER] [--texts FOLDER] [--cifar10n FILE]
        [--seeds 5 6] [--only NAME ...] [--log cells.jsonl] [--save record.json]
"""

import argparse
import csv
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import tnlpad
from benchmarks.machine import leave, machine, versions
from benchmarks.noise_rates import rows, small_images
from tnlpad.noise import make_noisy_labels, parse_noise
from tnlpad.suspects.audit import draw, recalibrated

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
RANDOM = ("none", "symmetric:0.1", "symmetric:0.2", "symmetric:0.3", "symmetric:0.4")
CLASSES = ("pairflip:0.2", "pairflip:0.4")
TABLES = ("digits", "wine", "breast_cancer", "iris", "seven classes", "rare class", "overlapping")
PIXELS = {"mnist": 2000, "fashion_mnist": 2000, "cifar10": 2000}
SCRATCH = {"mnist": 2000, "fashion_mnist": 2500, "cifar10": 4000}
TEXTS = ("youtube", "sms", "semeval")
# Numbers are judged out of fold by the same heads as features of photographs.
HEADS = {
    "network": "head",
    "folds": 5,
    "repeats": 2,
    "learning_rate": 0.01,
    "weight_decay": 0.015,
    "epochs": 30,
    "milestones": (22,),
}
WEAK_EPOCHS, SCRATCH_EPOCHS = 2, 15
FIXED_SEED = 5  # of the choice of samples
BINS, CHECKS = 10, 200
MAX_ERROR = 0.15


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where data are; None leaves them out."""

    root: Path | None = None
    photos: Path | None = None
    food: Path | None = None
    texts: Path | None = None
    cifar10n: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One training.

    Args:
        data: Name of the data.
        kind: "features", or "scratch" for images.
        noise: Noise as `tnlpad` writes it, "human" or "rules".
        seed: Random seed of noise and training.
        settings: Settings other than the defaults.
    """

    data: str
    kind: str
    noise: str
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def random(self) -> bool:
        return self.noise == "none" or self.noise.startswith("symmetric")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in Places.__dataclass_fields__:
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[5, 6])
    parser.add_argument("--only", nargs="+", help="names of data")
    parser.add_argument("--log", type=Path, help="a line for each training; those in it are not repeated")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    places = Places(**{name: getattr(options, name) for name in Places.__dataclass_fields__})
    began = time.perf_counter()
    done = _read(options.log)
    found = []
    for cell in cells(places, options.seeds):
        if options.only and cell.data not in options.only:
            continue
        key = json.dumps(asdict(cell), sort_keys=True)
        if key not in done:
            done[key] = {"cell": asdict(cell), **measured(cell, places), "random": cell.random}
            if options.log is not None:
                with options.log.open("a") as file:
                    file.write(json.dumps(done[key]) + "\n")
        found.append(done[key])
        print(line(found[-1]), flush=True)
    if not found:
        parser.error("no data: see --only")
    totals = summary(found)
    for name, value in totals.items():
        print(f"{name}: {value if value is None else round(value, 4)}")
    record = {"benchmark": "rates", "machine": machine("cpu"), "versions": versions()}
    leave(record | {"seconds": time.perf_counter() - began, "summary": totals, "cells": found}, options.save)


def cells(places: Places, seeds: Sequence[int]) -> Iterator[Cell]:
    for seed in seeds:
        for data, kind, noise, settings in _plan(places):
            yield Cell(data=data, kind=kind, noise=noise, seed=seed, settings=settings)


def _plan(places: Places) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    weak = {"epochs": WEAK_EPOCHS}
    every: list[tuple[str, str, Sequence[str], dict[str, Any]]] = []
    every += [(name, "features", RANDOM, {}) for name in TABLES]
    every += [("digits", "features", CLASSES, {}), ("digits", "features", ("none", "symmetric:0.3"), weak)]
    every += [(f"nothing, {name}", "features", ("none",), {}) for name in ("two classes", "ten classes")]
    if places.photos is not None:
        every += [("photos", "features", (*RANDOM, *CLASSES), {}), ("photos", "features", ("symmetric:0.3",), weak)]
    if places.food is not None:
        every += [("food", "features", ("none", "symmetric:0.2", "symmetric:0.4"), {})]
    if places.root is not None:
        every += [(name, "features", ("none", "symmetric:0.2", "symmetric:0.4", "pairflip:0.4"), {}) for name in PIXELS]
        every += [(name, "scratch", ("none", "symmetric:0.3", *CLASSES), {}) for name in SCRATCH]
    if places.root is not None and places.cifar10n is not None:
        every += [("cifar10", kind, ("human",), {}) for kind in ("features", "scratch")]
    if places.texts is not None:
        every += [(name, "features", ("rules", "symmetric:0.2"), {}) for name in TEXTS]
    for data, kind, noises, settings in every:
        for noise in noises:
            yield data, kind, noise, settings


def measured(cell: Cell, places: Places) -> dict[str, Any]:
    """Train on the cell by the recipe for own data, and compare with the truth."""
    samples, clean, given = content(cell.data, cell.kind, places)
    if cell.noise == "none":
        given = clean
    elif cell.noise not in ("human", "rules"):
        classes = int(clean.max()) + 1
        noise = parse_noise(cell.noise)
        given = make_noisy_labels(noise, dataset=cell.data, labels=clean, num_classes=classes, seed=cell.seed).given
    settings = {**(HEADS if cell.kind == "features" else {"epochs": SCRATCH_EPOCHS}), **cell.settings}
    began = time.perf_counter()
    result = tnlpad.fit(samples, given, seed=cell.seed, settings=settings, device="cpu")
    seconds = time.perf_counter() - began
    ranking, index = result.run.ranking, result.run.scores.columns["index"]
    wrong = (given != clean)[index]
    estimate = ranking.estimate
    low, high = estimate.noise_rate_interval
    return {
        "samples": len(wrong),
        "seconds": seconds,
        "folds": result.run.scores.facts.get("folds"),
        "wrong": float(wrong.mean()),
        "withheld": result.caution is not None,
        "estimate": estimate.noise_rate,
        "interval": [low, high],
        "covered": bool(low <= wrong.mean() <= high),
        "suspects": ranking.suspects,
        "wrong_suspects": int(wrong[ranking.order[: ranking.suspects]].sum()),
        **_order(wrong, ranking.score),
        "calibration_error": calibration_error(ranking.confidence, wrong),
        "after_audit": _after_audit(ranking.confidence, wrong, given[index], cell.seed),
    }


def calibration_error(confidence: Floats, wrong: NDArray[np.bool_]) -> float:
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, weights=confidence - wrong, minlength=BINS)
    return float(np.abs(gaps).sum() / len(wrong))


def _order(wrong: NDArray[np.bool_], score: Floats) -> dict[str, float | None]:
    from sklearn.metrics import average_precision_score, roc_auc_score

    if not wrong.any():
        return {"auroc": None, "average_precision": None}
    found = {"auroc": roc_auc_score(wrong, score), "average_precision": average_precision_score(wrong, score)}
    return {name: float(value) for name, value in found.items()}


def _after_audit(confidence: Floats, wrong: NDArray[np.bool_], given: Labels, seed: int) -> float | None:
    """Return the calibration error after an audit; None where it would check more than half of the labels."""
    if len(wrong) < 2 * CHECKS:
        return None
    drawn = draw(CHECKS, given, seed=seed).rows
    return calibration_error(recalibrated(confidence, drawn, wrong[drawn]), wrong)


@cache
def content(name: str, kind: str, places: Places) -> tuple[Any, Labels, Labels]:
    """Return samples, right labels, and labels given by people or rules, which are the right ones for other data."""
    generator = np.random.default_rng(FIXED_SEED)
    if name in ("mnist", "fashion_mnist", "cifar10"):
        images, labels = small_images(name, places.root)
        chosen = generator.permutation(len(labels))[: (PIXELS if kind == "features" else SCRATCH)[name]]
        samples = images[chosen] if kind == "scratch" else images[chosen].reshape(len(chosen), -1).astype(np.float32)
        given = labels
        if name == "cifar10" and places.cifar10n is not None:
            given = np.load(places.cifar10n)["worse"].astype(np.int64)
        return samples, labels[chosen], given[chosen]
    if name == "photos":
        assert places.photos is not None
        return _photographs(sorted((places.photos / "train").glob("*/*.jpg")))
    if name == "food":
        assert places.food is not None
        listed = (places.food / "meta" / "train.txt").read_text().split()
        files = [places.food / "images" / f"{each}.jpg" for each in listed]
        return _photographs([file for file in files if file.exists()])
    if name in TEXTS:
        assert places.texts is not None
        return _texts(places.texts, name)
    if name in ("digits", "iris"):
        from sklearn import datasets

        numbers, labels = getattr(datasets, f"load_{name}")(return_X_y=True)
        return numbers.astype(np.float32), labels.astype(np.int64), labels
    samples, labels = rows(name, generator)
    return samples, labels, labels


def _photographs(files: Sequence[Path]) -> tuple[Any, Labels, Labels]:
    """Return features of photographs that lie in a folder for each class."""
    from tnlpad.features.backbone import lite
    from tnlpad.features.cache import default_cache
    from tnlpad.features.extract import extract

    classes = sorted({file.parent.name for file in files})
    labels = np.array([classes.index(file.parent.name) for file in files])
    return extract([str(file) for file in files], lite(128), cache=default_cache()), labels, labels


def _texts(folder: Path, name: str) -> tuple[Any, Labels, Labels]:
    from tnlpad.features.text import TextEncoder

    with (folder / f"{name}_train.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    with (folder / f"{name}_truth.csv").open(newline="") as file:
        truth = [row[0] for row in csv.reader(file)][1:]
    texts, given = [row["text"] for row in table], [row["label"] for row in table]
    classes = sorted({*truth, *given})
    numbers = [np.array([classes.index(each) for each in labels]) for labels in (truth, given)]
    return TextEncoder.fit(texts).transform(texts), *numbers


def line(found: Mapping[str, Any]) -> str:
    cell, (low, high) = found["cell"], found["interval"]
    rate = f"{found['estimate']:.3f} ({low:.3f} to {high:.3f})"
    return (
        f"{cell['data']:15} {cell['kind']:8} {cell['noise']:13} seed {cell['seed']} "
        f"{'weak' if cell['settings'] else '':4} wrong {found['wrong']:.3f}  "
        f"{'withheld ' if found['withheld'] else ''}{rate}  "
        f"{'' if found['covered'] else 'outside  '}auroc {found['auroc'] or 0:.3f}  "
        f"calibration error {found['calibration_error']:.3f}, audited {found['after_audit'] or 0:.3f}  "
        f"{found['seconds']:.0f} s"
    )


def summary(found: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return the numbers that the design asks for."""
    random = [each for each in found if each["random"]]
    rated = [each for each in random if not each["withheld"]]
    errors = [abs(each["estimate"] - each["wrong"]) for each in rated]
    result: dict[str, float | None] = {
        "trainings": len(found),
        "random_noise": len(random),
        "random_noise_with_a_rate": len(rated),
        "covered": mean(each["covered"] for each in rated) if rated else None,
        "median_error": median(errors) if errors else None,
        "largest_error": max(errors, default=None),
        "rates_off_by_more_than_15_points": sum(error > MAX_ERROR for error in errors),
    }
    for kind in ("features", "scratch"):
        these = [each for each in found if each["cell"]["kind"] == kind and not each["withheld"]]
        for name, chosen in (("", these), ("_random", [each for each in these if each["random"]])):
            values = [each["calibration_error"] for each in chosen]
            result[f"median_calibration_error_{kind}{name}"] = median(values) if values else None
    audited = [each for each in found if each["after_audit"] is not None]
    better = [each["after_audit"] < each["calibration_error"] for each in audited]
    result["lower_after_an_audit"] = mean(better) if better else None
    return result


def _read(path: Path | None) -> dict[str, Any]:
    if path is None or not path.exists():
        return {}
    done = [json.loads(text) for text in path.read_text().splitlines()]
    return {json.dumps(each["cell"], sort_keys=True): each for each in done}


if __name__ == "__main__":
    main()
