"""Training speed, from the data to the update: whole steps of ResNet-18 on CIFAR-sized images, in one run.

- standard, tnlpad: our engine with the device loader and augmentation, whole epochs by the wall clock
- peer: the plain PyTorch that a user would otherwise run: a `DataLoader` with four workers and pinned memory, Pillow
  transforms, every layer run twice (σ and γ) with the penalties by autograd, TF32, cuDNN autotuning
- saturated: standard at batch 1024, which fills the GPU
- packed: several of our runs at once, each in its own process, under CUDA MPS if it is installed; single runs go
  without MPS. 9@30 are nine runs, each with at most 30 % of the GPU's processors; 9 alone takes the share that
  `tnlpad reproduce` uses. Runs per hour are computed from the recipe's epochs and steps, without the measurements after
  every epoch

Each comparison takes turns; the reported numbers are ratios within a turn.

    python -m benchmarks.training [--device cuda|cpu] [--turns 5] [--packed cifar10:9@30,mnist:20] [--save record.json]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.machine import leave, machine, ratio, versions, write
from benchmarks.methods import NAMES
from tests.core.reference import Penalties, branches, two_branch
from tnlpad.core.compiled import compile_options
from tnlpad.core.penalties import LinearGrowth, PowerDecay
from tnlpad.core.split import parameter_groups
from tnlpad.data.augment import Augmentation
from tnlpad.data.loader import DeviceLoader
from tnlpad.grid.mps import PROCESSORS_SHARE, mps, share_of
from tnlpad.methods import METHODS, Setup
from tnlpad.networks import build
from tnlpad.rng import torch_stream
from tnlpad.runs.config import configure
from tnlpad.runs.prepare import working_dtype
from tnlpad.training.engine import choose_engine, own_stream
from tnlpad.types import Clock

PADDING = 4
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
AUGMENTATION = Augmentation(crop_padding=PADDING, flip=True)


@dataclass(frozen=True, kw_only=True)
class Task:
    """A network on the images of a dataset, as the paper trains it."""

    dataset: str
    network: str
    samples: int = 45_000
    channels: int = 3
    side: int = 32
    batch: int = 64
    classes: int = 10
    augmentation: Augmentation = AUGMENTATION


GREY = {"samples": 54_000, "channels": 1, "side": 28, "batch": 32, "augmentation": Augmentation()}
PHOTOGRAPHS = {"network": "imagenet_resnet50", "samples": 3200, "batch": 32, "augmentation": Augmentation(flip=True)}
TASKS = {
    "cifar10": Task(dataset="cifar10", network="resnet18"),
    "fashion_mnist": Task(dataset="fashion_mnist", network="resnet18", **GREY),
    "mnist": Task(dataset="mnist", network="lenet", **GREY),
    "cifar100": Task(dataset="cifar100", network="resnet50", classes=100),
    "wide_resnet28_10": Task(dataset="cifar10", network="wide_resnet28_10"),
    "vgg19": Task(dataset="cifar10", network="vgg19"),
    "resnext29_32x4d": Task(dataset="cifar10", network="resnext29_32x4d"),
    "food101": Task(dataset="food101", side=112, classes=101, **PHOTOGRAPHS),
    "clothing1m": Task(dataset="clothing1m", side=224, classes=14, **PHOTOGRAPHS),
}


class Way(NamedTuple):
    """Number of runs that share a GPU, and the percentage of its processors that each may use."""

    runs: int
    percentage: int

    @classmethod
    def named(cls, words: str) -> "Way":
        """Read a way such as 9@30; the percentage is that of `tnlpad reproduce` if it is left out."""
        runs, _, percentage = words.partition("@")
        return cls(int(runs), int(percentage) if percentage else share_of(int(runs)))

    @property
    def environment(self) -> dict[str, str]:
        return {PROCESSORS_SHARE: str(self.percentage)}

    def __str__(self) -> str:
        return f"{self.runs}@{self.percentage}"


class Ours:
    """Epochs of one method on random images, as the training loop runs them."""

    def __init__(
        self,
        task: str,
        method: str,
        device: str,
        *,
        batch: int | None = None,
        samples: int | None = None,
        precision: str | None = None,
    ) -> None:
        shape = TASKS[task]
        size, self.batch, channels = samples or shape.samples, batch or shape.batch, shape.channels
        place, generator = torch.device(device), torch.Generator().manual_seed(0)
        cuda = place.type == "cuda"
        images = torch.randint(0, 256, (size, channels, shape.side, shape.side), dtype=torch.uint8, generator=generator)
        labels = torch.randint(shape.classes, (size,), generator=generator).to(place)
        self.memory_format = torch.channels_last if cuda else torch.contiguous_format
        loader = DeviceLoader(
            images.to(place),
            labels,
            batch_size=self.batch,
            mean=MEAN[:channels],
            std=STD[:channels],
            augmentation=shape.augmentation,
            order=torch_stream(1, "order"),
            augment=torch_stream(1, "augment"),
            memory_format=self.memory_format,
        )

        def fresh(number: int) -> nn.Module:
            torch.manual_seed(number)
            built = build(shape.network, num_classes=shape.classes, in_channels=channels).to(place)
            for parameter in built.parameters():
                if parameter.ndim == 4:
                    parameter.data = parameter.data.contiguous(memory_format=self.memory_format)
            if cuda:
                built.compile(**compile_options())
            return built

        config = configure(shape.dataset, noise="symmetric:0.4", network=shape.network, device=device)
        config = replace(config, precision=precision or config.precision)
        rate: Any = torch.tensor(0.01, device=place) if cuda else 0.01
        setup = Setup(
            network=fresh,
            sgd={"lr": rate, "momentum": 0.9, "weight_decay": 1e-3, "fused": True},
            labels=labels,
            num_classes=shape.classes,
            epochs=100,
            noise_rate=0.4,
            generator=generator,
            working_dtype=working_dtype(config, place),
        )
        entry = METHODS[method]
        self.method = entry.build(entry.config(), setup)
        bf16 = config.precision == "bfloat16"
        self.engine = choose_engine("auto", self.method, loader, device=place, bf16=bf16, compiled=cuda)
        self.place, self.steps, self.samples, self.epochs = place, len(loader), size, 0

    def epoch(self) -> float:
        """Seconds of one epoch of training."""
        self.epochs += 1
        began = time.perf_counter()
        with own_stream(self.place):
            clock = Clock(epoch=self.epochs, epochs=10**6)
            self.method.begin_epoch(clock)
            self.engine.epoch(clock, None).tolist()
        return time.perf_counter() - began


class Photos(Dataset[tuple[Tensor, int]]):
    """CIFAR-sized images with the usual transforms, one at a time with Pillow."""

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        self.images = generator.integers(0, 256, (45_000, 32, 32, 3), dtype=np.uint8)
        self.labels = generator.integers(0, 10, 45_000)
        self.mean, self.std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = ImageOps.expand(Image.fromarray(self.images[index]), PADDING)
        top, left, flip = (int(torch.randint(n, ())) for n in (2 * PADDING + 1, 2 * PADDING + 1, 2))
        image = image.crop((left, top, left + 32, top + 32))
        if flip:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div(255)
        return pixels.sub(self.mean).div(self.std), int(self.labels[index])


def peer(device: str, workers: int) -> Iterator[None]:
    """Plain PyTorch with the authors' form of the network; one step for every `next`."""
    torch.manual_seed(0)
    model = build("resnet18", num_classes=10, in_channels=3).to(device)
    groups = parameter_groups(model, init="independent", generator=torch.Generator().manual_seed(1))
    names, sigma, gamma = (groups[0][key] for key in ("param_names", "params", "gamma"))
    doubled = two_branch(model, dict(zip(names, sigma, strict=True)), dict(zip(names, gamma, strict=True))).train()
    penalties = Penalties(*(list(side.values()) for side in branches(doubled)), LinearGrowth(1e-4), PowerDecay(0.6))
    optimizer = torch.optim.SGD(doubled.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-3)
    loader = DataLoader(Photos(), batch_size=64, shuffle=True, num_workers=workers, pin_memory=device == "cuda")
    while True:
        penalties.start_epoch()
        for images, labels in loader:
            outputs = doubled(images.to(device, non_blocking=True))
            loss = nn.functional.cross_entropy(outputs, labels.to(device, non_blocking=True)) + penalties.value()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield


