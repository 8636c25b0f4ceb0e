"""`tnlpad train` from scratch on a user's own photographs on a CPU, from start to end, with the accuracy it gives.

Some photographs of each class are put into the folder of another one. The command then trains on them, in a process of
its own, with what was the default before version 0.5 and with each change alone:

    before         threads sleep as soon as they wait, images with the channels first
    threads        threads spin for a moment before they sleep
    channels last  images and weights with the channels last; samples are scored in bfloat16 if the processor has it
    now            both: the defaults
    bfloat16       the defaults, and forward passes in bfloat16, which is not a default (see below)

The variants take turns, one turn per seed. Accuracies are of the shipped model: on held-out photographs with their
noisy labels, and on other photographs with right ones. In bfloat16, threads of oneDNN spin while they wait for each
other within the gradients of weights. That is fast on idle cores only, so it is not a default. Scores need no
gradients.

    python -m benchmarks.own_training --photos FOLDER [--samples 2500] [--epochs 60] [--seeds 1 2 3]
                                      [--variants before now ...] [--save record.json]

FOLDER holds train/CLASS/*.jpg and test/CLASS/*.jpg with right labels.
"""

import argparse
import json
import os
import random
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any, NamedTuple

import tnlpad
from benchmarks.machine import leave, machine, ratio, versions
from tnlpad.data.own import open_dataset

SLEEPING = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
CHANNELS_FIRST = ("--set", "channels_last=none")
WRONG = 0.2  # share of photographs in a wrong folder
SHARES = ("validation", "test")
MEASURES = ("seconds", "cpu_seconds", *SHARES)


class Variant(NamedTuple):
    """Environment variables and options of the command."""

    environment: dict[str, str]
    options: tuple[str, ...]


VARIANTS = {
    "before": Variant(SLEEPING, CHANNELS_FIRST),
    "threads": Variant({}, CHANNELS_FIRST),
    "channels last": Variant(SLEEPING, ()),
    "now": Variant({}, ()),
    "bfloat16": Variant({}, ("--set", "precision=bfloat16")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=2500)
    parser.add_argument("--epochs", type=int, help="default: the recipe's")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in options.variants}
    load = os.getloadavg()[0]  # of other programs: times hold for an idle machine only
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "photos"
        put_into_folders(options.photos / "train", data, options.samples)
        for seed in options.seeds:
            for name in options.variants:
                found = trained(VARIANTS[name], data, options.photos / "test", seed, options.epochs)
                runs[name].append(found)
                print(f"seed {seed}  {name:14}", *(f"{key} {value:.4g}" for key, value in found.items()), flush=True)
    times = {name: [run["seconds"] for run in found] for name, found in runs.items()}
    shown = " ".join(map(str, options.seeds))
    record = {
        "benchmark": "own_training",
        "machine": machine("cpu"),
        "versions": versions(),
        "turns": len(options.seeds),
        "samples": options.samples,
        "epochs": options.epochs,
        "wrong": WRONG,
        "load_average_before": load,
        "command": f"python -m benchmarks.own_training --photos FOLDER --samples {options.samples} --seeds {shown}"
        + (f" --epochs {options.epochs}" if options.epochs is not None else "")
        + (f" --variants {shlex.join(options.variants)}" if options.variants != list(VARIANTS) else ""),
        "runs": {name: {key: [run[key] for run in found] for key in MEASURES} for name, found in runs.items()},
        "before_over": {name: ratio(times["before"], each) for name, each in times.items() if "before" in times},
    }
    for name, each in record["runs"].items():
        faster = f"  before / variant {record['before_over'][name]['median']:.3f}" if "before" in times else ""
        shares = "".join(f"  {key} {spread(each[key])}" for key in SHARES)
        print(f"{name:14} {median(each['seconds']):8.1f} s{faster}{shares}")
    leave(record, options.save)


def spread(shares: Sequence[float]) -> str:
    """Return mean and standard deviation over the seeds, in percent."""
    return f"{100 * mean(shares):.1f} ± {100 * stdev(shares) if len(shares) > 1 else 0:.1f}"


def put_into_folders(source: Path, target: Path, samples: int) -> None:
    """Copy as many photographs of each class, some of them into the folder of another class."""
    classes = sorted(folder.name for folder in source.iterdir())
    draw = random.Random(0)
    for name in classes:
        (target / name).mkdir(parents=True)
    for name in classes:
        for file in sorted((source / name).iterdir())[: samples // len(classes)]:
            others = [other for other in classes if other != name]
            given = draw.choice(others) if draw.random() < WRONG else name
            shutil.copy(file, target / given / f"{name}_{file.name}")


def trained(variant: Variant, data: Path, test: Path, seed: int, epochs: int | None) -> dict[str, float]:
    """Run the command; return its wall time, processor time, and the accuracies of its model."""
    variables = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {name: value for name, value in os.environ.items() if name not in variables} | variant.environment
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "tnlpad", "train", str(data), "--backbone", "none", "--device", "cpu"]
        command += ["--seed", str(seed), "--out", out, "--quiet", *variant.options]
        command += [] if epochs is None else ["--epochs", str(epochs)]
        before, began = processor_seconds(), time.perf_counter()
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        seconds, used = time.perf_counter() - began, processor_seconds() - before
        (folder,) = Path(out).iterdir()
        summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
        right = accuracy(folder, test)
    return {
        "seconds": seconds,
        "cpu_seconds": used,
        "validation": summary["chosen"]["validation_accuracy"],
        "test": right,
    }


def processor_seconds() -> float:
    """Return the processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def accuracy(folder: Path, test: Path) -> float:
    """Return the share of test photographs that the model of a run puts into their class."""
    own = open_dataset(test)
    names: Sequence[str] = [own.class_names[label] for label in own.labels]
    return float((tnlpad.load(folder).predict(test) == names).mean())


if __name__ == "__main__":
    main()
