"""Choice of the default c2 and learning rates for own data, by noisy validation accuracy alone.

Each cell is a dataset with one kind of label noise. A candidate is trained by the recipe for own data with another c2
or learning rate, and judged by its accuracy on validation samples whose labels are as noisy as those of training. The
accuracy on clean test labels is recorded as well and chooses nothing.

Then rules for c2 are compared on the same numbers: a constant; a straight line in the estimated noise rate; the release
time, c2 = −log‖ḡ(t*)‖ / log t*, where ḡ is the averaged gradient of plain training and t* its best validation epoch;
and that times a factor that grows with the estimated noise rate. The parameters of a rule are fitted on the other
datasets. Between candidates, the accuracy is interpolated along log c2.

The learning rate of a network is chosen first, at c2 = 1: the smallest one that is not significantly worse than the
best. Images other than digits are halved in size and trained for fewer epochs than the recipe has for so few samples,
so that one core trains everything in less than an hour.

    python -m benchmarks.own_defaults --root FOLDER [--runs FOLDER] [--data digits wine ...] [--seeds 1 2]
                                      [--noise symmetric:0.2 ...] [--save record.json]
"""

import argparse
import math
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.machine import leave, machine, versions
from tnlpad.data import load
from tnlpad.data.own import OwnDataset, open_dataset
from tnlpad.integrations.sklearn import TnlpadClassifier
from tnlpad.noise import make_noisy_labels, parse_noise
from tnlpad.records.scores import read_scores
from tnlpad.runs.config import configure
from tnlpad.runs.run import run, run_folder
from tnlpad.suspects.ranking import rank

