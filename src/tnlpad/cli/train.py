"""`tnlpad train`: train one run, or resume it."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tnlpad.cli.options import (
    AsJson,
    Backbone,
    Device,
    GroupColumn,
    IgnoredColumns,
    ImagesFolder,
    LabelColumn,
    Network,
    Out,
    Protocol,
    Quiet,
    Root,
    Setting,
    TextColumn,
    checked_device,
    data_option,
    output_option,
    read_settings,
    table_options,
    training_option,
)
from tnlpad.cli.output import ending_early, exit_codes, fail, print_json, say, used_folder
from tnlpad.cli.progress import progress_reporter, run_progress

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.records.store import RunFolder
    from tnlpad.runs.config import RunConfig
    from tnlpad.runs.own_data import ChosenBackbone

resuming_option = partial(typer.Option, rich_help_panel="Resuming")
EXAMPLE_DATASET = "digits"  # its defaults are listed by `--settings` without DATA


def train(
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="Your data (a folder with one folder of images per class, a CSV or Parquet table, an .npz file or a "
            "Hugging Face dataset), or the name of a published dataset (`tnlpad data list`).",
        ),
    ] = None,
    data_option: Annotated[
        str | None, data_option("--data", metavar="DATA", help="Dataset to train on (same as the DATA argument).")
    ] = None,
    images: ImagesFolder = None,
    label: LabelColumn = None,
    text: TextColumn = None,
    group: GroupColumn = None,
    ignore: IgnoredColumns = None,
    noise: Annotated[
        str | None,
        data_option(
            "--noise", metavar="NOISE", help="Noise to add to the labels, such as symmetric:0.4 (default: none)."
        ),
    ] = None,
    root: Root = None,
    method: Annotated[str | None, training_option(metavar="NAME", help="Training method (default: tnlpad).")] = None,
    network: Network = None,
    epochs: Annotated[
        int | None, training_option(metavar="N", help="Number of epochs (default: see --settings).")
    ] = None,
    batch_size: Annotated[
        int | None, training_option(metavar="N", help="Batch size (default: see --settings).")
    ] = None,
    learning_rate: Annotated[
        float | None, training_option("--lr", metavar="RATE", help="Learning rate (default: see --settings).")
    ] = None,
    seed: Annotated[int | None, training_option(metavar="N", min=0, help="Random seed (default: 1).")] = None,
    setting: Setting = None,
    settings: Annotated[
        bool, training_option("--settings", help="List all settings with their defaults, and exit.")
    ] = False,
    config: Annotated[
        Path | None,
        training_option(metavar="FILE", help="Repeat the run of a config.json; --seed and --set change it."),
    ] = None,
    weights: Annotated[
        Path | None,
        training_option(metavar="FILE", help="Weights of --network or --backbone: a .pth, .pt or .safetensors file."),
    ] = None,
    backbone: Backbone = "none",
    folds: Annotated[
        int | None,
        training_option(metavar="N", help="Folds of features; labels are judged out of fold (default: 5)."),
    ] = None,
    repeats: Annotated[
        int | None, training_option(metavar="N", help="Times that features are divided into folds (default: 1 to 3).")
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
    """
    say("Loading torch.", quiet)
    from tnlpad.features.cache import default_cache
    from tnlpad.runs.recipes import scoring_interval
    from tnlpad.runs.run import run

    name = _one_dataset(data, data_option)
    where = checked_device(device)
    own = _open_own_data(name, images, label, ignore or [], quiet, text=text, group=group)
    everyday = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate}
    everyday |= {"folds": folds, "repeats": repeats}
    with exit_codes():
        given = _all_settings(setting or [], everyday) | (_pretrained(weights) if own is None else {})
        encoded_by = _backbone(backbone, own, given, weights, quiet)
        if config is not None:
            words = {"noise": noise, "method": method, "network": network, "protocol": protocol}
            initial = {} if encoded_by is None or encoded_by.backbone is not None else encoded_by.settings
            chosen = _from_file(config, words | ({} if own is not None else {"data": name}), seed, initial | given)
        else:
            chosen = _configured(
                name or (EXAMPLE_DATASET if settings else None),
                own,
                noise=noise or "none",
                method=method or "tnlpad",
                network=network,
                protocol=protocol or "paper",
                seed=1 if seed is None else seed,
                device=where,
                backbone=None if encoded_by is None else encoded_by.identity,
                settings=({} if encoded_by is None else encoded_by.settings) | given,
            )
    if settings:
        _print_settings(chosen, as_json)
        return
    if chosen.milestones and min(chosen.milestones) > chosen.epochs:
        advice = f"Set them, such as --set milestones={max(1, 3 * chosen.epochs // 4)}."
        say(f"Note: all milestones come after epoch {chosen.epochs}: the learning rate never decays. {advice}", quiet)
    _report_changed_data(chosen, own, out, resume, quiet)
    if resume:
        _require_begun(chosen, out)
    keep_scores = own is not None if scores is None else scores  # scoring costs extra passes over the data

    say(f"{chosen.run_id} on {where}", quiet)
    with (
        used_folder(out, "--out") as folder,
        exit_codes(),
        ending_early(kept="The last checkpoint, if there is one yet, is"),
        tensorboard_log(tensorboard, folder / chosen.run_id) as log,
        run_progress(chosen.epochs, quiet) as (on_step, show),
    ):

        def on_epoch(record: Mapping[str, Any]) -> None:
            log(record)
            show(record)

        # Decoding images has no progress bar here: two bars would overwrite each other.
        finished = run(
            chosen,
            folder,
            own=own,
            root=root,
            weights=weights,
            backbone=None if encoded_by is None else encoded_by.backbone,
            cache=default_cache(),
            device=where,
            engine=engine,
            checkpoint_every_seconds=checkpoint_every,
            scoring_interval=scoring_interval(chosen.epochs) if keep_scores else None,
            on_step=on_step,
            on_epoch=on_epoch,
        )

    if as_json:
        print_json(finished.summary())
    else:
        print_summary(finished.summary(), finished.path)
    if keep_scores:
        with ending_early(kept="The finished run is"):
            _list_suspects(finished, own, root, quiet, as_json)


