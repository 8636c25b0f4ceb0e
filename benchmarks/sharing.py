"""Share a GPU in many ways: images per second by the number of processes, of streams in each, and by MPS's percentage.

The processes of all percentages are started together, and then train in one combination after the other, so that all
numbers come from one machine within minutes. Each stream replays the captured steps of a run of TNLPAD of its own.
Saturated is standard training with a batch that fills the GPU, alone.

    python -m benchmarks.sharing [--task cifar10] [--ways 1x1,3x1,6x1,9x1,12x1,3x3,1x9] [--percentages 100,50]
        [--seconds 4] [--save record.json]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import leave, machine, versions, write
from benchmarks.networks import full_batch
from benchmarks.training import TASKS, Ours
from tnlpad.grid.mps import mps

METHOD = "tnlpad"
STEPS = 150  # of an epoch, which bounds how far a stream runs ahead


class Child:
    """A process with some runs, each on a stream of its own, that trains when it is told to."""

    def __init__(self, task: str, streams: int, percentage: int) -> None:
        command = [sys.executable, "-m", "benchmarks.sharing", "--child", "--task", task, "--streams", str(streams)]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percentage)}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)

    def wait(self) -> Any:
        """Return its next message."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"A process ended with status {self.process.wait()}: see above.")
        return json.loads(line)

    def train(self, streams: int, seconds: float, begin: float) -> None:
        """Let so many of its runs train for some seconds, from a moment on."""
        assert self.process.stdin is not None
        print(json.dumps({"streams": streams, "seconds": seconds, "begin": begin}), file=self.process.stdin, flush=True)

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def child(task: str, streams: int) -> None:
    torch.set_num_threads(1)
    runs = [Ours(task, METHOD, "cuda", samples=STEPS * TASKS[task].batch) for _ in range(streams)]
    for run in runs:
        run.epoch()
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        time.sleep(max(0.0, wanted["begin"] - time.time()))
        print(json.dumps(trained(runs[: wanted["streams"]], wanted["seconds"])), flush=True)


def trained(runs: list[Ours], seconds: float) -> float:
    """Return the images per second of some runs that train at the same time."""
    graphs = [next(graph.graph for (_, size), graph in run.engine.graphs.items() if size == run.batch) for run in runs]
    streams = [torch.cuda.Stream() for _ in runs]
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for run in runs:
            run.engine.next_step.zero_()  # or the rows of the epoch would come to an end
        torch.cuda.synchronize()
        for _ in range(STEPS - 10):
            for stream, graph in zip(streams, graphs, strict=True):
                with torch.cuda.stream(stream):
                    graph.replay()
        torch.cuda.synchronize()
        done += (STEPS - 10) * sum(run.batch for run in runs)
    return done / (time.perf_counter() - began)


def pool(task: str, ways: list[tuple[int, int]], percentage: int) -> list[Child]:
    """Start as many processes as any way needs, with as many runs each as it will have to train."""
    wanted = [max(s for p, s in ways if p > number) for number in range(max(p for p, _ in ways))]
    return [Child(task, streams, percentage) for streams in wanted]


def pools(task: str, ways: list[tuple[int, int]], percentages: list[int]) -> dict[int, list[Child]]:
    """Start the processes of every percentage. The first of each compiles, and the others find what it compiled."""
    first = [(1, max(s for _, s in ways))]
    for each in [child for percentage in percentages for child in pool(task, first, percentage)]:
        each.wait()
        each.end()
    found = {percentage: pool(task, ways, percentage) for percentage in percentages}
    for each in chain.from_iterable(found.values()):
        each.wait()
    return found


def together(children: list[Child], processes: int, streams: int, seconds: float) -> float:
    begin = time.time() + 0.3
    for each in children[:processes]:
        each.train(streams, seconds, begin)
    return float(sum(each.wait() for each in children[:processes]))


def saturated(task: str) -> float:
    """Return the images per second of a batch that fills the GPU, measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.sharing", "--saturated", "--task", task]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def measure_saturated(task: str) -> float:
    large = full_batch(task)
    run = Ours(task, "standard", "cuda", batch=large, samples=20 * large)
    run.epoch()
    return max(run.samples / run.epoch() for _ in range(3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="cifar10", choices=list(TASKS))
    parser.add_argument("--ways", default="1x1,3x1,6x1,9x1,12x1,2x2,3x2,3x3,4x3,1x6", help="processes x streams")
    parser.add_argument("--percentages", default="100", help="of the GPU's processors that one process may use")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--save", type=Path, help="write the record as JSON to this file")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--saturated", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--streams", type=int, default=1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.task, arguments.streams)
        return
    if arguments.saturated:
        print(json.dumps(measure_saturated(arguments.task)))
        return
    ways = [(int(p), int(s)) for p, s in (way.split("x") for way in arguments.ways.split(","))]
    percentages = [int(word) for word in arguments.percentages.split(",")]
    record: dict[str, Any] = {
        "benchmark": "sharing",
        "device": "cuda",
        "machine": machine("cuda"),
        "versions": versions(),
        "task": arguments.task,
        "saturated": saturated(arguments.task),
        "ways": [],
        "command": f"python -m benchmarks.sharing --task {arguments.task} --ways {arguments.ways}"
        f" --percentages {arguments.percentages} --seconds {arguments.seconds:g}",
    }
    with mps("cuda", say=lambda line: print(line, file=sys.stderr)):
        started = pools(arguments.task, ways, percentages)
        for percentage, children in started.items():
            for processes, streams in ways:
                speed = together(children, processes, streams, arguments.seconds)
                way = {"processes": processes, "streams": streams, "percentage": percentage}
                share = speed / record["saturated"]
                record["ways"].append(way | {"images_per_second": speed, "share_of_saturated": share})
                line = f"{processes} × {streams} at {percentage} %: {speed:.0f} images/s, {share:.3f} of saturated"
                print(line, flush=True)
                write(record, arguments.save)
        for each in chain.from_iterable(started.values()):
            each.end()
    leave(record, arguments.save)


if __name__ == "__main__":
    main()
