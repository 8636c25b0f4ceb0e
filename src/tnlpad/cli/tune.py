"""`tnlpad tune`: choose c2, or any other setting, by validation accuracy over a small grid."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tnlpad.cli.options import (
    AsJson,
    Device,
    FollowProtocol,
    Network,
    Out,
    Quiet,
    Root,
    Setting,
    checked_device,
    data_option,
    read_list,
    read_seeds,
    read_settings,
    training_option,
)
from tnlpad.cli.output import ending_early, exit_codes, folder_for_results, print_json, say
from tnlpad.cli.progress import count_progress

if TYPE_CHECKING:
    from tnlpad.runs.tune import Tried

BAR_WIDTH = 30


def tune(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A published dataset; see `tnlpad data list`.")],
    values: Annotated[str, typer.Option(metavar="A,B,…", help="Values to compare, such as 0.5,1,2.")],
    field: Annotated[str, typer.Option(metavar="NAME", help="The setting to choose.")] = "c2",
    seeds: Annotated[str, typer.Option(metavar="A-B|A,B,…", help="Seeds; one run per value and seed.")] = "1-3",
    noise: Annotated[
        str, data_option("--noise", metavar="NOISE", help="Noise to add to the labels, such as symmetric:0.4.")
    ] = "none",
    method: Annotated[str, training_option(metavar="NAME", help="Training method.")] = "tnlpad",
    network: Network = None,
    protocol: FollowProtocol = "paper",
    setting: Setting = None,
    out: Out = Path("runs"),
    root: Root = None,
    device: Device = "auto",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Choose a setting by noisy validation accuracy, as the paper does.

    Trains each value with every seed. The test set is neither used nor shown.
    The runs are ordinary ones: running the same command again resumes an
    interrupted search, and `tnlpad train` reuses the finished runs.

    Example: tnlpad tune digits --noise symmetric:0.4 --values 0.5,1,2
    """
    say("Loading torch.", quiet)
    from tnlpad.runs import tune as search

    where = checked_device(device)
    with exit_codes():
        rows = search.grid(
            data,
            field=field,
            values=read_list(values),
            seeds=read_seeds(seeds),
            noise=noise,
            protocol=protocol,
            method=method,
            network=network,
            device=where,
            settings=read_settings(setting or []),
        )
    folder = folder_for_results(out, "--out")
    with (
        exit_codes(),
        ending_early(
            kept="Finished runs are",
            kept_of_interrupted="Finished runs and the last checkpoint are",
            if_diverged=" Leave that value out to compare the others.",
        ),
        count_progress(quiet) as on_run,
    ):
        tried = search.tune(rows, field, folder, root=root, device=where, on_run=on_run)
    validation = rows[0][0].validation
    if as_json:
        print_json(search.document(tried, field, validation))
    else:
        _print_curve(tried, field, validation)


def _print_curve(tried: "list[Tried]", field: str, validation: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from tnlpad.runs.tune import winner

    best, lowest = winner(tried), min(each.mean for each in tried)
    span = best.mean - lowest
    table = Table(
        title=f"{validation.capitalize()} validation accuracy in %, mean ± sd over seeds", title_justify="left"
    )
    table.add_column(field, justify="right")
    for heading in ("accuracy", "n"):
        table.add_column(heading, justify="right")
    table.add_column(f"{100 * lowest:.2f} to {100 * best.mean:.2f}", width=BAR_WIDTH)
    for each in tried:
        spread = "" if each.sd is None else f" ± {100 * each.sd:.2f}"
        share = (each.mean - lowest) / span if span else 1.0
        marked = each is best
        table.add_row(
            f"{each.value}{' *' if marked else ''}",
            f"{100 * each.mean:.2f}{spread}",
            str(len(each.accuracies)),
            "█" * max(1, round(BAR_WIDTH * share)),
            style="bold" if marked else None,
        )
    console = Console()
    console.print(table)
    console.print(
        f"* chosen: --set {field}={best.value}. The test set was not used.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
