"""`tnlpad train`: train one run, or resume it."""

import errno
import shlex
import sys
from collections.abc import Mapping
from contextlib import nullcontext, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tnlpad.cli.grid_runs import Address, ExecutorName
from tnlpad.cli.options import (
    AsJson,
    Backbone,
    BatchSize,
    Cache,
    Device,
    Epochs,
    Finetune,
    Folds,
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
    Protocol,
    Quiet,
    Repeats,
    Root,
    Setting,
    TextColumn,
    Weights,
    cache_folder,
    checked_device,
    data_option,
    everyday_settings,
    output_option,
    ray_device,
    training_option,
)
from tnlpad.cli.output import ending_early, exit_codes, fail, print_json, say, used_folder
from tnlpad.cli.own_data import chosen_backbone, no_backbone, open_own_data, say_if_streamed
from tnlpad.cli.progress import run_progress
from tnlpad.cli.ray_ranks import RankCpus, Ranks, chosen_cluster
from tnlpad.cli.summary import plan, print_settings, print_summary
from tnlpad.cli.tensorboard import tensorboard_log
from tnlpad.errors import as_utf8
from tnlpad.json_text import MAX_BYTES, parse_json
from tnlpad.ranks.launch import launched_count, launched_rank

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.records.store import RunFolder
    from tnlpad.runs.choose_backbone import ChosenBackbone
    from tnlpad.runs.config import RunConfig
    from tnlpad.suspects.listing import RankedRun

resuming_option = partial(typer.Option, rich_help_panel="Resuming")
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
EXAMPLE_DATASET = "digits"  # its defaults are listed by `--settings` without DATA


