"""Speed of LeNet's own kernels: whole training steps on MNIST-sized images in three forms, in one run.

- own kernels: float32, a convolution with its pooling as one kernel, linear layers as fused sums; the default on a GPU
- float32 libraries: torch compiles the plain layers
- bfloat16 libraries: the same layers on tensor cores

Kernel launches dominate a step this small, so they are counted too. On a CPU all float32 variants use the libraries.

    python -m benchmarks.small_network [--device cuda|cpu] [--turns 7] [--save record.json]
"""

import argparse
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from unittest.mock import patch

import torch

from benchmarks.machine import leave, machine, ratio, versions
from benchmarks.training import Ours

OWN = "own kernels"
FORMS = {OWN: "float32", "float32 by libraries": "float32", "bfloat16 by libraries": "bfloat16"}


def trained(form: str, device: str, samples: int | None) -> Ours:
    """Runs that are compiled, captured and warm."""
    torch.compiler.reset()
    with ExitStack() as stack:
        if form != OWN:
            stack.enter_context(patch("tnlpad.networks.lenet.few_launches", lambda _: False))
        run = Ours("mnist", "standard", device, samples=samples, precision=FORMS[form])
        run.epoch()
    return run


def launches(run: Ours) -> int | None:
    """Kernels and copies in a captured step."""
    graphs = [graph.graph for (_, size), graph in getattr(run.engine, "graphs", {}).items() if size == run.batch]
    if not graphs:
        return None
    run.engine.next_step.zero_()  # or it would read past the epoch's rows
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        graphs[0].replay()
        torch.cuda.synchronize()
    return sum(event.device_type == torch.autograd.DeviceType.CUDA for event in profile.events())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--save", type=Path, help="write the record as JSON to this file")
    arguments = parser.parse_args()
    runs = {form: trained(form, arguments.device, None if arguments.device == "cuda" else 2000) for form in FORMS}
    times: dict[str, list[float]] = {form: [] for form in FORMS}
    for _ in range(arguments.turns):
        for form, run in runs.items():
            times[form].append(run.epoch() / run.steps)
    record = {
        "benchmark": "small_network",
        "device": arguments.device,
        "machine": machine(arguments.device),
        "versions": versions(),
        "network": "lenet",
        "batch": runs[OWN].batch,
        "turns": arguments.turns,
        "command": f"python -m benchmarks.small_network --device {arguments.device} --turns {arguments.turns}",
        "step_ms": {form: 1000 * median(values) for form, values in times.items()},
        "over_own_kernels": {form: ratio(times[form], times[OWN]) for form in FORMS if form != OWN},
        "launches": {form: launches(run) for form, run in runs.items()},
    }
    for form in FORMS:
        over = record["over_own_kernels"].get(form)
        said = f", {over['median']:.3f} of the time with own kernels" if over else ""
        print(f"{form:<22} {record['step_ms'][form]:.4f} ms a step, {record['launches'][form]} launches{said}")
    leave(record, arguments.save)


if __name__ == "__main__":
    main()