def _one_dataset(argument: str | None, option: str | None) -> str | None:
    if argument is not None and option is not None and argument != option:
        fail(f"DATA is {argument} and --data is {option}: name one dataset.", code=2)
    return argument if argument is not None else option


def _open_own_data(
    data: str | None,
    images: Path | None,
    label: str | None,
    ignore: list[str],
    quiet: bool,
    *,
    text: str | None,
    group: str | None,
) -> "OwnDataset | None":
    """Open the user's own data; None if `data` is the name of a published dataset."""
    from tnlpad.data.catalogue import CATALOGUE
    from tnlpad.data.own import is_path, open_dataset
    from tnlpad.errors import DataError

    if data is None or data in CATALOGUE or not is_path(data):
        given = {"--images": images, "--label": label, "--ignore": ignore[0] if ignore else None}
        given |= {"--text": text, "--group": group}
        for option, value in given.items():
            if value is not None:
                fail(f"{option} {value} is for your own tables, and {data} is not one. Leave it out.", code=2)
        if data is not None and data not in CATALOGUE:
            say(f"There is no file or folder {data}: looking for a published dataset of that name.", quiet)
        return None
    try:
        with progress_reporter(quiet) as reporter:
            own = open_dataset(
                data, images=images, label=label, text=text, group=group, ignored=ignore, reporter=reporter
            )
    except DataError as error:
        fail(str(error), code=3)
    if own.problems:
        check = shlex.join(["tnlpad", "check", data, *table_options(label, ignore, text=text, group=group)])
        say(f"{len(own.problems):,} samples are left out; `{check}` says why.", quiet)
    for note in own.notes:
        say(f"Note: {note}", quiet)
    return own


