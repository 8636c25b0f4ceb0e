"""What of a table or figure is to be carried out, and how it stands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tnlpad.cli.options import Protocol, read_list, read_seeds, read_settings
from tnlpad.cli.output import fail, say
from tnlpad.cli.where import Where

if TYPE_CHECKING:
    from tnlpad.experiments.computed_figures import Variation
    from tnlpad.experiments.reproduce import Planned, Seen


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a table or figure needs: runs, and figures that are computed beside them, with what was asked of them."""

    target: str
    runs: "Sequence[Planned]"
    figures: "Mapping[str, Variation]"


def planned(
    target: str,
    only: list[str],
    methods: str | None,
    seeds: str | None,
    protocol: Protocol,
    settings: list[str],
    where: Where,
) -> Plan:
    """What the words of a command line mean; those that mean nothing are refused."""
    from tnlpad.experiments.computed_figures import COMPUTED, Variation, variation
    from tnlpad.experiments.reproduce import computed_beside, experiments, plan, select

    try:
        every = experiments(target)
        if not every and (only or methods):
            raise ValueError(f"{target} has no parts to choose from: leave out --only and --methods.")
        numbers, given = _seeds(seeds), read_settings(settings)
        runs = plan(
            select(every, only=only, methods=read_list(methods or "")),
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
    if not (seeds := read_seeds(text)):
        raise ValueError(f"--seeds {text}: names no seed. Write 1-3 or 1,2,5.")
    return seeds


def seen_runs(plan: Plan, where: Where) -> "list[Seen]":
    """How its runs stand, and how long each will still take."""
    from tnlpad.experiments.reproduce import look

    return look(plan.runs, where.out, where.device, where.jobs)


def absent_here(seen: "Sequence[Seen]", where: Where) -> dict[str, str]:
    """Datasets that the rest of a plan needs and this machine has not, each with what to do about it."""
    from tnlpad.experiments.reproduce import absent_datasets, left_to_run

    if where.on_ray:
        return {}  # the machines of a cluster have the data, this one need not
    return absent_datasets(left_to_run(seen), where.root)
