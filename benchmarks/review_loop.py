"""The whole loop on photographs: train, review, clean, train again, with the commands that a person would use.

A share of the training photographs is moved into the folders of other classes. `tnlpad train` ranks their labels, and
a script that knows the right ones decides on the first 200 through the server of `tnlpad review`. `tnlpad clean` writes
a new folder, on which `tnlpad train` runs again. Beside it, a folder is cleaned by the suggestions alone. Measured are
the share of wrong labels in the training part, and the accuracy on clean test photographs.

    python -m benchmarks.review_loop --photos FOLDER [--noise symmetric:0.3] [--seeds 1 2 3] [--decisions 200]
                                     [--save record.json]

`--photos` holds train/CLASS/*.jpg and test/CLASS/*.jpg with right labels.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from typing import Any
from urllib.request import Request, urlopen

from benchmarks.features import with_noise
from benchmarks.machine import leave, machine, versions
from tnlpad.data.own import OwnDataset, open_dataset

TNLPAD = (sys.executable, "-m", "tnlpad")
ROUNDS = ("as given", "reviewed and cleaned", "cleaned by the suggestions alone")
SAMPLES_AT_ONCE = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--noise", default="symmetric:0.3")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--decisions", type=int, default=200)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    clean = open_dataset(options.photos)
    cells = []
    for seed in options.seeds:
        with tempfile.TemporaryDirectory(dir=options.photos.parent) as folder:
            cells.append(loop(clean, options.photos, options.noise, seed, options.decisions, Path(folder)))
        print(json.dumps(cells[-1]), flush=True)
    means = {
        name: {key: mean(cell["rounds"][name][key] for cell in cells) for key in cells[0]["rounds"][name]}
        for name in ROUNDS
    }
    for name, found in means.items():
        print(f"{name:34} {found['samples']:7,.0f} samples, {found['wrong']:.1%} wrong, test {found['accuracy']:.1%}")
    record = {"benchmark": "review_loop", "machine": machine("cpu"), "versions": versions()}
    record["classes"] = len(clean.class_names)
    leave(
        record | {"noise": options.noise, "decisions": options.decisions, "cells": cells, "means": means}, options.save
    )


def loop(clean: OwnDataset, photos: Path, noise: str, seed: int, decisions: int, folder: Path) -> dict[str, Any]:
    """Return samples, share of wrong labels and test accuracy of each round."""
    truth = linked(clean, with_noise(clean, noise, seed), photos, folder / "photos")
    run = train(folder / "photos", folder / "runs", seed)
    started = time.perf_counter()
    with review(run, folder / "runs") as address:
        wrong = decide(address, truth, decisions)
    seconds = time.perf_counter() - started
    tnlpad("clean", run, "--runs", folder / "runs", "--out", folder / "reviewed")
    tnlpad("clean", run, "--runs", folder / "runs", "--no-review", "--out", folder / "suggested")
    rounds = {}
    for name, data in zip(ROUNDS, ("photos", "reviewed", "suggested"), strict=True):
        again = run if data == "photos" else train(folder / data, folder / "runs", seed)
        summary = json.loads((folder / "runs" / again / "summary.json").read_text())
        labels = {file.name: file.parent.name for file in (folder / data / "train").glob("*/*")}
        rounds[name] = {
            "samples": len(labels),
            "wrong": mean(truth[file] != label for file, label in labels.items()),
            "accuracy": summary["chosen"]["test_accuracy"],
        }
    return {"seed": seed, "rounds": rounds, "wrong_of_decided": wrong, "review_seconds": seconds}


def linked(clean: OwnDataset, given: Any, photos: Path, folder: Path) -> Mapping[str, str]:
    """Link the photographs into folders of their given labels; return the right class by file name."""
    assert clean.parts is not None, "train and test"
    truth = {}
    for name, label, right, part in zip(clean.ids, given.tolist(), clean.labels.tolist(), clean.parts, strict=True):
        file = f"{Path(name).parent.name}-{Path(name).name}"
        place = folder / part / clean.class_names[label]
        place.mkdir(parents=True, exist_ok=True)
        os.link(photos / name, place / file)
        truth[file] = clean.class_names[right]
    return truth


def tnlpad(*words: object) -> str:
    """Run a command, and return what it prints."""
    return subprocess.run([*TNLPAD, *map(str, words)], check=True, stdout=subprocess.PIPE, text=True).stdout


def train(data: Path, runs: Path, seed: int) -> str:
    """Train as a person would, and return the id of the run."""
    words = ("train", data, "--seed", seed, "--out", runs, "--quiet", "--json")
    found: str = json.loads(tnlpad(*words))["run_id"]
    return found


@contextmanager
def review(run: str, runs: Path) -> Iterator[str]:
    """Serve the page of a run, and yield its address."""
    command = [*TNLPAD, "review", run, "--runs", str(runs), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def decide(address: str, truth: Mapping[str, str], count: int) -> float:
    """Decide on the most suspicious labels as someone who knows the truth; return the share of wrong ones."""
    about = ask(f"{address}about")
    decisions = []
    for start in range(0, min(count, about["samples"]), SAMPLES_AT_ONCE):
        places = range(start, min(start + SAMPLES_AT_ONCE, count, about["samples"]))
        for sample in ask(f"{address}samples?at={','.join(map(str, places))}"):
            decisions.append((sample["at"], Path(sample["id"]).parent.name, truth[Path(sample["id"]).name]))
    body = [
        {"at": at, "choice": "given" if given == right else "other", "label": right, "key": f"benchmark-{at}"}
        for at, given, right in decisions
    ]
    ask(f"{address}decide", {"decisions": body})
    return mean(given != right for _, given, right in decisions)


def ask(address: str, body: Mapping[str, Sequence[Any]] | None = None) -> Any:
    """Request a document, with a body by POST."""
    content = None if body is None else json.dumps(body).encode()
    with urlopen(Request(address, content, {"Content-Type": "application/json"})) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()
