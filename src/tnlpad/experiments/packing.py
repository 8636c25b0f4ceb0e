"""How many runs share a GPU when nobody says: as many as fill it, as far as its memory and the host's cores go.

A step of these networks is a row of small kernels that leaves most of a large GPU idle. Runs side by side fill it, up
to a number from which on each only slows the others down. `benchmarks/training.py` measures it, so far on one GPU.
"""

import shutil
import subprocess
from collections.abc import Iterable

from tnlpad.experiments.config import RunConfig
from tnlpad.experiments.executors import available_cores
from tnlpad.experiments.mps import CONTROL

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
