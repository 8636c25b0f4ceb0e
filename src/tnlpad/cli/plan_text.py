"""Output of `tnlpad reproduce`: the plan, what is left and how long it takes, what was done and what failed."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tnlpad.cli.options import Where
from tnlpad.cli.output import print_json, say
from tnlpad.report.words import counted

if TYPE_CHECKING:
    from tnlpad.grid.computed_figures import Variation
    from tnlpad.grid.estimate import KnownFrom
    from tnlpad.grid.grid import Failure
    from tnlpad.grid.reproduce import Planned, PlannedStatus
    from tnlpad.runs.config import RunConfig

MOST_FAILURES_SHOWN = 5  # of each kind
LONG_SECONDS = 3600


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The runs that a table or figure needs, and the figures that are computed from runs of their own."""

    target: str
    runs: "Sequence[Planned]"
    figures: "Mapping[str, Variation]"
    have: frozenset[str] = frozenset()  # run ids whose records are elsewhere
    kept_in: Sequence[Path] = ()  # the folders with these records


def seen_runs(plan: Plan, where: Where) -> "list[PlannedStatus]":
    """Return the state of each run, and the seconds that each still takes with `where.jobs` at once."""
    from tnlpad.grid.mps import kind_of
    from tnlpad.grid.reproduce import plan_status

    seen = plan_status(plan.runs, where.out, where.device, where.jobs, plan.have)
    if where.at_once is not None:
        for place, each in enumerate(seen):
            if each.known_from == "like runs" and each.seconds_left is not None:  # with as many of their kind at once
                at_once = where.at_once[kind_of(each.planned.config.to_json())].start
                seen[place] = replace(each, seconds_left=each.seconds_left * where.jobs / at_once)
    return seen


def seen_figures(plan: Plan, where: Where) -> "dict[str, list[PlannedStatus]]":
    """Return the state of the runs of each computed figure."""
    from tnlpad.grid.reproduce import figure_status
    from tnlpad.paper.cells import SMOKE

    smoke = plan.target == SMOKE
    return {
        name: figure_status(name, where.out, wanted, smoke=smoke, device=where.device)
        for name, wanted in plan.figures.items()
    }


def absent_here(seen: "Sequence[PlannedStatus]", where: Where) -> dict[str, str]:
    """Return the datasets that are missing on this machine for the rest of a plan, with how to get each."""
    from tnlpad.grid.reproduce import absent_datasets, left_to_run

    if where.on_ray:
        return {}  # the data must be on the machines of the cluster, not on this one
    return absent_datasets(left_to_run(seen), where.root)


# Before and after -----------------------------------------------------------------------------------------------------


def show_plan(plan: Plan, where: Where, as_json: bool) -> None:
    """Print what would be run, and how long it takes."""
    from tnlpad.grid.reproduce import TITLES

    seen, figures = seen_runs(plan, where), seen_figures(plan, where)
    every = [*seen, *(each for runs in figures.values() for each in runs)]
    if as_json:
        print_json([_entry(each, {}, where.out) for each in every])
        return
    typer.echo(f"{plan.target}: {TITLES[plan.target]}")
    if seen:
        _print_states(seen)
        typer.echo(what_is_left(seen, where))
        if not where.on_gpu:
            _print_gpu_hours(seen)
    for number, (name, runs) in enumerate(figures.items()):
        _print_figure(name, runs, replace(where, jobs=1), explain=not seen and number == 0)
    if not every:
        typer.echo(f"No runs needed: {_shown_by_report(where.out)}")
    problems = [_damage(each, where.out) for each in seen if each.problem]
    for problem in dict.fromkeys([*problems, *absent_here(every, where).values()]):
        say(f"Note: {problem}")