def train(
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="Your data (a folder with one folder of images per class, a table (.csv, .tsv, .txt, .jsonl, .xlsx, "
            ".parquet), an .npz file or a Hugging Face dataset on disk), or the name of a published dataset "
            "(`tnlpad data list`).",
        ),
    ] = None,
    data_option: Annotated[
        str | None, data_option("--data", metavar="DATA", help="Dataset to train on (same as the DATA argument).")
    ] = None,
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
    seed: Annotated[int | None, training_option(metavar="N", min=0, help="Random seed (default: 1).")] = None,
    setting: Setting = None,
    settings: Annotated[
        bool, training_option("--settings", help="List all settings with their defaults, and exit.")
    ] = False,
    config: Annotated[
        Path | None,
        training_option(metavar="FILE", help="Repeat the run of a config.json; --seed and --set change it."),
    ] = None,
    protocol: Annotated[
        Protocol | None,
        training_option(help="Follow the paper or the authors' code where they differ (default: paper)."),
    ] = None,
    device: Device = "auto",
    engine: Annotated[
        Literal["auto", "eager", "graph"],
        training_option(help="Run steps one by one or as CUDA graphs; the results are the same."),
    ] = "auto",
    executor: ExecutorName = "local",
    ranks: Ranks = None,
    rank_cpus: RankCpus = None,
    address: Address = None,
    out: Out = Path("runs"),
    scores: Annotated[
        bool | None,
        output_option(
            "--scores/--no-scores", help="Score every sample and list suspect labels (default: on for your own data)."
        ),
    ] = None,
    resume: Annotated[
        bool, resuming_option("--resume", help="Resume only: fail if this run was not started before.")
    ] = False,
    checkpoint_every: Annotated[
        float,
        resuming_option(
            metavar="SECONDS",
            min=0,
            help="Minimum seconds between checkpoints (default: 0, after every epoch).",
            show_default=False,
        ),
    ] = 0.0,
    rank_timeout: Annotated[
        float,
        resuming_option(
            metavar="SECONDS",
            min=1,
            help="Seconds without an answer after which another process of the training counts as lost (default: 600).",
            show_default=False,
        ),
    ] = 600.0,
    tensorboard: Annotated[bool, output_option("--tensorboard", help="Also write TensorBoard files.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a classifier on data whose labels are partly wrong.

    Writes a run folder with the robust model, its record and, for your own
    data, the labels that are probably wrong, with a page to review them
    (suspects/index.html). Running the same command again resumes an
    interrupted run, and prints the results of a finished one.

    Examples:

    tnlpad train photos

    tnlpad train digits --noise symmetric:0.4 --epochs 20

    torchrun --nproc-per-node 8 -m tnlpad train photos

    tnlpad train photos --executor ray --ranks 8 --device cuda
    """
    say("Loading torch.", quiet)
    first = launched_rank() == 0  # of several processes, rank 0 shows and writes everything
    quiet = quiet or not first
    from tnlpad.runs.begun import as_begun
    from tnlpad.runs.devices import unused_gpu
    from tnlpad.runs.memory import image_memory
    from tnlpad.runs.recipes import scoring_interval
    from tnlpad.runs.run import run, run_folder

    name = _one_dataset(data, data_option)
    cluster = chosen_cluster(executor, ranks, rank_cpus, address, name)
    where = checked_device(device) if cluster is None else ray_device(device)
    features = cache_folder(cache)
    with exit_codes():
        as_utf8(str(out), "--out", ValueError)
        limit = image_memory(memory)
    own = open_own_data(name, images=images, label=label, text=text, group=group, id=id, ignore=ignore, quiet=quiet)
    short = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate}
    with exit_codes():
        given = everyday_settings(setting or [], short | {"folds": folds, "repeats": repeats})
        if config is not None:
            words = {"noise": noise, "method": method, "network": network, "protocol": protocol}
            words |= {"finetune": "yes" if finetune else None, "data": name if own is None else None, "memory": memory}
            base = _read_config(config, words, seed)
            chosen, pretrained = _changed(base, own, given, backbone, weights, quiet)
        else:
            pretrained = chosen_backbone(
                backbone, own, given, limit, network=network, weights=weights, finetune=finetune, quiet=quiet
            )
            chosen = _configured(
                name or (EXAMPLE_DATASET if settings else None),
                own,
                noise=noise or "none",
                method=method or "tnlpad",
                network=network,
                protocol=protocol or "paper",
                seed=1 if seed is None else seed,
                device=where,
                backbone=pretrained.identity,
                finetune=finetune,
                settings=pretrained.settings,
            )
            (chosen,) = as_begun([chosen], out, own, given)
            say_if_streamed(chosen, limit, quiet)
    if settings:
        print_settings(chosen, as_json)
        return
    if chosen.milestones and min(chosen.milestones) > chosen.epochs:
        advice = f"Set them, such as --set milestones={max(1, 3 * chosen.epochs // 4)}."
        say(f"Note: all milestones come after epoch {chosen.epochs}: the learning rate never decays. {advice}", quiet)
    place = run_folder(chosen, out, own)
    _report_changed_data(place, own, resume, quiet)
    if resume and first:
        _require_begun(place)
    keep_scores = own is not None if scores is None else scores  # scoring costs extra passes over the data

    count = launched_count() if cluster is None else cluster.ranks
    say(f"{place.path.name} on {where}{f' on {count} ranks' if count > 1 else ''}", quiet)
    if cluster is None and (unused := unused_gpu(where)) is not None:
        say(unused, quiet)
    known = place.finished  # such a run is shown also where nothing can be written
    train_run = run if cluster is None or known else cluster.runner()
    with (
        nullcontext(out) if known else used_folder(out, "--out") as folder,
        exit_codes(),
        ending_early(kept="The last checkpoint, if there is one yet, is"),
        redirect_stdout(sys.stderr),  # Ray prints messages, and stdout is for results
        tensorboard_log(tensorboard and first, place.path) as log,
        run_progress(chosen.epochs, quiet) as progress,
    ):

        def on_epoch(record: Mapping[str, Any]) -> None:
            log(record)
            progress.on_epoch(record)

        finished = train_run(
            chosen,
            folder,
            own=own,
            root=root,
            weights=weights,
            backbone=pretrained.backbone,
            cache=features,
            device=where,
            engine=engine,
            checkpoint_every_seconds=checkpoint_every,
            scoring_interval=scoring_interval(chosen.epochs) if keep_scores else None,
            rank_timeout=rank_timeout,
            reporter=progress.reporter,
            on_prepared=lambda *_: progress.reporter.say(plan(chosen)),
            on_step=progress.on_step,
            on_epoch=on_epoch,
        )

    if not first:
        return
    if as_json:
        print_json(finished.summary())
    else:
        print_summary(finished.summary(), finished.path)
    if keep_scores:
        _list_suspects(finished, own, root, quiet, as_json, known)


def _one_dataset(argument: str | None, option: str | None) -> str | None:
    if argument is not None and option is not None and argument != option:
        fail(f"DATA is {argument} and --data is {option}: name one dataset.", code=2)
    return argument if argument is not None else option


def _configured(data: str | None, own: "OwnDataset | None", **options: Any) -> "RunConfig":
    from tnlpad.runs.config import configure

    if data is None:
        raise ValueError(
            "DATA is missing. Give your folder, table or file, or a published dataset; `tnlpad data list` lists them."
        )
    return configure(data if own is None else own.shape, **options)


def _read_config(file: Path, words: Mapping[str, str | None], seed: int | None) -> "RunConfig":
    """Read the configuration of another run; `words` are the options that would contradict it."""
    from tnlpad.data.files import read_bounded
    from tnlpad.errors import DataError
    from tnlpad.runs.config import from_json

    try:
        plain = parse_json(read_bounded(file, MAX_BYTES))
    except (DataError, ValueError) as error:
        raise ValueError(f"--config {file}: cannot be read ({error}). Give a run's config.json.") from error
    if not isinstance(plain, dict):
        raise ValueError(f"--config {file}: not a JSON object. Give a run's config.json.")
    if given := [name for name, value in words.items() if value]:
        raise ValueError(
            f"--config {file} sets {', '.join(given)} already. Leave out either. Only --seed and --set change the "
            "configuration of a file."
        )
    return from_json(plain | ({} if seed is None else {"seed": seed}))


def _changed(
    config: "RunConfig",
    own: "OwnDataset | None",
    given: Mapping[str, str],
    word: str,
    weights: Path | None,
    quiet: bool,
) -> "tuple[RunConfig, ChosenBackbone]":
    """Return a configuration with other settings, and its backbone, of which it holds the identity alone."""
    from tnlpad.runs.choose_backbone import choose_backbone
    from tnlpad.runs.config import with_settings
    from tnlpad.runs.memory import given_pixels

    if word in ("none", "auto"):
        word = "lite" if (config.backbone or "").startswith("lite-") else "none"
    elif config.backbone is None:
        raise ValueError(f"--backbone {word}: the run of --config has none. Leave it out.")
    if own is None:
        found = no_backbone("none", weights, finetune=False)
    else:
        found = choose_backbone(
            word,
            own,
            network=config.network,
            pixels=given_pixels(given) or (None if config.backbone is None else config.crop or config.resize),
            weights=weights,
            finetune=bool(config.finetune) and word != "none",
        )
        say(found.sentence, quiet or not found.sentence)
    initial = found.settings if found.backbone is None else {}
    return with_settings(config, {**initial, **given}), found


def _report_changed_data(run: "RunFolder", own: "OwnDataset | None", resume: bool, quiet: bool) -> None:
    """Point out an earlier run on the same path whose data have changed: it cannot be resumed."""
    from tnlpad.records.samples import read_data_file
    from tnlpad.records.store import RecordError, find_runs
    from tnlpad.runs.saved_samples import location

    if own is None or run.begun:
        return
    here = location(own)
    read_from = ("path", "images", "label_column", "text_column", "id_column", "ignored")
    for folder in find_runs(run.path.parent):
        try:
            recorded = read_data_file(folder.path) or {}
        except RecordError:
            continue
        same = all((recorded.get(name) or None) == (here[name] or None) for name in read_from)
        if same and recorded.get("fingerprint") != own.shape.fingerprint:
            changed = f"{own.source} has changed since {folder.path.name} was started"
            if resume:
                fail(f"{changed}, so that run cannot be resumed. Restore the data, or leave out --resume.", 3)
            say(f"{changed}: this is a new run.", quiet)
            return


def _require_begun(run: "RunFolder") -> None:
    if not run.begun:
        fail(
            f"there is nothing to resume in {run.path}. Leave out --resume to start this run, or check that all "
            "options are those it was started with.",
            code=3,
        )


def _list_suspects(
    finished: "RunFolder", own: "OwnDataset | None", root: Path | None, quiet: bool, as_json: bool, known: bool
) -> None:
    """Write the suspect labels into the run's folder, and print how many there are."""
    from tnlpad.suspects.listing import verdict

    with ending_early(kept="The finished run is"):
        written = _written_suspects(finished, own, root, quiet, known)
    if written is None or as_json:
        return
    found, page = written
    typer.echo(verdict(found))
    if page.exists():
        typer.echo(f"Suspect labels: {page}")
    say(f"Next: {shlex.join(['tnlpad', 'review', str(finished.path)])}", quiet)


def _written_suspects(
    finished: "RunFolder", own: "OwnDataset | None", root: Path | None, quiet: bool, known: bool
) -> "tuple[RankedRun, Path] | None":
    """Write the suspect labels, and return their ranking and their page; None without scores.

    The folder of a run that was `known` before may be read only.
    """
    from tnlpad.records.scores import SCORES_FILE
    from tnlpad.records.store import RecordError
    from tnlpad.suspects.export import PAGE_FILE, write_beside_run
    from tnlpad.suspects.listing import rank_run

    try:
        return write_beside_run(finished, own, root, partial(say, quiet=quiet))
    except RecordError as error:
        if (finished.path / SCORES_FILE).exists():
            fail(f"No list of suspects: {error}", code=3)
        say(f"No list of suspects: {error}", quiet)  # the run was finished earlier, with --no-scores
        return None
    except OSError as error:
        if not known or error.errno not in READ_ONLY:
            raise
        page = finished.path / "suspects" / PAGE_FILE
        say(
            f"Note: the list of suspects was not written again ({error.strerror}): {page.parent} cannot be written. "
            "Copy the run to a disk that can be written, or use `tnlpad suspects --out`.",
            quiet,
        )
        return rank_run(finished), page
