"""A plan carried out, on this machine or on a Ray cluster."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, redirect_stdout
from functools import partial
from typing import TYPE_CHECKING

from tnlpad.cli.exit_codes import ending_early
from tnlpad.cli.grid_plan import Plan, absent_here, seen_runs
from tnlpad.cli.grid_words import what_is_left
from tnlpad.cli.output import fail, say
from tnlpad.cli.where import Where

if TYPE_CHECKING:
    from tnlpad.experiments.failures import Failure
    from tnlpad.experiments.grid import Executor
    from tnlpad.experiments.reproduce import Seen


def carry_out(plan: Plan, where: Where) -> "dict[str, Failure]":
    """Run what is missing; what failed, by run or figure."""
    from tnlpad.experiments.failures import DiskFull
    from tnlpad.experiments.ray_executor import RayUnavailable

    seen = seen_runs(plan, where)
    if seen:
        say(what_is_left(seen, where), where.quiet)
    try:
        with ending_early(kept="Finished runs are", kept_of_interrupted="Finished runs and checkpoints are"):
            return _run(seen, where) | _compute(plan, where)
    except (RayUnavailable, DiskFull) as error:
        fail(str(error))


def _run(seen: "Sequence[Seen]", where: Where) -> "dict[str, Failure]":
    from tnlpad.cli.grid_progress import grid_progress
    from tnlpad.experiments.failures import Failure
    from tnlpad.experiments.grid import run_grid
    from tnlpad.experiments.reproduce import left_to_run

    left, absent = left_to_run(seen), absent_here(seen, where)
    failures = {config.run_id: Failure(error=absent[config.dataset]) for config in left if config.dataset in absent}
    possible = [config for config in left if config.dataset not in absent]
    if absent and not possible:
        fail(" ".join(absent.values()), code=3)
    if not possible:
        return failures
    expected = {each.planned.run_id: each.seconds_left for each in seen}
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