def _all_settings(texts: list[str], everyday: Mapping[str, float | None]) -> dict[str, str]:
    """Merge `--set` with the options that are short for it; a contradiction between them raises."""
    settings = read_settings(texts)
    for name, value in everyday.items():
        if value is None:
            continue
        if settings.setdefault(name, str(value)) != str(value):
            option = {"learning_rate": "--lr"}.get(name, f"--{name.replace('_', '-')}")
            raise ValueError(
                f"{option} {value} and --set {name}={settings[name]} contradict each other. Leave one out."
            )
    return settings


def _pretrained(weights: Path | None) -> dict[str, str]:
    """Return the setting for a file of weights: its name with the first digits of its SHA-256."""
    if weights is None:
        return {}
    from tnlpad.networks.pretrained import name_with_hash

    try:
        return {"pretrained": name_with_hash(weights)}
    except OSError as error:
        fail(f"--weights {weights}: cannot be read ({error.strerror or error}).", code=3)


def _backbone(
    word: str, own: "OwnDataset | None", settings: Mapping[str, str], weights: Path | None, quiet: bool
) -> "ChosenBackbone | None":
    """Find the pretrained network for the user's own data."""
    from tnlpad.errors import DataError
    from tnlpad.runs.own_data import choose_backbone

    if own is None:
        if word not in ("none", "auto"):
            raise ValueError(f"--backbone {word} is for your own data. Leave it out.")
        return None
    resize = settings.get("resize", "")
    try:
        with progress_reporter(quiet) as reporter:
            chosen = choose_backbone(word, own, pixels=int(resize) if resize.isdigit() else None, weights=weights)
            if chosen.sentence:
                reporter.say(chosen.sentence)
    except DataError as error:
        fail(str(error), code=3)
    return chosen


def _configured(data: str | None, own: "OwnDataset | None", **options: Any) -> "RunConfig":
    from tnlpad.runs.config import configure

    if data is None:
        raise ValueError(
            "DATA is missing. Give your folder, table or file, or a published dataset; `tnlpad data list` lists them."
        )
    return configure(data if own is None else own.shape, **options)


def _from_file(
    file: Path, words: Mapping[str, str | None], seed: int | None, settings: Mapping[str, str]
) -> "RunConfig":
    """Read the configuration of another run; `words` are the options that would contradict it."""
    from tnlpad.runs.config import from_json, with_settings

    try:
        plain = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"--config {file}: cannot be read ({error}). Give a run's config.json.") from error
    if not isinstance(plain, dict):
        raise ValueError(f"--config {file}: not a JSON object. Give a run's config.json.")
    if given := [name for name, value in words.items() if value]:
        raise ValueError(
            f"--config {file} sets {', '.join(given)} already. Leave out either. Only --seed and --set change the "
            "configuration of a file."
        )
    changed = {} if seed is None else {"seed": seed}
    return with_settings(from_json(plain | changed), settings)


def _print_settings(config: "RunConfig", as_json: bool) -> None:
    """List every name that `--set` takes for this run."""
    from tnlpad.runs.config import settings_listing

    rows = settings_listing(config)
    if as_json:
        print_json([{"name": name, "default": default, "meaning": meaning} for name, default, meaning in rows])
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("name", "default", "meaning", title=f"Settings of {config.method} on {config.dataset}")
    table.title_justify = "left"
    for row in rows:
        table.add_row(*(Text(text, overflow="fold") for text in row))
    Console().print(table)
    typer.echo("Change any of them with --set NAME=VALUE. Defaults depend on DATA, --method, --noise and --network.")


