"""`tnlpad tune`: choose c2, or any other setting, by validation accuracy over a small grid."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tnlpad.cli.grid_runs import Address, ExecutorName, Jobs, SendBackRuns, filling_gpu, running
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
    Memory,
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
    Where,
    cache_folder,
    everyday_settings,
    read_list,
    read_seeds,
    where_to_run,
)
from tnlpad.cli.output import ending_early, exit_codes, fail, print_json, say, used_folder
from tnlpad.cli.own_data import chosen_backbone, open_own_data, say_if_streamed
from tnlpad.cli.progress import count_progress, progress_reporter
from tnlpad.report.words import counted

if TYPE_CHECKING:
    from tnlpad.grid.own_data import OwnData
    from tnlpad.runs.config import RunConfig
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
    memory: Memory = None,
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
    device: Device = "auto",
    jobs: Jobs = None,
    executor: ExecutorName = "local",
    address: Address = None,
    send_back: SendBackRuns = False,
    out: Out = Path("runs"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Choose a setting by validation accuracy on noisy labels.

    Trains each value with every seed. The accuracy is that on held-out or
    out-of-fold samples with their given labels. The test set is neither used
    nor shown. Runs in parallel give the same numbers as one after the other.
    They are ordinary runs: running the same command again resumes an
    interrupted search, and `tnlpad train` reuses the finished ones. Features
    of a backbone are computed once for all of them.

    Example: tnlpad tune digits --noise symmetric:0.4 --values 0.5,1,2
    """
    say("Loading torch.", quiet)
    from tnlpad.grid.own_data import Opened, OwnData, keep_open
    from tnlpad.runs import tune as search
    from tnlpad.runs.begun import as_begun
    from tnlpad.runs.memory import given_pixels, image_memory
    from tnlpad.runs.own_data import backbone_features

    where = where_to_run(executor, jobs, address, send_back, out, root, device, False, quiet)
    features = cache_folder(cache)
    with exit_codes():
        limit = image_memory(memory)
    own = open_own_data(data, images=images, label=label, text=text, group=group, id=id, ignore=ignore, quiet=quiet)
    short = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate}
    with exit_codes():
        given = everyday_settings(setting or [], short | {"folds": folds, "repeats": repeats})
        pretrained = chosen_backbone(
            backbone, own, given, limit, network=network, weights=weights, finetune=finetune, quiet=quiet
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
            device=where.device,
            backbone=pretrained.identity,
            finetune=finetune,
            settings=pretrained.settings,
        )
        configs = as_begun([config for row in rows for config in row], out, own, {field: None} | given)
        rows = [configs[start : start + len(rows[0])] for start in range(0, len(configs), len(rows[0]))]
        say_if_streamed(rows[0][0], limit, quiet)
    where = filling_gpu(where, jobs, configs)
    kept = {"kept": "Finished runs are", "kept_of_interrupted": "Finished runs and checkpoints are"}
    with (
        used_folder(out, "--out") as folder,
        exit_codes(),
        ending_early(**kept),
    ):
        if own is not None and pretrained.backbone is not None and not finetune and not where.on_ray:
            with progress_reporter(quiet, samples=True) as reporter:
                backbone_features(own, pretrained.backbone, device=where.device, cache=features, reporter=reporter)
        source = None
        if own is not None:
            source = OwnData(
                path=_absolute(data),
                title=own.title,
                images=None if images is None else _absolute(images),
                label=label,
                text=text,
                group=group,
                id=id,
                ignored=tuple(ignore or ()),
                backbone=backbone,
                network=given.get("network", network),
                pixels=given_pixels(given),
                weights=None if weights is None else _absolute(weights),
                finetune=finetune,
                cache=_absolute(features),
            )
            keep_open(source, Opened(own, pretrained.backbone))
        _finish(configs, where, source, weights)
        # All runs are finished: this reads their numbers.
        tried = search.tune(
            rows,
            field,
            folder,
            own=own,
            root=root,
            weights=weights,
            backbone=pretrained.backbone,
            cache=features,
            device=where.device,
        )
    judged = search.judged_by(rows[0][0])
    if as_json:
        print_json(search.document(tried, field, judged))
    else:
        _print_curve(tried, field, judged)


def _absolute(path: Path | str) -> str:
    return str(Path(path).absolute())  # a worker on another machine has another working directory


def _finish(configs: "Sequence[RunConfig]", where: Where, own: "OwnData | None", weights: Path | None) -> None:
    """Finish all runs; exit with code 1 if one fails, or 3 if data or records are the reason."""
    from tnlpad.grid.cluster import RayUnavailable
    from tnlpad.grid.grid import DiskFull, Failure
    from tnlpad.grid.reproduce import absent_datasets

    if own is None and not where.on_ray and (absent := absent_datasets(configs, where.root)):
        fail(" ".join(absent.values()), code=3)
    failures: dict[str, Failure] = {}  # each error once
    try:
        with (
            count_progress(where.quiet) as on_run,
            running(configs, where, on_wait=_say_waiting(where.quiet), weights=weights, own=own, one_here=True) as ends,
        ):
            for done, ended in enumerate(ends, start=1):
                on_run(done, len(configs))
                if ended.failure is not None:
                    named = replace(ended.failure, error=f"{ended.run_id}: {ended.failure.error}")
                    failures.setdefault(ended.failure.error, named)
    except (DiskFull, RayUnavailable) as error:
        fail(str(error))
    if failures:
        first, *others = failures.values()
        for failure in others:
            say(str(failure))
        bad_data = all(failure.bad_data for failure in failures.values())
        advice = "" if bad_data else " Leave that value out to compare the others."
        fail(f"{first}{advice}", code=3 if bad_data else 1)


def _say_waiting(quiet: bool) -> Callable[[int], None]:
    """Return a function that says, once for each number, how many runs of another process are waited for."""
    last: list[int] = []

    def on_wait(count: int) -> None:
        if last != [count]:
            last[:] = [count]
            say(f"Waiting for {counted(count, 'run')} of another process.", quiet)

    return on_wait


def _print_curve(tried: "list[Tried]", field: str, validation: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from tnlpad.runs.settings import as_text
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
            f"{as_text(each.value)}{' *' if marked else ''}",
            f"{100 * each.mean:.2f}{spread}",
            str(len(each.accuracies)),
            "█" * max(1, round(BAR_WIDTH * share)),
            style="bold" if marked else None,
        )
    console = Console()
    console.print(table)
    console.print(
        f"* chosen: --set {field}={as_text(best.value)}. The test set was not used.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
