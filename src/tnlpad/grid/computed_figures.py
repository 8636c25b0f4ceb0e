"""The paper's figures that are computed beside the runs of a table: which there are, and what may be asked of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tnlpad.atomic_files import write_by_rename
from tnlpad.grid.executors import execute
from tnlpad.grid.grid import Failure, Result, answer_of, failed, kept
from tnlpad.paper.cells import SMOKE_SETTINGS
from tnlpad.paper_figures import parameter_space, tsne
from tnlpad.runs.config import Protocol

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Variation:
    """What was asked for in place of the figure's own seed, protocol and settings."""

    seed: int = 1
    protocol: Protocol = "paper"
    settings: Mapping[str, Any] = field(default_factory=dict)


class ComputedFigure(NamedTuple):
    """`check` raises a ValueError for a variation that has no meaning here; `compute` takes minutes or hours."""

    check: Callable[[Variation, str], None]
    compute: Callable[..., Any]


def variation(
    name: str, *, seeds: Sequence[int] | None, protocol: Protocol, settings: Mapping[str, Any], device: str
) -> Variation:
    """What the options of the command line mean for a figure; those that mean nothing are refused."""
    if seeds is not None and len(seeds) > 1:
        raise ValueError(f"--seeds: {name} shows a single run of each kind. Give one seed.")
    if "patience" in settings:
        raise ValueError(f"--patience: {name} shows runs at fixed epochs or to their end. Leave it out.")
    wanted = Variation(seed=seeds[0] if seeds else 1, protocol=protocol, settings=settings)
    COMPUTED[name].check(wanted, device)
    return wanted


def compute_figure(
    name: str, out: Path, wanted: Variation, *, smoke: bool, root: Path | None, device: str, tell: Tell
) -> Failure | None:
    """Compute it, from wherever it stands, and keep it in the folder of runs; what went wrong, if something did.

    Args:
        name: One of `COMPUTED`.
        out: The folder of all runs.
        wanted: What to compute.
        smoke: On digits and small, as a part of the trial grid.
        root: Where datasets lie.
        device: Where to train.
        tell: Told in words what is being done.
    """
    compute = partial(COMPUTED[name].compute, wanted=wanted, smoke=smoke, root=root, device=device, tell=tell)
    (outcome,) = execute(partial(_attempt, compute), [out], workers=0)  # with one thread, as every run
    result, file = answer_of(outcome), out / f"{name}-error.txt"
    if result.error is None:
        file.unlink(missing_ok=True)
        return None
    return Failure(error=result.error, traceback=kept(result.traceback, partial(_keep, file)))


def _attempt(compute: Callable[[Path], Any], out: Path) -> Result:
    try:
        compute(out)
    except Exception as error:
        return failed(error)
    return Result("done")


def _keep(file: Path, text: str) -> Path:
    write_by_rename(file, text.encode())
    return file


# Test features --------------------------------------------------------------------------------------------------------

SMOKE_TSNE = tsne.Shown(
    dataset="digits",
    noises=("symmetric:0.4",),
    epochs=(2, 10, SMOKE_SETTINGS["epochs"]),
    settings=SMOKE_SETTINGS,
)


def _check_tsne(wanted: Variation, device: str) -> None:
    tsne.configurations(_shown(tsne.Shown(), wanted), device)


def _tsne(out: Path, *, wanted: Variation, smoke: bool, root: Path | None, device: str, tell: Tell) -> None:
    shown = _shown(SMOKE_TSNE if smoke else tsne.Shown(), wanted)
    tsne.compute(out, shown, root=root, device=device, tell=tell)


def _shown(usual: tsne.Shown, wanted: Variation) -> tsne.Shown:
    settings = {**usual.settings, **wanted.settings}
    return replace(usual, seed=wanted.seed, protocol=wanted.protocol, settings=settings)


# Parameter space ------------------------------------------------------------------------------------------------------


def _check_parameter_space(wanted: Variation, device: str) -> None:
    if wanted.protocol != "paper":
        raise ValueError(
            f"--protocol {wanted.protocol}: the runs of parameter_space are none of the paper's. Leave it out."
        )
    parameter_space.configurations(settings=wanted.settings, seed=wanted.seed)


def _parameter_space(out: Path, *, wanted: Variation, smoke: bool, root: Path | None, device: str, tell: Tell) -> None:
    tell("parameter_space: two weights, and digits")
    parameter_space.compute(out, root=root, device=device, settings=wanted.settings, seed=wanted.seed)


COMPUTED = {
    "tsne": ComputedFigure(_check_tsne, _tsne),
    "parameter_space": ComputedFigure(_check_parameter_space, _parameter_space),
}