@contextmanager
def as_users_set_it() -> Iterator[None]:
    """TF32 and cuDNN's search for the fastest algorithm."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.benchmark = False


def timed(step: Callable[[], object], count: int, device: str) -> float:
    """Seconds per call."""
    began = time.perf_counter()
    for _ in range(count):
        step()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - began) / count


def packed(
    task: str,
    method: str,
    way: Way,
    seconds: float,
    precision: str | None,
    *,
    samples: int | None = None,
    compiled: bool = False,
) -> dict[str, float]:
    """Images per second of so many runs at once, each a process of its own; all are warm before the clock starts.

    Unless their network is already compiled, the first compiles, and the others wait and find what it compiled.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.training", "--child", folder, "--task", task, "--method", method]
        command += ["--seconds", str(seconds), *([] if precision is None else ["--precision", precision])]
        command += [] if samples is None else ["--samples", str(samples)]
        its = {**os.environ, "OMP_NUM_THREADS": "1", **way.environment}
        children = []
        for number in range(way.runs):
            children.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=its))
            if number == way.runs - 1 or (number == 0 and not compiled):
                _wait_for(Path(folder), children)
        (Path(folder) / "go").touch()
        results = [json.loads(child.communicate()[0].splitlines()[-1]) for child in children]
    return {
        **way._asdict(),
        "images_per_second": sum(each["images_per_second"] for each in results),
        "gigabytes_each": max(each["gigabytes"] for each in results),
    }


