"""What a run needs to go on as if it had never stopped, in one file that is written whole or not at all.

The file holds tensors and plain containers only, so that `torch.load(weights_only=True)` reads it. It is a zip archive
with a checksum for each of its parts, which torch writes but does not compare: we do, before anything is restored.
"""

import os
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tnlpad.methods.protocol import Method

Weights = dict[str, Tensor]
Streams = Mapping[str, torch.Generator]


class CheckpointError(Exception):
    """A checkpoint that is damaged or belongs to another run; the message names the file and the way out."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Progress:
    """How far a run has come: its last complete epoch, the weights of the epoch chosen so far, the census if any."""

    epoch: int = 0
    best: Weights | None = None
    census: dict[str, Any] | None = None


def save_checkpoint(path: Path, progress: Progress, method: Method, streams: Streams, device: torch.device) -> None:
    """Write the state after an epoch by rename; a full disk leaves the previous checkpoint as it was."""
    state = {
        "epoch": progress.epoch,
        "best": progress.best,
        "census": progress.census,
        "method": method.state_dict(),
        "streams": {name: generator.get_state() for name, generator in streams.items()},
        "global_streams": _global_streams(device),
    }
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        _raise_what_the_disk_said(error)
        raise


def load_checkpoint(path: Path, method: Method, streams: Streams, device: torch.device) -> Progress:
    """Restore a saved state and say how far it had come; nothing has changed if there is none yet."""
    if not path.exists():
        return Progress()
    state = _read(path, device)
    try:
        method.load_state_dict(state["method"])
        for name, generator in streams.items():
            generator.set_state(state["streams"][name].cpu())
        _restore_global_streams(state["global_streams"], device)
        return Progress(epoch=int(state["epoch"]), best=state["best"], census=state.get("census"))
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise CheckpointError(
            f"{path} is not the state of this run ({type(error).__name__}: {error}) and is not used. Restore it, or "
            "remove the run's folder to start anew."
        ) from error


def _read(path: Path, device: torch.device) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(path) as archive:
            if (part := archive.testzip()) is not None:
                raise zipfile.BadZipFile(f"wrong checksum of {part}")
        state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    except OSError:
        raise
    # Damage shows in many ways, depending on where it is: of the archive, of the pickle in it, of its encoding.
    except Exception as error:
        raise CheckpointError(
            f"{path} is damaged ({error}) and is not used. Restore it, or remove the run's folder to start anew."
        ) from error
    return state


def _raise_what_the_disk_said(error: BaseException) -> None:
    """torch reports a failed write as an error of its own, with the disk's words behind it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause is not error:
            raise cause from error
        cause = cause.__context__


def _global_streams(device: torch.device) -> dict[str, Tensor]:
    # Layers such as dropout know no other generators.
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def _restore_global_streams(states: Mapping[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(states["cpu"].cpu())
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"].cpu(), device)