def show_end(plan: Plan, failures: "Mapping[str, Failure]", where: Where, as_json: bool) -> None:
    """Print what was done, and what failed."""
    seen = seen_runs(plan, where)
    if as_json:
        entries = [_entry(each, failures, where.out) for each in seen]
        for name, runs in seen_figures(plan, where).items():
            failed = {each.planned.run_id: failures[name] for each in runs if name in failures}
            entries += [_entry(each, failed, where.out) for each in runs]
        print_json(entries)
    elif not seen and not plan.figures:
        typer.echo(f"{plan.target} needs no runs: {_shown_by_report(where.out)}")
    else:
        folders = list(dict.fromkeys((where.out, *plan.kept_in)))
        if seen:
            done = sum(each.state == "done" for each in seen)
            typer.echo(f"{done:,} of {_runs_are(len(seen))} done. Records: {', '.join(map(str, folders))}")
        typer.echo(f"Tables and figures: {_report(*folders)}")
    if failures:
        _say_failures(seen, failures, where.out)


def _report(*folders: Path) -> str:
    return shlex.join(["tnlpad", "report", *map(str, folders), "--out", "report"])


def _shown_by_report(out: Path) -> str:
    """Return where a table or figure without runs is shown; a report needs some finished run."""
    return f"`{_report(out)}` shows it once {out} has a finished run."


def _print_figure(name: str, seen: "Sequence[PlannedStatus]", where: Where, explain: bool) -> None:
    """Print the runs of a computed figure: what they are, and how long they take."""
    typer.echo(f"{name} is computed from runs of its own:")
    _print_states(seen)
    typer.echo(f"{what_is_left(seen, where, explain)} The figure is computed from them, which is not in that estimate.")


# Parts ----------------------------------------------------------------------------------------------------------------


def _print_states(seen: "Sequence[PlannedStatus]") -> None:
    """Print a table of run states by dataset."""
    from rich.console import Console
    from rich.table import Table

    from tnlpad.grid.grid import STATES

    counts = Counter((each.planned.experiment.dataset, each.state) for each in seen)
    states = [state for state in STATES if any(each.state == state for each in seen)]
    table = Table()
    table.add_column("runs")
    for heading in (*states, "all"):
        table.add_column(heading, justify="right")
    for dataset in dict.fromkeys(dataset for dataset, _ in counts):
        row = [counts[dataset, state] for state in states]
        table.add_row(dataset, *(f"{count:,}" for count in (*row, sum(row))))
    table.add_section()
    totals = [sum(each.state == state for each in seen) for state in states]
    table.add_row("all", *(f"{count:,}" for count in (*totals, len(seen))))
    Console().print(table)


def what_is_left(seen: "Sequence[PlannedStatus]", where: Where, explain: bool = True) -> str:
    """Describe how many runs are left, how long they take, and, to `explain` it, how that was estimated."""
    from tnlpad.cli.progress import duration, machine_time
    from tnlpad.grid.estimate import step_times

    left = [each for each in seen if each.state != "done"]
    if not left:
        return "Nothing is left to run."
    on_gpu = where.on_gpu
    recorded = step_times()["cuda" if on_gpu else "cpu"]
    many = "as many" if where.at_once else f"{where.jobs}"
    shared = f", assuming they were run {many} at once" if on_gpu and where.jobs > 1 else ""
    known: dict[KnownFrom | None, str] = {
        "like runs": f"from similar runs in {where.out}{shared}",
        "standard training": "as if they took as long as standard training",
        "step times": f"from recorded step times ({recorded['machine']}; {recorded['basis']})",
        None: "unknown",
    }
    sources = Counter(each.known_from for each in left)
    basis = ", ".join(f"{sources[source]:,} {words}" for source, words in known.items() if sources[source])
    known_seconds = [each.seconds_left for each in left if each.seconds_left is not None]
    if not known_seconds:
        return f"{_runs_are(len(left))} left; how long that takes is not known."
    # On a CPU each run has its own core; on a GPU parallel runs share the device.
    seconds = sum(known_seconds) / (where.jobs if on_gpu else 1)
    most = "at most " if any(each.planned.config.patience for each in left) else ""
    took = machine_time(seconds, "GPU" if on_gpu else "CPU")
    at_once = (
        f", {duration(max(1.0, seconds / where.jobs, *known_seconds))} with --jobs {where.jobs}"
        if not on_gpu and not where.on_ray and where.jobs > 1
        else ""
    )
    text = f"{_runs_are(len(left))} left, {most}about {took}{at_once}."
    if not explain:
        return text
    estimated = [each.planned.config for each in left if each.known_from != "like runs"]
    return f"{text} Estimated: {basis}.{_decoding(estimated) if on_gpu else ''}"


