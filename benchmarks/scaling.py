"""One training on several ranks: images per second, the share of communication, and our own overhead.

A step is everything from drawing a batch to the updated weights, of TNLPAD on CIFAR-sized images. Each rank times its
phases: forward, backward (with the sums of gradients that torch overlaps with it), and collectives (logits, BatchNorm
statistics). The rest is ours: loading, the loss, the update of σ and γ. Communication is the collectives, and what the
backward pass takes longer than without sums of gradients.

On a CPU every rank has one thread, and one process with as many threads as ranks is measured beside it. On a GPU all
ranks share it, connected by gloo; beside it, one process as runs use it, which compiles the network and replays a
captured step: its overhead is what the step takes longer than captured forward and backward passes, with the update of
plain SGD as well, for comparison. Variants take turns.

    python -m benchmarks.scaling [--device cpu|cuda] [--network resnet18] [--batch 64] [--ranks 1,2] [--turns 3]
        [--steps 10] [--save record.json]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch import distributed as dist

from benchmarks.machine import captured, leave, machine, ratio, seconds, versions
from benchmarks.training import TASKS, Ours
from tnlpad.data.augment import Augmentation
from tnlpad.data.loader import DeviceLoader
from tnlpad.methods import METHODS, Method, Setup, forward
from tnlpad.networks import build
from tnlpad.ranks import group
from tnlpad.ranks.batchnorm import share_statistics
from tnlpad.rng import global_torch_stream, torch_stream
from tnlpad.types import Batch, Clock

CLASSES, SAMPLES, SIDE = 10, 5000, 32
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
WARM_UP = 3
PHASES = ("forward", "backward", "collectives")
REPLAYED = {"1 rank, captured": "tnlpad", "1 rank, captured, plain SGD": "standard"}


class Phases:
    """Seconds of each phase. One that runs inside another is not counted there."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.spent, self.inner = device, dict.fromkeys(PHASES, 0.0), 0.0

    def now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def timed(self, phase: str, function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            before, begin = self.inner, self.now()
            self.inner = 0.0
            result = function(*arguments, **options)
            spent = self.now() - begin
            self.spent[phase] += spent - self.inner
            self.inner = before + spent
            return result

        return call

    @contextmanager
    def measured(self) -> Iterator[None]:
        with ExitStack() as stack:
            for target, name, phase in (
                (forward, "_outputs", "forward"),
                (Tensor, "backward", "backward"),
                (dist, "all_reduce", "collectives"),
            ):
                stack.enter_context(mock.patch.object(target, name, self.timed(phase, getattr(target, name))))
            yield


def prepared(network: str, batch: int, device: torch.device) -> tuple[Method, DeviceLoader]:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (SAMPLES, 3, SIDE, SIDE), dtype=torch.uint8, generator=generator).to(device)
    labels = torch.randint(CLASSES, (SAMPLES,), generator=generator).to(device)
    layout = torch.channels_last if device.type == "cuda" else torch.contiguous_format

    def built(number: int) -> nn.Module:
        with global_torch_stream(1, f"network-{number}"):
            module = build(network, num_classes=CLASSES)
        share_statistics(module)
        return module.to(device, memory_format=layout)

    loader = DeviceLoader(
        images,
        labels,
        batch_size=batch,
        mean=MEAN,
        std=STD,
        augmentation=Augmentation(crop_padding=4, flip=True),
        drop_last=True,
        order=torch_stream(1, "order"),
        augment=torch_stream(1, "augment"),
        memory_format=layout,
    )
    rate = torch.tensor(0.02, device=device) if device.type == "cuda" else 0.02
    setup = Setup(
        network=built,
        sgd={"lr": rate, "momentum": 0.9, "weight_decay": 1e-3, "fused": True},
        labels=labels,
        num_classes=CLASSES,
        epochs=10,
        noise_rate=None,
        generator=torch.Generator().manual_seed(0),
    )
    entry = METHODS["tnlpad"]
    return entry.build(entry.config(), setup), loader


def batches(loader: DeviceLoader) -> Iterator[Batch]:
    while True:
        yield from loader


