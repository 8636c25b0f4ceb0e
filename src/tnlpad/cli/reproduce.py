"""`tnlpad reproduce`: carry out what is missing of a table or figure of the paper, here or on a cluster."""

import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tnlpad.cli.grid_words import entry, print_gpu_hours, print_states, say_failures, what_is_left
from tnlpad.cli.output import fail, folder_for_results, print_json, say
from tnlpad.cli.train import Protocol, pair
from tnlpad.cli.tune import seed_list
from tnlpad.cli.where import Where, where_to_run

if TYPE_CHECKING:
    from tnlpad.experiments.computed_figures import Variation
    from tnlpad.experiments.failures import Failure
    from tnlpad.experiments.grid import Executor
    from tnlpad.experiments.reproduce import Planned, Seen


def reproduce(
    target: Annotated[
        str, typer.Argument(metavar="TABLE_OR_FIGURE", help="Such as simulated, ablation, c2_noise, smoke, or all.")
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PLACE", help="A part of it, such as cifar10/symmetric-0.4. May be repeated."),
    ] = None,
    methods: Annotated[str | None, typer.Option(metavar="A,B,…", help="Only these methods or rows.")] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="A-B|A,B,…", help="By default as many as the paper has trials.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Runs at once: on this machine, or with ray on each GPU. By default one per core, or as fill the GPU.",
        ),
    ] = None,
    executor: Annotated[
        Literal["local", "ray"], typer.Option(help="This machine, or the machines of a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of the Ray cluster; by default the one at hand.")
    ] = None,
    send_back: Annotated[
        bool, typer.Option("--send-back", help="With ray, if its machines do not share --out with this one.")
    ] = False,
    protocol: Annotated[Protocol, typer.Option(help="Whom to follow where they differ.")] = "paper",
    patience: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Stop N epochs after the best; a variant, which the report labels."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting, for all runs. May be repeated."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where run folders go.")] = Path("runs"),
    root: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where datasets lie.")] = None,
    device: Annotated[str, typer.Option(metavar="NAME", help="cpu, cuda or auto.")] = "auto",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and how long it will take.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a list with one entry per run.")] = False,
) -> None:
    """Run what is missing of a table or figure of the paper.

    What is finished is kept: an interrupted command goes on when it is given
    again, and two of them share the work. `tnlpad report` makes the tables.

    Example: tnlpad reproduce smoke, or tnlpad reproduce simulated --dry-run
    """
    say("Loading torch.", quiet)
    settings = [*(setting or []), *([f"patience={patience}"] if patience is not None else [])]
    if setting:
        say("Runs with --set are none of the paper's: the report shows them beside its tables.", quiet)
    where = where_to_run(executor, jobs, address, send_back, out, root, device, dry_run, quiet)
    plan = _planned(target, only or [], methods, seeds, protocol, settings, where)
    if jobs is None and where.on_gpu and not where.on_ray:
        where = _filling_the_gpu(where, plan)
    if dry_run:
        _show_plan(plan, where, as_json)
        return
    folder_for_results(out, "--out")  # only now: a word that was mistyped should not leave an empty folder
    failures = _carry_out(plan, where)
    _show_end(plan, failures, where, as_json)
    if failures:
        raise typer.Exit(1)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a table or figure needs: runs, and figures that are computed beside them, with what was asked of them."""

    target: str
    runs: "Sequence[Planned]"
    figures: "Mapping[str, Variation]"


def _planned(
    target: str,
    only: list[str],
    methods: str | None,
    seeds: str | None,
    protocol: Protocol,
    settings: list[str],
    where: Where,
) -> Plan:
    from tnlpad.experiments.computed_figures import COMPUTED, Variation, variation
    from tnlpad.experiments.reproduce import computed_beside, experiments, plan, select

    try:
        every = experiments(target)
        if not every and (only or methods):
            raise ValueError(f"{target} has no parts to choose from: leave out --only and --methods.")
        numbers, given = _seeds(seeds), dict(pair(text) for text in settings)
        runs = plan(
            select(every, only=only, methods=_names(methods)),
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
    # Part of the whole, but of no part; and as they are, since what was asked is about runs.
    beside = computed_beside(target) if not only and not methods else []
    if beside and (seeds is not None or settings or protocol != "paper"):
        options = "--seeds, --set, --protocol and --patience"
        say(f"{options} are for the runs: {' and '.join(beside)} are computed as ever.", where.quiet)
    return Plan(target=target, runs=runs, figures={name: Variation() for name in beside})


def _seeds(text: str | None) -> list[int] | None:
    if text is None:
        return None
    if not (seeds := seed_list(text)):
        raise ValueError(f"--seeds {text}: names no seed. Write 1-3 or 1,2,5.")
    return seeds


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


# Carrying it out ------------------------------------------------------------------------------------------------------


def _filling_the_gpu(where: Where, plan: Plan) -> Where:
    from tnlpad.experiments.packing import runs_at_once

    return replace(where, jobs=runs_at_once(run.config for run in plan.runs if run.config is not None))


def _carry_out(plan: Plan, where: Where) -> "dict[str, Failure]":
    """Run what is missing; what failed, by run or figure."""
    from tnlpad.experiments.failures import DiskFull
    from tnlpad.experiments.ray_executor import RayUnavailable
    from tnlpad.experiments.reproduce import look

    seen = look(plan.runs, where.out, where.device, where.jobs)
    if seen:
        say(what_is_left(seen, where), where.quiet)
    try:
        return _run(seen, where) | _compute(plan, where)
    except (RayUnavailable, DiskFull) as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error}. Finished runs are kept: free the disk or check the folder, and run the command again.")
    except KeyboardInterrupt:
        say("Interrupted. Finished runs and checkpoints are kept: run the command again to go on.")
        raise typer.Exit(130) from None


def _run(seen: "Sequence[Seen]", where: Where) -> "dict[str, Failure]":
    from tnlpad.cli.grid_progress import grid_progress
    from tnlpad.experiments.failures import Failure
    from tnlpad.experiments.grid import run_grid
    from tnlpad.experiments.reproduce import absent_datasets, left_to_run

    left = left_to_run(seen)
    # The machines of a cluster have the data, this one need not.
    absent = absent_datasets(left, where.root) if not where.on_ray else {}
    failures = {config.run_id: Failure(error=absent[config.dataset]) for config in left if config.dataset in absent}
    possible = [config for config in left if config.dataset not in absent]
    if absent and not possible:
        fail(" ".join(absent.values()), code=3)
    if not possible:
        return failures
    expected = {each.planned.run_id: each.seconds_left for each in seen if each.planned.run_id is not None}
    places = None if where.on_ray else where.jobs  # how many machines a cluster has may change
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
    from tnlpad.cli.grid_progress import telling
    from tnlpad.experiments.computed_figures import compute_figure
    from tnlpad.paper.cells import SMOKE

    failures: dict[str, Failure] = {}
    for name, wanted in plan.figures.items():
        with telling(where.quiet) as tell:
            failure = compute_figure(
                name,
                where.out,
                wanted,
                smoke=plan.target == SMOKE,
                root=where.root,
                device=where.device,
                tell=tell,
            )
        if failure is not None:
            failures[name] = failure
    return failures


@contextmanager
def _executor(where: Where) -> "Iterator[Executor]":
    from tnlpad.experiments.executors import execute
    from tnlpad.experiments.grid import folder_of, moved
    from tnlpad.experiments.mps import mps
    from tnlpad.experiments.ray_executor import SendBack, execute_on_ray

    if where.on_ray:
        with redirect_stdout(sys.stderr):  # Ray talks, and stdout is for results
            yield partial(
                execute_on_ray,
                address=where.address,
                gpus_per_run=1 / where.jobs if where.on_gpu else 0,
                send_back=SendBack(folder=folder_of, moved=moved) if where.send_back else None,
            )
        return
    shared = where.jobs > 1 and where.on_gpu
    with mps(where.device, say=lambda words: say(words, where.quiet)) if shared else nullcontext():
        yield partial(execute, workers=where.jobs)


# Saying it ------------------------------------------------------------------------------------------------------------


def _show_plan(plan: Plan, where: Where, as_json: bool) -> None:
    from tnlpad.experiments.reproduce import TITLES, absent_datasets, left_to_run, look

    seen = look(plan.runs, where.out, where.device, where.jobs)
    if as_json:
        print_json([entry(each, {}) for each in seen])
        return
    typer.echo(f"{plan.target}: {TITLES[plan.target]}")
    if seen:
        print_states(seen)
        typer.echo(what_is_left(seen, where))
        if not where.on_gpu:
            print_gpu_hours(seen)
    if plan.figures:
        what = "Computed as well, beyond that estimate" if seen else "Computed, without an estimate"
        typer.echo(f"{what}: {', '.join(plan.figures)}.")
    if not seen and not plan.figures:
        typer.echo(f"Needs no runs: `{_report(where.out)}` has it.")
    absent = absent_datasets(left_to_run(seen), where.root) if not where.on_ray else {}
    for problem in dict.fromkeys([*(each.problem for each in seen if each.problem), *absent.values()]):
        say(f"Note: {problem}")


def _show_end(plan: Plan, failures: "Mapping[str, Failure]", where: Where, as_json: bool) -> None:
    from tnlpad.experiments.reproduce import NOT_YET, look

    seen = look(plan.runs, where.out, where.device, where.jobs)
    if as_json:
        print_json([entry(each, failures) for each in seen])
    elif not seen and not plan.figures:
        typer.echo(f"{plan.target} needs no runs: `{_report(where.out)}` has it.")
    else:
        counts = Counter(each.state for each in seen)
        missing = f", {counts[NOT_YET]} not available yet" if counts[NOT_YET] else ""
        if seen:
            runs = "1 run is" if len(seen) == 1 else f"{len(seen):,} runs are"
            typer.echo(f"{counts['done']:,} of {runs} done{missing}. Records: {where.out}")
        typer.echo(f"Tables and figures: {_report(where.out)}")
    if failures:
        say_failures(seen, failures)


def _report(out: Path) -> str:
    return shlex.join(["tnlpad", "report", str(out), "--out", "report"])
