"""Training speed of every network of the paper on a GPU: alone, several runs at once, and against a full GPU.

- standard, tnlpad: whole epochs of our engine on random images of the paper's sizes, with its batches
- saturated: standard with a batch so large that it fills the GPU; its images per second are the limit of small batches
- packed: several runs of TNLPAD at once, each in a process of its own, under CUDA MPS; 9@30 are nine runs, each with at
  most 30 % of the GPU's processors

Networks are first compiled in parallel, since that takes a minute each; the measurements find what was compiled. After
every network the record is written, so a measurement that is cut short keeps what it has. Networks that an earlier
record of this file has, and that are not measured now, stay in it.

    python -m benchmarks.networks [--tasks cifar10:9@30+9@100,cifar100:6] [--turns 3] [--seconds 5] [--save record.json]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import leave, machine, ratio, versions, write
from benchmarks.training import TASKS, Ours, Way, packed
from tnlpad.grid.mps import PROCESSORS_SHARE, mps

# How many runs at once are measured, unless the command says so.
AT_ONCE = {
    "cifar10": 9,
    "fashion_mnist": 12,
    "cifar100": 6,
    "resnext29_32x4d": 6,
    "vgg19": 12,
    "wide_resnet28_10": 3,
    "food101": 6,
    "clothing1m": 3,
    "mnist": 20,
}
STEPS = 150  # of an epoch: long enough that its start does not count
COMPILED_AT_ONCE = 24
VARIANTS = ("standard", "tnlpad", "saturated")


def full_batch(task: str) -> int:
    """Return a batch that fills the GPU: about a million pixels and more."""
    return 256 if TASKS[task].side > 100 else 1024


def runs_of(task: str, names: list[str], device: str) -> dict[str, Ours]:
    batch = TASKS[task].batch
    found = {}
    for name in names:
        if name == "saturated":
            large = full_batch(task)
            found[name] = Ours(task, "standard", device, batch=large, samples=20 * large)
        else:
            found[name] = Ours(task, name, device, samples=STEPS * batch)
    return found


def alone(task: str, turns: int, device: str) -> dict[str, Any]:
    """Measure one run at a time, in turns."""
    runs = runs_of(task, list(VARIANTS), device)
    for run in runs.values():
        run.epoch()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(turns):
        for name, run in runs.items():
            times[name].append(run.epoch() / run.samples)
    return {
        "step_ms": {name: 1000 * median(values) * runs[name].batch for name, values in times.items()},
        "images_per_second": {name: 1 / median(values) for name, values in times.items()},
        "saturated_batch": full_batch(task),
        "tnlpad_over_standard": ratio(times["tnlpad"], times["standard"]),
        "share_of_saturated": ratio(times["saturated"], times["tnlpad"]),
    }


def child(*words: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.networks", *words]


def ways_of(task: str, words: str) -> list[Way]:
    """Read ways to share the GPU, such as 9@30+12."""
    return [Way.named(word) for word in (words or str(AT_ONCE[task])).split("+")]


def compile_all(ways: dict[str, list[Way]]) -> float:
    """Compile every network in a process of its own, many at the same time; return the seconds.

    Kernels depend on the number of processors, so each percentage is compiled for.
    """
    began, quiet = time.perf_counter(), subprocess.DEVNULL
    wanted = [(task, name, 100) for task in ways for name in VARIANTS]
    wanted += [(task, "tnlpad", way.percentage) for task, its in ways.items() for way in its]
    few = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}

    def compile_one(task: str, name: str, percentage: int) -> None:
        words, its = child("--compile", task, "--variant", name), few | {PROCESSORS_SHARE: str(percentage)}
        subprocess.run(words, stdout=quiet, stderr=quiet, env=its, check=False)

    with ThreadPoolExecutor(COMPILED_AT_ONCE) as pool:
        list(pool.map(lambda each: compile_one(*each), dict.fromkeys(wanted)))
    return time.perf_counter() - began


def measure_alone(task: str, turns: int) -> dict[str, Any]:
    words = child("--alone", task, "--turns", str(turns))
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    steps = ", ".join(f"{name} {value:.3f} ms" for name, value in result["step_ms"].items())
    print(f"{task}: {steps}, {result['share_of_saturated']['median']:.3f} of saturated", flush=True)
    shape = TASKS[task]
    known = {"network": shape.network, "channels": shape.channels, "side": shape.side, "batch": shape.batch}
    return known | {"classes": shape.classes, **result, "packed": []}


def measure_packed(task: str, way: Way, seconds: float, saturated: float) -> dict[str, float]:
    together = packed(task, "tnlpad", way, seconds, None, samples=STEPS * TASKS[task].batch, compiled=True)
    share = together["images_per_second"] / saturated
    print(f"{task}: {way} {together['images_per_second']:.0f} images/s, {share:.3f} of saturated", flush=True)
    return together | {"share_of_saturated": share}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="", help="what, and how many at once: cifar10:9@30+12,vgg19 (default: all)")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--device", default="cuda", help=argparse.SUPPRESS)
    parser.add_argument("--compile", help=argparse.SUPPRESS)
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    parser.add_argument("--compiled", action="store_true", help="an earlier command on this machine has compiled them")
    parser.add_argument("--save", type=Path, help="write the record as JSON to this file")
    arguments = parser.parse_args()
    if arguments.compile:
        (run,) = runs_of(arguments.compile, [arguments.variant], arguments.device).values()
        run.epoch()
        return
    if arguments.alone:
        print(json.dumps(alone(arguments.alone, arguments.turns, arguments.device)))
        return
    chosen = dict(entry.partition(":")[::2] for entry in arguments.tasks.split(",") if entry) or dict.fromkeys(
        TASKS, ""
    )
    ways = {task: ways_of(task, words) for task, words in chosen.items()}
    names = ",".join(f"{task}:{'+'.join(map(str, its))}" for task, its in ways.items())
    command = f"python -m benchmarks.networks --tasks {names} --turns {arguments.turns} --seconds {arguments.seconds:g}"
    record: dict[str, Any] = {"benchmark": "networks", "device": "cuda", "machine": machine("cuda"), "networks": {}}
    if arguments.save and arguments.save.exists():
        record["networks"] = json.loads(arguments.save.read_text())["networks"]
    with mps("cuda", say=lambda line: print(line, file=sys.stderr)):
        if not arguments.compiled:
            print(f"compiled after {compile_all(ways):.0f} s", flush=True)
        for task, its in ways.items():
            found = measure_alone(task, arguments.turns)
            full = found["images_per_second"]["saturated"]
            found |= {"command": command, "turns": arguments.turns, "versions": versions()}
            for way in its:
                found["packed"].append(measure_packed(task, way, arguments.seconds, full))
                record["networks"][task] = found
                write(record, arguments.save)
    leave(record, arguments.save)


if __name__ == "__main__":
    main()
