"""Cost of the decomposition: a full training step of ResNet-18 at batch 64 in several ways, in one run.

- standard: torch's fused SGD on an ordinary network
- decomposition: `tnlpad.Decomposition` over the same SGD on the same network, on a GPU with bfloat16 weights
- two-branch: every layer run twice, penalties by autograd, as in the authors' code (`tests.core.reference`)

On a CPU the steps run eagerly in float32. On a GPU each variant is compiled, channels-last and in bfloat16 (autocast),
and its whole step (forward, backward, update) is captured in a CUDA graph. There, two more show what the dtype of the
weights brings: the decomposition without `working_dtype`, and standard training with bfloat16 weights, whose update
(compiled, one pass) keeps the weights in float32 beside them. Machines are noisy, so the variants take turns, and the
reported numbers are medians of the ratios within each turn.

    python -m benchmarks.optimizer_step [--device cpu|cuda] [--pairs 40] [--save record.json]
"""

import argparse
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn

from benchmarks.machine import captured, leave, machine, ratio, seconds, versions
from tests.core.reference import Penalties, branches, two_branch
from tnlpad import Decomposition, parameter_groups
from tnlpad.core.penalties import LinearGrowth, PowerDecay
from tnlpad.networks import NETWORKS

VARIANTS = ("standard", "decomposition", "two-branch")
ON_GPU = (*VARIANTS, "decomposition, float32 weights", "standard, bfloat16 weights")
BATCH = 64
SGD = {"momentum": 0.9, "weight_decay": 1e-3, "fused": True}
SIGMA_PENALTY, GAMMA_PENALTY = LinearGrowth(1e-4), PowerDecay(0.6)


@dataclass
class Variant:
    """One way to train: its step, and the update alone (on the gradients the last step left)."""

    step: Callable[[], None]
    update: Callable[[], object]


def build(name: str, device: str) -> Variant:
    torch.manual_seed(0)
    model = NETWORKS["resnet18"](num_classes=10).to(device).train()
    if device == "cuda":
        model = model.to(memory_format=torch.channels_last)
    images = torch.randn(BATCH, 3, 32, 32, device=device)
    images = images.to(memory_format=torch.channels_last) if device == "cuda" else images
    labels = torch.randint(10, (BATCH,), device=device)
    # A graph reads the learning rate from device memory; on the CPU a number is the usual way.
    rate = torch.tensor(0.01, device=device) if device == "cuda" else 0.01
    penalty: Callable[[], Tensor | float] = lambda: 0.0  # noqa: E731
    optimizer: torch.optim.Optimizer | NarrowSGD
    if name == "standard":
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, **SGD)
    elif name == "standard, bfloat16 weights":
        optimizer = NarrowSGD(model)
    elif name.startswith("decomposition"):
        groups = parameter_groups(model, init="independent", generator=torch.Generator().manual_seed(1))
        optimizer = Decomposition(
            groups,
            torch.optim.SGD,
            lr=rate,
            sigma_penalty=SIGMA_PENALTY,
            gamma_penalty=GAMMA_PENALTY,
            working_dtype=torch.bfloat16 if name == "decomposition" and device == "cuda" else None,
            **SGD,
        )
        optimizer.start_epoch()
    else:
        groups = parameter_groups(model, init="independent", generator=torch.Generator().manual_seed(1))
        names, sigma, gamma = (groups[0][key] for key in ("param_names", "params", "gamma"))
        model = two_branch(model, dict(zip(names, sigma, strict=True)), dict(zip(names, gamma, strict=True)))
        penalties = Penalties(*(list(side.values()) for side in branches(model)), SIGMA_PENALTY, GAMMA_PENALTY)
        penalties.start_epoch()
        penalty = penalties.value
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, **SGD)
    forward = torch.compile(model) if device == "cuda" else model

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16, enabled=device == "cuda"):
            loss = nn.functional.cross_entropy(forward(images), labels)
        optimizer.zero_grad(set_to_none=True)
        (loss + penalty()).backward()
        optimizer.step()

    return Variant(step, optimizer.step)