def _decoding(configs: "Sequence[RunConfig]") -> str:
    """Return how many cores decode the photographs of these runs on a GPU; empty without photographs."""
    from tnlpad.grid.estimate import decodes
    from tnlpad.runs.devices import available_cores

    return (
        f" Photographs are decoded by {counted(available_cores(), 'core')}, as here."
        if any(map(decodes, configs))
        else ""
    )


def _runs_are(count: int) -> str:
    return f"{count:,} {'run is' if count == 1 else 'runs are'}"


def _print_gpu_hours(seen: "Sequence[PlannedStatus]") -> None:
    """Print how long the same takes on the measured GPU, if a CPU takes long."""
    from tnlpad.cli.progress import machine_time
    from tnlpad.grid.estimate import seconds_left, step_times
    from tnlpad.grid.reproduce import left_to_run

    left = left_to_run(seen)
    known = [seconds_left(config, 0, {}, "cuda")[0] for config in left]
    seconds = [each for each in known if each is not None]
    if len(seconds) == len(known) and sum(each.seconds_left or 0.0 for each in seen) >= LONG_SECONDS:
        recorded = step_times()["cuda"]
        basis = f"{recorded['machine']}; {recorded['basis']}"
        took = machine_time(sum(seconds), "GPU")
        estimated = f"Estimated from recorded step times ({basis}).{_decoding(left)}"
        typer.echo(f"With --device cuda: about {took}. {estimated}")


def _damage(each: "PlannedStatus", out: Path) -> str:
    """Return what is wrong with a damaged run, and how to repair it."""
    left = f"{each.planned.run_id} is left to run again, since it is damaged."
    return f"{left} {each.problem} Repair: `{_repair(each, out)}`"


def _repair(each: "PlannedStatus", out: Path) -> str:
    """Return the command that removes a damaged run, so that the same plan makes it again."""
    return shlex.join(["rm", "-r", str(out / each.planned.run_id)])


def _entry(each: "PlannedStatus", failures: "Mapping[str, Failure]", out: Path) -> dict[str, Any]:
    """Return the entry of a run in `--json`."""
    from tnlpad.runs.config import command

    planned = each.planned
    return {
        "run_id": planned.run_id,
        "state": each.state,
        "dataset": planned.experiment.dataset,
        "noise": planned.experiment.noise,
        "method": planned.experiment.method,
        "network": planned.experiment.resolved_network,
        "seed": planned.seed,
        "cells": list(planned.serves),
        "command": command(planned.config),
        "seconds_left": each.seconds_left,
        "problem": str(failures[planned.run_id]) if planned.run_id in failures else each.problem,
        "repair": _repair(each, out) if each.state == "damaged" else None,
    }


def _say_failures(seen: "Sequence[PlannedStatus]", failures: "Mapping[str, Failure]", out: Path) -> None:
    """Print each distinct error once, with the commands of its runs; for damaged ones, those that repair them."""
    from tnlpad.runs.config import command

    commands = {
        each.planned.run_id: _repair(each, out) if each.state == "damaged" else command(each.planned.config)
        for each in seen
    }
    say(f"Error: {len(failures)} failed. Finished runs are kept. Run the command again to retry these.")
    for problem in dict.fromkeys(failure.error for failure in failures.values()):
        alike = {name: failure for name, failure in failures.items() if failure.error == problem}
        say(f"- {max(alike.values(), key=lambda failure: failure.traceback is not None)}")
        for name in list(alike)[:MOST_FAILURES_SHOWN]:
            say(f"    {commands.get(name, name)}")
        if len(alike) > MOST_FAILURES_SHOWN:
            say(f"    and {len(alike) - MOST_FAILURES_SHOWN} more")
