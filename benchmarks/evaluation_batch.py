"""Evaluation batch size on a CPU: batches of 1,024 images against the smaller ones that we use.

Every epoch ends with passes over validation, test and training images. With 1,024 images at once, the feature maps of a
network leave the processor's caches, and the allocator requests and returns their memory again and again. We therefore
limit the number of pixels per batch (`tnlpad.runs.images`). The variants take turns.

    python -m benchmarks.evaluation_batch [--turns 7] [--samples 1024] [--save record.json]
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import torch

from benchmarks.machine import leave, machine, ratio, seconds, versions
from tnlpad.networks import build
from tnlpad.runs.config import configure
from tnlpad.runs.images import MAX_BATCH, inference_batch_size

TASKS = {"lenet": (1, 28), "small_resnet": (3, 64), "resnet18": (3, 32)}  # channels and side


def passes(task: str, samples: int) -> dict[int, Callable[[], None]]:
    """Return a pass over all samples for each batch size: 1,024 and ours."""
    channels, side = TASKS[task]
    images = torch.randn(samples, channels, side, side)
    network = build(task, num_classes=10, in_channels=channels).eval()

    @torch.inference_mode()
    def evaluate(size: int) -> None:
        for part in images.split(size):
            network(part)

    return {
        size: partial(evaluate, size)
        for size in (MAX_BATCH, inference_batch_size(configure("cifar10"), images, torch.device("cpu")))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--samples", type=int, default=MAX_BATCH)
    parser.add_argument("--save", type=Path, help="write the record as JSON to this file")
    arguments = parser.parse_args()
    rows = {}
    for task in TASKS:
        timed = passes(task, arguments.samples)
        for warm_up in timed.values():
            warm_up()
        times = [{size: seconds(function, "cpu") for size, function in timed.items()} for _ in range(arguments.turns)]
        most, ours = timed
        rows[task] = {
            "side": TASKS[task][1],
            "at_once": ours,
            "images_per_second": {
                str(size): arguments.samples / median(t[size] for t in times) for size in (most, ours)
            },
            "all_over_ours": ratio([t[most] for t in times], [t[ours] for t in times]),
        }
        print(f"{task}: {most} at once take {rows[task]['all_over_ours']['median']:.3f} of the time of {ours}")
    record = {
        "benchmark": "evaluation_batch",
        "device": "cpu",
        "machine": machine("cpu"),
        "versions": versions(),
        "turns": arguments.turns,
        "samples": arguments.samples,
        "most": MAX_BATCH,
        "command": f"python -m benchmarks.evaluation_batch --turns {arguments.turns} --samples {arguments.samples}",
        "networks": rows,
    }
    leave(record, arguments.save)


if __name__ == "__main__":
    main()
