"""Figures of the paper that are computed outside of the grid of runs, in this process."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tnlpad.atomic_files import try_lock, write_by_rename
from tnlpad.grid.executors import execute
from tnlpad.grid.grid import POLL_SECONDS, Failure, Result, failed, failure_of, result_of
from tnlpad.paper.cells import SMOKE_SETTINGS
from tnlpad.paper_figures import parameter_space, tsne
from tnlpad.runs.config import RunConfig
from tnlpad.types import ProtocolName

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Variation:
    """Seed, protocol and settings of a figure's runs."""

    seed: int = 1
    protocol: ProtocolName = "paper"
    settings: Mapping[str, Any] = field(default_factory=dict)


class ComputedFigure(NamedTuple):
    """The functions that compute a figure.

    `check` raises ValueError if a variation is not possible. `runs` returns each run with the epochs that it still
    takes, for a folder, a variation, whether it is the small version, and a device. `compute` takes minutes or hours.
    """

    check: Callable[[Variation, str], None]
    runs: Callable[[Path, Variation, bool, str], list[tuple[RunConfig, int]]]
    compute: Callable[..., Any]


def variation(
    name: str, *, seeds: Sequence[int] | None, protocol: ProtocolName, settings: Mapping[str, Any], device: str
) -> Variation:
    """Return the variation for the options of a command line; raises ValueError if a figure does not have one."""
    if seeds is not None and len(seeds) > 1:
        raise ValueError(f"--seeds: {name} shows one run of each kind. Give one seed.")
    if "patience" in settings:
        raise ValueError(f"--patience: {name} shows runs at fixed epochs or to their end. Leave it out.")
    wanted = Variation(seed=seeds[0] if seeds else 1, protocol=protocol, settings=settings)
    COMPUTED[name].check(wanted, device)
    return wanted


def compute_figure(
    name: str, out: Path, wanted: Variation, *, smoke: bool, root: Path | None, device: str, tell: Tell
) -> Failure | None:
    """Compute a figure, or resume, and write it into the folder of runs; returns the failure, if there is one.

    While another process computes a figure in this folder, wait for it, and then use what it has computed.

    Args:
        name: One of `COMPUTED`.
        out: Folder of all runs.
        wanted: The variation to compute.
        smoke: Whether to compute the small version on digits.
        root: Folder of datasets.
        device: Device to train on.
        tell: Called with a line about the current step.
    """
    compute = partial(COMPUTED[name].compute, wanted=wanted, smoke=smoke, root=root, device=device, tell=tell)
    out.mkdir(parents=True, exist_ok=True)
    with _alone(out, lambda: tell(f"{name}: waiting for another process that computes figures")):
        (outcome,) = execute(partial(_attempt, compute), [out], workers=0)  # with one thread, like every run
    file = out / f"{name}-error.txt"
    failure = failure_of(result_of(outcome), partial(_save, file))
    if failure is None:
        file.unlink(missing_ok=True)
    return failure


@contextmanager
def _alone(folder: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of a folder within the block; where there are no locks, just go on."""
    lock = None
    with suppress(OSError):
        while (lock := try_lock(folder)) is None:
            on_wait()
            time.sleep(POLL_SECONDS)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _attempt(compute: Callable[[Path], Any], out: Path) -> Result:
    try:
        compute(out)
    except Exception as error:
        return failed(error)
    return Result("done")


def _save(file: Path, text: str) -> Path:
    write_by_rename(file, text.encode())
    return file


SMOKE_TSNE = tsne.Shown(
    dataset="digits",
    noises=("symmetric:0.4",),
    epochs=(2, 10, SMOKE_SETTINGS["epochs"]),
    settings=SMOKE_SETTINGS,
)


def _check_tsne(wanted: Variation, device: str) -> None:
    tsne.configurations(_shown(tsne.Shown(), wanted), device)


def _tsne_runs(out: Path, wanted: Variation, smoke: bool, device: str) -> list[tuple[RunConfig, int]]:
    shown = _shown(SMOKE_TSNE if smoke else tsne.Shown(), wanted)
    configs = tsne.configurations(shown, device)
    return [(config, 0 if tsne.has_features(out, config, shown.epochs) else max(shown.epochs)) for config in configs]


def _tsne(out: Path, *, wanted: Variation, smoke: bool, root: Path | None, device: str, tell: Tell) -> None:
    shown = _shown(SMOKE_TSNE if smoke else tsne.Shown(), wanted)
    tsne.compute(out, shown, root=root, device=device, tell=tell)


def _shown(usual: tsne.Shown, wanted: Variation) -> tsne.Shown:
    settings = {**usual.settings, **wanted.settings}
    return replace(usual, seed=wanted.seed, protocol=wanted.protocol, settings=settings)


def _check_parameter_space(wanted: Variation, device: str) -> None:
    if wanted.protocol != "paper":
        raise ValueError(f"--protocol {wanted.protocol}: parameter_space has no runs of the paper. Leave it out.")
    parameter_space.configurations(settings=wanted.settings, seed=wanted.seed)


def _parameter_space_runs(out: Path, wanted: Variation, smoke: bool, device: str) -> list[tuple[RunConfig, int]]:
    configs = parameter_space.configurations(settings=wanted.settings, seed=wanted.seed)
    there = parameter_space.is_there(out, configs)
    return [(config, 0 if there else config.epochs) for config in configs.values()]


def _parameter_space(out: Path, *, wanted: Variation, smoke: bool, root: Path | None, device: str, tell: Tell) -> None:
    tell("parameter_space: two weights, and digits")
    parameter_space.compute(out, root=root, device=device, settings=wanted.settings, seed=wanted.seed)


COMPUTED = {
    "tsne": ComputedFigure(_check_tsne, _tsne_runs, _tsne),
    "parameter_space": ComputedFigure(_check_parameter_space, _parameter_space_runs, _parameter_space),
}
