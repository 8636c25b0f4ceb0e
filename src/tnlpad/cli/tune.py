"""`tnlpad tune`: choose c2, or any other setting, by validation accuracy over a small grid."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tnlpad.cli.options import (
    AsJson,
    Backbone,
    BatchSize,
    Cache,
    Device,
    Epochs,
    Finetune,
    Folds,
    FollowProtocol,
    GroupColumn,
    IdColumn,
    IgnoredColumns,
    ImagesFolder,
    LabelColumn,
    LearningRate,
    Method,
    Network,
    Noise,
    Out,
    Quiet,
    Repeats,
    Root,
    Setting,
    TextColumn,
    Weights,
    cache_folder,
    checked_device,
    everyday_settings,
    read_list,
    read_seeds,
)
from tnlpad.cli.output import ending_early, exit_codes, print_json, say, used_folder
from tnlpad.cli.own_data import chosen_backbone, given_pixels, open_own_data
from tnlpad.cli.progress import count_progress, progress_reporter

if TYPE_CHECKING:
    from tnlpad.runs.tune import Tried

BAR_WIDTH = 30


def tune(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="Your own data, as for `tnlpad train`, or a published dataset (`tnlpad data list`)."
        ),
    ],
    values: Annotated[str, typer.Option(metavar="A,B,…", help="Values to compare, such as 0.5,1,2.")],
    field: Annotated[str, typer.Option(metavar="NAME", help="The setting to choose.")] = "c2",
    seeds: Annotated[str, typer.Option(metavar="A-B|A,B,…", help="Seeds; one run per value and seed.")] = "1-3",
    images: ImagesFolder = None,
    label: LabelColumn = None,
    text: TextColumn = None,
    group: GroupColumn = None,
    id: IdColumn = None,
    ignore: IgnoredColumns = None,
    noise: Noise = None,
    root: Root = None,
    cache: Cache = None,
    method: Method = None,
    network: Network = None,
    backbone: Backbone = "auto",
    finetune: Finetune = False,
    weights: Weights = None,
    folds: Folds = None,
    repeats: Repeats = None,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    learning_rate: LearningRate = None,
    protocol: FollowProtocol = "paper",
    setting: Setting = None,
    out: Out = Path("runs"),
    device: Device = "auto",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Choose a setting by validation accuracy on noisy labels.

    Trains each value with every seed. The accuracy is that on held-out or
    out-of-fold samples with their given labels. The test set is neither used
    nor shown. The runs are ordinary ones: running the same command again
    resumes an interrupted search, and `tnlpad train` reuses the finished runs.
    Features of a backbone are computed once for all of them.

    Example: tnlpad tune digits --noise symmetric:0.4 --values 0.5,1,2
    """
    say("Loading torch.", quiet)
    from tnlpad.runs import tune as search
    from tnlpad.runs.own_data import backbone_features

    where, features = checked_device(device), cache_folder(cache)
    own = open_own_data(data, images=images, label=label, text=text, group=group, id=id, ignore=ignore, quiet=quiet)
    short = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate}
    with exit_codes():
        given = everyday_settings(setting or [], short | {"folds": folds, "repeats": repeats})
        pretrained = chosen_backbone(
            backbone,
            own,
            network=given.get("network", network),
            pixels=given_pixels(given),
            weights=weights,
            finetune=finetune,
            quiet=quiet,
        )
        rows = search.grid(
            data if own is None else own.shape,
            field=field,
            values=read_list(values),
            seeds=read_seeds(seeds),
            noise=noise or "none",
            protocol=protocol,
            method=method or "tnlpad",
            network=network,
            device=where,
            backbone=pretrained.identity,
            finetune=finetune,
            settings=pretrained.settings | given,
        )
    kept = {"kept": "Finished runs are", "kept_of_interrupted": "Finished runs and the last checkpoint are"}
    with (
        used_folder(out, "--out") as folder,
        exit_codes(),
        ending_early(**kept, if_diverged=" Leave that value out to compare the others."),
    ):
        if own is not None and pretrained.backbone is not None and not finetune:
            with progress_reporter(quiet, samples=True) as reporter:
                backbone_features(own, pretrained.backbone, device=where, cache=features, reporter=reporter)
        with count_progress(quiet) as on_run:
            tried = search.tune(
                rows,
                field,
                folder,
                own=own,
                root=root,
                weights=weights,
                backbone=pretrained.backbone,
                cache=features,
                device=where,
                on_run=on_run,
            )
    judged = search.judged_by(rows[0][0])
    if as_json:
        print_json(search.document(tried, field, judged))
    else:
        _print_curve(tried, field, judged)


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
