"""Photographs and texts with wrong labels: our out-of-fold heads beside cleanlab with logistic regression.

Some training photographs get the label of another class; texts have the wrong labels that rules gave them. We train as
`tnlpad train DATA --backbone lite` (or `--text text`) does. The regression is fitted to the same features, standardised
and in five folds, for every C of a grid, and cleanlab ranks by its out-of-fold probabilities. *best* is the highest
value over the grid, which nobody knows beforehand; *chosen* is the C of the highest out-of-fold accuracy on the noisy
labels. Accuracies are on clean test samples.

    python -m benchmarks.features [--photos FOLDER] [--texts FOLDER] [--noise symmetric:0.3 ...] [--seeds 1 2 3]
                                  [--log cells.jsonl] [--earlier record.json] [--time] [--save record.json]

`--photos` holds train/CLASS/*.jpg and test/CLASS/*.jpg with right labels; `--texts` holds NAME_train.csv (text, label),
NAME_truth.csv and NAME_test.csv. The regressions do not depend on our code: `--earlier` takes them, and the times of
commands, from a record.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tnlpad
from benchmarks.machine import leave, machine, versions
from tnlpad.data.own import OwnDataset, open_dataset
from tnlpad.features.backbone import resolve_backbone
from tnlpad.features.cache import default_cache
from tnlpad.features.extract import extract_dataset
from tnlpad.features.text import TextEncoder
from tnlpad.noise import make_noisy_labels, parse_noise

NOISES = ("symmetric:0.3", "none", "symmetric:0.1", "symmetric:0.2", "symmetric:0.4", "pairflip:0.2", "pairflip:0.4")
TEXTS = ("youtube", "sms", "semeval")
GRID = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 1.0)
FOLDS = 5
MEASURES = ("auroc", "average_precision", "accuracy")
Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--noise", nargs="+", default=list(NOISES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--log", type=Path, help="a line for each cell; those in it are not repeated")
    parser.add_argument("--earlier", type=Path, help="record whose regressions are not fitted again")
    parser.add_argument("--time", action="store_true", help="also time the command, with an empty cache of features")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    cells = logged(options.log)
    done = {(cell["data"], cell["noise"], cell["seed"]) for cell in cells}
    for cell in chain(photographs(options, done), texts(options, done)):
        cells.append(cell)
        print(line(cell), flush=True)
        add(cell, options.log)
    record = {"machine": machine("cpu"), "versions": versions(), "grid": GRID, "cells": cells, "means": means(cells)}
    if options.earlier is not None:
        earlier = json.loads(options.earlier.read_text())
        record |= {"commands": earlier["commands"], "earlier": earlier.get("earlier", earlier["versions"])}
    leave(record | ({"commands": list(commands(options))} if options.time else {}), options.save)


def logged(path: Path | None) -> list[dict[str, Any]]:
    lines = path.read_text().splitlines() if path is not None and path.exists() else []
    return [json.loads(each) for each in lines]


def add(found: Mapping[str, Any], path: Path | None) -> None:
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps(found) + "\n")


def photographs(options: argparse.Namespace, done: Collection[tuple[str, str, int]]) -> Iterator[dict[str, Any]]:
    """Yield a cell for every noise and seed that is not done yet."""
    if options.photos is None:
        return
    clean = open_dataset(options.photos)
    backbone = resolve_backbone("lite", clean.shape).backbone
    assert backbone is not None, "lite is a backbone"
    features = extract_dataset(clean, backbone, cache=default_cache())
    train, test = clean.indices("train"), clean.indices("test")
    for noise in options.noise:
        for seed in options.seeds if noise != "none" else options.seeds[:1]:
            if ("photographs", noise, seed) in done:
                continue
            given = with_noise(clean, noise, seed)
            with tempfile.TemporaryDirectory() as folder:
                ours = fitted(listed(clean, given, Path(folder)), seed, images=options.photos, backbone="lite")
            key = {"data": "photographs", "noise": noise, "seed": seed}
            theirs = known(options.earlier, key) or regressions(features, given, clean.labels, train, test)
            yield key | compared(ours, theirs, given[train] != clean.labels[train])


def commands(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the time of the whole command for each seed and the first noise; features are computed in it."""
    clean, noise = open_dataset(options.photos), options.noise[0]
    for seed in options.seeds:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            table = listed(clean, with_noise(clean, noise, seed), folder)
            words = ["train", table, "--images", options.photos, "--backbone", "lite", "--seed", seed, "--quiet"]
            words += ["--cache", folder / "features", "--out", folder / "runs"]
            started = time.perf_counter()
            subprocess.run([sys.executable, "-m", "tnlpad", *map(str, words)], check=True)
            yield {"noise": noise, "seed": seed, "seconds": time.perf_counter() - started}


