"""`tnlpad reproduce`: run the missing experiments of a table or figure, on this machine or on a Ray cluster."""

import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tnlpad.cli.options import (
    AsJson,
    Device,
    Executor,
    FollowProtocol,
    Out,
    Protocol,
    Quiet,
    Root,
    Setting,
    Where,
    read_list,
    read_seeds,
    read_settings,
    training_option,
    where_to_run,
)
from tnlpad.cli.output import ending_early, fail, folder_for_results, print_json, say

if TYPE_CHECKING:
    from tnlpad.grid.computed_figures import Variation
    from tnlpad.grid.estimate import KnownFrom
    from tnlpad.grid.grid import Executor as GridExecutor
    from tnlpad.grid.grid import Failure
    from tnlpad.grid.reproduce import Planned, PlannedStatus
    from tnlpad.paper.cells import Cell, Curve

execution_option = partial(typer.Option, rich_help_panel="Execution")
MOST_FAILURES_SHOWN = 5  # of each kind
LONG_SECONDS = 3600


def reproduce(
    target: Annotated[
        str,
        typer.Argument(metavar="TABLE_OR_FIGURE", help="Table or figure: simulated, ablation, c2_noise, smoke, all, …"),
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Only this part, such as cifar10/symmetric-0.4. Repeatable."),
    ] = None,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Only these methods or rows; also your own.")
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(metavar="A-B|A,B,…", help="Seeds (default: as many as the paper has trials)."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and how long it will take, and exit.")
    ] = False,
    have: Annotated[
        list[Path] | None,
        typer.Option(
            "--have", metavar="FOLDER", help="Count the finished runs or archived records there as done. Repeatable."
        ),
    ] = None,
    root: Root = None,
    protocol: FollowProtocol = "paper",
    patience: Annotated[
        int | None,
        training_option(
            metavar="N", min=1, help="Stop N epochs after the best one. The report marks such runs as a variant."
        ),
    ] = None,
    setting: Setting = None,
    device: Device = "auto",
    jobs: Annotated[
        int | None,
        execution_option(
            metavar="N",
            min=1,
            help="Number of parallel runs (default: one per core, or as many as fit on the GPU). With ray: per GPU.",
        ),
    ] = None,
    executor: Annotated[Executor, execution_option(help="Run on this machine or on a Ray cluster.")] = "local",
    address: Annotated[
        str | None,
        execution_option("--address", metavar="ADDRESS", help="Address of the Ray cluster (default: the running one)."),
    ] = None,
    send_back: Annotated[
        bool, execution_option("--send-back", help="Copy finished runs back from Ray workers that do not share --out.")
    ] = False,
    out: Out = Path("runs"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run the missing experiments of a table or figure of the paper.

    Finished runs are kept. Running the same command again resumes an
    interrupted one, and two commands at once share the work. Make the tables
    and figures with `tnlpad report`.

    Examples:

    tnlpad reproduce smoke

    tnlpad reproduce simulated --dry-run
    """
    say("Loading torch.", quiet)
    settings = [*(setting or []), *([f"patience={patience}"] if patience is not None else [])]
    if setting:
        say("Runs with --set differ from the paper's: the report lists them in tables of their own.", quiet)
    where = where_to_run(executor, jobs, address, send_back, out, root, device, dry_run, quiet)
    plan = replace(
        planned(target, only or [], methods, seeds, protocol, settings, where), have=_finished_elsewhere(have or [])
    )
    if jobs is None and where.on_gpu and not where.on_ray:
        where = _fill_gpu(where, plan)
    if dry_run:
        show_plan(plan, where, as_json)
        return
    folder_for_results(out, "--out")  # not earlier: a mistyped option must not leave an empty folder
    failures = carry_out(plan, where)
    show_end(plan, failures, where, as_json)
    if failures:
        raise typer.Exit(1)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The runs that a table or figure needs, and the figures that are computed without runs."""

    target: str
    runs: "Sequence[Planned]"
    figures: "Mapping[str, Variation]"
    have: frozenset[str] = frozenset()  # run ids whose records are elsewhere


def planned(
    target: str,
    only: list[str],
    methods: str | None,
    seeds: str | None,
    protocol: Protocol,
    settings: list[str],
    where: Where,
) -> Plan:
    """Turn the options of the command line into a plan; exit with code 2 if one of them is wrong."""
    from tnlpad.grid.computed_figures import COMPUTED, Variation, variation
    from tnlpad.grid.reproduce import computed_beside, experiments, plan, select, with_own_methods

    try:
        every: Sequence[Cell | Curve] = experiments(target)
        names = read_list(methods or "")
        if not every and (only or methods):
            raise ValueError(f"{target} has no parts to choose from: leave out --only and --methods.")
        numbers, given = _seeds(seeds), read_settings(settings)
        runs = plan(
            select(with_own_methods(target, every, names), only=only, methods=names),
            protocol=protocol,
            seeds=numbers,
            settings=given,
            device=where.device,
        )
        if target in COMPUTED:
            if where.on_ray:
                raise ValueError(f"--executor ray: {target} is computed on this machine. Leave it out.")
            wanted = variation(target, seeds=numbers, protocol=protocol, settings=given, device=where.device)
            return Plan(target=target, runs=runs, figures={target: wanted})
    except ValueError as error:
        fail(str(error), code=2)
    # Computed figures belong to the whole target and to none of its parts. The options above are for runs.
    beside = computed_beside(target) if not only and not methods else []
    if beside and (seeds is not None or settings or protocol != "paper"):
        options = "--seeds, --set, --protocol and --patience"
        say(f"{options} apply to runs only. They do not change {' and '.join(beside)}.", where.quiet)
    return Plan(target=target, runs=runs, figures={name: Variation() for name in beside})


def _fill_gpu(where: Where, plan: Plan) -> Where:
    from tnlpad.grid.mps import runs_at_once

    return replace(where, jobs=runs_at_once(run.config for run in plan.runs))


def _finished_elsewhere(folders: Sequence[Path]) -> frozenset[str]:
    """Return the run ids of all finished runs in these folders; exit with code 2 if one cannot be read."""
    from tnlpad.records.archive import Problem, finished_records

    problems: list[Problem] = []
    for folder in folders:
        if not folder.exists():
            fail(f"--have {folder}: there is no such folder. Name a folder of runs or archived records.", code=2)
    try:
        records = finished_records(folders, problems.append)
    except OSError as error:
        fail(f"--have {error.filename}: cannot be read ({error.strerror}). Name a folder of runs or records.", code=2)
    for problem in problems:
        if problem.kind in ("damaged", "conflicting"):
            say(f"Note: not counted as done: {problem}")
    return frozenset(record.run_id for record in records)


def _seeds(text: str | None) -> list[int] | None:
    if text is None:
        return None
    if not (seeds := read_seeds(text)):
        raise ValueError(f"--seeds {text}: the range is empty. Write 1-3 or 1,2,5.")
    return seeds


def seen_runs(plan: Plan, where: Where) -> "list[PlannedStatus]":
    """Return the state of each run, and the seconds that each still takes."""
    from tnlpad.grid.reproduce import plan_status

    return plan_status(plan.runs, where.out, where.device, where.jobs, plan.have)


def absent_here(seen: "Sequence[PlannedStatus]", where: Where) -> dict[str, str]:
    """Return the datasets that are missing on this machine for the rest of a plan, with how to get each."""
    from tnlpad.grid.reproduce import absent_datasets, left_to_run

    if where.on_ray:
        return {}  # the data must be on the machines of the cluster, not on this one
    return absent_datasets(left_to_run(seen), where.root)


def carry_out(plan: Plan, where: Where) -> "dict[str, Failure]":
    """Run what is missing, and return the failures by run id or figure."""
    from tnlpad.grid.grid import DiskFull
    from tnlpad.grid.ray import RayUnavailable

    seen = seen_runs(plan, where)
    if seen:
        say(what_is_left(seen, where), where.quiet)
    try:
        with ending_early(kept="Finished runs are", kept_of_interrupted="Finished runs and checkpoints are"):
            return _run(seen, where) | _compute(plan, where)
    except (RayUnavailable, DiskFull) as error:
        fail(str(error))


def _run(seen: "Sequence[PlannedStatus]", where: Where) -> "dict[str, Failure]":
    from tnlpad.cli.grid_progress import grid_progress
    from tnlpad.grid.grid import Failure, run_grid
    from tnlpad.grid.reproduce import left_to_run

    left, absent = left_to_run(seen), absent_here(seen, where)
    failures = {config.run_id: Failure(error=absent[config.dataset]) for config in left if config.dataset in absent}
    possible = [config for config in left if config.dataset not in absent]
    if absent and not possible:
        fail(" ".join(absent.values()), code=3)
    if not possible:
        return failures
    expected = {each.planned.run_id: each.seconds_left for each in seen}
    places = None if where.on_ray else where.jobs  # the size of a cluster may change
    with (
        _executor(where) as execute,
        grid_progress(possible, expected, where.out, places, where.quiet) as progress,
        closing(
            run_grid(
                possible,
                where.out,
                execute=execute,
                root=where.root,
                device=where.device,
                on_wait=progress.on_wait,
            )
        ) as ends,
    ):
        for ended in ends:
            progress.on_end(ended)
            if ended.failure is not None:
                failures[ended.run_id] = ended.failure
    return failures


def _compute(plan: Plan, where: Where) -> "dict[str, Failure]":
    from tnlpad.cli.progress import status_line
    from tnlpad.grid.computed_figures import compute_figure
    from tnlpad.paper.cells import SMOKE

    failures: dict[str, Failure] = {}
    for name, wanted in plan.figures.items():
        with status_line(where.quiet) as show:
            failure = compute_figure(
                name,
                where.out,
                wanted,
                smoke=plan.target == SMOKE,
                root=where.root,
                device=where.device,
                tell=show,
            )
        if failure is not None:
            failures[name] = failure
    return failures


@contextmanager
def _executor(where: Where) -> "Iterator[GridExecutor]":
    from tnlpad.grid.executors import execute
    from tnlpad.grid.grid import job_folder, moved
    from tnlpad.grid.mps import mps
    from tnlpad.grid.ray import SendBack, execute_on_ray

    if where.on_ray:
        with redirect_stdout(sys.stderr):  # Ray prints messages, and stdout is for results
            yield partial(
                execute_on_ray,
                address=where.address,
                gpus_per_run=1 / where.jobs if where.on_gpu else 0,
                send_back=SendBack(folder=job_folder, moved=moved) if where.send_back else None,
            )
        return
    shared = where.jobs > 1 and where.on_gpu
    with mps(where.device, say=lambda message: say(message, where.quiet)) if shared else nullcontext():
        yield partial(execute, workers=where.jobs)


def show_plan(plan: Plan, where: Where, as_json: bool) -> None:
    """Print what would be run, and how long it takes."""
    from tnlpad.grid.reproduce import TITLES

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
        what = "Computed as well, not in that estimate" if seen else "Computed, without an estimate"
        typer.echo(f"{what}: {', '.join(plan.figures)}.")
    if not seen and not plan.figures:
        typer.echo(f"No runs needed: `{_report(where.out)}` shows it.")
    problems = [*(each.problem for each in seen if each.problem), *absent_here(seen, where).values()]
    for problem in dict.fromkeys(problems):
        say(f"Note: {problem}")


def show_end(plan: Plan, failures: "Mapping[str, Failure]", where: Where, as_json: bool) -> None:
    """Print what was done, and what failed."""
    seen = seen_runs(plan, where)
    if as_json:
        print_json([_entry(each, failures) for each in seen])
    elif not seen and not plan.figures:
        typer.echo(f"{plan.target} needs no runs: `{_report(where.out)}` shows it.")
    else:
        if seen:
            done = sum(each.state == "done" for each in seen)
            typer.echo(f"{done:,} of {_runs_are(len(seen))} done. Records: {where.out}")
        typer.echo(f"Tables and figures: {_report(where.out)}")
    if failures:
        _say_failures(seen, failures)


def _report(out: Path) -> str:
    return shlex.join(["tnlpad", "report", str(out), "--out", "report"])


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


def what_is_left(seen: "Sequence[PlannedStatus]", where: Where) -> str:
    """Describe how many runs are left, how long they take, and how that was estimated."""
    from tnlpad.cli.progress import duration, machine_time
    from tnlpad.grid.estimate import step_times
    from tnlpad.grid.reproduce import UNFINISHED

    left = [each for each in seen if each.state in UNFINISHED]
    if not left:
        return "Nothing is left to run."
    on_gpu = where.on_gpu
    recorded = step_times()["cuda" if on_gpu else "cpu"]
    shared = f", assuming they were run {where.jobs} at once" if on_gpu and where.jobs > 1 else ""
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
        if not on_gpu and not where.on_ray
        else ""
    )
    return f"{_runs_are(len(left))} left, {most}about {took}{at_once}. Estimated: {basis}."


def _runs_are(count: int) -> str:
    return f"{count:,} {'run is' if count == 1 else 'runs are'}"


def _print_gpu_hours(seen: "Sequence[PlannedStatus]") -> None:
    """Print how long the same takes on the measured GPU, if a CPU takes long."""
    from tnlpad.cli.progress import machine_time
    from tnlpad.grid.estimate import seconds_left, step_times
    from tnlpad.grid.reproduce import left_to_run

    known = [seconds_left(config, 0, {}, "cuda")[0] for config in left_to_run(seen)]
    seconds = [each for each in known if each is not None]
    if len(seconds) == len(known) and sum(each.seconds_left or 0.0 for each in seen) >= LONG_SECONDS:
        recorded = step_times()["cuda"]
        basis = f"{recorded['machine']}; {recorded['basis']}"
        took = machine_time(sum(seconds), "GPU")
        typer.echo(f"With --device cuda: about {took}. Estimated from recorded step times ({basis}).")


def _entry(each: "PlannedStatus", failures: "Mapping[str, Failure]") -> dict[str, Any]:
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
    }


def _say_failures(seen: "Sequence[PlannedStatus]", failures: "Mapping[str, Failure]") -> None:
    """Print each distinct error once, with the commands of the runs that have it."""
    from tnlpad.runs.config import command

    commands = {each.planned.run_id: command(each.planned.config) for each in seen}
    say(f"Error: {len(failures)} failed. Finished runs are kept. Run the command again to retry these.")
    for problem in dict.fromkeys(failure.error for failure in failures.values()):
        alike = {name: failure for name, failure in failures.items() if failure.error == problem}
        say(f"- {max(alike.values(), key=lambda failure: failure.traceback is not None)}")
        for name in list(alike)[:MOST_FAILURES_SHOWN]:
            say(f"    {commands.get(name, name)}")
        if len(alike) > MOST_FAILURES_SHOWN:
            say(f"    and {len(alike) - MOST_FAILURES_SHOWN} more")