class NarrowSGD:
    """SGD with momentum over bfloat16 weights and their exact values in float32; biases and BatchNorm as usual."""

    def __init__(self, model: nn.Module) -> None:
        self.weights = [p for p in model.parameters() if p.ndim > 1]
        self.exact = [weight.detach().clone() for weight in self.weights]
        self.momenta = [torch.zeros_like(weight) for weight in self.exact]
        for weight in self.weights:
            weight.data = weight.data.bfloat16()
        others = [p for p in model.parameters() if p.ndim == 1]
        self.ordinary = torch.optim.SGD(others, lr=torch.tensor(0.01, device=others[0].device), **SGD)
        self.update = torch.compile(self._update, dynamic=False)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.ordinary.zero_grad(set_to_none)
        for weight in self.weights:
            weight.grad = None

    @torch.no_grad()
    def step(self) -> None:
        self.update(self.weights, [weight.grad for weight in self.weights], self.exact, self.momenta)
        self.ordinary.step()

    @staticmethod
    def _update(weights: list[Tensor], gradients: list[Tensor], exact: list[Tensor], momenta: list[Tensor]) -> None:
        gradients = [gradient.float() for gradient in gradients]
        steps = torch._foreach_add(gradients, exact, alpha=SGD["weight_decay"])
        torch._foreach_mul_(momenta, SGD["momentum"])
        torch._foreach_add_(momenta, steps)
        torch._foreach_add_(exact, momenta, alpha=-0.01)
        torch._foreach_copy_(weights, exact)


def peak_memory_mib(name: str, device: str) -> float:
    """Peak of a fresh process that takes three steps, less what a process needs before it builds anything."""
    code = f"from benchmarks.optimizer_step import report_peak; report_peak({name!r}, {device!r})"
    output = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[1], check=True, capture_output=True, text=True
    )
    return float(output.stdout.split()[-1])


def report_peak(name: str, device: str) -> None:
    before = peak_rss_mib()
    variant = build(name, device)
    for _ in range(3):
        variant.step()
    if device == "cuda":
        print(torch.cuda.max_memory_allocated() / 2**20)
    else:
        print(peak_rss_mib() - before)


def peak_rss_mib() -> float:
    # Not getrusage: its peak is inherited from the process that started us.
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def measure(device: str, pairs: int) -> dict[str, object]:
    repeats, variants = (50, ON_GPU) if device == "cuda" else (1, VARIANTS)
    built = {name: build(name, device) for name in variants}
    steps, updates = {}, {}
    for name, variant in built.items():
        for _ in range(2):
            variant.step()
        steps[name] = captured(variant.step) if device == "cuda" else variant.step
        updates[name] = captured(variant.update) if device == "cuda" else variant.update
    times: dict[str, list[float]] = {name: [] for name in variants}
    update_times: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(pairs):
        for name in variants if turn % 2 else reversed(variants):
            if name == "two-branch" and device == "cpu" and turn >= 15:
                continue  # slow, and far from its limit
            times[name].append(seconds(steps[name], device, repeats))
        print(f"\r{turn + 1}/{pairs}", end="", file=sys.stderr, flush=True)
    # The update alone, again and again on the last gradient: after the steps, since it drives the weights far away.
    for _ in range(pairs):
        for name in variants:
            update_times[name].append(seconds(updates[name], device, repeats))
    print(file=sys.stderr)
    return {
        "benchmark": "optimizer_step",
        "device": device,
        "machine": machine(device),
        "versions": versions(),
        "network": "resnet18",
        "batch": BATCH,
        "engine": "compiled, bfloat16, channels-last, CUDA graph" if device == "cuda" else "eager, float32",
        "pairs": pairs,
        "step_ms": {name: 1000 * median(values) for name, values in times.items()},
        "update_ms": {name: 1000 * median(values) for name, values in update_times.items()},
        "peak_mib": {name: peak_memory_mib(name, device) for name in variants},
        "over_standard": {name: ratio(values, times["standard"]) for name, values in times.items()},
        "decomposition_over_standard": ratio(times["decomposition"], times["standard"]),
        "two_branch_over_decomposition": ratio(times["two-branch"], times["decomposition"]),
        "command": f"python -m benchmarks.optimizer_step --device {device} --pairs {pairs}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--save", type=Path, help="write the record as JSON to this file")
    arguments = parser.parse_args()
    record = measure(arguments.device, arguments.pairs)
    print(f"{record['machine']}; {record['engine']}; torch {torch.__version__}")
    print(f"{'variant':<30} {'step ms':>9} {'update ms':>10} {'peak MiB':>9} {'over standard':>14}")
    for name in record["step_ms"]:
        row = (record[key][name] for key in ("step_ms", "update_ms", "peak_mib"))
        print(
            "{:<30} {:>9.3f} {:>10.3f} {:>9.0f} {:>14.3f}".format(name, *row, record["over_standard"][name]["median"])
        )
    for key in ("decomposition_over_standard", "two_branch_over_decomposition"):
        value = record[key]
        print(f"{key.replace('_', ' ')}: {value['median']:.3f} (quartiles {value['low']:.3f} to {value['high']:.3f})")
    leave(record, arguments.save)


if __name__ == "__main__":
    main()