def _report_changed_data(config: "RunConfig", own: "OwnDataset | None", out: Path, resume: bool, quiet: bool) -> None:
    """Point out an earlier run on the same path whose data have changed: it cannot be resumed."""
    from tnlpad.records.scores import read_data_file
    from tnlpad.records.store import RecordError, RunFolder, find_runs

    if own is None or RunFolder(out / config.run_id).begun:
        return
    here = str(own.source.absolute())
    for folder in find_runs(out):
        try:
            recorded = read_data_file(folder.path) or {}
        except RecordError:
            continue
        same = (
            recorded.get("path") == here
            and recorded.get("label_column") == own.label_column
            and recorded.get("ignored", []) == list(own.ignored)
        )
        if same and recorded.get("fingerprint") != own.shape.fingerprint:
            changed = f"{own.source} has changed since {folder.path.name} was started"
            if resume:
                fail(f"{changed}, so that run cannot be resumed. Restore the data, or leave out --resume.", 3)
            say(f"{changed}: this is a new run.", quiet)
            return


def _require_begun(config: "RunConfig", out: Path) -> None:
    from tnlpad.records.store import RunFolder

    folder = RunFolder(out / config.run_id)
    if not folder.begun:
        fail(
            f"there is nothing to resume in {folder.path}. Leave out --resume to start this run, or check that all "
            "options are those it was started with.",
            code=3,
        )


@contextmanager
def tensorboard_log(wanted: bool, folder: Path) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Write every number of every epoch as a scalar; epochs after the checkpoint of a killed run are overwritten."""
    if not wanted:
        yield lambda record: None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        fail(f"--tensorboard needs the package tensorboard ({error}). Install it with pip install 'tnlpad[tracking]'.")
    writers: list[Any] = []

    def on_epoch(record: Mapping[str, Any]) -> None:
        if not writers:  # created with the first epoch: a finished run is not touched
            writers.append(SummaryWriter(str(folder / "tensorboard"), purge_step=record["epoch"]))
        for name, value in scalars(record):
            writers[0].add_scalar(name, value, record["epoch"])

    try:
        yield on_epoch
    finally:
        for writer in writers:
            writer.close()


def scalars(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield every number of an epoch's record with the path of its keys; the epoch itself is left out."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from scalars(value, f"{prefix}{key}/")
        elif key != "epoch" and value is not None:
            yield f"{prefix}{key}", value


def print_summary(summary: Mapping[str, Any], folder: Path) -> None:
    """Print the accuracies of the chosen epoch and of the last one."""
    from rich.console import Console
    from rich.table import Table

    config = summary["config"]
    columns = {"validation_accuracy": f"{config['validation']} validation, %"}
    if summary["chosen"]["test_accuracy"] is not None:  # own data may have no test part
        columns["test_accuracy"] = "test, %" if "data" not in config else "test part, labels as given, %"
    table = Table("", title=summary["run_id"], title_justify="left")
    for heading in ("epoch", *columns.values()):
        table.add_column(heading, justify="right")
    for label, key in ((f"chosen on {config['validation']} validation", "chosen"), ("last epoch", "last")):
        row = summary[key]
        table.add_row(label, str(row["epoch"]), *(f"{100 * row[name]:.2f}" for name in columns))
    console = Console()
    console.print(table)
    if summary["epochs_run"] < config["epochs"]:
        console.print(f"Ended {summary['stopped']}, after {summary['epochs_run']} of {config['epochs']} epochs.")
    console.print(f"Run: {folder}", highlight=False, markup=False, soft_wrap=True)


def _list_suspects(
    finished: "RunFolder", own: "OwnDataset | None", root: Path | None, quiet: bool, as_json: bool
) -> None:
    """Write the suspect labels into the run's folder, and print how many there are."""
    from tnlpad.records.scores import SCORES_FILE
    from tnlpad.records.store import RecordError
    from tnlpad.suspects.export import write_beside_run
    from tnlpad.suspects.listing import verdict

    try:
        found, page = write_beside_run(finished, own, root, partial(say, quiet=quiet))
    except RecordError as error:
        no_scores = not (finished.path / SCORES_FILE).exists()  # the run was finished earlier, with --no-scores
        say(f"No list of suspects: {error}", quiet and no_scores)
        return
    if not as_json:
        typer.echo(verdict(found))
        typer.echo(f"Suspect labels: {page}")
