"""Trainings for `benchmarks/suspects.py`, kept in a folder: one machine can train, and another one compare.

A cell is a dataset with a noise and a seed. Each has a folder:

    cell.json        its description
    clean.npy        the labels before the noise
    ours/            the scores of one training with TNLPAD, as a run writes them
    plain/           the scores of one training without it
    fold-K.npz       out-of-sample probabilities of plain training, for a fifth of the samples

Files are written atomically, and existing ones are not made again, so a killed benchmark resumes.
"""

import json
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.machine import machine, versions
from tnlpad.atomic_files import replacing, write_by_rename
from tnlpad.methods import Method
from tnlpad.noise.spec import parse_noise
from tnlpad.records.scores import SCORES_FILE, SampleScores, read_scores, write_scores
from tnlpad.records.store import RunFolder
from tnlpad.runs.config import RunConfig, configure
from tnlpad.runs.prepare import Data, prepare_data, prepare_loader, prepare_method, prepare_sets, prepare_statistics
from tnlpad.training.loop import Schedule, Trained, train
from tnlpad.training.measure import outputs
from tnlpad.training.sample_scores import SampleStatistics
from tnlpad.types import Split

FOLDS = 5
TRAININGS = {"ours": "tnlpad", "plain": "standard", "folds": "standard"}  # by which method
CELL_FILE, CLEAN_FILE = "cell.json", "clean.npy"
NETWORKS = {"fashion_mnist": "lenet"}  # the paper's ResNet-18 is none for a CPU


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The data of a cell.

    Args:
        dataset, noise, seed: As on the command line.
        samples: How many of the training images; None for all.
        epochs: None for those of the recipe.
        device: Where the trainings are made.
    """

    dataset: str
    noise: str
    seed: int
    samples: int | None
    epochs: int | None
    device: str

    @property
    def name(self) -> str:
        return f"{self.dataset}_{parse_noise(self.noise).name}_seed{self.seed}"

    def config(self, method: str) -> RunConfig:
        settings: dict[str, Any] = {}
        if self.epochs is not None:
            # The recipe's epochs at which the learning rate drops are for its own number of them.
            drops = {self.epochs * 3 // 5, self.epochs * 4 // 5} - {0}
            settings |= {"epochs": self.epochs, "milestones": tuple(sorted(drops))}
        network = NETWORKS.get(self.dataset)
        return configure(
            self.dataset,
            noise=self.noise,
            method=method,
            network=network,
            seed=self.seed,
            device=self.device,
            settings=settings,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Kept:
    """A cell's trainings as they were read; None where they are not there, or not all five."""

    about: Mapping[str, object]
    clean: NDArray[np.int64]
    ours: SampleScores
    plain: SampleScores | None
    out_of_sample: NDArray[np.float64] | None


def make(
    cell: Cell,
    folder: Path,
    *,
    root: Path | None,
    trainings: Collection[str] = tuple(TRAININGS),
    folds: Collection[int] = range(FOLDS),
) -> None:
    """Train whatever is missing of these trainings of a cell, and of these folds."""
    own = folder / cell.name
    own.mkdir(parents=True, exist_ok=True)
    _require_same(cell, own)
    device = torch.device(cell.device)
    data = prepare_data(cell.config("tnlpad"), root, device)
    if cell.samples is not None:
        data = part_of(data, cell.samples, cell.seed)
    index = np.sort(np.concatenate([data.parts.train, data.parts.validation]))
    with replacing(own / CLEAN_FILE) as file:
        np.save(file, data.noisy.clean[index])
    for name in ("ours", "plain"):
        if name in trainings and not (own / name / SCORES_FILE).exists():
            (own / name).mkdir(exist_ok=True)
            _forget_compiled_code(device)
            with _told(f"{cell.name}: {name}"):
                write_scores(own / name, _scores(cell.config(TRAININGS[name]), data, index, device))
    for number, fold in enumerate(_folds(len(index), cell.seed)):
        path = own / f"fold-{number}.npz"
        if "folds" in trainings and number in folds and not path.exists():
            with _told(f"{cell.name}: fold {number + 1} of {FOLDS}"):
                found = _out_of_sample(cell, data, index, fold, device)
            with replacing(path) as file:
                np.savez(file, rows=fold, probabilities=found)


def read(folder: Path) -> Iterator[Kept]:
    """The cells of a folder that have at least our training, those of the same data and noise side by side."""
    for own in sorted(path.parent.parent for path in folder.glob(f"*/ours/{SCORES_FILE}")):
        clean = np.load(own / CLEAN_FILE)
        folds = sorted(own.glob("fold-*.npz"))
        found = np.zeros((0, 0))
        for path in folds:
            fold = np.load(path)
            found = found if found.size else np.zeros((len(clean), fold["probabilities"].shape[1]))
            found[fold["rows"]] = fold["probabilities"]
        yield Kept(
            about=json.loads((own / CELL_FILE).read_text()),
            clean=clean,
            ours=read_scores(own / "ours"),
            plain=read_scores(own / "plain") if (own / "plain" / SCORES_FILE).exists() else None,
            out_of_sample=found if len(folds) == FOLDS else None,
        )


