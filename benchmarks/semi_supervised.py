"""Cost of a step of SELF and DivideMix above the passes of their networks, measured side by side in one run.

The bare passes are those that a step needs in any case, on prepared images, in the same shapes and modes:

    SELF       forward and backward of 2B images by the student, forward of 2B by the teacher; B is the loader's batch
    DivideMix  for each of two networks forward and backward of 4B mixed images, a forward of 4B by itself and one of 2B
               by the other; the loader's batch is 2B

The rest is the method's own work: reading the table, augmentation, targets, mixing, losses, the teacher's average, the
update of the weights. The combinations with TNLPAD are measured in their longest phase. On a GPU networks are compiled,
channels-last and in bfloat16 (autocast), and both variants are captured in CUDA graphs. On a CPU both run eagerly.

    python -m benchmarks.semi_supervised [--device cpu|cuda] [--network resnet18] [--batch 64] [--turns 20]
                                         [--samples 45000] [--save record.json]
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.machine import captured, leave, machine, ratio, seconds, versions
from tnlpad.core.compiled import compile_options
from tnlpad.data.augment import Augmentation, Augmenter
from tnlpad.methods import METHODS, Setup
from tnlpad.networks import build
from tnlpad.runs.images import TrainingImages
from tnlpad.types import Batch, Clock

NAMES = ("self", "self+tnlpad", "dividemix", "dividemix+tnlpad")
CLASSES, EPOCHS = 10, 100
SHAPES = {"resnet18": (3, 32, 32), "lenet": (1, 28, 28), "small_cnn": (1, 8, 8)}
ALLOWED = 0.15  # above the bare passes


def memory_format(device: str) -> torch.memory_format:
    return torch.channels_last if device == "cuda" else torch.contiguous_format


def fresh(network: str, number: int, device: str) -> nn.Module:
    torch.manual_seed(number)
    built = build(network, num_classes=CLASSES, in_channels=SHAPES[network][0]).to(device)
    built = built.to(memory_format=memory_format(device))
    if device == "cuda":
        built.compile(**compile_options())
    return built


def method_step(name: str, arguments: argparse.Namespace) -> Callable[[], None]:
    device, samples, shape = arguments.device, arguments.samples, SHAPES[arguments.network]
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (samples, *shape), generator=generator, dtype=torch.uint8).to(device)
    augmenter = Augmenter(images, Augmentation(crop_padding=4, flip=True), [0.5] * shape[0], [0.25] * shape[0])
    source = TrainingImages(
        augmenter,
        torch.arange(samples),
        memory_format=memory_format(device),
        batch_size=1024,
        bf16=device == "cuda",
        captured=False,
    )
    setup = Setup(
        network=lambda number: fresh(arguments.network, number, device),
        sgd={
            "lr": torch.tensor(0.01, device=device) if device == "cuda" else 0.01,
            "momentum": 0.9,
            "weight_decay": 1e-3,
            "fused": True,
        },
        labels=torch.randint(CLASSES, (samples,), generator=generator).to(device),
        num_classes=CLASSES,
        epochs=EPOCHS,
        noise_rate=None,
        generator=generator,
        source=lambda: source,
    )
    entry = METHODS[name]
    settings = {"warmup_epochs": 1} if name.startswith("dividemix") else {}
    method = entry.build(entry.config(**settings), setup)
    size = arguments.batch if name.startswith("self") else 2 * arguments.batch
    index = torch.arange(size, device=device)
    batch = Batch(
        index=index,
        images=source.augmented(index, source.draw(size, generator).to(device)),
        labels=setup.labels[index],
    )
    for epoch in (1, 2):
        clock = Clock(epoch=epoch, epochs=EPOCHS)
        method.begin_epoch(clock)
        with torch.autocast("cuda", torch.bfloat16, enabled=device == "cuda"):
            method.step(batch, clock)

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16, enabled=device == "cuda"):
            method.step(batch, clock)

    return step


def bare_passes(name: str, arguments: argparse.Namespace) -> Callable[[], None]:
    device, shape, b = arguments.device, SHAPES[arguments.network], arguments.batch
    generator = torch.Generator().manual_seed(0)

    def ready(count: int) -> Tensor:
        return (
            torch.randn(count, *shape, generator=generator).to(device).contiguous(memory_format=memory_format(device))
        )

    learnt, guessed = (2 * b, 0) if name.startswith("self") else (4 * b, 2 * b)
    images, others, labels = ready(learnt), ready(max(guessed, 1)), torch.zeros(learnt, dtype=torch.int64).to(device)
    networks = [fresh(arguments.network, number, device) for number in range(2)]

    def learn(network: nn.Module) -> None:
        for parameter in network.parameters():
            parameter.grad = None
        F.cross_entropy(network(images), labels).backward()

    def passes() -> None:
        with torch.autocast("cuda", torch.bfloat16, enabled=device == "cuda"):
            if name.startswith("self"):
                student, teacher = networks
                with torch.no_grad():
                    teacher(images)
                learn(student)
                return
            for own, other in (networks, networks[::-1]):
                with torch.no_grad():
                    own(images)
                    other.eval()
                    other(others)
                    other.train()
                learn(own)

    return passes


def ready(
    make: Callable[[str, argparse.Namespace], Callable[[], None]], name: str, arguments: argparse.Namespace
) -> Callable[[], None]:
    """Return the function to time: warmed up, and captured on a GPU."""
    torch.compiler.reset()  # torch compiles a function for a handful of shapes and then, silently, no more
    function = make(name, arguments)
    for _ in range(3):
        function()
    return captured(function) if arguments.device == "cuda" else function


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--network", default="resnet18", choices=list(SHAPES))
    parser.add_argument("--batch", type=int, default=64, help="B: labelled images in a step")
    parser.add_argument("--samples", type=int, default=45_000)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--save", type=Path, help="write the record as JSON to this file")
    arguments = parser.parse_args()
    device, repeats = arguments.device, 30 if arguments.device == "cuda" else 1
    given = ("device", "network", "batch", "samples", "turns")
    command = " ".join(["python -m benchmarks.semi_supervised", *(f"--{n} {getattr(arguments, n)}" for n in given)])
    times: dict[str, list[float]] = {}
    over: dict[str, dict[str, float]] = {}
    for name in NAMES:
        print(name, file=sys.stderr)
        pair = {name: ready(method_step, name, arguments), f"{name} bare": ready(bare_passes, name, arguments)}
        times |= {key: [] for key in pair}
        for _ in range(arguments.turns):
            for key, function in pair.items():
                times[key].append(seconds(function, device, repeats))
        over[name] = ratio(times[name], times[f"{name} bare"])
    record: dict[str, object] = {
        "benchmark": "semi_supervised",
        "device": device,
        "machine": machine(device),
        "versions": versions(),
        **{name: getattr(arguments, name) for name in given[1:]},
        "step_ms": {name: 1000 * median(values) for name, values in times.items()},
        "over_bare_passes": over,
        "allowed": 1 + ALLOWED,
        "command": command,
    }
    print(f"{machine(device)}; {arguments.network}, B = {arguments.batch}; torch {torch.__version__}")
    print(f"{'method':<18} {'step ms':>9} {'bare ms':>9} {'above bare':>11}   at most {100 * ALLOWED:.0f}% is aimed at")
    for name in NAMES:
        step_ms, bare_ms = (1000 * median(times[key]) for key in (name, f"{name} bare"))
        print(f"{name:<18} {step_ms:>9.3f} {bare_ms:>9.3f} {100 * (over[name]['median'] - 1):>10.1f}%")
    leave(record, arguments.save)


if __name__ == "__main__":
    main()