def _wait_for(folder: Path, children: list[subprocess.Popen[str]]) -> None:
    while len(list(folder.glob("ready-*"))) < len(children):
        if any(child.poll() for child in children):
            raise RuntimeError("A packed run failed: see above.")
        time.sleep(0.05)


def child(
    folder: Path, task: str, method: str, seconds: float, precision: str | None, samples: int | None = None
) -> None:
    """One of the packed runs: warm up, wait for the others, train for a while."""
    torch.set_num_threads(1)
    run = Ours(task, method, "cuda", precision=precision, samples=samples)
    run.epoch()
    (folder / f"ready-{os.getpid()}").touch()
    while not (folder / "go").exists():
        run.epoch()  # keeps the GPU as busy as it will be
    began, epochs = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        run.epoch()
        epochs += 1
    rate = epochs * run.samples / (time.perf_counter() - began)
    free, total = torch.cuda.mem_get_info()
    print(
        json.dumps(
            {"images_per_second": rate, "gigabytes": torch.cuda.max_memory_reserved() / 1e9, "free": free / total}
        )
    )


def compare_steps(device: str, turns: int, workers: int) -> dict[str, Any]:
    samples = None if device == "cuda" else 128
    runs = {name: Ours("cifar10", name, device, samples=samples) for name in ("standard", "tnlpad")}
    runs["saturated"] = Ours("cifar10", "standard", device, batch=1024 if device == "cuda" else 64, samples=samples)
    for name, run in runs.items():
        print(f"{name}: warm after {run.epoch():.0f} s", file=sys.stderr)
    steps = peer(device, workers)
    with as_users_set_it():
        timed(lambda: next(steps), 20 if device == "cuda" else 1, device)
    times: dict[str, list[float]] = {name: [] for name in (*runs, "peer")}
    for _ in range(turns):
        for name, run in runs.items():
            times[name].append(run.epoch() / run.steps)
        with as_users_set_it():
            times["peer"].append(timed(lambda: next(steps), 100 if device == "cuda" else 1, device))
    batch = {name: run.batch for name, run in runs.items()} | {"peer": 64}
    return {
        "step_ms": {name: 1000 * median(values) for name, values in times.items()},
        "images_per_second": {name: batch[name] / median(values) for name, values in times.items()},
        "tnlpad_over_standard": ratio(times["tnlpad"], times["standard"]),
        "peer_over_tnlpad": ratio(times["peer"], times["tnlpad"]),
        "standard_share_of_saturated": ratio(
            [batch["standard"] / t for t in times["standard"]], [batch["saturated"] / t for t in times["saturated"]]
        ),
    }


