"""Does the list of suspects find the wrong labels? AUROC and average precision, ours from one training.

Against it stand every single score that the training leaves, the area under the margin of plain training (one training,
too), and cleanlab from five: out-of-sample probabilities of the same network in five folds, each fold's epoch chosen on
a noisy tenth of its own training samples, as ours is. Same data, same wrong labels, same network, same epochs.

The estimated noise rate, the transition matrix, the confidence and the suggested labels are compared with the truth.

    python -m benchmarks.suspects [--data digits mnist] [--noise symmetric:0.4 ...] [--seeds 2 3] [--samples 3000]
                                  [--epochs 25] [--no-cleanlab] [--root FOLDER] [--save record.json]
    python -m benchmarks.suspects --scale [--samples 200000] [--classes 1000]

Seed 1 was used to choose the default score, so the seeds to report are others.
"""

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.machine import leave, machine, versions
from tnlpad.experiments.config import RunConfig, configure
from tnlpad.experiments.prepare import (
    Data,
    prepare_census,
    prepare_data,
    prepare_loader,
    prepare_method,
    prepare_sets,
)
from tnlpad.methods import Method
from tnlpad.records.scores import SampleScores, read_names, read_scores, write_scores
from tnlpad.records.store import RunFolder
from tnlpad.suspects.export import write_csv, write_for_cleanlab, write_label_studio, write_parquet
from tnlpad.suspects.listing import absorbed, suspects
from tnlpad.suspects.ranking import rank
from tnlpad.training.census import Census, Counted
from tnlpad.training.evaluate import evaluation_mode
from tnlpad.training.loop import Schedule, Trained, train
from tnlpad.types import Split

