"""`tnlpad reproduce`: run the missing experiments of a table or figure, on this machine or on a Ray cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tnlpad.cli.grid_progress import grid_progress
from tnlpad.cli.grid_runs import Address, ExecutorName, Jobs, SendBackRuns, filling_gpu, running
from tnlpad.cli.options import (
    AsJson,
    Device,
    FollowProtocol,
    Out,
    Protocol,
    Quiet,
    Root,
    Setting,
    Where,
    everyday_settings,
    read_list,
    read_seeds,
    training_option,
    where_to_run,
)
from tnlpad.cli.output import ending_early, exit_codes, fail, folder_for_results, say
from tnlpad.cli.plan_text import Plan, absent_here, seen_runs, show_end, show_plan, what_is_left

if TYPE_CHECKING:
    from tnlpad.grid.grid import Failure
    from tnlpad.grid.reproduce import PlannedStatus
    from tnlpad.paper.cells import Cell, Curve


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
            "--have",
            metavar="FOLDER",
            help="Count the finished runs or archived records there as done, from a CPU or a GPU. Repeatable.",
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
    jobs: Jobs = None,
    executor: ExecutorName = "local",
    address: Address = None,
    send_back: SendBackRuns = False,
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
    with exit_codes():
        settings = everyday_settings(setting or [], {"patience": patience})
    if setting:
        say("Runs with --set differ from the paper's: the report lists them in tables of their own.", quiet)
    where = where_to_run(executor, jobs, address, send_back, out, root, device, dry_run, quiet)
    plan = planned(target, only or [], methods, seeds, protocol, settings, where)
    plan = replace(plan, have=_finished_elsewhere(have or []), kept_in=have or ())
    where = filling_gpu(where, jobs, [run.config for run in plan.runs])
    if dry_run:
        show_plan(plan, where, as_json)
        return
    folder_for_results(out, "--out")  # not earlier: a mistyped option must not leave an empty folder
    failures = carry_out(plan, where)
    show_end(plan, failures, where, as_json)
    if failures:
        raise typer.Exit(1)


def planned(
    target: str,
    only: list[str],
    methods: str | None,
    seeds: str | None,
    protocol: Protocol,
    settings: Mapping[str, str],
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
        numbers = _seeds(seeds)
        runs = plan(
            select(with_own_methods(target, every, names), only=only, methods=names),
            protocol=protocol,
            seeds=numbers,
            settings=settings,
            device=where.device,
        )
        if target in COMPUTED:
            if where.on_ray:
                raise ValueError(f"--executor ray: {target} is computed on this machine. Leave it out.")
            wanted = variation(target, seeds=numbers, protocol=protocol, settings=settings, device=where.device)
            return Plan(target=target, runs=runs, figures={target: wanted})
    except ValueError as error:
        fail(str(error), code=2)
    # Computed figures belong to the whole target and to none of its parts. The options above are for runs.
    beside = computed_beside(target) if not only and not methods else []
    if beside and (seeds is not None or settings or protocol != "paper"):
        options = "--seeds, --set, --protocol and --patience"
        say(f"{options} apply to runs only. They do not change {' and '.join(beside)}.", where.quiet)
    return Plan(target=target, runs=runs, figures={name: Variation() for name in beside})


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


def carry_out(plan: Plan, where: Where) -> "dict[str, Failure]":
    """Run what is missing, and return the failures by run id or figure."""
    from tnlpad.grid.cluster import RayUnavailable
    from tnlpad.grid.grid import DiskFull

    seen = seen_runs(plan, where)
    if seen:
        say(what_is_left(seen, where), where.quiet)
    try:
        with ending_early(kept="Finished runs are", kept_of_interrupted="Finished runs and checkpoints are"):
            return _run(seen, where) | _compute(plan, where)
    except (RayUnavailable, DiskFull) as error:
        fail(str(error))


def _run(seen: "Sequence[PlannedStatus]", where: Where) -> "dict[str, Failure]":
    from tnlpad.grid.grid import Failure
    from tnlpad.grid.reproduce import left_to_run

    left, absent = left_to_run(seen), absent_here(seen, where)
    failures = {config.run_id: Failure(error=absent[config.dataset]) for config in left if config.dataset in absent}
    possible = [config for config in left if config.dataset not in absent]
    if absent and not possible:
        fail(" ".join(absent.values()), code=3)
    if not possible:
        return failures
    expected = {each.planned.run_id: each.seconds_left for each in seen}
    places = None if where.on_ray or where.at_once else where.jobs  # the number may change
    with (
        grid_progress(possible, expected, where.out, places, where.quiet) as progress,
        running(possible, where, on_wait=progress.on_wait) as ends,
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