def worker(arguments: argparse.Namespace) -> None:
    """Run on every rank; rank 0 prints the seconds of a step and of its phases."""
    torch.set_num_threads(arguments.threads)
    with group.joined(torch.device(arguments.device)) as device:
        method, loader = prepared(arguments.network, arguments.batch, device)
        clock, source = Clock(epoch=1, epochs=10), batches(loader)
        method.begin_epoch(clock)
        bf16 = torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")

        def steps(count: int) -> float:
            begin = phases.now()
            for _ in range(count):
                batch = next(source)
                with bf16, group.batch(len(batch.labels)):
                    method.step(batch, clock)
            return (phases.now() - begin) / count

        phases = Phases(device)
        steps(WARM_UP)
        plain = steps(arguments.steps)
        with phases.measured():
            timed = steps(arguments.steps)
        spent = {name: seconds / arguments.steps for name, seconds in phases.spent.items()}
        phases.spent = dict.fromkeys(PHASES, 0.0)
        wrapped = [group.synchronised(network) for network in networks(method)]
        with ExitStack() as stack:
            for each in wrapped:
                stack.enter_context(each.no_sync() if group.count() > 1 else nullcontext())  # type: ignore[operator]
            with phases.measured():
                steps(arguments.steps)
        unsynchronised = phases.spent["backward"] / arguments.steps
        if group.rank() == 0:
            result = {"step": plain, "timed_step": timed, **spent, "backward_alone": unsynchronised}
            print("MEASURED " + json.dumps(result), flush=True)


def networks(method: Method) -> list[nn.Module]:
    return [method.network]  # type: ignore[attr-defined]


def launched(arguments: argparse.Namespace, ranks: int, threads: int, *role: str) -> dict[str, float]:
    options = [f"--{name}={getattr(arguments, name)}" for name in ("device", "network", "batch", "steps")]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    command = [sys.executable, *launcher, "-m", "benchmarks.scaling", *role, f"--threads={threads}", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    for line in done.stdout.splitlines():
        if line.startswith("MEASURED "):
            result: dict[str, float] = json.loads(line.removeprefix("MEASURED "))
            return result
    raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def shares(measured: list[dict[str, float]]) -> dict[str, float]:
    """Return the shares of a step: medians over the turns."""

    def of(numerator: Any) -> float:
        return median(numerator(turn) / turn["timed_step"] for turn in measured)

    speed = {"images_per_second": median(1 / turn["step"] for turn in measured)}
    if "passes" in measured[0]:
        return {"overhead": of(lambda turn: turn["step"] - turn["passes"]), "communication": 0.0, **speed}
    return {
        "overhead": of(lambda turn: turn["timed_step"] - sum(turn[name] for name in PHASES)),
        "communication": of(lambda turn: turn["collectives"] + max(0.0, turn["backward"] - turn["backward_alone"])),
        **speed,
    }


def replayed(arguments: argparse.Namespace) -> None:
    """Print the seconds of a captured step, and of the captured passes of the same network."""
    task = next(name for name, each in TASKS.items() if (each.network, each.side) == (arguments.network, SIDE))
    run = Ours(task, arguments.replayed, "cuda", batch=arguments.batch, samples=SAMPLES)
    run.epoch()
    network, generator = run.method.network, torch.Generator().manual_seed(0)  # type: ignore[attr-defined]
    images = torch.randn(arguments.batch, 3, SIDE, SIDE, generator=generator).cuda()
    images, labels = images.to(memory_format=torch.channels_last), torch.zeros(arguments.batch, dtype=int).cuda()

    def passes() -> None:
        network.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(network(images), labels)
        loss.backward()

    alone = captured(passes)
    turns = [(run.epoch() / run.steps, seconds(alone, "cuda", run.steps)) for _ in range(5)]
    step, needed = (median(column) for column in zip(*turns, strict=True))
    print("MEASURED " + json.dumps({"step": step, "timed_step": step, "passes": needed}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--network", default="resnet18")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--replayed", metavar="METHOD", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker or arguments.replayed:
        (worker if arguments.worker else replayed)(arguments)
        return
    ranks = [int(word) for word in arguments.ranks.split(",")]
    variants = {f"{count} {'rank' if count == 1 else 'ranks'}": (count, 1) for count in ranks}
    if arguments.device == "cpu":
        variants |= {f"1 rank, {count} threads": (1, count) for count in ranks if count > 1}
    else:
        variants |= dict.fromkeys(REPLAYED, (1, 1))
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in variants}
    for _ in range(arguments.turns):
        for name, (count, threads) in variants.items():
            role = ("--replayed", REPLAYED[name]) if name in REPLAYED else ("--worker",)
            measured[name].append(launched(arguments, count, threads, *role))
    results = {}
    for name, turns in measured.items():
        results[name] = shares(turns)
        results[name]["images_per_second"] *= arguments.batch
        one = [turn["step"] for turn in measured["1 rank"]]
        results[name]["speed"] = ratio(one, [turn["step"] for turn in turns])["median"]
        print(f"{name}: " + ", ".join(f"{key} {value:.3f}" for key, value in results[name].items()))
    record = {
        "benchmark": "scaling",
        "machine": machine(arguments.device),
        "versions": versions(),
        "network": arguments.network,
        "batch": arguments.batch,
        "turns": arguments.turns,
        "steps": arguments.steps,
        "variants": results,
        "measured": measured,
    }
    leave(record, arguments.save)


if __name__ == "__main__":
    main()
