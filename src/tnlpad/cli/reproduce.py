"""`tnlpad reproduce`: carry out what is missing of a table or figure of the paper, here or on a cluster."""

import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tnlpad.cli.output import fail, folder_for_results, print_json, say
from tnlpad.cli.train import Protocol, checked_device, pair
from tnlpad.cli.tune import seed_list

if TYPE_CHECKING:
    from tnlpad.experiments.estimate import KnownFrom
    from tnlpad.experiments.grid import Executor
    from tnlpad.experiments.reproduce import Planned, Seen

SHOWN_FAILURES = 5  # of each kind
LONG_SECONDS = 3600


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
            help="Runs at once: on this machine, or with ray on each GPU. By default one per core, or one on a GPU.",
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
    from tnlpad.experiments.reproduce import extras

    settings = [*(setting or []), *([f"patience={patience}"] if patience is not None else [])]
    if setting:
        say("Runs with --set are none of the paper's: the report shows them beside its tables.", quiet)
    where = _where(executor, jobs, address, send_back, out, root, device, dry_run, quiet)
    planned = _planned(target, only or [], methods, seeds, protocol, settings, where.device)
    # Part of the whole, but of no part.
    beside = extras(target) if not only and not methods else []
    if dry_run:
        _show_plan(target, planned, beside, where, as_json)
        return
    folder_for_results(out, "--out")  # only now: a word that was mistyped should not leave an empty folder
    failures = _carry_out(target, planned, beside, where)
    _show_end(target, planned, beside, failures, where, as_json)
    if failures:
        raise typer.Exit(1)


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where and how to carry out a plan; nothing here changes a number but the device."""

    executor: Literal["local", "ray"]
    jobs: int
    address: str | None
    send_back: bool
    out: Path
    root: Path | None
    device: str
    quiet: bool

    @property
    def on_ray(self) -> bool:
        return self.executor == "ray"

    @property
    def cores(self) -> int:
        """How many runs go on at full speed, as far as is known; on a GPU each slows the others down."""
        return 1 if self.device.startswith("cuda") else self.jobs


def _where(
    executor: Literal["local", "ray"],
    jobs: int | None,
    address: str | None,
    send_back: bool,
    out: Path,
    root: Path | None,
    device: str,
    dry_run: bool,
    quiet: bool,
) -> Where:
    from tnlpad.experiments.executors import available_cores

    if executor == "local" and (address is not None or send_back):
        option = "--send-back" if send_back else "--address"
        fail(f"{option} is for --executor ray: add that, or leave {option} out.", code=2)
    # The machines of a cluster may have what this one has not, and a plan needs nothing.
    elsewhere = (executor == "ray" or dry_run) and device.partition(":")[0] in ("cpu", "cuda")
    chosen = device if elsewhere else checked_device(device)
    return Where(
        executor=executor,
        jobs=jobs or (1 if chosen.startswith("cuda") else available_cores()),
        address=address,
        send_back=send_back,
        out=out,
        root=root,
        device=chosen,
        quiet=quiet,
    )


def _planned(
    target: str,
    only: list[str],
    methods: str | None,
    seeds: str | None,
    protocol: Protocol,
    settings: list[str],
    device: str,
) -> "list[Planned]":
    from tnlpad.experiments.reproduce import experiments, plan, select

    try:
        every = experiments(target)
        if not every and (only or methods):
            raise ValueError(f"{target} has no parts to choose from: leave out --only and --methods.")
        return plan(
            select(every, only=only, methods=_names(methods)),
            protocol=protocol,
            seeds=_seeds(seeds),
            settings=dict(pair(text) for text in settings),
            device=device,
        )
    except ValueError as error:
        fail(str(error), code=2)


def _seeds(text: str | None) -> list[int] | None:
    if text is None:
        return None
    if not (seeds := seed_list(text)):
        raise ValueError(f"--seeds {text}: names no seed. Write 1-3 or 1,2,5.")
    return seeds


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


# Carrying it out ------------------------------------------------------------------------------------------------------


def _carry_out(target: str, planned: "Sequence[Planned]", beside: Sequence[str], where: Where) -> dict[str, str]:
    """Run what is missing; the errors of what failed, by run or figure."""
    from tnlpad.experiments.ray_executor import RayUnavailable
    from tnlpad.experiments.reproduce import look

    seen = look(planned, where.out, where.device)
    if seen:
        say(_in_words(seen, where), where.quiet)
    try:
        return _run(seen, where) | _compute(beside, target, where)
    except RayUnavailable as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error}. Finished runs are kept: free the disk or check the folder, and run the command again.")
    except KeyboardInterrupt:
        say("Interrupted. Finished runs and checkpoints are kept: run the command again to go on.")
        raise typer.Exit(130) from None


def _run(seen: "Sequence[Seen]", where: Where) -> dict[str, str]:
    from tnlpad.cli.grid_progress import grid_progress
    from tnlpad.experiments.grid import run_grid
    from tnlpad.experiments.reproduce import absent_datasets, left_to_run

    left = left_to_run(seen)
    # The machines of a cluster have the data, this one need not.
    absent = absent_datasets(left, where.root) if not where.on_ray else {}
    failures = {config.run_id: absent[config.dataset] for config in left if config.dataset in absent}
    possible = [config for config in left if config.dataset not in absent]
    if absent and not possible:
        fail(" ".join(absent.values()), code=3)
    if not possible:
        return failures
    expected = {each.planned.run_id: each.seconds_left for each in seen if each.planned.run_id is not None}
    with (
        _executor(where) as execute,
        grid_progress(possible, expected, where.out, where.cores, where.quiet) as progress,
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
            if ended.error is not None:
                failures[ended.run_id] = ended.error
    return failures


def _compute(beside: Sequence[str], target: str, where: Where) -> dict[str, str]:
    from tnlpad.cli.grid_progress import telling
    from tnlpad.experiments.reproduce import compute_extra
    from tnlpad.paper.cells import SMOKE

    failures: dict[str, str] = {}
    for name in beside:
        with telling(where.quiet) as tell:
            error = compute_extra(
                name, where.out, smoke=target == SMOKE, root=where.root, device=where.device, tell=tell
            )
        if error is not None:
            failures[name] = error
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
                gpus_per_run=1 / where.jobs if where.device.startswith("cuda") else 0,
                send_back=SendBack(folder=folder_of, moved=moved) if where.send_back else None,
            )
        return
    shared = where.jobs > 1 and where.device.startswith("cuda")
    with mps(where.device, say=lambda words: say(words, where.quiet)) if shared else nullcontext():
        yield partial(execute, workers=where.jobs)


# Saying it ------------------------------------------------------------------------------------------------------------


def _show_plan(target: str, planned: "Sequence[Planned]", beside: Sequence[str], where: Where, as_json: bool) -> None:
    from tnlpad.experiments.reproduce import TITLES, absent_datasets, left_to_run, look

    seen = look(planned, where.out, where.device)
    if as_json:
        print_json([_entry(each, {}) for each in seen])
        return
    typer.echo(f"{target}: {TITLES[target]}")
    if seen:
        _print_states(seen)
        typer.echo(_in_words(seen, where))
        if not where.device.startswith("cuda"):
            _print_gpu_hours(seen)
    if beside:
        typer.echo(f"Computed as well, beyond that estimate: {', '.join(beside)}.")
    if not seen and not beside:
        typer.echo(f"Needs no runs: `{_report(where.out)}` has it.")
    absent = absent_datasets(left_to_run(seen), where.root) if not where.on_ray else {}
    for problem in dict.fromkeys([*(each.problem for each in seen if each.problem), *absent.values()]):
        say(f"Note: {problem}")


def _show_end(
    target: str,
    planned: "Sequence[Planned]",
    beside: Sequence[str],
    failures: Mapping[str, str],
    where: Where,
    as_json: bool,
) -> None:
    from tnlpad.experiments.reproduce import look

    seen = look(planned, where.out, where.device)
    if as_json:
        print_json([_entry(each, failures) for each in seen])
    elif not seen and not beside:
        typer.echo(f"{target} needs no runs: `{_report(where.out)}` has it.")
    else:
        counts = Counter(each.state for each in seen)
        missing = f", {counts['not available yet']} are not available yet" if counts["not available yet"] else ""
        typer.echo(f"{counts['done']} of {len(seen)} runs are done{missing}. Records: {where.out}")
        typer.echo(f"Tables and figures: {_report(where.out)}")
    if failures:
        _say_failures(seen, failures)


def _report(out: Path) -> str:
    return shlex.join(["tnlpad", "report", str(out), "--out", "report"])


def _print_states(seen: "Sequence[Seen]") -> None:
    """How many runs stand how, dataset by dataset."""
    from rich.console import Console
    from rich.table import Table

    from tnlpad.experiments.reproduce import ALL_STATES

    counts = Counter((each.planned.experiment.dataset, each.state) for each in seen)
    states = [state for state in ALL_STATES if any(each.state == state for each in seen)]
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


def _in_words(seen: "Sequence[Seen]", where: Where) -> str:
    """How much is left, how long that takes, and how we know."""
    from tnlpad.cli.grid_progress import duration, machine_time
    from tnlpad.experiments.estimate import step_times
    from tnlpad.experiments.reproduce import UNFINISHED

    left = [each for each in seen if each.state in UNFINISHED]
    if not left:
        return "Nothing is left to run."
    on_gpu = where.device.startswith("cuda")
    recorded = step_times()["cuda" if on_gpu else "cpu"]
    packed = f", taken as made {where.jobs} at once" if on_gpu and where.jobs > 1 else ""
    known: dict[KnownFrom | None, str] = {
        "like runs": f"by like runs in {where.out}{packed}",
        "step times": f"by recorded steps ({recorded['machine']}; {recorded['basis']})",
        None: "unknown",
    }
    sources = Counter(each.known_from for each in left)
    basis = ", ".join(f"{sources[source]:,} {words}" for source, words in known.items() if sources[source])
    seconds = _machine_seconds(left, where)
    most = "at most " if any(each.planned.config and each.planned.config.patience for each in left) else ""
    took = machine_time(seconds, "GPU" if on_gpu else "CPU")
    # Each run has a core of its own; those on a GPU slow each other down.
    at_once = f", {duration(seconds / where.jobs)} with --jobs {where.jobs}" if not on_gpu and not where.on_ray else ""
    return f"{len(left):,} runs are left, {most}about {took}{at_once}. Estimated: {basis}."


def _machine_seconds(left: "Sequence[Seen]", where: Where) -> float:
    """Of the cores, or of the GPU; runs that shared one took longer each, and less of it."""
    share = where.jobs // where.cores
    return sum((each.seconds_left or 0.0) / (share if each.known_from == "like runs" else 1) for each in left)


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


def _entry(each: "Seen", failures: Mapping[str, str]) -> dict[str, Any]:
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
        "command": command(planned.config) if planned.config is not None else None,
        "seconds_left": each.seconds_left,
        "problem": failures.get(planned.run_id or "", each.problem),
    }


def _say_failures(seen: "Sequence[Seen]", failures: Mapping[str, str]) -> None:
    """Each problem once, with the runs that have it."""
    from tnlpad.experiments.config import command

    commands = {each.planned.run_id: command(each.planned.config) for each in seen if each.planned.config is not None}
    say(f"Error: {len(failures)} failed. The others are kept; give the command again to try these again.")
    for problem in dict.fromkeys(failures.values()):
        runs = [run_id for run_id, error in failures.items() if error == problem]
        say(f"- {problem}")
        for run_id in runs[:SHOWN_FAILURES]:
            say(f"    {commands.get(run_id, run_id)}")
        if len(runs) > SHOWN_FAILURES:
            say(f"    and {len(runs) - SHOWN_FAILURES} more")