C2 = (0.3, 0.6, 1.0, 2.0)
MIDDLE_C2 = 1.0
LEARNING_RATES = {
    "small_cnn": (0.01, 0.03, 0.1),
    "mlp": (0.01, 0.03, 0.1),
    "small_resnet": (0.05, 0.1, 0.2),
    "classifier": (0.005, 0.02, 0.05),
}
NOISES = ("symmetric:0.2", "symmetric:0.4", "pairflip:0.2", "pairflip:0.4")
NOISES_OF_IMAGES = ("pairflip:0.4",)  # of `small_resnet`, with one seed: it costs most
SHORTER = {"epochs": 30, "milestones": (22,)}  # for `small_resnet`
# Of training, validation and test.
SIZES = {
    "digits": (1000, 400, 397),
    "mnist": (1000, 500, 300),
    "fashion_mnist": (1000, 500, 300),
    "cifar10": (1000, 500, 300),
    "breast_cancer": (300, 135, 134),
    "wine": (100, 39, 39),
    "synthetic": (1500, 500, 1000),
}
NETWORKS = {
    "digits": "small_cnn",
    **dict.fromkeys(("mnist", "fashion_mnist", "cifar10"), "small_resnet"),
    **dict.fromkeys(("breast_cancer", "wine", "synthetic"), "mlp"),
}
# What a rule for c2 may have for its numbers.
BASES = (0.3, 0.45, 0.6, 0.8, 1.0, 1.3, 1.6, 2.0)
SLOPES = (-2.0, -1.0, 0.0, 1.0, 2.0, 4.0)
UPPER_BOUND = "best of the four, cell by cell"
Rule = Callable[["Pilot"], float]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A dataset whose labels are wrong in one way."""

    data: str
    noise: str
    seed: int


@dataclass(frozen=True, kw_only=True)
class Pilot:
    """Results of plain training of a cell: its accuracies, and the inputs of a rule for c2."""

    cell: Cell
    validation: float
    test: float
    best_epoch: int
    averaged_gradient: float  # ‖ḡ‖ at the end of that epoch
    noise_estimate: float

    @property
    def release_c2(self) -> float:
        """c2 with which γ is released in the best epoch; in the first one there is nothing to choose."""
        if self.best_epoch == 1:
            return C2[-1]
        return -math.log(self.averaged_gradient) / math.log(self.best_epoch)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One training."""

    cell: Cell
    model: str
    c2: float
    learning_rate: float
    validation: float
    test: float
    epoch: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--runs", type=Path, help="finished trainings are kept there and not repeated")
    parser.add_argument("--data", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--noise", nargs="+", default=list(NOISES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        work = Work(root=options.root, runs=options.runs or Path(scratch) / "runs")
        every = [cell for name in options.data for cell in cells(name, options.noise, options.seeds)]
        pilots, candidates, rates = trained(work, every)
        of_classifier = classifier_candidates(work, [cell for cell in every if NETWORKS[cell.data] == "mlp"])
    curves = c2_curves(candidates, rates)
    choice = chosen(curves, rates, of_classifier)
    rules = compared(curves, pilots)
    print_all(curves, choice, rules)
    record = {
        "benchmark": "own_defaults",
        "machine": machine("cpu"),
        "versions": versions(),
        "seconds": round(time.perf_counter() - began),
        "chosen_by_validation": choice,
        "rules": rules,
        "pilots": [asdict(pilot) | {"release_c2": round(pilot.release_c2, 4)} for pilot in pilots],
        "candidates": [asdict(each) for each in (*candidates, *of_classifier)],
    }
    leave(record, options.save)


@dataclass(frozen=True, kw_only=True)
class Work:
    """Where things lie."""

    root: Path | None
    runs: Path


def cells(name: str, noises: Sequence[str], seeds: Sequence[int]) -> list[Cell]:
    # Of two classes a pair flips as both do.
    different = [noise for noise in noises if name != "breast_cancer" or not noise.startswith("pairflip")]
    if NETWORKS[name] == "small_resnet":
        different, seeds = [noise for noise in different if noise in NOISES_OF_IMAGES], seeds[:1]
    return [Cell(data=name, noise=noise, seed=seed) for noise in different for seed in seeds]


# Data


@cache
def samples(name: str, root: Path | None) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Images or features with clean labels, as many as are needed."""
    from sklearn import datasets

    if NETWORKS[name] == "small_resnet":
        raw = load(name, root, "train")
        count = sum(SIZES[name])
        images = raw.images[:count].astype(np.float32)
        rows, channels, height, width = images.shape
        smaller = images.reshape(rows, channels, height // 2, 2, width // 2, 2).mean((3, 5))
        return smaller.round().astype(np.uint8), raw.labels[:count]
    if name == "digits":
        images, labels = datasets.load_digits(return_X_y=True)
        return (images.reshape(-1, 8, 8) * (255 / 16)).round().astype(np.uint8), labels
    if name == "synthetic":  # seven classes of unlike sizes in 54 columns, as covtype has them
        return datasets.make_classification(
            n_samples=sum(SIZES[name]),
            n_features=54,
            n_informative=15,
            n_redundant=10,
            n_classes=7,
            n_clusters_per_class=2,
            weights=[0.35, 0.3, 0.1, 0.05, 0.05, 0.05, 0.1],
            random_state=0,
        )
    return {"breast_cancer": datasets.load_breast_cancer, "wine": datasets.load_wine}[name](return_X_y=True)


def parted(cell: Cell, root: Path | None) -> dict[str, NDArray[Any]]:
    """Training and validation with wrong labels, and a clean test part: arrays as an .npz file has them."""
    content, clean = samples(cell.data, root)
    order = np.random.default_rng(cell.seed).permutation(len(clean))[: sum(SIZES[cell.data])]
    content, clean = content[order], clean[order]
    noisy = make_noisy_labels(
        parse_noise(cell.noise),
        dataset=cell.data,
        labels=clean,
        num_classes=int(clean.max()) + 1,
        seed=cell.seed,
    )
    first, second = np.cumsum(SIZES[cell.data])[:2]
    return {
        "x_train": content[:first],
        "y_train": noisy.given[:first],
        "x_validation": content[first:second],
        "y_validation": noisy.given[first:second],
        "x_test": content[second:],
        "y_test": clean[second:],
    }


@cache
def opened(cell: Cell, root: Path | None) -> OwnDataset:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, **parted(cell, root))
        return open_dataset(path)


# Trainings


def trained(work: Work, every: Sequence[Cell]) -> tuple[list[Pilot], list[Candidate], dict[str, float]]:
    """Every candidate, and of each network the learning rate that validation prefers."""
    pilots, candidates, rates = [], [], {}
    for network in dict.fromkeys(NETWORKS[cell.data] for cell in every):
        of_network = [cell for cell in every if NETWORKS[cell.data] == network]
        pilots += [piloted(work, cell) for cell in of_network]
        grid = [candidate(work, cell, MIDDLE_C2, rate) for cell, rate in product(of_network, LEARNING_RATES[network])]
        rates[network] = best_rate(grid)
        others = [c2 for c2 in C2 if c2 != MIDDLE_C2]
        candidates += [*grid, *(candidate(work, cell, c2, rates[network]) for cell, c2 in product(of_network, others))]
    return pilots, candidates, rates


def settings_of(cell: Cell) -> dict[str, Any]:
    return dict(SHORTER) if NETWORKS[cell.data] == "small_resnet" else {}


def candidate(work: Work, cell: Cell, c2: float, learning_rate: float) -> Candidate:
    own = opened(cell, work.root)
    settings = settings_of(cell) | {"c2": c2, "learning_rate": learning_rate}
    folder = run(
        configure(own.shape, seed=cell.seed, settings=settings),
        work.runs,
        own=own,
        checkpoint_every_seconds=math.inf,
    )
    found = folder.summary()["chosen"]
    print(
        f"{cell.data:14} {cell.noise:13} seed {cell.seed}  c2 {c2:3.1f}  lr {learning_rate:5.3f}  "
        f"noisy validation {found['validation_accuracy']:.4f}",
        flush=True,
    )
    return Candidate(
        cell=cell,
        model=NETWORKS[cell.data],
        c2=c2,
        learning_rate=learning_rate,
        validation=found["validation_accuracy"],
        test=found["test_accuracy"],
        epoch=found["epoch"],
    )


def piloted(work: Work, cell: Cell) -> Pilot:
    """Plain training, with the averaged gradient after every epoch, and the noise rate estimated from its scores."""
    own = opened(cell, work.root)
    config = configure(own.shape, method="standard", seed=cell.seed, settings=settings_of(cell))
    norms_file = work.runs / f"{config.run_id}.norms.npy"
    if not run_folder(config, work.runs, own).finished:
        norms_file.unlink(missing_ok=True)
    norms: list[float] = []
    optimizers: list[torch.optim.Optimizer] = []
    folder = run(
        config,
        work.runs,
        own=own,
        checkpoint_every_seconds=math.inf,
        scoring_interval=2,
        on_prepared=lambda method, data, sets: optimizers.extend(method.optimizers),
        on_epoch=lambda record: norms.append(averaged_gradient(optimizers, config.momentum)),
    )
    if not norms_file.exists():
        np.save(norms_file, norms)
    found = folder.summary()["chosen"]
    pilot = Pilot(
        cell=cell,
        validation=found["validation_accuracy"],
        test=found["test_accuracy"],
        best_epoch=found["epoch"],
        averaged_gradient=float(np.load(norms_file)[found["epoch"] - 1]),
        noise_estimate=rank(read_scores(folder.path)).estimate.noise_rate,
    )
    print(
        f"{cell.data:14} {cell.noise:13} seed {cell.seed}  plain training         "
        f"noisy validation {pilot.validation:.4f}  release c2 {pilot.release_c2:.2f}  "
        f"noise estimate {pilot.noise_estimate:.2f}",
        flush=True,
    )
    return pilot


def averaged_gradient(optimizers: Iterable[torch.optim.Optimizer], momentum: float) -> float:
    """‖ḡ‖ with ḡ ← m·ḡ + (1 − m)·g, which SGD's momentum buffer is but for the factor."""
    buffers = [
        optimizer.state[weight]["momentum_buffer"]
        for optimizer in optimizers
        for group in optimizer.param_groups
        for weight in group["params"]
    ]
    squares = sum(float(buffer.double().square().sum()) for buffer in buffers)
    return (1 - momentum) * math.sqrt(squares)


def classifier_candidates(work: Work, tables: Sequence[Cell]) -> list[Candidate]:
    """Return the candidates of the scikit-learn classifier, which holds out validation samples of its own."""
    found = []
    for cell in tables:
        arrays = parted(cell, work.root)
        for c2, rate in product(C2, LEARNING_RATES["classifier"]):
            model = TnlpadClassifier(c2=c2, learning_rate=rate, random_state=cell.seed)
            model.fit(arrays["x_train"], arrays["y_train"])
            found.append(
                Candidate(
                    cell=cell,
                    model="classifier",
                    c2=c2,
                    learning_rate=rate,
                    validation=model.score(arrays["x_validation"], arrays["y_validation"]),
                    test=model.score(arrays["x_test"], arrays["y_test"]),
                    epoch=model.epoch_,
                )
            )
        print(f"{cell.data:14} {cell.noise:13} seed {cell.seed}  classifier", flush=True)
    return found


# What validation prefers


def by_dataset(candidates: Iterable[Candidate], value: Callable[[Candidate], float]) -> float:
    """The mean over datasets of the mean over cells: a dataset with more cells counts no more than another."""
    groups: dict[str, list[float]] = {}
    for each in candidates:
        groups.setdefault(each.cell.data, []).append(value(each))
    return mean(mean(values) for values in groups.values())


def best_rate(grid: Sequence[Candidate]) -> float:
    """The smallest learning rate within two standard errors of the best: larger ones diverge more easily."""
    rates = sorted({each.learning_rate for each in grid})
    of_rate = {rate: {e.cell: e for e in grid if e.learning_rate == rate} for rate in rates}
    best = max(rates, key=lambda rate: by_dataset(of_rate[rate].values(), lambda each: each.validation))

    def not_worse(rate: float) -> bool:
        losses = [each.validation - of_rate[rate][cell].validation for cell, each in of_rate[best].items()]
        error = stdev(losses) / math.sqrt(len(losses)) if len(losses) > 1 else 0.0
        means = (by_dataset(of_rate[each].values(), lambda found: found.validation) for each in (best, rate))
        return next(means) - next(means) <= 2 * error

    return next(rate for rate in rates if not_worse(rate))


Curves = Mapping[Cell, Sequence[Candidate]]


def c2_curves(candidates: Iterable[Candidate], rates: Mapping[str, float]) -> Curves:
    """Return the candidates of every cell at the chosen learning rate, by c2."""
    curves: dict[Cell, list[Candidate]] = {}
    for each in candidates:
        if each.learning_rate == rates[each.model]:
            curves.setdefault(each.cell, []).append(each)
    return {cell: sorted(found, key=lambda each: each.c2) for cell, found in curves.items()}


def chosen(curves: Curves, rates: Mapping[str, float], of_classifier: Sequence[Candidate]) -> dict[str, Any]:
    every = [each for curve in curves.values() for each in curve]
    means = {
        c2: {
            name: by_dataset([e for e in every if e.c2 == c2], lambda e, name=name: getattr(e, name))
            for name in ("validation", "test")
        }
        for c2 in C2
    }
    of_pairs = {
        pair: by_dataset([e for e in of_classifier if (e.c2, e.learning_rate) == pair], lambda e: e.validation)
        for pair in product(C2, LEARNING_RATES["classifier"])
        if of_classifier
    }
    best = max(of_pairs, key=lambda pair: of_pairs[pair]) if of_pairs else None
    return {
        "c2": max(C2, key=lambda c2: means[c2]["validation"]),
        "learning_rates": dict(rates),
        "classifier": {"c2": best[0], "learning_rate": best[1]} if best else None,
        "mean_by_c2": means,
        "mean_by_c2_and_model": {
            model: {
                c2: by_dataset([e for e in every if e.c2 == c2 and e.model == model], lambda e: e.validation)
                for c2 in C2
            }
            for model in rates
        },
    }


# Rules for c2


def at(curve: Sequence[Candidate], c2: float, name: str) -> float:
    """The accuracy that a c2 would have, along log c2 between the candidates."""
    return float(np.interp(np.log(np.clip(c2, C2[0], C2[-1])), np.log(C2), [getattr(each, name) for each in curve]))


FAMILIES: dict[str, list[Rule]] = {
    "constant": [lambda pilot, base=base: base for base in BASES],
    "line in the estimated noise rate": [
        lambda pilot, base=base, slope=slope: base + slope * (pilot.noise_estimate - 0.3)
        for base, slope in product(BASES, SLOPES)
    ],
    "release time": [lambda pilot: pilot.release_c2],
    "release time, scaled by the estimated noise rate": [
        lambda pilot, base=base, slope=slope: pilot.release_c2 * (base + slope * (pilot.noise_estimate - 0.3))
        for base, slope in product(BASES, SLOPES)
    ],
}


def compared(curves: Curves, pilots: Sequence[Pilot]) -> dict[str, dict[str, float]]:
    """Return the mean accuracies of each family of rules; a rule is chosen on the validation of the other datasets."""
    by_cell = {pilot.cell: pilot for pilot in pilots}
    names = list(dict.fromkeys(cell.data for cell in curves))
    if len(names) < 2:
        return {}

    def of_data(rule: Rule, data: str, name: str) -> float:
        return mean(at(curve, rule(by_cell[cell]), name) for cell, curve in curves.items() if cell.data == data)

    def best_elsewhere(rules: Sequence[Rule], left_out: str) -> Rule:
        others = [name for name in names if name != left_out]
        return max(rules, key=lambda rule: mean(of_data(rule, name, "validation") for name in others))

    found: dict[str, dict[str, list[float]]] = {}
    for family, rules in FAMILIES.items():
        fitted = {data: best_elsewhere(rules, data) for data in names}
        found[family] = {name: [of_data(fitted[data], data, name) for data in names] for name in ("validation", "test")}
    found[UPPER_BOUND] = {
        name: [
            mean(
                getattr(max(curve, key=lambda each: each.validation), name)
                for cell, curve in curves.items()
                if cell.data == data
            )
            for data in names
        ]
        for name in ("validation", "test")
    }
    constant = found["constant"]["validation"]
    return {family: summarised(values, constant) for family, values in found.items()}


def summarised(values: Mapping[str, Sequence[float]], constant: Sequence[float]) -> dict[str, float]:
    """Means over datasets, and how far validation lies above the constant's with the standard error of that."""
    gains = [ours - theirs for ours, theirs in zip(values["validation"], constant, strict=True)]
    return {
        "validation": mean(values["validation"]),
        "test": mean(values["test"]),
        "gain": mean(gains),
        "gain_error": stdev(gains) / math.sqrt(len(gains)),
    }


def print_all(curves: Curves, choice: Mapping[str, Any], rules: Mapping[str, Mapping[str, float]]) -> None:
    print(f"\nNoisy validation accuracy by c2, {len(curves)} cells")
    for model, means in choice["mean_by_c2_and_model"].items():
        print(f"  {model:14}" + "".join(f"  {c2:3.1f}: {value:.4f}" for c2, value in means.items()))
    print(f"  chosen: c2 = {choice['c2']}, learning rates {choice['learning_rates']}, {choice['classifier']}")
    for name, means in rules.items():
        print(f"  {name:50} noisy validation {means['validation']:.4f}  (test {means['test']:.4f})")


if __name__ == "__main__":
    main()
