"""Cost of each method: a whole training step, relative to Standard, in one run.

The floor follows from a method's forward and backward passes: 1 for one network, 2 for two. The rest is the method's
own work: ranking, histories, label correction, the decomposition. Every method is measured in the phase in which it
does all of it. On a GPU the networks are compiled, channels-last and in bfloat16 (autocast), and the whole step is
captured in a CUDA graph. On a CPU steps run eagerly. `semi_supervised` measures SELF and DivideMix.

    python -m benchmarks.methods [--device cpu|cuda] [--network resnet18] [--turns 20] [--save record.json]
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch import nn

from benchmarks.machine import captured, leave, machine, ratio, seconds, versions
from tnlpad.methods import METHODS, Setup
from tnlpad.networks import build
from tnlpad.types import Batch, Clock

BATCH, SAMPLES, CLASSES = 64, 45_000, 10
SHAPES = {"resnet18": (3, 32, 32), "lenet": (1, 28, 28)}
TWO_NETWORKS = {"coteaching", "coteaching_plus", "jocor", "cnlcu", "cnlcu_hard"}
NAMES = [name for name in METHODS if not name.startswith(("self", "dividemix"))]
CLOCK = Clock(epoch=45, epochs=100)  # after every method's warm-up


def floor(method: str) -> int:
    return 2 if method in TWO_NETWORKS else 1


def step_of(method: str, network: str, device: str) -> Callable[[], None]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (SAMPLES,), generator=generator).to(device)
    batch = Batch(
        index=torch.randperm(SAMPLES, generator=generator)[:BATCH].to(device),
        images=torch.randn(BATCH, *SHAPES[network], generator=generator).to(device),
        labels=torch.randint(CLASSES, (BATCH,), generator=generator).to(device),
    )
    if device == "cuda":
        channels_last = batch.images.to(memory_format=torch.channels_last)
        batch = Batch(index=batch.index, images=channels_last, labels=batch.labels)

    def fresh(number: int) -> nn.Module:
        torch.manual_seed(number)
        built = build(network, num_classes=CLASSES, in_channels=SHAPES[network][0]).to(device)
        return torch.compile(built.to(memory_format=torch.channels_last)) if device == "cuda" else built

    setup = Setup(
        network=fresh,
        sgd={
            "lr": torch.tensor(0.01, device=device) if device == "cuda" else 0.01,
            "momentum": 0.9,
            "weight_decay": 1e-3,
            "fused": True,
        },
        labels=labels,
        num_classes=CLASSES,
        epochs=CLOCK.epochs,
        noise_rate=0.4,
        generator=generator,
        working_dtype=torch.bfloat16 if device == "cuda" and network != "lenet" else None,
    )
    entry = METHODS[method]
    built = entry.build(entry.config(), setup)
    built.begin_epoch(CLOCK)

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16, enabled=device == "cuda"):
            built.step(batch, CLOCK)

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--network", default="resnet18", choices=list(SHAPES))
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--save", type=Path, help="write the record as JSON to this file")
    arguments = parser.parse_args()
    device, repeats = arguments.device, 30 if arguments.device == "cuda" else 1
    command = f"python -m benchmarks.methods --device {device} --network {arguments.network} --turns {arguments.turns}"
    steps = {}
    for name in NAMES:
        print(name, file=sys.stderr)
        step = step_of(name, arguments.network, device)
        for _ in range(3):
            step()
        steps[name] = captured(step) if device == "cuda" else step
    times: dict[str, list[float]] = {name: [] for name in NAMES}
    for _ in range(arguments.turns):
        for name, step in steps.items():
            times[name].append(seconds(step, device, repeats))
    record: dict[str, object] = {
        "benchmark": "methods",
        "device": device,
        "machine": machine(device),
        "versions": versions(),
        "network": arguments.network,
        "batch": BATCH,
        "turns": arguments.turns,
        "step_ms": {name: 1000 * median(values) for name, values in times.items()},
        "over_standard": {name: ratio(values, times["standard"]) for name, values in times.items()},
        "floor": {name: floor(name) for name in NAMES},
        "command": command,
    }
    print(f"{machine(device)}; {arguments.network}, batch {BATCH}; torch {torch.__version__}")
    print(f"{'method':<16} {'step ms':>9} {'over standard':>14} {'floor':>6} {'above floor':>12}")
    for name in NAMES:
        value = median(a / b for a, b in zip(times[name], times["standard"], strict=True))
        step_ms = 1000 * median(times[name])
        print(f"{name:<16} {step_ms:>9.3f} {value:>14.3f} {floor(name):>6} {100 * (value / floor(name) - 1):>11.1f}%")
    leave(record, arguments.save)


if __name__ == "__main__":
    main()
