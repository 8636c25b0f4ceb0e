"""Write the measured and computed parts of docs/scaling.md; run by `make docs`, and tested.

Estimates rest on recorded step times and on the assumptions below, which the page states.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from tnlpad.data.catalogue import find
from tnlpad.grid.estimate import seconds_left, step_times
from tnlpad.grid.reproduce import experiments, plan
from tnlpad.networks import build
from tnlpad.report.table import Table
from tnlpad.runs.config import configure
from tnlpad.training.measure import Samples
from tnlpad.training.sample_scores import SampleStatistics

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "benchmarks" / "records"
PAGE = ROOT / "docs" / "scaling.md"


@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """Facts about machines that the estimates take as given."""

    gpus_per_machine: int = 8
    inside: float = 300e9  # bytes per second of a sum of gradients within a machine (NVLink)
    between: float = 40e9  # the same between machines (400 Gbit/s each)
    latency_inside: float = 20e-6  # seconds of a small sum
    latency_between: float = 60e-6
    uncaptured: float = 30e-3  # seconds in which Python launches the kernels of a step of ResNet-50
    jpeg_bytes: float = 40e3  # of a photograph with 256 pixels on its shorter side
    pixel_bytes: float = 3 * 256 * 340  # of the same photograph as pixels


ASSUMED = Assumptions()
LARGE = 100_000_000  # images
GPUS = (1, 8, 64)


def page(text: str, ranks: Mapping[str, Any], on_gpu: Mapping[str, Any], million: Mapping[str, Any]) -> str:
    """Return the page with the parts between marks replaced."""
    parts = {
        "ranks": f"{measured(ranks)}\n\n{shared(on_gpu)}",
        "million": streamed(million),
        "estimates": estimates(million),
    }
    for name, content in parts.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n{content}\n{end}{after}"
    return text


def measured(record: Mapping[str, Any]) -> str:
    """Describe what `benchmarks.scaling` measured."""
    text = (
        f"Measured on two cores ({record['machine']}, {_version(record)}): whole steps of TNLPAD with "
        f"{record['network']} on images of 32 pixels at batch {record['batch']}, {_turns(record)} "
        "([record](../benchmarks/records/scaling-cpu.json), made by `python -m benchmarks.scaling`). Every rank has "
        "one thread. Overhead is everything except forward, backward and communication: loading, the loss, and the "
        "update of σ and γ. Speed is the median of the ratios of a turn."
    )
    return _paragraph(text) + "\n\n" + _phases(record)


def shared(record: Mapping[str, Any]) -> str:
    """Describe what it measured on one GPU, which both ranks use."""
    text = (
        f"The same on one {record['machine']}, in bfloat16, {_turns(record)} ({_version(record)}, "
        "[record](../benchmarks/records/scaling-cuda.json), made by `python -m benchmarks.scaling --device cuda`). Two "
        "ranks share the GPU and exchange everything through the memory of the host, since NCCL takes one rank per "
        "GPU: this shows the overhead, and is no way to train. The kernels are launched one by one, as on several "
        "GPUs. One process replays a captured step instead. Its overhead is all that its captured forward and backward "
        "passes do not take, mostly the update of all weights."
    )
    return _paragraph(text) + "\n\n" + _phases(record)


def _turns(record: Mapping[str, Any]) -> str:
    turns, steps = record["turns"], record["steps"]
    return f"one turn of {steps} steps" if turns == 1 else f"medians of {turns} turns of {steps} steps"


def _version(record: Mapping[str, Any]) -> str:
    return f"tnlpad {record['versions']['tnlpad']}"


def _phases(record: Mapping[str, Any]) -> str:
    rows = []
    for name, each in record["variants"].items():
        speeds = [f"{each['images_per_second']:,.1f}", f"{each['speed']:.2f}"]
        rows.append([name, *speeds, f"{each['communication']:.1%}", f"{each['overhead']:.1%}"])
    return _table(["", "images per second", "speed", "communication", "overhead"], rows)


def streamed(record: Mapping[str, Any]) -> str:
    """Describe what `benchmarks.million_images` measured."""
    images = str(record["images"])
    ranks = "one rank" if record["ranks"] == 1 else f"each of {record['ranks']} ranks"
    text = (
        f"Measured with {record['images']:,} keys, behind which a few thousand JPEG files repeat ({record['machine']}; "
        "[record](../benchmarks/records/million-images-cpu.json), made by `python -m benchmarks.million_images`). "
        f"Memory is that of {ranks} after {record['steps']} steps of a small network at 64 pixels, and in brackets how "
        f"much more it is than with {record['few']:,} keys. The first step is counted from the start of the process. "
        "Speed is that of the loader at 112 pixels, with files in the system's cache, relative to `decode` in a loop "
        f"in as many threads ({record['images_per_second']['raw']:,.0f} images per second)."
    )
    rows = [
        [
            store,
            f"{record['read_seconds'][store]:.1f}",
            f"{by_count[images]['first_step_seconds']:.1f}",
            f"{by_count[images]['resident_mb']:,.0f} ({record['growth_mb'][store]:+,.0f})",
            f"{record['images_per_second'][store]:,.0f}",
            f"{record['over_raw_speed'][store]['median']:.2f}",
        ]
        for store, by_count in record["memory"].items()
    ]
    heads = ["", "lists read, s", "first step, s", "memory, MB", "images per second", "relative to decoding"]
    return _paragraph(text) + "\n\n" + _table(heads, rows)


# Estimates ------------------------------------------------------------------------------------------------------------


def estimates(million: Mapping[str, Any]) -> str:
    """Return worked estimates: the paper's experiments, one training, and a hundred million images."""
    parts = [_assumptions(), _paper(), _one_training(), _large(million)]
    return "\n\n".join(parts)


