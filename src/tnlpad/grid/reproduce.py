"""The runs of the paper's tables and figures, and their state.

A table or figure is a list of experiments (`tnlpad.paper.cells`). Seeds and a protocol turn them into configurations.
A run that several cells need is planned once.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tnlpad.data.catalogue import find
from tnlpad.data.datasets import require_layout
from tnlpad.data.files import default_root
from tnlpad.errors import DataError
from tnlpad.grid.computed_figures import COMPUTED, Variation
from tnlpad.grid.estimate import KnownFrom, Pace, paces, seconds_left
from tnlpad.grid.grid import RunStatus, State, run_status
from tnlpad.methods import METHODS
from tnlpad.paper.cells import (
    FIGURES,
    SMOKE,
    SMOKE_TITLE,
    TABLES,
    Cell,
    Curve,
    cells,
    curves,
    identity,
    method_cells,
    noise_name,
    smoke_curves,
)
from tnlpad.runs.config import RunConfig, configure
from tnlpad.runs.recipes import COMMON_DEFAULTS, device_defaults
from tnlpad.runs.settings import nearest
from tnlpad.types import ProtocolName

ON_A_CPU = {name: COMMON_DEFAULTS[name] for name in ("precision", "compiled")}
EVERYTHING = "all"
DATASETS = "datasets"
TITLES = {
    DATASETS: "The datasets",
    **TABLES,
    **FIGURES,
    SMOKE: SMOKE_TITLE,
    EVERYTHING: "Every table and figure of the paper",
}


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A run, and the cells and curves that it serves."""

    experiment: Cell | Curve
    seed: int
    serves: tuple[str, ...]
    config: RunConfig
    run_id: str


def with_own_methods(target: str, every: Sequence[Cell | Curve], methods: Iterable[str]) -> list[Cell | Curve]:
    """Add a row to the tables of a target for each of these methods that is registered and not in the paper."""
    tables = (*TABLES, SMOKE) if target == EVERYTHING else (target,)
    known = {name for each in every for name in _names(each)}
    own = [name for name in dict.fromkeys(methods) if name in METHODS and name not in known]
    return [*every, *(cell for table in tables for name in own for cell in method_cells(table, name))]


def experiments(target: str) -> tuple[Cell | Curve, ...]:
    """Return the experiments of a table or figure."""
    if target == SMOKE:
        return (*cells(SMOKE), *(curve for figure in FIGURES for curve in smoke_curves(figure)))
    if target == EVERYTHING:
        return tuple(each for name in (*TABLES, *FIGURES) for each in experiments(name))
    if target == DATASETS:
        return ()
    if target not in TITLES:
        raise ValueError(
            f"{target!r} is not a table or figure{nearest(target, list(TITLES))} There are: {', '.join(TITLES)}."
        )
    return cells(target) if target in TABLES else curves(target)


def select(
    every: Sequence[Cell | Curve], *, only: Sequence[str] = (), methods: Sequence[str] = ()
) -> list[Cell | Curve]:
    """Select experiments by place and method.

    Args:
        every: Experiments to choose from.
        only: Places, such as `cifar10`, `symmetric-0.4` or `cifar10/symmetric-0.4`; all if empty.
        methods: Methods, or names of rows or lines; all if empty.
    """
    for place in only:
        if not any(_lies_in(each, place) for each in every):
            parts = list(dict.fromkeys(part for each in every for part in each.group.split("/")))
            unknown = next((part for part in _parts(place) if part not in parts), place)
            raise ValueError(
                f"--only {place} selects nothing{nearest(unknown, parts)} There are: {', '.join(parts)}, or "
                f"combinations such as {every[0].group}."
            )
    for name in methods:
        if not any(name in _names(each) for each in every):
            known = list(dict.fromkeys(own for each in every for own in sorted(_names(each))))
            raise ValueError(
                f"--methods {name} selects nothing{nearest(name, known)} There are: {', '.join(known)}. A method of "
                "your own is known to the file that adds it: run that file in place of tnlpad."
            )
    chosen = [
        each
        for each in every
        if (not only or any(_lies_in(each, place) for place in only))
        and (not methods or not _names(each).isdisjoint(methods))
    ]
    if every and not chosen:
        raise ValueError(f"--only {','.join(only)} and --methods {','.join(methods)} have nothing in common.")
    return chosen


def plan(
    chosen: Iterable[Cell | Curve],
    *,
    protocol: ProtocolName = "paper",
    seeds: Sequence[int] | None = None,
    settings: Mapping[str, Any] | None = None,
    device: str = "cpu",
) -> list[Planned]:
    """Return the runs of these cells and curves, each once, ordered by seed.

    Args:
        chosen: The cells and curves.
        protocol: Whether to follow the paper or its authors' code where they differ.
        seeds: None for the paper's number of trials.
        settings: Settings for all runs.
        device: Device of the runs; precision and compilation depend on it.
    """
    users: dict[tuple[int, str], list[Cell | Curve]] = defaultdict(list)
    first_seeds: dict[str, RunConfig] = {}
    for each in chosen:
        runs = identity(each)
        if runs not in first_seeds:
            first_seeds[runs] = _configured(each, protocol, device, {**each.settings, **(settings or {})})
        for seed in dict.fromkeys(seeds if seeds is not None else range(1, each.trials + 1)):
            users[seed, runs].append(each)
    planned = [
        _planned(users[seed, runs], seed, first_seeds[runs])
        for seed, runs in sorted(users, key=lambda pair: pair[0])  # stable: ordered as in the table for each seed
    ]
    _check_distinct(planned)
    return planned


