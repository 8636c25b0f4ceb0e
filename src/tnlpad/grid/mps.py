"""CUDA MPS for as long as several processes share a GPU: their kernels then run side by side instead of in turns.

NVIDIA's Multi-Process Service is a daemon that its clients find by folders named in the environment. Ours has a folder
of its own, so that it is in no one's way, and ends with the process that asked for it, even if that is killed.

How many runs share a GPU when nobody says: as many as fill it, as far as its memory and the host's cores go.

A step of these networks is a row of small kernels that leaves most of a large GPU idle. Runs side by side fill it, up
to a number from which on each only slows the others down. `benchmarks/training.py` measures it, so far on one GPU.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tnlpad.runs.config import RunConfig
from tnlpad.runs.devices import available_cores

CONTROL = "nvidia-cuda-mps-control"
SECONDS_TO_ANSWER = 30
# Waits for the end of its input, which comes with the block's end or with that of the process, however it ends. Clients
# that are still there get five seconds.
KEEPER = f'read -r _; echo quit -t 5 | {CONTROL}; rm -rf "$0"'


@contextmanager
def mps(device: str, *, say: Callable[[str], None]) -> Iterator[None]:
    """Within the block, processes that are started share the GPU by MPS, if there is one and MPS is installed.

    Without MPS everything works as well, only slower. The price: a process that makes the GPU fault takes the others
    that share it along; their jobs fail and are done when the grid is started again.

    Args:
        device: As torch names it.
        say: Told in one line how it is.
    """
    if not device.startswith("cuda"):
        say(f"No MPS: the device is {device}, not cuda.")
        yield
    elif shutil.which(CONTROL) is None:
        say(f"No MPS: {CONTROL} is not installed, so runs that share a GPU take turns.")
        yield
    elif _is_running():
        say("MPS is running already, and runs that share a GPU use it.")
        yield
    else:
        with _daemon(say):
            yield


def _is_running() -> bool:
    try:
        asked = subprocess.run(
            [CONTROL], input=b"get_server_list\n", capture_output=True, timeout=SECONDS_TO_ANSWER, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


@contextmanager
def _daemon(say: Callable[[str], None]) -> Iterator[None]:
    # Sockets lie within, and their names must be short: the system's folder for temporary files, and no other.
    folder = Path(tempfile.mkdtemp(prefix="tnlpad-mps-"))
    places = {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    with _keeper(folder, places):
        if failure := _start(folder, places):
            say(f"No MPS: {CONTROL} failed ({failure}), so runs that share a GPU take turns.")
            yield
        else:
            say("MPS is started, and runs that share a GPU use it.")
            with _environment(places):
                yield


@contextmanager
def _keeper(folder: Path, places: Mapping[str, str]) -> Iterator[None]:
    """A process that ends the daemon and removes its folder; it is there first, so that no kill comes too early."""
    keeper = subprocess.Popen(
        ["sh", "-c", KEEPER, str(folder)],
        env=os.environ | places,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a terminal's Ctrl-C is not for it
    )
    try:
        yield
    finally:
        keeper.communicate()


def _start(folder: Path, places: Mapping[str, str]) -> str | None:
    """Start the daemon; return what it said if it did not."""
    with open(folder / "start", "w+b") as said:  # not a pipe, whose end would come with the daemon's
        try:
            subprocess.run(
                [CONTROL, "-d"],
                env=os.environ | places,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                timeout=SECONDS_TO_ANSWER,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            said.seek(0)
            return said.read().decode(errors="replace").strip() or str(error)
    return None


@contextmanager
def _environment(names: Mapping[str, str]) -> Iterator[None]:
    """Inherited by every process that is started within the block."""
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


SMALL = ("lenet", "small_cnn", "mlp")
FILLED_BY, FILLED_BY_SMALL = 9, 20  # runs on an H200; a smaller GPU is filled by fewer, and more do it no harm
RUNS_PER_CORE = 1.25  # the host mostly sleeps
# What a run takes at most, its share of CUDA's own included: of small networks, of 32 pixels a side, of more.
GIGABYTES_SMALL, GIGABYTES, GIGABYTES_OF_PHOTOGRAPHS = 2, 6, 24


def runs_at_once(configs: Iterable[RunConfig]) -> int:
    """For one GPU; 1 without MPS, since runs would only take turns."""
    kinds = list(configs)
    if shutil.which(CONTROL) is None or not kinds:
        return 1
    filled = min(FILLED_BY_SMALL if config.network in SMALL else FILLED_BY for config in kinds)
    fitting = _free_gigabytes() / max(_gigabytes(config) for config in kinds)
    return max(1, min(filled, int(fitting), int(RUNS_PER_CORE * available_cores()), len(kinds)))


def _gigabytes(config: RunConfig) -> float:
    if config.resize is not None:
        return GIGABYTES_OF_PHOTOGRAPHS
    return GIGABYTES_SMALL if config.network in SMALL else GIGABYTES


def _free_gigabytes() -> float:
    """Of the emptiest GPU. Asked without CUDA, which would take memory of its own for as long as this process lives."""
    command = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
        return max(float(line) for line in said.split()) / 1024
    except (OSError, subprocess.SubprocessError, ValueError):
        return 0.0
