"""Train one run on several workers of a Ray cluster, for `tnlpad train --executor ray`."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

from tnlpad.cli.grid_runs import execution_option
from tnlpad.cli.options import Executor
from tnlpad.cli.output import fail
from tnlpad.ranks.launch import launched_count

if TYPE_CHECKING:
    from tnlpad.records.store import RunFolder

Ranks = Annotated[
    int | None,
    execution_option(
        metavar="N",
        min=1,
        help="Number of processes of --executor ray that train together (default: 1). On GPUs each has one.",
    ),
]
RankCpus = Annotated[
    int | None,
    execution_option(metavar="N", min=1, help="CPUs and threads of each process of --executor ray (default: 1)."),
]


class Cluster(NamedTuple):
    """The part of a Ray cluster that trains a run."""

    ranks: int
    cpus_per_rank: int
    address: str | None

    def runner(self) -> "Callable[..., RunFolder]":
        """Return a function that takes the arguments of `tnlpad.runs.run.run`, and trains here."""
        from tnlpad.grid.ray_train import train_on_ray

        return partial(train_on_ray, ranks=self.ranks, cpus_per_rank=self.cpus_per_rank, address=self.address)


def chosen_cluster(
    executor: Executor, ranks: int | None, cpus_per_rank: int | None, address: str | None, data: str | None
) -> Cluster | None:
    """Return the cluster to train on, or None for this machine; exit with code 2 if options contradict each other."""
    if executor == "ray":
        if launched_count() > 1:
            fail(
                f"torchrun started {launched_count()} processes, and --executor ray starts its own. Start the command "
                "without torchrun, or leave out --executor.",
                code=2,
            )
        return Cluster(ranks or 1, cpus_per_rank or 1, address)
    for option, value in {"--address": address, "--rank-cpus": cpus_per_rank}.items():
        if value is not None:
            fail(f"{option} needs --executor ray. Add it, or leave {option} out.", code=2)
    if ranks is not None and ranks > 1:
        fail(
            f"--ranks {ranks} needs --executor ray. On one machine, use torchrun in its place: "
            f"`torchrun --nproc-per-node {ranks} -m tnlpad train {data or 'DATA'} …`",
            code=2,
        )
    return None