def command(arguments: argparse.Namespace, packed: list[str]) -> str:
    """Return the record, with as many of the packed entries as have been measured so far."""
    words = ["python -m benchmarks.training", f"--device {arguments.device}", f"--turns {arguments.turns}"]
    words += [f"--packed {','.join(packed)} --seconds {arguments.seconds:g}"] if packed else []
    words += [f"--precision {arguments.precision}"] if arguments.precision else []
    return " ".join(words + ["--skip-steps"] * arguments.skip_steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--packed", default="", help="what and how many at once: cifar10:9@30,mnist:20")
    parser.add_argument("--task", default="cifar10", choices=list(TASKS), help=argparse.SUPPRESS)
    parser.add_argument("--method", default="tnlpad", choices=NAMES)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--precision", help="of what is packed: bfloat16 or float32; the recipe's own if left out")
    parser.add_argument("--samples", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--skip-steps", action="store_true", help="only what is packed")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--save", type=Path, help="write the record as JSON to this file")
    arguments = parser.parse_args()
    if arguments.child:
        words = arguments.task, arguments.method, arguments.seconds, arguments.precision, arguments.samples
        child(arguments.child, *words)
        return
    record: dict[str, Any] = {
        "benchmark": "training",
        "device": arguments.device,
        "machine": machine(arguments.device),
        "versions": versions(),
        "turns": arguments.turns,
        "workers": arguments.workers,
        "command": command(arguments, []),
    }
    if not arguments.skip_steps:
        record |= compare_steps(arguments.device, arguments.turns, arguments.workers)
        for name, value in record["step_ms"].items():
            print(f"{name:<10} {value:9.3f} ms a step  {record['images_per_second'][name]:>9.0f} images/s")
        for name in ("tnlpad_over_standard", "peer_over_tnlpad", "standard_share_of_saturated"):
            print(f"{name:<30} {record[name]['median']:.3f} ({record[name]['low']:.3f} to {record[name]['high']:.3f})")
    with mps(arguments.device if arguments.packed else "cpu", say=lambda line: print(line, file=sys.stderr)):
        entries = list(filter(None, arguments.packed.split(",")))
        for number, entry in enumerate(entries, 1):
            task, _, words = entry.partition(":")
            way = Way.named(words)
            result = packed(task, arguments.method, way, arguments.seconds, arguments.precision)
            epochs = configure(TASKS[task].dataset, noise="symmetric:0.4", method=arguments.method).epochs
            result["runs_per_hour"] = 3600 * result["images_per_second"] / (TASKS[task].samples * epochs)
            record.setdefault("packed", {}).setdefault(task, []).append(result)
            line = f"{task}: {way} at once {result['images_per_second']:.0f} images/s"
            if "images_per_second" in record and task == "cifar10":
                result["share_of_saturated"] = result["images_per_second"] / record["images_per_second"]["saturated"]
                line += f", {result['share_of_saturated']:.3f} of saturated"
            print(
                f"{line}, {result['runs_per_hour']:.0f} runs an hour, {result['gigabytes_each']:.1f} GB each",
                flush=True,
            )
            record["command"] = command(arguments, entries[:number])
            write(record, arguments.save)  # what has been measured is not lost if time runs out
    leave(record, arguments.save)


if __name__ == "__main__":
    main()
