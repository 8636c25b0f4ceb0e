"""Quality of the list of suspects: AUROC and average precision, with our score from one training.

It is compared with single scores of the same training, with the area under the margin of plain training (one training,
too), with our score of plain training, and with cleanlab from five trainings: out-of-sample probabilities of the same
network in five folds. The epoch of each fold is chosen on a noisy tenth of its own training samples, as ours is. Data,
wrong labels, network and number of epochs are the same. The estimated noise rate, the transition matrix, the confidence
and the suggested labels are compared with the truth.

    python -m benchmarks.suspects [--data digits mnist] [--noise symmetric:0.4 ...] [--seeds 2 3] [--samples 3000]
                                  [--epochs 25] [--trainings ours plain folds] [--root FOLDER] [--save record.json]
    python -m benchmarks.suspects --keep FOLDER --device cuda --jobs 9 --data cifar10n
                                  --noise human:worse human:aggre [--epochs 30]
    python -m benchmarks.suspects --read FOLDER [--save record.json]
    python -m benchmarks.suspects --scale [--samples 200000] [--classes 1000]

`--keep` only trains, and keeps the results in a folder. `--read` compares them, also on another machine that has
cleanlab. Seed 1 was used to choose the default score, so report other seeds. Digits with pairflip noise showed that the
fitted mixture needs a check against counting (`estimate.py`), so its noise rates are no independent evidence."""

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import mean

import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import leave, machine, versions
from benchmarks.suspect_trainings import FOLDS, TRAININGS, Cell, Kept, make, read
from tnlpad.grid.mps import mps
from tnlpad.records.samples import read_names
from tnlpad.records.scores import SampleScores, read_scores, write_scores
from tnlpad.suspects.export import write_csv, write_for_cleanlab, write_label_studio, write_parquet
from tnlpad.suspects.listing import absorbed, suspects
from tnlpad.suspects.ranking import rank