def _require_same(cell: Cell, own: Path) -> None:
    """Trainings of one folder belong to one cell; the machine may be another one."""
    path, plain = own / CELL_FILE, asdict(cell)
    if path.exists():
        before = json.loads(path.read_text())
        if wrong := [name for name, value in plain.items() if before[name] != value]:
            raise SystemExit(f"{own} has trainings with another {', '.join(wrong)}. Name another folder.")
        return
    about = plain | {"machine": machine(cell.device), "versions": versions()}
    write_by_rename(path, json.dumps(about, indent=1).encode())


class _told:
    """Says what a training was, and how long it took."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        self.began, self.worked = time.perf_counter(), time.process_time()

    def __exit__(self, *problem: object) -> None:
        if problem[0] is None:
            took, worked = time.perf_counter() - self.began, time.process_time() - self.worked
            print(f"{self.what}: {took:.0f} s, {worked:.0f} s of CPU", flush=True)


def part_of(data: Data, size: int, seed: int) -> Data:
    """Some of the training images, a tenth of them held out; of the test images few, since nothing here needs them."""
    rows = np.random.default_rng(seed).permutation(len(data.given))[:size]
    parts = Split(train=np.sort(rows[size // 10 :]), validation=np.sort(rows[: size // 10]))
    return replace(data, parts=parts, test=data.test[:200], test_labels=data.test_labels[:200], correct=None)


def _scores(config: RunConfig, data: Data, index: NDArray[np.int64], device: torch.device) -> SampleScores:
    """Train, and return the per-sample statistics, taken after every epoch."""
    statistics = prepare_statistics(config, data, device, 1)
    _trained(config, data, device, statistics=statistics)
    found = statistics.result()
    held_out = np.isin(index, data.parts.validation)
    columns = {"index": index, "part": np.where(held_out, "validation", "train"), "given": data.noisy.given[index]}
    return SampleScores(
        columns={**columns, **found.numbers},
        probabilities=found.probabilities,
        class_names=data.class_names,
        views=found.views,
        facts={"epochs_until_chosen": found.epochs[0], "chosen_epoch": found.chosen_epoch, "epochs": config.epochs},
    )


def _folds(size: int, seed: int) -> list[NDArray[np.int64]]:
    return np.array_split(np.random.default_rng(seed).permutation(size), FOLDS)


def _out_of_sample(
    cell: Cell, data: Data, index: NDArray[np.int64], fold: NDArray[np.int64], device: torch.device
) -> NDArray[np.float64]:
    """Probabilities of a fold by the chosen epoch of a plain training on the others, a tenth of which chooses it."""
    config = cell.config("standard")
    rest = np.random.default_rng(cell.seed + 1).permutation(np.setdiff1d(np.arange(len(index)), fold))
    tenth = len(rest) // 10
    parts = Split(train=np.sort(index[rest[tenth:]]), validation=np.sort(index[rest[:tenth]]))
    of_fold = replace(data, parts=parts)
    method, result = _trained(config, of_fold, device)
    images_at = prepare_sets(config, of_fold, device).validation.images_at
    with method.judged["w"]() as network:
        network.load_state_dict(result.best)
        places = torch.from_numpy(index[fold]).to(device)
        logits = outputs(network, images_at, places, bf16=config.precision == "bfloat16")
    probabilities: NDArray[np.float64] = logits.double().softmax(1).cpu().numpy()
    return probabilities


def _trained(
    config: RunConfig, data: Data, device: torch.device, *, statistics: SampleStatistics | None = None
) -> tuple[Method, Trained]:
    """A training to its end, of which no file is kept."""
    loader, streams = prepare_loader(config, data, device)
    method = prepare_method(config, data, streams["method"], device)
    schedule = Schedule(
        epochs=config.epochs,
        learning_rate=config.learning_rate,
        milestones=config.milestones,
        decay=config.decay,
        decay_takes_effect=config.decay_takes_effect,
    )
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng():
        torch.manual_seed(config.seed)
        result = train(
            method,
            loader,
            prepare_sets(config, data, device),
            schedule,
            folder=RunFolder(Path(folder)),
            streams=streams,
            device=device,
            bf16=config.precision == "bfloat16",
            compiled=config.compiled,
            checkpoint_every_seconds=float("inf"),
            statistics=statistics,
        )
    return method, result


def _forget_compiled_code(device: torch.device) -> None:
    """Another method's steps are other code, and torch compiles a function only for so many kinds of arguments."""
    if device.type == "cuda":
        torch.compiler.reset()
