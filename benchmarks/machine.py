"""Shared by all benchmarks: timing, the name of the machine, ratios within one run, and the record."""

import json
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import torch

from tnlpad import __version__


def seconds(function: Callable[[], object], device: str, repeats: int = 1) -> float:
    """Return the seconds of one call, by the device's own clock on a GPU."""
    if device == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeats):
            function()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1000 / repeats
    begin = time.perf_counter()
    for _ in range(repeats):
        function()
    return (time.perf_counter() - begin) / repeats


def captured(function: Callable[[], object]) -> Callable[[], None]:
    """The function's GPU work as a CUDA graph, warmed up."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(5):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()

    def replay() -> None:
        graph.replay()

    replay.keeps = function  # type: ignore[attr-defined]  # the graph reads its tensors by address
    return replay


def ratio(upper: Sequence[float], lower: Sequence[float]) -> dict[str, float]:
    """Median and quartiles of the ratios of measurements taken side by side."""
    ratios = sorted(a / b for a, b in zip(upper, lower, strict=False))
    quarter = len(ratios) // 4
    return {"median": median(ratios), "low": ratios[quarter], "high": ratios[-1 - quarter], "pairs": len(ratios)}


def machine(device: str) -> str:
    """Return the name of the processor or GPU."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    name = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    count = torch.get_num_threads()
    return f"{name}, {count} thread{'s' * (count != 1)}"


def versions() -> dict[str, str]:
    """Return the versions of the packages that influence the numbers."""
    return {"tnlpad": __version__, "torch": torch.__version__, "python": platform.python_version()}


def leave(record: dict[str, object], save: Path | None) -> None:
    """Print the machine-readable line, and write the record if asked to."""
    print("RECORD " + json.dumps(record))
    write(record, save)


def write(record: dict[str, object], save: Path | None) -> None:
    """The record as a file, if asked to."""
    if save:
        save.parent.mkdir(parents=True, exist_ok=True)
        save.write_text(json.dumps(record, indent=1) + "\n")
