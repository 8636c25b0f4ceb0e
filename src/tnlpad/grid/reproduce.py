"""The paper's tables and figures as runs: what to run for each, and what is to be computed beside.

A table or figure is a list of experiments (`tnlpad.paper.cells`); with seeds and a protocol they become configurations.
A run that several cells need is planned once.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tnlpad.data.catalogue import find
from tnlpad.data.datasets import require_layout
from tnlpad.data.files import default_root
from tnlpad.errors import DataError
from tnlpad.grid.computed_figures import COMPUTED
from tnlpad.grid.estimate import KnownFrom, Pace, paces, seconds_left
from tnlpad.grid.grid import State, standing
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
    noise_name,
    smoke_curves,
)
from tnlpad.runs.config import Protocol, RunConfig, configure
from tnlpad.runs.settings import nearest

EVERYTHING = "all"
DATASETS = "datasets"
TITLES = {
    DATASETS: "The datasets",
    **TABLES,
    **FIGURES,
    SMOKE: SMOKE_TITLE,
    EVERYTHING: "Every table and figure of the paper",
}
UNFINISHED: tuple[State, ...] = ("running", "begun", "missing")


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A run, and the cells and curves that it serves."""

    experiment: Cell | Curve
    seed: int
    serves: tuple[str, ...]
    config: RunConfig
    run_id: str


def experiments(target: str) -> tuple[Cell | Curve, ...]:
    """What a table or figure is made of."""
    if target == SMOKE:
        return (*cells(SMOKE), *(curve for figure in FIGURES for curve in smoke_curves(figure)))
    if target == EVERYTHING:
        return tuple(each for name in (*TABLES, *FIGURES) for each in experiments(name))
    if target == DATASETS:
        return ()
    if target not in TITLES:
        raise ValueError(
            f"{target!r} is no table or figure{nearest(target, list(TITLES))} There are: {', '.join(TITLES)}."
        )
    return cells(target) if target in TABLES else curves(target)


def select(
    every: Sequence[Cell | Curve], *, only: Sequence[str] = (), methods: Sequence[str] = ()
) -> list[Cell | Curve]:
    """Those in one of these places of the table or figure, and of one of these methods or rows.

    Args:
        every: What to choose from.
        only: Such as `cifar10`, `symmetric-0.4` or `cifar10/symmetric-0.4`; all if empty.
        methods: Such as `tnlpad`, or a row's or line's own name; all if empty.
    """
    for place in only:
        if not any(_lies_in(each, place) for each in every):
            parts = list(dict.fromkeys(part for each in every for part in each.group.split("/")))
            unknown = next((part for part in _parts(place) if part not in parts), place)
            raise ValueError(
                f"--only {place} selects nothing{nearest(unknown, parts)} There are: {', '.join(parts)}; or several "
                f"of them, such as {every[0].group}."
            )
    for name in methods:
        if not any(name in _names(each) for each in every):
            known = list(dict.fromkeys(own for each in every for own in sorted(_names(each))))
            raise ValueError(f"--methods {name} selects nothing{nearest(name, known)} There are: {', '.join(known)}.")
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
    protocol: Protocol = "paper",
    seeds: Sequence[int] | None = None,
    settings: Mapping[str, Any] | None = None,
    device: str = "cpu",
) -> list[Planned]:
    """The runs that these cells and curves need, each once, the first seed of all before the second of any.

    Args:
        chosen: The cells and curves.
        protocol: Whom to follow where the paper and its authors' code differ.
        seeds: None is as many as the paper has trials.
        settings: Of `--set`, for all of them.
        device: Where they will run, since precision and compilation are part of a run.
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
        for seed, runs in sorted(users, key=lambda pair: pair[0])  # stable: within a seed as in the table
    ]
    _require_distinct(planned)
    return planned


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A planned run as it stands, and how long it will still take, if that can be said."""

    planned: Planned
    state: State
    problem: str | None = None
    seconds_left: float | None = None
    known_from: KnownFrom | None = None


def look(planned: Sequence[Planned], out: Path, device: str, at_once: int = 1) -> list[Seen]:
    """How every run of a plan stands in a folder; what is there is read once, and nothing is changed.

    Args:
        planned: The runs.
        out: The folder of all runs.
        device: Where they will run.
        at_once: How many will share the device: each takes the longer for it.
    """
    standings = {each.run_id: standing(each.run_id, out) for each in planned}
    pace: Pace = {}
    if any(now.state in UNFINISHED for now in standings.values()):
        spent = [(each.config, standings[each.run_id].seconds_per_epoch) for each in planned]
        pace = paces(out, spent, read=standings.keys())
    seen = []
    for each in planned:
        now, left, source = standings[each.run_id], None, None
        if now.state in UNFINISHED:
            left, source = seconds_left(each.config, now.epochs, pace, device, at_once)
        seen.append(Seen(planned=each, state=now.state, problem=now.problem, seconds_left=left, known_from=source))
    return seen


def left_to_run(seen: Iterable[Seen]) -> list[RunConfig]:
    """Everything that is not finished, in order; damaged runs as well, since someone must be told."""
    return [each.planned.config for each in seen if each.state != "done"]


def absent_datasets(configs: Iterable[RunConfig], root: Path | None) -> dict[str, str]:
    """The datasets of these runs that are not on this machine, each with what to do about it."""
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
    """The figures that are computed beside the runs."""
    return [name for name in COMPUTED if target in (name, SMOKE, EVERYTHING)]


def _configured(each: Cell | Curve, protocol: Protocol, device: str, settings: Mapping[str, Any]) -> RunConfig:
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


def _require_distinct(planned: Iterable[Planned]) -> None:
    """A setting that is given for all of them may be the very one in which they differ."""
    seen: dict[str, Planned] = {}
    for each in planned:
        other = seen.setdefault(each.run_id, each)
        if other is not each:
            raise ValueError(
                f"With these settings {other.serves[0]} and {each.serves[0]} are the same run. Leave out the --set in "
                "which they differ."
            )


def _lies_in(each: Cell | Curve, place: str) -> bool:
    parts = {*each.group.split("/"), each.dataset, noise_name(each.noise)}
    return parts.issuperset(_parts(place))


def _parts(place: str) -> list[str]:
    return noise_name(place).strip("/").split("/")


def _names(each: Cell | Curve) -> set[str]:
    return {each.method, each.row if isinstance(each, Cell) else each.label}
