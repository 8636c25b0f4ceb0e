"""Save and load checkpoints, from which a run resumes bit for bit.

A checkpoint holds tensors and plain containers only, so that `torch.load(weights_only=True)` reads it. It is a zip
archive with checksums. torch does not compare them, so `load_checkpoint` does before it restores anything.

On several ranks, rank 0 writes the file, and reads it for all of them. Any number of ranks can continue from it.
"""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from tnlpad.atomic_files import error_chain, replacing
from tnlpad.methods.protocol import Method
from tnlpad.ranks import group

Weights = dict[str, Tensor]
Streams = Mapping[str, torch.Generator]


class CheckpointError(Exception):
    """A checkpoint is damaged or belongs to another run."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Progress:
    """The last complete epoch, the weights of the best epoch so far, and the per-sample statistics if any."""

    epoch: int = 0
    best: Weights | None = None
    statistics: dict[str, Any] | None = None


def save_checkpoint(path: Path, progress: Progress, method: Method, streams: Streams, device: torch.device) -> None:
    """Write the state after an epoch; a failed write keeps the previous checkpoint. Every rank must call it."""
    streams_of_ranks = group.from_each(_global_streams(device))
    state = {
        "epoch": progress.epoch,
        "best": progress.best,
        "census": progress.statistics,
        "method": method.state_dict(),
        "streams": {name: generator.get_state() for name, generator in streams.items()},
        "global_streams": streams_of_ranks[0],
        "global_streams_of_ranks": streams_of_ranks[1:],
    }
    group.on_first(partial(_write, path, state))


def _write(path: Path, state: dict[str, Any]) -> None:
    try:
        with replacing(path) as file:
            torch.save(state, file)
    except RuntimeError as error:  # torch wraps the error of a failed write, and Ctrl-C within a write
        for cause in error_chain(error):
            if isinstance(cause, (OSError, KeyboardInterrupt)):
                raise cause from error
        raise


def load_checkpoint(path: Path, method: Method, streams: Streams, device: torch.device) -> Progress:
    """Restore a saved state and return its progress; without a checkpoint, change nothing."""
    if not group.on_first(path.exists):
        return Progress()
    try:
        file = group.opened_by_first(path)
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be read ({error.strerror or error}). Restore it, or remove the run's folder to start again."
        ) from error
    with file:
        state = _read(path, file, device)
    try:
        method.load_state_dict(state["method"])
        for name, generator in streams.items():
            generator.set_state(state["streams"][name].cpu())
        of_ranks = [state["global_streams"], *state.get("global_streams_of_ranks", [])]
        if group.rank() < len(of_ranks):
            _restore_global_streams(of_ranks[group.rank()], device)
        return Progress(epoch=int(state["epoch"]), best=state["best"], statistics=state.get("census"))
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise CheckpointError(
            f"{path} is not a checkpoint of this run ({type(error).__name__}: {error}). Restore it, or remove the "
            "run's folder to start again."
        ) from error


def _read(path: Path, file: BinaryIO, device: torch.device) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(file) as archive:
            if (part := archive.testzip()) is not None:
                raise zipfile.BadZipFile(f"wrong checksum of {part}")
        file.seek(0)
        state: dict[str, Any] = torch.load(file, map_location=device, weights_only=True)
    except Exception as error:  # the archive, the pickle in it and its encoding each have their own errors
        raise CheckpointError(
            f"{path} is damaged ({error}). Restore it, or remove the run's folder to start again."
        ) from error
    return state


def _global_streams(device: torch.device) -> dict[str, Tensor]:
    # Layers such as dropout draw from the global generators.
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def _restore_global_streams(states: Mapping[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(states["cpu"].cpu())
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"].cpu(), device)
