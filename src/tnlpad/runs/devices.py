"""Where to train, by a name that a person gives."""

import os

import torch


def available_cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def device_named(name: str) -> str:
    """The same name, or that of the best device for "auto"; refused if this machine has none of the kind."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device {name}: choose cpu, cuda or auto.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {name}: this torch sees no GPU. Use cpu; `tnlpad doctor` says more.")
    return name
