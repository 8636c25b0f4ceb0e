"""A plan of runs in words and numbers: how they stand, how long the rest takes, and what failed."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tnlpad.cli.grid_plan import Plan, absent_here, seen_runs
from tnlpad.cli.output import print_json, say
from tnlpad.cli.where import Where

if TYPE_CHECKING:
    from tnlpad.experiments.estimate import KnownFrom
    from tnlpad.experiments.failures import Failure
    from tnlpad.experiments.reproduce import Seen

SHOWN_FAILURES = 5  # of each kind
LONG_SECONDS = 3600


def show_plan(plan: Plan, where: Where, as_json: bool) -> None:
    """What would be done, and how long it takes."""
    from tnlpad.experiments.reproduce import TITLES

    seen = seen_runs(plan, where)
    if as_json:
        print_json([_entry(each, {}) for each in seen])
        return
    typer.echo(f"{plan.target}: {TITLES[plan.target]}")
    if seen:
        _print_states(seen)
        typer.echo(what_is_left(seen, where))
        if not where.on_gpu:
            _print_gpu_hours(seen)
    if plan.figures:
        what = "Computed as well, beyond that estimate" if seen else "Computed, without an estimate"
        typer.echo(f"{what}: {', '.join(plan.figures)}.")
    if not seen and not plan.figures:
        typer.echo(f"Needs no runs: `{_report(where.out)}` has it.")
    problems = [*(each.problem for each in seen if each.problem), *absent_here(seen, where).values()]
    for problem in dict.fromkeys(problems):
        say(f"Note: {problem}")


def show_end(plan: Plan, failures: "Mapping[str, Failure]", where: Where, as_json: bool) -> None:
    """What was done, and what failed."""
    seen = seen_runs(plan, where)
    if as_json:
        print_json([_entry(each, failures) for each in seen])
    elif not seen and not plan.figures:
        typer.echo(f"{plan.target} needs no runs: `{_report(where.out)}` has it.")
    else:
        if seen:
            done = sum(each.state == "done" for each in seen)
            typer.echo(f"{done:,} of {_runs_are(len(seen))} done. Records: {where.out}")
        typer.echo(f"Tables and figures: {_report(where.out)}")
    if failures:
        _say_failures(seen, failures)


def _report(out: Path) -> str:
    return shlex.join(["tnlpad", "report", str(out), "--out", "report"])


def _print_states(seen: "Sequence[Seen]") -> None:
    """How many runs stand how, dataset by dataset."""
    from rich.console import Console
    from rich.table import Table

    from tnlpad.experiments.grid import STATES

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


def what_is_left(seen: "Sequence[Seen]", where: Where) -> str:
    """How much is left, how long that takes, and how we know."""
    from tnlpad.cli.grid_progress import duration, machine_time
    from tnlpad.experiments.estimate import step_times
    from tnlpad.experiments.reproduce import UNFINISHED

    left = [each for each in seen if each.state in UNFINISHED]
    if not left:
        return "Nothing is left to run."
    on_gpu = where.on_gpu
    recorded = step_times()["cuda" if on_gpu else "cpu"]
    shared = f", taken as made {where.jobs} at once" if on_gpu and where.jobs > 1 else ""
    known: dict[KnownFrom | None, str] = {
        "like runs": f"by like runs in {where.out}{shared}",
        "step times": f"by recorded steps ({recorded['machine']}; {recorded['basis']})",
        None: "unknown",
    }
    sources = Counter(each.known_from for each in left)
    basis = ", ".join(f"{sources[source]:,} {words}" for source, words in known.items() if sources[source])
    known_seconds = [each.seconds_left for each in left if each.seconds_left is not None]
    if not known_seconds:
        return f"{_runs_are(len(left))} left; how long that takes is not known."
    # Each run has a core of its own; those on a GPU slow each other down.
    seconds = sum(known_seconds) / (where.jobs if on_gpu else 1)
    most = "at most " if any(each.planned.config.patience for each in left) else ""
    took = machine_time(seconds, "GPU" if on_gpu else "CPU")
    at_once = (
        f", {duration(max(1.0, seconds / where.jobs, *known_seconds))} with --jobs {where.jobs}"
        if not on_gpu and not where.on_ray
        else ""
    )
    return f"{_runs_are(len(left))} left, {most}about {took}{at_once}. Estimated: {basis}."


def _runs_are(count: int) -> str:
    return f"{count:,} {'run is' if count == 1 else 'runs are'}"


def _print_gpu_hours(seen: "Sequence[Seen]") -> None:
    """What the same would take on the GPU that was measured, where a CPU takes long."""
    from tnlpad.cli.grid_progress import machine_time
    from tnlpad.experiments.estimate import seconds_left, step_times
    from tnlpad.experiments.reproduce import left_to_run

    known = [seconds_left(config, 0, {}, "cuda")[0] for config in left_to_run(seen)]
    seconds = [each for each in known if each is not None]
    if len(seconds) == len(known) and sum(each.seconds_left or 0.0 for each in seen) >= LONG_SECONDS:
        recorded = step_times()["cuda"]
        basis = f"{recorded['machine']}; {recorded['basis']}"
        typer.echo(
            f"With --device cuda: about {machine_time(sum(seconds), 'GPU')}. Estimated: by recorded steps ({basis})."
        )


def _entry(each: "Seen", failures: "Mapping[str, Failure]") -> dict[str, Any]:
    """A run of `--json`."""
    from tnlpad.experiments.config import command

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
    }


def _say_failures(seen: "Sequence[Seen]", failures: "Mapping[str, Failure]") -> None:
    """Each problem once, with the runs that have it; of a bug, where the first of them says where it is."""
    from tnlpad.experiments.config import command

    commands = {each.planned.run_id: command(each.planned.config) for each in seen}
    say(f"Error: {len(failures)} failed. The others are kept; give the command again to try these again.")
    for problem in dict.fromkeys(failure.error for failure in failures.values()):
        alike = {name: failure for name, failure in failures.items() if failure.error == problem}
        say(f"- {max(alike.values(), key=lambda failure: failure.traceback is not None)}")
        for name in list(alike)[:SHOWN_FAILURES]:
            say(f"    {commands.get(name, name)}")
        if len(alike) > SHOWN_FAILURES:
            say(f"    and {len(alike) - SHOWN_FAILURES} more")