NOISES = ("symmetric:0.4", "pairflip:0.4", "instance:0.4", "symmetric:0.2", "pairflip:0.2", "none")
SAMPLES, EPOCHS = 3000, 25  # of what a CPU trains on
ON_A_CPU = ("mnist", "fashion_mnist")
CLEANLAB = ("self_confidence", "normalized_margin")
Floats = NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["digits", "mnist", "fashion_mnist"])
    parser.add_argument("--noise", nargs="+", default=list(NOISES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[2, 3])
    parser.add_argument("--samples", type=int, help=f"of the training images, 0 for all; {SAMPLES} of the larger ones")
    parser.add_argument("--epochs", type=int, help=f"{EPOCHS} for the larger ones, else those of the recipe")
    parser.add_argument("--trainings", nargs="+", choices=TRAININGS, default=list(TRAININGS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at once")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="train only, and keep what is found there")
    parser.add_argument("--read", type=Path, metavar="FOLDER", help="compare what was kept there, and train nothing")
    parser.add_argument("--scale", action="store_true", help="how long, and how much memory, for many samples")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    if options.scale:
        scale(options.samples or 200_000, options.classes, options.save)
    elif options.read:
        compare(options.read, options.save)
    elif options.keep:
        train(options.keep, options)
    else:
        with tempfile.TemporaryDirectory() as folder:
            train(Path(folder), options)
            compare(Path(folder), options.save)


def train(folder: Path, options: argparse.Namespace) -> None:
    """Everything that is missing, one after the other or several at once, each in a process of its own."""
    work = [
        (cell, folder, options.root, training, fold)
        for cell in cells_of(options)
        for training in options.trainings
        for fold in (range(FOLDS) if training == "folds" else (0,))
    ]
    if options.jobs == 1:
        for each in work:
            train_one(*each)
        return
    say = partial(print, file=sys.stderr)
    with (
        mps(options.device, say=say),
        ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        for done in [pool.submit(train_one, *each) for each in work]:
            done.result()


def cells_of(options: argparse.Namespace) -> Iterator[Cell]:
    for dataset in options.data:
        large = dataset in ON_A_CPU
        samples = (SAMPLES if large else None) if options.samples is None else (options.samples or None)
        for noise in options.noise:
            for seed in options.seeds:
                yield Cell(
                    dataset=dataset,
                    noise=noise,
                    seed=seed,
                    samples=None if dataset == "digits" else samples,
                    epochs=None if dataset == "digits" else options.epochs or (EPOCHS if large else None),
                    device=options.device,
                )


def train_one(cell: Cell, folder: Path, root: Path | None, training: str, fold: int) -> None:
    make(cell, folder, root=root, trainings=[training], folds=[fold])


def compare(folder: Path, save: Path | None) -> None:
    cells = []
    for kept in read(folder):
        cells.append(compared(kept))
        print_cell(cells[-1])
    if not cells:
        sys.exit(f"{folder} has no trainings: make some with --keep.")
    print_means(cells)
    leave({"benchmark": "suspects", "machine": machine("cpu"), "versions": versions(), "cells": cells}, save)


def compared(kept: Kept) -> dict[str, object]:
    """All scores of one dataset with one noise, against the truth."""
    ours, clean = kept.ours, kept.clean
    given = np.asarray(ours.columns["given"])
    wrong, classes = given != clean, len(ours.class_names)
    ranking = rank(ours)
    found = {"ours": ranking.score, **single_scores(ours)}
    if kept.plain is not None:
        view = kept.plain.views[0]
        found["AUM, plain training"] = -kept.plain.columns[f"margin_{view}_to_end"]
        found["our score of plain training"] = rank(kept.plain).score
    if kept.out_of_sample is not None:
        found |= cleanlab_scores(given, kept.out_of_sample)
    true = np.zeros((classes, classes))
    np.add.at(true, (clean, given), 1)
    true /= np.maximum(true.sum(1, keepdims=True), 1)
    names = ("dataset", "noise", "seed", "epochs", "device", "machine")
    return {name: kept.about[name] for name in names} | {
        "samples": len(given),
        "chosen_epoch": ours.facts["chosen_epoch"],
        "scores": {name: quality(wrong, score) for name, score in found.items()} if wrong.any() else {},
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
        "suspects": {
            "share": ranking.suspect_share,
            "precision": share_of(wrong[ranking.order[: ranking.suspects]]),
            "precision of the first 100": share_of(wrong[ranking.order[:100]]),
            "suggestion right": share_of((ranking.evidence.suggested == clean)[wrong]),
        },
    }


def single_scores(scores: SampleScores) -> dict[str, Floats]:
    """Each alone, higher for labels that look wrong; until the chosen epoch where nothing else is said."""
    numbers, rows = scores.columns, np.arange(len(scores))
    others = np.array(scores.probabilities)
    of_given = others[rows, numbers["given"]].copy()
    others[rows, numbers["given"]] = -1
    return {
        "mean probability of the given label": -of_given,
        "its margin before all others": others.max(1) - of_given,
        "margin of σ": -numbers["margin_sigma"],
        "margin of w": -numbers["margin_w"],
        "margin of w, to the end": -numbers["margin_w_to_end"],
        "loss of σ": numbers["loss_sigma"],
        "disagreement of σ": 1 - numbers["agreed_sigma"],
        "forgetting of σ, to the end": numbers["forgotten_sigma_to_end"].astype(float),
        "absorbed by γ": absorbed(numbers, scores.views),
    }


def cleanlab_scores(given: NDArray[np.int64], probabilities: Floats) -> dict[str, Floats]:
    """From the out-of-sample probabilities of five trainings."""
    try:
        from cleanlab.rank import get_label_quality_scores
    except ImportError:
        sys.exit("cleanlab is missing: pip install 'tnlpad[compare]', or leave out the folds with --trainings.")
    return {
        f"cleanlab, {method.replace('_', ' ')}": -get_label_quality_scores(given, probabilities, method=method)
        for method in CLEANLAB
    }


def quality(wrong: NDArray[np.bool_], score: NDArray[np.float64]) -> dict[str, float]:
    from sklearn.metrics import average_precision_score, roc_auc_score

    return {"auroc": float(roc_auc_score(wrong, score)), "ap": float(average_precision_score(wrong, score))}


def share_of(flags: NDArray[np.bool_]) -> float | None:
    return float(flags.mean()) if len(flags) else None


def across(wrong: NDArray[np.bool_], score: Floats, held_out: NDArray[np.bool_]) -> dict[str, float]:
    """Return the AUROC of wrong labels of one part against right ones of the other, for both orders of the parts."""
    from sklearn.metrics import roc_auc_score

    if not wrong.any():
        return {}
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


def print_cell(cell: Mapping[str, object]) -> None:
    print(f"\n{cell['dataset']}, {cell['noise']}, seed {cell['seed']}: {cell['samples']} samples")
    for name, numbers in cell["scores"].items():
        print(f"  {name:45} AUROC {numbers['auroc']:.4f}  AP {numbers['ap']:.4f}")
    rate, listed = cell["noise_rate"], cell["suspects"]
    low, high = rate["interval"]
    estimated = f"{rate['estimate']:.3f} ({low:.3f} to {high:.3f}), {rate['from']} samples counted"
    print(f"  noise rate {rate['true']:.3f}, estimated {estimated}")
    print(
        f"  transition: mean error {cell['transition_mean_error']:.4f}, covered {words(cell['transition_coverage'])}; "
        f"calibration error {cell['calibration_error']:.3f}; suspects {words(listed['share'])}, of which wrong "
        f"{words(listed['precision'])}, of the first 100 {words(listed['precision of the first 100'])}; suggestions "
        f"right {words(listed['suggestion right'])}; across parts "
        f"{[round(value, 4) for value in cell['held out against trained on'].values()]}",
        flush=True,
    )


def words(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"


def print_means(cells: Sequence[Mapping[str, object]]) -> None:
    """AUROC and the rate's error, mean over seeds."""
    groups: dict[tuple[str, str], list[Mapping[str, object]]] = {}
    for cell in cells:
        groups.setdefault((str(cell["dataset"]), str(cell["noise"])), []).append(cell)
    print("\nAUROC, mean over seeds; error of the noise rate in points, by seed")
    columns = ["ours", *(f"cleanlab, {method.replace('_', ' ')}" for method in CLEANLAB)]
    columns += ["AUM, plain training", "our score of plain training"]
    print(f"{'':28}" + " ".join(f"{name.removeprefix('cleanlab, ')[:12]:>12}" for name in columns) + "  rate")
    for (dataset, noise), group in groups.items():
        errors = (100 * (cell["noise_rate"]["estimate"] - cell["noise_rate"]["true"]) for cell in group)
        print(
            f"{dataset[:13]:13} {noise:14}"
            + " ".join(f"{mean_auroc(group, name):>12}" for name in columns)
            + "  "
            + " ".join(f"{error:+.1f}" for error in errors)
        )


def mean_auroc(group: Iterable[Mapping[str, object]], name: str) -> str:
    values = [cell["scores"][name]["auroc"] for cell in group if name in cell["scores"]]
    return f"{mean(values):.4f}" if values else "-"


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
