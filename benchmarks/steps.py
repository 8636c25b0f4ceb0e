"""Time of a training step of each network of the paper, with plain training and the recipe's images and batches.

On a GPU the network is compiled, channels-last and in bfloat16 (autocast), and the step is captured in a CUDA graph. On
a CPU steps run eagerly with one thread, as each of several parallel runs does. `benchmarks.step_times` turns this
record into the times from which `tnlpad reproduce` makes its estimates.

    python -m benchmarks.steps [--device cpu|cuda] [--turns 3] [--save record.json]
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.machine import captured, leave, machine, seconds, versions
from tnlpad.data.catalogue import find
from tnlpad.networks import build
from tnlpad.paper.cells import SMOKE, TABLES, cells
from tnlpad.runs.config import configure


def recipes() -> list[dict[str, Any]]:
    """Every combination of network, image and batch that the paper's tables and `smoke` need."""
    found = {}
    for cell in (cell for table in (*TABLES, SMOKE) for cell in cells(table) if cell.row == "standard"):
        info = find(cell.dataset)
        config = configure(cell.dataset, noise=cell.noise, method=cell.method, network=cell.network)
        channels, side = (info.image_shape[0], info.image_shape[2]) if info.image_shape else (3, config.crop)
        step = {"network": config.network, "channels": channels, "side": side, "batch": config.batch_size}
        found.setdefault(tuple(step.values()), step | {"classes": len(info.class_names)})
    return list(found.values())


def network_of(recipe: dict[str, Any]) -> nn.Module:
    torch.manual_seed(0)
    return build(recipe["network"], num_classes=recipe["classes"], in_channels=recipe["channels"])


def multiply_adds(recipe: dict[str, Any]) -> int:
    """Count the multiply-adds of one image."""
    with torch.device("meta"), torch.no_grad(), FlopCounterMode(display=False) as counter:
        network_of(recipe).eval()(torch.zeros(1, recipe["channels"], recipe["side"], recipe["side"]))
    return int(counter.get_total_flops()) // 2


def step_of(recipe: dict[str, Any], device: str) -> Callable[[], None]:
    shape = (recipe["batch"], recipe["channels"], recipe["side"], recipe["side"])
    images, labels = torch.randn(shape, device=device), torch.zeros(recipe["batch"], dtype=torch.long, device=device)
    network: nn.Module = network_of(recipe).to(device)
    rate: Any = torch.tensor(0.01, device=device) if device == "cuda" else 0.01
    optimizer = torch.optim.SGD(network.parameters(), lr=rate, momentum=0.9, weight_decay=1e-3, fused=True)
    if device == "cuda":
        images = images.to(memory_format=torch.channels_last)
        network = torch.compile(network.to(memory_format=torch.channels_last))

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16, enabled=device == "cuda"):
            loss = F.cross_entropy(network(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    for _ in range(3 if device == "cuda" else 1):
        step()
    return captured(step) if device == "cuda" else step


def turns(step: Callable[[], None], device: str, least: int) -> int:
    """More of the short ones: a median of three steps of a millisecond would be chance."""
    return max(least, min(50, round(1 / seconds(step, device))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--save", type=Path, help="write the record as JSON to this file")
    arguments = parser.parse_args()
    device, repeats = arguments.device, 30 if arguments.device == "cuda" else 1
    torch.set_num_threads(1)
    measured = []
    print(f"{machine(device)}; torch {torch.__version__}")
    for recipe in recipes():
        step = step_of(recipe, device)
        step_ms = 1000 * median(seconds(step, device, repeats) for _ in range(turns(step, device, arguments.turns)))
        measured.append(recipe | {"step_ms": step_ms})
        image = f"{recipe['channels']} × {recipe['side']} × {recipe['side']}"
        print(f"{recipe['network']:<20} {image:<15} batch {recipe['batch']}  {step_ms:>10.3f} ms", flush=True)
        del step
    record: dict[str, object] = {
        "benchmark": "steps",
        "device": device,
        "machine": machine(device),
        "versions": versions(),
        "engine": "compiled, bfloat16, channels-last, CUDA graph" if device == "cuda" else "eager, float32",
        "turns": arguments.turns,
        "steps": measured,
        "command": f"python -m benchmarks.steps --device {device} --turns {arguments.turns}",
    }
    leave(record, arguments.save)


if __name__ == "__main__":
    main()
