"""`tnlpad reproduce`: carry out what is missing of a table or figure of the paper, here or on a cluster."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from tnlpad.cli.grid_plan import Plan, planned
from tnlpad.cli.grid_run import carry_out
from tnlpad.cli.grid_words import show_end, show_plan
from tnlpad.cli.options import Device, Out, Protocol, Quiet, Root
from tnlpad.cli.output import folder_for_results, say
from tnlpad.cli.where import Where, where_to_run


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
        str | None, typer.Option("--address", metavar="ADDRESS", help="Of the Ray cluster; by default the one at hand.")
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
    out: Out = Path("runs"),
    root: Root = None,
    device: Device = "auto",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and how long it will take.")] = False,
    quiet: Quiet = False,
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
    plan = planned(target, only or [], methods, seeds, protocol, settings, where)
    if jobs is None and where.on_gpu and not where.on_ray:
        where = _filling_the_gpu(where, plan)
    if dry_run:
        show_plan(plan, where, as_json)
        return
    folder_for_results(out, "--out")  # only now: a word that was mistyped should not leave an empty folder
    failures = carry_out(plan, where)
    show_end(plan, failures, where, as_json)
    if failures:
        raise typer.Exit(1)


def _filling_the_gpu(where: Where, plan: Plan) -> Where:
    from tnlpad.experiments.packing import runs_at_once

    return replace(where, jobs=runs_at_once(run.config for run in plan.runs))