def _assumptions() -> str:
    recorded, assumed = step_times()["cuda"], ASSUMED
    inside, between = (f"{rate / 1e9:.0f} GB/s" for rate in (assumed.inside, assumed.between))
    small_inside, small_between = (f"{x * 1e6:.0f} µs" for x in (assumed.latency_inside, assumed.latency_between))
    return _paragraph(
        f"Computed by `docs/scaling.py` from recorded step times on an {recorded['machine']} ({recorded['basis']}), "
        f"not measured on several GPUs. Assumed: machines of {assumed.gpus_per_machine} GPUs; gradients are added up "
        f"at {inside} within a machine and {between} between machines; a small sum takes {small_inside} within and "
        f"{small_between} between machines; nothing of it overlaps with computation; on several ranks, launching a "
        f"step of ResNet-50 takes {assumed.uncaptured * 1e3:.0f} ms at least; a photograph of 256 pixels has "
        f"{assumed.jpeg_bytes / 1e3:.0f} kB as JPEG and {assumed.pixel_bytes / 1e3:.0f} kB as pixels."
    )


def _paper() -> str:
    """Estimate tables of the paper as independent runs: GPUs divide them, until the longest run is left."""
    rows = []
    for target, title in (("simulated", "main table"), ("all", "all tables and figures")):
        hours = [_hours(each.config) for each in plan(experiments(target), device="cuda")]
        known = [each for each in hours if each is not None]
        spent = [max(sum(known) / gpus, max(known)) for gpus in GPUS]
        rows.append([f"{title} ({len(hours):,} runs)", *(f"{each:,.1f}" for each in spent)])
    text = (
        "**The paper's experiments.** Runs are independent, so grids scale with the number of GPUs until the longest "
        "run is left. Hours, one run at a time on each GPU; several at a time are faster "
        "([performance.md](performance.md))."
    )
    return _paragraph(text) + "\n\n" + _table(["", *(_gpus(each) for each in GPUS)], rows)


def _hours(config: Any) -> float | None:
    seconds, _ = seconds_left(config, 0, {}, "cuda")
    return None if seconds is None else seconds / 3600


def _one_training() -> str:
    """Estimate one training of Clothing1M, with the paper's batch divided among the GPUs and with as much for each."""
    config, info = configure("clothing1m", device="cuda"), find("clothing1m")
    images = round(info.train_size * (1 - config.validation_fraction))
    rows = []
    for gpus in GPUS:
        row = [_gpus(gpus)]
        for batch in (config.batch_size, config.batch_size * gpus):
            if batch < gpus:
                row += ["–", "–"]
                continue
            computing, communicating = step(gpus, batch)
            hours = config.epochs * images / batch * (computing + communicating) / 3600
            row += [f"{hours:,.1f}", f"{communicating / (computing + communicating):.0%}"]
        rows.append(row)
    text = (
        f"**One training of Clothing1M**, {config.epochs} epochs of {images:,} images with ResNet-50 at {config.crop} "
        f"pixels, without measuring. The paper's batch of {config.batch_size} is too small to be divided: more GPUs "
        "need larger batches, which make it another run, with another learning rate. Common BatchNorm statistics take "
        "most of the communication."
    )
    same, larger = f"batch {config.batch_size}", f"{config.batch_size} for each GPU"
    heads = ["", f"{same}: hours", "communication", f"{larger}: hours", "communication"]
    return _paragraph(text) + "\n\n" + _table(heads, rows)


