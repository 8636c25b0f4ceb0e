"""Run a list of configurations in parallel on this machine, or on a Ray cluster."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tnlpad.cli.options import Executor, Where
from tnlpad.cli.output import say

if TYPE_CHECKING:
    from tnlpad.grid.grid import Ended
    from tnlpad.grid.grid import Executor as GridExecutor
    from tnlpad.grid.own_data import OwnData
    from tnlpad.runs.config import RunConfig

execution_option = partial(typer.Option, rich_help_panel="Execution")
Jobs = Annotated[
    int | None,
    execution_option(
        metavar="N",
        min=1,
        help="Number of parallel runs (default: one per core; on a GPU, the number that trains fastest). With ray: "
        "per GPU.",
    ),
]
ExecutorName = Annotated[Executor, execution_option(help="Run on this machine or on a Ray cluster.")]
Address = Annotated[
    str | None,
    execution_option("--address", metavar="ADDRESS", help="Address of the Ray cluster (default: the running one)."),
]
SendBackRuns = Annotated[
    bool, execution_option("--send-back", help="Copy finished runs back from Ray workers that do not share --out.")
]


def filling_gpu(where: Where, jobs: int | None, configs: "Sequence[RunConfig]") -> Where:
    """Choose how many runs share a local GPU, unless the user has."""
    from tnlpad.grid.mps import runs_at_once

    if jobs is not None or not where.on_gpu or where.on_ray:
        return where
    at_once = runs_at_once(configs, where.device)
    return replace(where, jobs=max((each.start for each in at_once.values()), default=1), at_once=at_once)


@contextmanager
def running(
    configs: "Sequence[RunConfig]",
    where: Where,
    *,
    on_wait: "Callable[[int], None] | None" = None,
    weights: Path | None = None,
    own: "OwnData | None" = None,
    one_here: bool = False,
) -> "Iterator[Iterable[Ended]]":
    """Run all configurations within the block; the yielded results come as the runs end.

    Args:
        configs: The runs, in the order in which to start them.
        where: The place of the runs.
        on_wait, weights, own: As for `run_grid`.
        one_here: Whether a single run at a time takes place in this process.
    """
    from tnlpad.grid.grid import run_grid

    with _executor(configs, where, one_here) as execute:
        ends = run_grid(
            configs,
            where.out,
            execute=execute,
            root=where.root,
            device=where.device,
            weights=weights,
            own=own,
            on_wait=on_wait,
        )
        with closing(ends):
            yield ends


@contextmanager
def _executor(configs: "Sequence[RunConfig]", where: Where, one_here: bool) -> "Iterator[GridExecutor]":
    from tnlpad.grid.executors import execute
    from tnlpad.grid.filling import Filling
    from tnlpad.grid.grid import job_folder, moved
    from tnlpad.grid.mps import AtOnce, kind_of, mps
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
    fixed = AtOnce(start=where.jobs, most=where.jobs, least=where.jobs)
    at_once = where.at_once or {kind_of(config.to_json()): fixed for config in configs}
    workers = max((each.most for each in at_once.values()), default=1)
    if not where.on_gpu or workers == 1:
        yield partial(execute, workers=0 if one_here and workers == 1 else workers)
        return
    tell = partial(say, quiet=where.quiet)
    with mps(where.device, say=tell) as shares:
        yield partial(execute, workers=workers, admit=Filling(at_once, shares=shares, say=tell))