CPU = torch.device("cpu")
FOLDS = 5
NOISES = ("symmetric:0.4", "pairflip:0.4", "instance:0.4", "symmetric:0.2")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["digits", "mnist"])
    parser.add_argument("--noise", nargs="+", default=list(NOISES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[2, 3])
    parser.add_argument("--samples", type=int, help="images of datasets other than digits; 3000 by default")
    parser.add_argument("--epochs", type=int, default=25, help="for datasets other than digits")
    parser.add_argument("--no-cleanlab", action="store_true", help="leave out the five trainings")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--scale", action="store_true", help="how long, and how much memory, for many samples")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    if options.scale:
        scale(options.samples or 200_000, options.classes, options.save)
        return
    cells = []
    for dataset in options.data:
        for noise in options.noise:
            for seed in options.seeds:
                began = time.perf_counter()
                cell = problem(dataset, noise, seed, options)
                cells.append(cell)
                print_cell(cell, time.perf_counter() - began)
    print_means(cells)
    leave({"benchmark": "suspects", "machine": machine("cpu"), "versions": versions(), "cells": cells}, options.save)


def problem(dataset: str, noise: str, seed: int, options: argparse.Namespace) -> dict[str, object]:
    """All scores of one dataset with one noise."""
    settings = {} if dataset == "digits" else {"epochs": options.epochs, "milestones": late(options.epochs)}

    def config(method: str) -> RunConfig:
        return configure(dataset, noise=noise, method=method, seed=seed, settings=settings)

    data = prepare_data(config("tnlpad"), options.root, CPU)
    if dataset != "digits":
        data = part_of(data, options.samples or 3000, seed)
    index = np.sort(np.concatenate([data.parts.train, data.parts.validation]))
    given, clean = data.noisy.given[index], data.noisy.clean[index]
    ours = as_scores(data, index, counted(config("tnlpad"), data))
    ranking = rank(ours)
    found = {"default": ranking.score, **single_scores(ours, ranking.evidence.doubt)}
    plain = counted(config("standard"), data)
    found["AUM, plain training"] = -plain.numbers[f"margin_{plain.views[0]}_to_end"]
    if not options.no_cleanlab:
        found |= cleanlab_scores(config("standard"), data, index, given, seed)
    wrong = given != clean
    true = np.zeros((data.num_classes, data.num_classes))
    np.add.at(true, (clean, given), 1)
    true /= np.maximum(true.sum(1, keepdims=True), 1)
    return {
        "data": dataset,
        "noise": noise,
        "seed": seed,
        "samples": len(index),
        "scores": {name: quality(wrong, score) for name, score in found.items()},
        "held out against trained on": across(wrong, ranking.score, ranking.evidence.held_out),
        "noise_rate": {
            "true": float(wrong.mean()),
            "estimate": ranking.estimate.noise_rate,
            "interval": ranking.estimate.noise_rate_interval,
            "from": ranking.estimate.samples,
        },
        "transition_mean_error": float(np.abs(ranking.estimate.transition - true).mean()),
        "transition_coverage": coverage(ranking.estimate.transition_intervals, true),
        "calibration_error": calibration_error(wrong, ranking.confidence),
        "suggestion_right": float((ranking.evidence.suggested == clean)[wrong].mean()) if wrong.any() else None,
    }


def late(epochs: int) -> str:
    """Where the learning rate drops: in the last two fifths."""
    return f"{epochs * 3 // 5},{epochs * 4 // 5}"


def part_of(data: Data, size: int, seed: int) -> Data:
    """Some of the training images, a tenth of them held out; of the test images few, since nothing here needs them."""
    generator = np.random.default_rng(seed)
    rows = generator.permutation(len(data.given))[:size]
    held_out, kept = np.sort(rows[: size // 10]), np.sort(rows[size // 10 :])
    return replace(data, parts=Split(train=kept, validation=held_out), **few_tests(data), correct=None)


def few_tests(data: Data) -> dict[str, object]:
    return {"test": data.test[:200], "test_labels": data.test_labels[:200]}


def counted(config: RunConfig, data: Data) -> Counted:
    """What a training's census finds, taken after every epoch."""
    census = prepare_census(config, data, CPU, 1)
    trained(config, data, census=census)
    return census.counted()


def trained(config: RunConfig, data: Data, *, census: Census | None = None) -> tuple[Method, Trained]:
    """A training to its end."""
    loader, streams = prepare_loader(config, data, CPU)
    method = prepare_method(config, data, streams["method"], CPU)
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
            prepare_sets(config, data, CPU),
            schedule,
            folder=RunFolder(Path(folder)),
            streams=streams,
            device=CPU,
            checkpoint_every_seconds=float("inf"),
            census=census,
        )
    return method, result


def as_scores(data: Data, index: NDArray[np.int64], found: Counted) -> SampleScores:
    held_out = np.isin(index, data.parts.validation)
    columns = {"index": index, "part": np.where(held_out, "validation", "train"), "given": data.noisy.given[index]}
    return SampleScores(
        columns={**columns, **found.numbers},
        probabilities=found.probabilities,
        class_names=data.class_names,
        views=found.views,
        facts={"epochs_until_chosen": found.epochs[0]},
    )


def single_scores(scores: SampleScores, doubt: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Each alone, higher for labels that look wrong; until the chosen epoch where nothing else is said."""
    numbers = scores.columns
    return {
        "doubt of σ": doubt,
        "margin of σ": -numbers["margin_sigma"],
        "margin of σ, to the end": -numbers["margin_sigma_to_end"],
        "margin of w, to the end": -numbers["margin_w_to_end"],
        "loss of σ": numbers["loss_sigma"],
        "loss of σ, to the end": numbers["loss_sigma_to_end"],
        "loss of σ, chosen epoch": numbers["loss_chosen"],
        "disagreement of σ": 1 - numbers["agreed_sigma"],
        "forgetting of σ, to the end": numbers["forgotten_sigma_to_end"].astype(float),
        "absorbed by γ": absorbed(numbers, scores.views),
    }


def cleanlab_scores(
    config: RunConfig, data: Data, index: NDArray[np.int64], given: NDArray[np.int64], seed: int
) -> dict[str, NDArray[np.float64]]:
    """From the out-of-sample probabilities of five trainings."""
    try:
        from cleanlab.rank import get_label_quality_scores
    except ImportError:
        sys.exit("cleanlab is missing: pip install 'tnlpad[compare]', or give --no-cleanlab.")
    probabilities = np.zeros((len(index), data.num_classes))
    folds = np.array_split(np.random.default_rng(seed).permutation(len(index)), FOLDS)
    for fold in folds:
        rest = np.setdiff1d(np.arange(len(index)), fold)
        rest = np.random.default_rng(seed + 1).permutation(rest)
        tenth = len(rest) // 10
        parts = Split(train=np.sort(index[rest[tenth:]]), validation=np.sort(index[rest[:tenth]]))
        of_fold = replace(data, parts=parts)
        method, result = trained(config, of_fold)
        images_at = prepare_sets(config, of_fold, CPU).validation.images_at
        with torch.no_grad(), method.judged["w"]() as network, evaluation_mode(network):
            network.load_state_dict(result.best)  # of the chosen epoch
            logits = network(images_at(torch.from_numpy(index[fold])))
        probabilities[fold] = logits.double().softmax(1).numpy()
    return {
        f"cleanlab, five trainings, {method.replace('_', ' ')}": -get_label_quality_scores(
            given, probabilities, method=method
        )
        for method in ("self_confidence", "normalized_margin")
    }


def quality(wrong: NDArray[np.bool_], score: NDArray[np.float64]) -> dict[str, float]:
    from sklearn.metrics import average_precision_score, roc_auc_score

    return {"auroc": float(roc_auc_score(wrong, score)), "ap": float(average_precision_score(wrong, score))}


def across(wrong: NDArray[np.bool_], score: NDArray[np.float64], held_out: NDArray[np.bool_]) -> dict[str, float]:
    """How well wrong labels of one part stand out from right ones of the other: both ways if scores are comparable."""
    from sklearn.metrics import roc_auc_score

    result = {}
    for name, a, b in (("wrong held out", held_out, ~held_out), ("wrong trained on", ~held_out, held_out)):
        rows = (wrong & a) | (~wrong & b)
        result[name] = float(roc_auc_score(wrong[rows], score[rows]))
    return result


def coverage(intervals: NDArray[np.float64] | None, true: NDArray[np.float64]) -> float | None:
    """The share of the matrix' entries that lie within their interval."""
    if intervals is None:
        return None
    return float(((intervals[..., 0] <= true + 0.005) & (true - 0.005 <= intervals[..., 1])).mean())


def calibration_error(wrong: NDArray[np.bool_], confidence: NDArray[np.float64]) -> float:
    """Mean distance between confidence and the share of wrong labels, over tenths of the samples."""
    tenths = np.array_split(np.argsort(confidence, kind="stable"), 10)
    return float(sum(len(rows) * abs(confidence[rows].mean() - wrong[rows].mean()) for rows in tenths) / len(wrong))


def print_cell(cell: Mapping[str, object], seconds: float) -> None:
    print(f"\n{cell['data']}, {cell['noise']}, seed {cell['seed']}: {cell['samples']} samples, {seconds:.0f} s")
    for name, numbers in cell["scores"].items():
        print(f"  {name:45} AUROC {numbers['auroc']:.4f}  AP {numbers['ap']:.4f}")
    rate = cell["noise_rate"]
    low, high = rate["interval"]
    estimated = f"{rate['estimate']:.3f} ({low:.3f} to {high:.3f}) from {rate['from']} samples"
    print(f"  noise rate {rate['true']:.3f}, estimated {estimated}")
    print(
        f"  transition: mean error {cell['transition_mean_error']:.4f}, covered {cell['transition_coverage']:.2f}; "
        f"calibration error {cell['calibration_error']:.3f}; suggestions right {cell['suggestion_right']:.3f}; "
        f"across parts {[round(value, 4) for value in cell['held out against trained on'].values()]}",
        flush=True,
    )


def print_means(cells: Sequence[Mapping[str, object]]) -> None:
    groups: dict[tuple[str, str], list[Mapping[str, object]]] = {}
    for cell in cells:
        groups.setdefault((str(cell["data"]), str(cell["noise"])), []).append(cell)
    names = list(cells[0]["scores"])
    print("\nAUROC, mean over seeds\n" + " " * 45 + " ".join(f"{d[:6]} {n[:4]}{n[-3:]:>4}" for d, n in groups))
    for name in names:
        values = (mean(cell["scores"][name]["auroc"] for cell in group) for group in groups.values())
        print(f"{name:45}" + " ".join(f"{value:14.4f}" for value in values))


def scale(samples: int, classes: int, save: Path | None) -> None:
    """Rank and export a run of so many samples and classes, and say what it took."""
    with tempfile.TemporaryDirectory() as folder:
        run, out = Path(folder) / "run", Path(folder) / "out"
        run.mkdir(), out.mkdir()
        made = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        synthetic_run(run, samples, classes)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began, worked = time.perf_counter(), time.process_time()
        scores = read_scores(run)
        ranking = rank(scores)
        ranked = time.perf_counter() - began
        listed = suspects(ranking, scores, read_names(run, scores.columns["index"]), samples)
        write_csv(out / "suspects.csv", listed)
        write_parquet(out / "suspects.parquet", listed)
        write_label_studio(out / "label-studio.json", listed)
        write_for_cleanlab(out, scores)
        seconds, worked = time.perf_counter() - began, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    record = {
        "benchmark": "suspects at scale",
        "samples": samples,
        "classes": classes,
        "ranked_seconds": ranked,
        "seconds": seconds,
        "cpu_seconds": worked,
        "peak_rss_mib": {"at start": made / 1024, "with the run made": before / 1024, "at the end": peak / 1024},
        "machine": machine("cpu"),
        "versions": versions(),
    }
    print(f"{samples:,} samples, {classes:,} classes: ranked in {ranked:.1f} s, exported after {seconds:.1f} s")
    print(f"{worked:.1f} s of CPU, {peak / 1024:.0f} MiB at most")
    leave(record, save)


def synthetic_run(folder: Path, samples: int, classes: int) -> None:
    """A run's two files, a third of whose labels are wrong, made a few rows at a time."""
    generator = np.random.default_rng(0)
    clean = generator.integers(classes, size=samples)
    wrong = generator.random(samples) < 0.3
    given = np.where(wrong, generator.integers(classes, size=samples), clean)
    path = folder / "made.npy"
    probabilities = np.lib.format.open_memmap(path, "w+", np.float32, (samples, classes))
    for start in range(0, samples, 8192):
        rows = slice(start, min(samples, start + 8192))
        part = generator.random((rows.stop - start, classes), dtype=np.float32)
        part[np.arange(len(part)), clean[rows]] += generator.gamma(2.0, classes / 8, len(part)).astype(np.float32)
        probabilities[rows] = part / part.sum(1, keepdims=True)
    parts = np.where(generator.random(samples) < 0.1, "validation", "train")
    numbers = {name: generator.random(samples).astype(np.float32) for name in ("agreed_sigma",)}
    numbers |= {f"margin_{view}_to_end": numbers["agreed_sigma"] for view in ("sigma", "w")}
    scores = SampleScores(
        columns={"index": np.arange(samples), "part": parts, "given": given, **numbers},
        probabilities=probabilities,
        class_names=tuple(f"class {number}" for number in range(classes)),
        views=("sigma", "w"),
        facts={"epochs_until_chosen": 10, "chosen_epoch": 10, "run_id": "synthetic"},
    )
    write_scores(folder, scores)
    path.unlink()


if __name__ == "__main__":
    main()