@dataclass(frozen=True, kw_only=True)
class PlannedStatus:
    """State of a planned run, and the seconds that it still takes, if known."""

    planned: Planned
    state: State
    problem: str | None = None
    seconds_left: float | None = None
    known_from: KnownFrom | None = None


def plan_status(
    planned: Sequence[Planned], out: Path, device: str, at_once: int = 1, have: Container[str] = ()
) -> list[PlannedStatus]:
    """Read the state of all runs of a plan from a folder.

    Args:
        planned: The runs.
        out: Folder of all runs.
        device: Device of the runs.
        at_once: How many runs share the device.
        have: Run ids of finished runs whose records are elsewhere; they count as done, whichever device they ran on.
    """
    found = {
        each.run_id: RunStatus(state="done") if _is_among(have, each, device) else run_status(each.run_id, out)
        for each in planned
    }
    pace: Pace = {}
    if any(status.state != "done" for status in found.values()):
        spent = [(each.config, found[each.run_id].seconds_per_epoch) for each in planned]
        pace = paces(out, spent, read=found.keys())
    statuses = []
    for each in planned:
        status, left, source = found[each.run_id], None, None
        if status.state != "done":
            left, source = seconds_left(each.config, status.epochs, pace, device, at_once)
        statuses.append(
            PlannedStatus(
                planned=each, state=status.state, problem=status.problem, seconds_left=left, known_from=source
            )
        )
    return statuses


def _is_among(have: Container[str], planned: Planned, device: str) -> bool:
    """Return whether the run, or the same with the precision and compilation of the other device, is among these."""
    config = planned.config
    usual = {name: {**ON_A_CPU, **device_defaults(name, config.network)} for name in ("cpu", "cuda")}
    chosen = {"precision": config.precision, "compiled": config.compiled}
    if not have or chosen != usual["cuda" if device.startswith("cuda") else "cpu"]:
        return planned.run_id in have
    return any(replace(config, **settings).run_id in have for settings in usual.values())


def figure_status(name: str, out: Path, wanted: Variation, *, smoke: bool, device: str) -> list[PlannedStatus]:
    """Return the state of the runs of a computed figure, which may end before their last epoch.

    Args:
        name: One of `COMPUTED`.
        out: Folder of all runs.
        wanted: The variation to compute.
        smoke: Whether it is the small version on digits.
        device: Device of the runs.
    """
    pace = paces(out, (), read=())
    statuses = []
    for config, epochs in COMPUTED[name].runs(out, wanted, smoke, device):
        curve = Curve(
            figure=name,
            panel=f"{config.dataset}/{noise_name(config.noise)}",
            label=config.method,
            dataset=config.dataset,
            noise=config.noise,
            method=config.method,
            network=config.network,
        )
        left, source = seconds_left(config, config.epochs - epochs, pace, device) if epochs else (None, None)
        statuses.append(
            PlannedStatus(
                planned=_planned([curve], config.seed, config),
                state="missing" if epochs else "done",
                seconds_left=left,
                known_from=source,
            )
        )
    return statuses


def left_to_run(statuses: Iterable[PlannedStatus]) -> list[RunConfig]:
    """Return the unfinished and the damaged runs, in order; the grid reports the problem of the latter."""
    return [each.planned.config for each in statuses if each.state != "done"]


def absent_datasets(configs: Iterable[RunConfig], root: Path | None) -> dict[str, str]:
    """Return the datasets of these runs that are missing on this machine, each with an error message."""
    absent: dict[str, str] = {}
    for name in dict.fromkeys(config.dataset for config in configs):
        for info in (find(name), find(find(name).images_of or name)):
            if not info.bundled:
                try:
                    require_layout(info, root if root is not None else default_root())
                except DataError as error:
                    absent.setdefault(name, str(error))
    return absent


def computed_beside(target: str) -> list[str]:
    """Return the figures of a target that are computed outside of the grid."""
    return [name for name in COMPUTED if target in (name, SMOKE, EVERYTHING)]


def _configured(each: Cell | Curve, protocol: ProtocolName, device: str, settings: Mapping[str, Any]) -> RunConfig:
    try:
        return configure(
            each.dataset,
            noise=each.noise,
            protocol=protocol,
            method=each.method,
            network=each.network,
            device=device,
            settings=settings,
        )
    except ValueError as error:
        raise ValueError(f"{each.name}: {error}") from error


def _planned(users: Sequence[Cell | Curve], seed: int, first_seed: RunConfig) -> Planned:
    config = replace(first_seed, seed=seed)
    serves = tuple(each.name for each in users)
    return Planned(experiment=users[0], seed=seed, serves=serves, config=config, run_id=config.run_id)


def _check_distinct(planned: Iterable[Planned]) -> None:
    """Raise ValueError if a setting for all runs makes two of them the same."""
    seen: dict[str, Planned] = {}
    for each in planned:
        other = seen.setdefault(each.run_id, each)
        if other is not each:
            raise ValueError(
                f"With these settings {other.serves[0]} and {each.serves[0]} are the same run. Leave out the --set "
                "that makes them equal."
            )


def _lies_in(each: Cell | Curve, place: str) -> bool:
    parts = {*each.group.split("/"), each.dataset, noise_name(each.noise)}
    return parts.issuperset(_parts(place))


def _parts(place: str) -> list[str]:
    return noise_name(place).strip("/").split("/")


def _names(each: Cell | Curve) -> set[str]:
    return {each.method, each.row if isinstance(each, Cell) else each.label}