def with_noise(clean: OwnDataset, noise: str, seed: int) -> Labels:
    """Return labels of which some of the training part are wrong."""
    given, train = clean.labels.copy(), clean.indices("train")
    if noise != "none":
        given[train] = make_noisy_labels(
            parse_noise(noise), dataset="own", labels=given[train], num_classes=len(clean.class_names), seed=seed
        ).given
    return given


def listed(clean: OwnDataset, given: Labels, folder: Path) -> Path:
    """Write a table of the photographs with these labels."""
    parts = clean.parts or ["train"] * len(given)
    names = [clean.class_names[label] for label in given]
    write(folder / "photographs.csv", ["path", "label", "split"], zip(clean.ids, names, parts, strict=True))
    return folder / "photographs.csv"


def texts(options: argparse.Namespace, done: Collection[tuple[str, str, int]]) -> Iterator[dict[str, Any]]:
    """Yield a cell for every dataset of texts and every seed that is not done yet."""
    for name in TEXTS if options.texts is not None else ():
        seeds = [seed for seed in options.seeds if (name, "rules", seed) not in done]
        if not seeds:
            continue
        rows, test_rows = (read(options.texts / f"{name}_{part}.csv") for part in ("train", "test"))
        truth = [next(iter(row.values())) for row in read(options.texts / f"{name}_truth.csv")]
        classes = sorted({row["label"] for row in (*rows, *test_rows)} | set(truth))
        labels = np.array([classes.index(word) for word in (*truth, *(row["label"] for row in test_rows))])
        given = labels.copy()
        given[: len(rows)] = [classes.index(row["label"]) for row in rows]
        words = [row["text"] for row in (*rows, *test_rows)]
        train, test = np.arange(len(rows)), np.arange(len(rows), len(words))
        encoder = TextEncoder.fit(words[: len(rows)])
        features = encoder.transform(words)
        theirs = known(options.earlier, {"data": name, "noise": "rules"})
        theirs = theirs or regressions(features, given, labels, train, test)
        for seed in seeds:
            with tempfile.TemporaryDirectory() as folder:
                table = Path(folder) / "texts.csv"
                parts = ["train"] * len(train) + ["test"] * len(test)
                write(table, ["text", "label", "split"], (
                    [text, classes[label], part] for text, label, part in zip(words, given, parts, strict=True)
                ))  # fmt: skip
                ours = fitted(table, seed, text="text")
            wrong = given[train] != labels[train]
            yield {"data": name, "noise": "rules", "seed": seed} | compared(ours, theirs, wrong)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path: Path, header: Sequence[str], rows: Any) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def fitted(table: Path, seed: int, *, images: Path | None = None, **options: Any) -> dict[str, Any]:
    """Train as the command line does; return scores in the order of the table, the estimate and the accuracy."""
    if images is not None:  # paths are relative to the table
        moved = images / f".benchmark-{seed}.csv"
        moved.write_bytes(table.read_bytes())
        table = moved
    started = time.perf_counter()
    try:
        result = tnlpad.fit(table, seed=seed, **options)
    finally:
        if images is not None:
            table.unlink()
    seconds = time.perf_counter() - started
    score = np.empty(len(result.run.scores))
    score[result.run.scores.columns["index"]] = result.run.ranking.score
    interval = result.noise_rate_interval if result.caution is None else None
    return {
        "score": score,
        "accuracy": result.summary["chosen"]["test_accuracy"],
        "estimate": None if interval is None else result.noise_rate,
        "interval": None if interval is None else list(interval),
        "seconds": seconds,
    }


