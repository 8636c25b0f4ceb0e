"""Several runs on one GPU: CUDA MPS while they run, and how many to run in parallel.

NVIDIA's Multi-Process Service lets kernels of several processes run side by side instead of in turns. Its daemon is
found through folders named in the environment. Ours has its own folder, and exits with the process that started it,
even if that is killed.

A step of these networks is a sequence of small kernels that leaves most of a large GPU idle. Parallel runs fill it, up
to a number from which each only slows down the others. `grid.filling` finds it, beginning with the number that was
fastest where it was measured.

Each process is limited to a share of the GPU's processors. Kernels of several runs then overlap instead of following
each other, and libraries choose kernels for the smaller share, which do less work in all: nine runs of ResNet-18 on an
H200 are a third faster (`benchmarks/networks.py`). Other kernels round differently, so the last digits of a run depend
on its share; its summary states how many processors it had.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tnlpad.grid.estimate import fastest_at_once
from tnlpad.grid.workers import environment
from tnlpad.runs.config import RunConfig
from tnlpad.runs.devices import available_cores

CONTROL = "nvidia-cuda-mps-control"
COMMAND_TIMEOUT_SECONDS = 30
PROCESSORS_SHARE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"  # percentage of the GPU's processors that a process may use
VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
# Waits for the end of its input: the end of the block, or of the process for any reason. Remaining clients get five
# seconds.
STOP_AT_END = f'read -r _; echo quit -t 5 | {CONTROL}; rm -rf "$0"'
OVERLAP = 2.7  # sum of all shares: more than 1, since no run uses its share all the time
LEAST_SHARE = 20  # percent; smaller shares have not been measured


def share_of(runs: int) -> int:
    """Return the percentage of the GPU's processors that each of so many parallel runs may use."""
    share = min(100, int(100 * OVERLAP) // runs)
    return share if share >= LEAST_SHARE else 100


def share_environment(runs: int) -> dict[str, str]:
    """Return the environment variable with the share of each of so many runs, unless the user has set it."""
    return {} if PROCESSORS_SHARE in os.environ else {PROCESSORS_SHARE: str(share_of(runs))}


@contextmanager
def mps(device: str, *, say: Callable[[str], None]) -> Iterator[bool]:
    """Let processes that are started within the block share the GPU by MPS, if it is installed; yield whether they do.

    Without MPS everything works, but slower. With MPS a process that makes the GPU fault also ends the others on it.
    Their jobs fail, and are run when the grid is started again.

    Args:
        device: The device's name in torch.
        say: Called with one line about whether MPS is used.
    """
    if not device.startswith("cuda"):
        say(f"No MPS: the device is {device}, not cuda.")
        yield False
    elif shutil.which(CONTROL) is None:
        say(f"No MPS: {CONTROL} is not installed, so runs that share a GPU take turns.")
        yield False
    elif _is_running():
        say("MPS is already running, and runs that share a GPU use it.")
        yield True
    else:
        with _daemon(say) as started:
            yield started


def _is_running() -> bool:
    try:
        response = subprocess.run(
            [CONTROL], input=b"get_server_list\n", capture_output=True, timeout=COMMAND_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return response.returncode == 0


@contextmanager
def _daemon(say: Callable[[str], None]) -> Iterator[bool]:
    # It contains sockets, whose paths must be short, so it has to be in the system's temporary folder.
    folder = Path(tempfile.mkdtemp(prefix="tnlpad-mps-"))
    variables = {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    with _stopped_at_end(folder, variables):
        if failure := _start(folder, variables):
            say(f"No MPS: {CONTROL} failed ({failure}), so runs that share a GPU take turns.")
            yield False
        else:
            say("MPS is started, and runs that share a GPU use it.")
            with environment({**variables, **_renumbered_devices()}):
                yield True


def _renumbered_devices() -> dict[str, str]:
    """Return CUDA_VISIBLE_DEVICES for clients: the daemon has applied ours, and numbers these devices from 0 on."""
    visible = os.environ.get(VISIBLE_DEVICES, "").split(",")
    if not all(name.strip().isdigit() for name in visible):  # not set, or identifiers, which stay the same
        return {}
    return {VISIBLE_DEVICES: ",".join(map(str, range(len(visible))))}


@contextmanager
def _stopped_at_end(folder: Path, variables: Mapping[str, str]) -> Iterator[None]:
    """Start a process that stops the daemon and removes its folder at the end; it starts before the daemon."""
    process = subprocess.Popen(
        ["sh", "-c", STOP_AT_END, str(folder)],
        env=os.environ | variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # not reached by Ctrl-C
    )
    try:
        yield
    finally:
        with suppress(subprocess.TimeoutExpired):  # a daemon that hangs does not hold up the results
            process.communicate(timeout=COMMAND_TIMEOUT_SECONDS)


def _start(folder: Path, variables: Mapping[str, str]) -> str | None:
    """Start the daemon, and return its output if that failed."""
    with open(folder / "start", "w+b") as output:  # a pipe would stay open as long as the daemon runs
        try:
            subprocess.run(
                [CONTROL, "-d"],
                env=os.environ | variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                timeout=COMMAND_TIMEOUT_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            output.seek(0)
            return output.read().decode(errors="replace").strip() or str(error)
    return None


Kind = tuple[Any, ...]  # runs of a kind use the GPU alike
KIND_FIELDS = ("dataset", "network", "batch_size", "resize", "crop", "precision")
SMALL_NETWORKS = ("lenet", "small_cnn", "mlp")
RUNS_PER_GPU, SMALL_RUNS_PER_GPU = 9, 20  # where a network was not measured: the median of those that were, and LeNet's
RUNS_PER_CORE = 1.25  # a run's host process mostly waits
# Most memory of a run, with its CUDA context: small networks, images of 32 pixels, larger images.
GIGABYTES_SMALL, GIGABYTES, GIGABYTES_OF_PHOTOGRAPHS = 2, 6, 24


@dataclass(frozen=True, kw_only=True)
class AtOnce:
    """Number of parallel runs: the one to begin with, and the bounds within which to try others."""

    start: int
    most: int
    least: int = 1


def kind_of(config: Mapping[str, Any]) -> Kind:
    """Return the kind of a run from its configuration as plain data."""
    return tuple(config[name] for name in KIND_FIELDS)


def runs_at_once(configs: Iterable[RunConfig], device: str) -> dict[Kind, AtOnce]:
    """Return how many runs of each kind to start in parallel on this GPU, and how many fit.

    Without MPS it is 1: they would take turns.
    """
    runs = list(configs)
    kinds = {kind_of(config.to_json()): config for config in runs}
    if shutil.which(CONTROL) is None:
        return dict.fromkeys(kinds, AtOnce(start=1, most=1))
    free, found = _free_gigabytes(device) if kinds else 0.0, {}
    for kind, config in kinds.items():
        most = max(1, min(int(free / _gigabytes(config)), int(RUNS_PER_CORE * available_cores()), len(runs)))
        start = fastest_at_once(config) or (SMALL_RUNS_PER_GPU if config.network in SMALL_NETWORKS else RUNS_PER_GPU)
        found[kind] = AtOnce(start=min(start, most), most=most)
    return found


def _gigabytes(config: RunConfig) -> float:
    if config.resize is not None:
        return GIGABYTES_OF_PHOTOGRAPHS
    return GIGABYTES_SMALL if config.network in SMALL_NETWORKS else GIGABYTES


def _free_gigabytes(device: str) -> float:
    """Return the free memory of a GPU such as "cuda:1"; not through CUDA, whose context would take some itself."""
    number = int(device.partition(":")[2] or 0)
    visible = [name.strip() for name in os.environ.get(VISIBLE_DEVICES, "").split(",") if name.strip()]
    name = visible[number] if number < len(visible) else str(number)
    command = ["nvidia-smi", "-i", name, "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
        return float(output) / 1024
    except (OSError, subprocess.SubprocessError, ValueError):
        return 0.0