def step(gpus: int, batch: int) -> tuple[float, float]:
    """Return the seconds of computation and of communication in a step of ResNet-50 at 224 pixels."""
    wanted = {"network": "imagenet_resnet50", "side": 224, "at_once": 1}
    known = next(each for each in step_times()["cuda"]["steps"] if wanted.items() <= each.items())
    computing = known["step_ms"] / 1000 * batch / gpus / known["batch"]
    if gpus == 1:
        return computing, 0.0
    network = build("imagenet_resnet50", num_classes=14)
    weights = 4 * sum(parameter.numel() for parameter in network.parameters())
    layers = sum(isinstance(module, _BatchNorm) for module in network.modules())
    one_machine = gpus <= ASSUMED.gpus_per_machine
    rate = ASSUMED.inside if one_machine else ASSUMED.between
    latency = ASSUMED.latency_inside if one_machine else ASSUMED.latency_between
    sums = 2 * layers + 1  # of statistics, forward and backward, and of logits
    return max(computing, ASSUMED.uncaptured), 2 * (gpus - 1) / gpus * weights / rate + sums * latency


def _large(million: Mapping[str, Any]) -> str:
    """Estimate an epoch over a hundred million images."""
    batch_of_one = 32
    growth = max(million["growth_mb"].values()) / (million["images"] - million["few"]) * LARGE / 1000
    decoded = step_times()["decoding"]["images_per_second_and_core"]
    rows = []
    for gpus in GPUS[1:]:
        computing, communicating = step(gpus, batch_of_one * gpus)
        speed = batch_of_one * gpus / (computing + communicating)
        rows.append(
            [
                _gpus(gpus),
                f"{LARGE / speed / 3600:,.1f}",
                f"{speed:,.0f}",
                f"{speed / decoded / gpus:.1f}",
                f"{speed * ASSUMED.jpeg_bytes / 1e9:.2f}",
                f"{speed * ASSUMED.pixel_bytes / 1e9:.2f}",
            ]
        )
    text = (
        f"**{LARGE // 1_000_000} million images**, ResNet-50 at 224 pixels, batch {batch_of_one} for each GPU. "
        f"Storage: {LARGE * ASSUMED.jpeg_bytes / 1e12:.0f} TB of JPEG files or shards, "
        f"{LARGE * ASSUMED.pixel_bytes / 1e12:.0f} TB as prepared pixels. Memory of each rank for keys, labels and "
        f"order: {growth:.0f} GB, extrapolated from {million['images']:,} images "
        "([record](../benchmarks/records/million-images-cpu.json)). Scores of every sample take "
        f"{score_bytes(0)} bytes and {score_bytes(1) - score_bytes(0)} for each class, divided among the ranks."
    )
    heads = ["", "hours per epoch", "images per second", "cores that decode, per GPU", "GB/s, JPEG", "GB/s, pixels"]
    return _paragraph(text) + "\n\n" + _table(heads, rows)


def score_bytes(classes: int) -> int:
    """Return the bytes per sample of the statistics for σ and w, to the end and until the chosen epoch."""
    one = Samples(images_at=torch.zeros_like, index=torch.zeros(1, dtype=torch.int64), labels=torch.zeros(1).long())
    statistics = SampleStatistics(one, classes)
    views = [statistics._zeros(probabilities=first) for first in (True, False)]
    return 2 * sum(tensor.nbytes for sums in views for tensor in sums.values())


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _paragraph(text: str) -> str:
    return fill(text, 120, break_on_hyphens=False, break_long_words=False)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    align = "l" + "r" * (len(headings) - 1)
    return Table(title="", headings=headings, align=align, rows=rows).to_markdown().strip()


def records() -> list[dict[str, Any]]:
    """Read the records that the page shows."""
    names = ("scaling-cpu", "scaling-cuda", "million-images-cpu")
    return [json.loads((RECORDS / f"{name}.json").read_text()) for name in names]


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(PAGE.read_text(), *records()))


if __name__ == "__main__":
    main()
