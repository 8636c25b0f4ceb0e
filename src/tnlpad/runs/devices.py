"""The devices and processors of this machine, as far as runs may use them."""

import os

import torch

NVIDIA_DRIVER = "/proc/driver/nvidia/version"


def device_named(name: str) -> str:
    """Return the name of an available device; "auto" is the GPU if there is one."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type not in ("cpu", "cuda"):
            torch.zeros(1, device=device).item()  # torch knows the names of devices that it was not built for
    except (RuntimeError, AssertionError, ImportError) as error:
        raise ValueError(f"device {name}: choose cpu, cuda or auto.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {name}: this torch sees no GPU. Use cpu; `tnlpad doctor` says more.")
    if device.type == "cuda" and (device.index or 0) >= (count := torch.cuda.device_count()):
        raise ValueError(f"device {name}: the GPUs of this machine are cuda:0 to cuda:{count - 1}.")
    return name


def unused_gpu(device: str) -> str | None:
    """Return a sentence about a GPU that this machine has and the run does not use, or None."""
    if torch.device(device).type != "cpu":
        return None
    if torch.cuda.is_available():
        return "This machine has a GPU, and this run is on the CPU: --device cuda uses the GPU."
    if os.path.exists(NVIDIA_DRIVER):
        return f"This machine has a GPU that torch {torch.__version__} cannot use: `tnlpad doctor` says more."
    return None


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
