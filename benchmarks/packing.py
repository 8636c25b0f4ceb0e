"""Sharing one GPU between several runs: images per second of all of them together, three ways, in one run.

- processes: each run in its own process, under CUDA MPS, as `--jobs` does
- streams: all runs in one process, the captured steps of each on its own stream
- stacked: all runs as one model whose weights have one more dimension (`torch.func`), in one captured step. This is the
  upper limit of stacking: images prepared in advance, plain SGD, no decomposition, no running statistics

    python -m benchmarks.packing [--device cuda] [--task mnist:20 cifar10:9] [--seconds 6] [--save record.json]
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap

from benchmarks.machine import captured, leave, machine, versions, write
from benchmarks.sharing import trained
from benchmarks.training import TASKS, Ours, Way, packed
from tnlpad.grid.mps import mps
from tnlpad.networks import build
from tnlpad.runs.config import configure

METHOD = "tnlpad"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--task", nargs="+", default=["mnist:20", "cifar10:9"], metavar="TASK:RUNS")
    parser.add_argument("--seconds", type=float, default=6.0, help="that each way is timed for")
    parser.add_argument("--save", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    record: dict[str, Any] = {
        "benchmark": "packing",
        "device": arguments.device,
        "machine": machine(arguments.device),
        "versions": versions(),
        "images_per_second": {},
    }
    for number, entry in enumerate(arguments.task, 1):
        done = " ".join(arguments.task[:number])
        record["command"] = f"python -m benchmarks.packing --device {arguments.device} --task {done}"
        task, runs = entry.split(":")
        rates = record["images_per_second"].setdefault(task, {"runs": int(runs)})
        for way, rate in ways(task, int(runs), arguments.device, arguments.seconds).items():
            rates[way] = rate()
            print(f"{task}: {runs} {way:<10} {rates[way]:>10.0f} images/s", flush=True)
            write(record, arguments.save)  # what has been measured is not lost if time runs out
    leave(record, arguments.save)


def ways(task: str, runs: int, device: str, seconds: float) -> dict[str, Callable[[], float]]:
    stacked = {"stacked": lambda: of_stacked(task, runs, device, seconds)}
    if device == "cpu":
        return stacked
    return {
        "processes": lambda: of_processes(task, runs, seconds),
        "streams": lambda: of_streams(task, runs, seconds),
        **stacked,
    }


def of_processes(task: str, runs: int, seconds: float) -> float:
    with mps("cuda", say=lambda line: print(line, file=sys.stderr)):
        return packed(task, METHOD, Way.named(str(runs)), seconds, None)["images_per_second"]


def of_streams(task: str, runs: int, seconds: float) -> float:
    """The host only launches: whole steps, the reading of the next rows included, are in the graphs."""
    ours = [Ours(task, METHOD, "cuda") for _ in range(runs)]
    for each in ours:
        each.epoch()
    return trained(ours, seconds)


def of_stacked(task: str, runs: int, device: str, seconds: float) -> float:
    shape = TASKS[task]
    batch, classes = shape.batch, shape.classes
    bf16 = configure(shape.dataset, network=shape.network, device=device).precision == "bfloat16"
    networks = [build(shape.network, num_classes=classes, in_channels=shape.channels).to(device) for _ in range(runs)]
    images = torch.randn(runs, batch, shape.channels, shape.side, shape.side, device=device)
    labels = torch.randint(classes, (runs, batch), device=device)
    step = stacked_step(networks, images, labels, bf16=bf16)
    step()
    if device == "cuda":
        step = captured(step)
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(50 if device == "cuda" else 1):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
        done += runs * batch * (50 if device == "cuda" else 1)
    return done / (time.perf_counter() - began)


def stacked_step(
    networks: list[nn.Module], images: Tensor, labels: Tensor, *, bf16: bool, learning_rate: float = 0.01
) -> Callable[[], dict[str, Tensor]]:
    """A step of SGD of all of them at once; what it returns are their weights, with one more dimension in front."""
    for network in networks:
        for module in network.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.track_running_stats, module.running_mean, module.running_var = False, None, None
                module.num_batches_tracked = None
    weights, buffers = stack_module_state(networks)
    weights = {name: weight.detach() for name, weight in weights.items()}
    alike = networks[0]

    def loss(weights: dict[str, Tensor], buffers: dict[str, Tensor], images: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast(images.device.type, torch.bfloat16, enabled=bf16):
            logits = functional_call(alike, (weights, buffers), (images,))
        return nn.functional.cross_entropy(logits.float(), labels)

    gradients_of = vmap(grad(loss))

    def step() -> dict[str, Tensor]:
        gradients = gradients_of(weights, buffers, images, labels)
        torch._foreach_add_(list(weights.values()), [gradients[name] for name in weights], alpha=-learning_rate)
        return weights

    return step


if __name__ == "__main__":
    main()