def known(earlier: Path | None, key: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the regressions of a cell of an earlier record, or None."""
    cells = [] if earlier is None else json.loads(earlier.read_text())["cells"]
    found = [{"best": cell["best"], "chosen": cell["chosen"]} for cell in cells if key.items() <= cell.items()]
    return found[0] if found else None


def regressions(features: Any, given: Labels, labels: Labels, train: Labels, test: Labels) -> dict[str, Any]:
    """Fit the regression for every C; return the best of each measure, and those of the C that accuracy chooses."""
    from cleanlab.rank import get_label_quality_scores
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    spread = features[train].std(0)
    rows = (features - features[train].mean(0)) / np.where(spread > 0, spread, 1)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    found: list[dict[str, Any]] = []
    for strength in GRID:
        model = LogisticRegression(C=strength, max_iter=200, tol=1e-3)
        out = cross_val_predict(model, rows[train], given[train], cv=folds, method="predict_proba")
        noisy = float((out.argmax(1) == given[train]).mean())
        accuracy = float((model.fit(rows[train], given[train]).predict(rows[test]) == labels[test]).mean())
        quality = get_label_quality_scores(given[train], out, method="self_confidence")
        wrong = given[train] != labels[train]
        found.append({"C": strength, "noisy_accuracy": noisy, **measures(1 - quality, accuracy, wrong)})
    chosen = max(found, key=lambda each: each["noisy_accuracy"])  # of out-of-fold predictions, on the noisy labels
    return {
        "best": {
            name: max((each[name] for each in found if each[name] is not None), default=None) for name in MEASURES
        },
        "chosen": {name: chosen[name] for name in (*MEASURES, "C")},
    }


def compared(ours: Mapping[str, Any], theirs: Mapping[str, Any], wrong: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the measures of ours, beside those of the regressions."""
    return {
        "truth": float(wrong.mean()),
        "ours": measures(ours["score"], ours["accuracy"], wrong),
        **theirs,
        **{name: ours[name] for name in ("estimate", "interval", "seconds")},
    }


def measures(score: Floats, accuracy: float, wrong: NDArray[np.bool_]) -> dict[str, float | None]:
    from sklearn.metrics import average_precision_score, roc_auc_score

    if not wrong.any():
        return {"auroc": None, "average_precision": None, "accuracy": accuracy}
    return {
        "auroc": float(roc_auc_score(wrong, score)),
        "average_precision": float(average_precision_score(wrong, score)),
        "accuracy": accuracy,
    }


def means(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Average the cells that differ only in their seed."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for cell in cells:
        groups.setdefault((cell["data"], cell["noise"]), []).append(cell)
    rows = []
    for (data, noise), group in groups.items():
        row: dict[str, Any] = {"data": data, "noise": noise, "n": len(group), "truth": mean(c["truth"] for c in group)}
        for who in ("ours", "best", "chosen"):
            for name in MEASURES:
                values = [cell[who][name] for cell in group]
                row[f"{who}_{name}"] = None if None in values else mean(values)
        rows.append(row)
    return rows


def line(cell: Mapping[str, Any]) -> str:
    parts = [f"{cell['data']} {cell['noise']} seed {cell['seed']}: {cell['seconds']:.0f} s"]
    for who in ("ours", "best", "chosen"):
        numbers = " ".join("–" if cell[who][name] is None else f"{cell[who][name]:.4f}" for name in MEASURES)
        parts.append(f"{who} {numbers}")
    return "; ".join((*parts, f"truth {cell['truth']:.3f}, estimate {cell['estimate']} {cell['interval']}"))


if __name__ == "__main__":
    main()
