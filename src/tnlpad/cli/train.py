"""What stands in the folder of runs already, for whoever wants to go on with it.

Which run the words of a command line mean.

A finished run in words and numbers.

A run's numbers as TensorBoard's files.

`tnlpad train`: one run from its words to its record, resumed if it was begun before.
"""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tnlpad.cli.data import progress_reporter
from tnlpad.cli.options import (
    Device,
    IgnoredColumns,
    LabelColumn,
    Out,
    Protocol,
    Quiet,
    Root,
    checked_device,
    read_settings,
    table_words,
)
from tnlpad.cli.output import ending_early, exit_codes, fail, print_json, say, used_folder
from tnlpad.cli.progress import run_progress

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.records.store import RunFolder
    from tnlpad.runs.config import RunConfig


def require_begun(config: "RunConfig", out: Path) -> None:
    """Refuse to resume what was never begun."""
    from tnlpad.records.store import RunFolder

    folder = RunFolder(out / config.run_id)
    if not folder.begun:
        fail(
            f"there is nothing to resume in {folder.path}. Leave out --resume to begin this run, or check that the "
            "words, --set and --out are those it was begun with.",
            code=3,
        )


def tell_of_changed_data(config: "RunConfig", own: "OwnDataset | None", out: Path, resume: bool, quiet: bool) -> None:
    """Data that have changed make another run: whoever wants to go on with an old one is told so."""
    from tnlpad.records.scores import read_data_file
    from tnlpad.records.store import RecordError, RunFolder, find_runs

    if own is None or RunFolder(out / config.run_id).begun:
        return
    here = str(own.source.absolute())
    for folder in find_runs(out):
        try:
            remembered = read_data_file(folder.path) or {}
        except RecordError:
            continue
        same = (
            remembered.get("path") == here
            and remembered.get("label_column") == own.label_column
            and remembered.get("ignored", []) == list(own.ignored)
        )
        if same and remembered.get("fingerprint") != own.shape.fingerprint:
            changed = f"{own.source} has changed since {folder.path.name} was begun"
            if resume:
                fail(f"{changed}, and a run goes on with the same data only. Restore them, or leave out --resume.", 3)
            say(f"{changed}: this is a new run.", quiet)
            return


@dataclass(frozen=True, kw_only=True)
class Words:
    """What of a run can be said in words; None where nothing was said."""

    data: str | None
    noise: str | None
    method: str | None
    network: str | None
    protocol: Protocol | None


def opened(
    data: str | None, images: Path | None, label: str | None, ignore: list[str], quiet: bool
) -> "OwnDataset | None":
    """The person's own data that a word means; None if it is the name of a dataset."""
    from tnlpad.data.catalogue import CATALOGUE
    from tnlpad.data.own import is_path, open_dataset
    from tnlpad.errors import DataError

    if data is None or data in CATALOGUE or not is_path(data):
        if images is not None:
            fail(f"--images {images} is for tables of your own images: leave it out.", code=2)
        if label is not None:
            fail(f"--label {label} is for tables of your own: leave it out.", code=2)
        if ignore:
            fail(f"--ignore {ignore[0]} is for tables of your own: leave it out.", code=2)
        if data is not None and data not in CATALOGUE:
            say(f"There is no file or folder {data} here, so it is taken for the name of a published dataset.", quiet)
        return None
    try:
        with progress_reporter(quiet) as reporter:
            own = open_dataset(data, images=images, label=label, ignored=ignore, reporter=reporter)
    except DataError as error:
        fail(str(error), code=3)
    if own.problems:
        again = shlex.join(["tnlpad", "check", data, *table_words(label, ignore)])
        say(f"{len(own.problems):,} samples are left out; `{again}` says why.", quiet)
    for note in own.notes:
        say(f"Note: {note}", quiet)
    return own


def chosen_run(
    words: Words,
    own: "OwnDataset | None",
    *,
    file: Path | None,
    seed: int | None,
    settings: list[str],
    weights: Path | None,
    device: str,
) -> "RunConfig":
    """The run's configuration.

    Args:
        words: What is said of it in words.
        own: The person's own data, if it is about them.
        file: The configuration of another run, which then says what the words would.
        seed: None is that of the file, or 1.
        settings: Texts of `--set`.
        weights: A file of weights to begin with.
        device: Where it will run.
    """
    with exit_codes():
        given = read_settings(settings) | _named(weights)
        if file is None:
            return _from_words(words, own, seed, device, given)
        return _from_file(words, own, file, seed, given)


def _named(weights: Path | None) -> dict[str, str]:
    """The setting that a file of weights means: its name with the first digits of its SHA-256, wherever it lies."""
    if weights is None:
        return {}
    from tnlpad.networks.pretrained import name_with_hash

    try:
        return {"pretrained": name_with_hash(weights)}
    except OSError as error:
        fail(f"--weights {weights}: cannot be read ({error.strerror or error}).", code=3)


def _from_words(
    words: Words, own: "OwnDataset | None", seed: int | None, device: str, settings: Mapping[str, str]
) -> "RunConfig":
    from tnlpad.runs.config import configure

    if words.data is None:
        raise ValueError("Say what to train on, such as `tnlpad train mnist`; `tnlpad data list` shows what there is.")
    return configure(
        words.data if own is None else own.shape,
        noise=words.noise or "none",
        protocol=words.protocol or "paper",
        method=words.method or "tnlpad",
        network=words.network,
        seed=1 if seed is None else seed,
        device=device,
        settings=settings,
    )


def _from_file(
    words: Words, own: "OwnDataset | None", file: Path, seed: int | None, settings: Mapping[str, str]
) -> "RunConfig":
    from tnlpad.runs.config import from_json, with_settings

    fixed = ("noise", "method", "network", "protocol", *(() if own is not None else ("data",)))
    if said := [name for name in fixed if getattr(words, name)]:
        raise ValueError(
            f"--config {file} says what to run, and so do you ({', '.join(said)}): leave one out. --seed and --set may "
            "be given beside --config."
        )
    try:
        plain = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"--config {file}: cannot be read ({error}). Give a run's config.json.") from error
    if not isinstance(plain, dict):
        raise ValueError(f"--config {file}: not a JSON object. Give a run's config.json.")
    changed = {} if seed is None else {"seed": seed}
    return with_settings(from_json(plain | changed), settings)


def print_summary(summary: Mapping[str, Any], folder: Path) -> None:
    """The chosen epoch and the last one, by validation and test."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=summary["run_id"], title_justify="left")
    validation = f"{summary['config']['validation']} validation"
    test = "test, %" if "data" not in summary["config"] else "test part, labels as given, %"
    for heading in ("", "epoch", f"{validation}, %", test):
        table.add_column(heading, justify="left" if not heading else "right")
    for label, key in ((f"chosen on {validation}", "chosen"), ("last epoch", "last")):
        row = summary[key]
        numbers = (_percent(row[name]) for name in ("validation_accuracy", "test_accuracy"))
        table.add_row(label, str(row["epoch"]), *numbers)
    console = Console()
    console.print(table)
    if summary["epochs_run"] < summary["config"]["epochs"]:
        console.print(
            f"Ended {summary['stopped']}, after {summary['epochs_run']} of {summary['config']['epochs']} epochs."
        )
    console.print(f"Record: {folder}", highlight=False, markup=False, soft_wrap=True)


def _percent(share: float | None) -> str:
    return "no test part" if share is None else f"{100 * share:.2f}"


@contextmanager
def tensorboard_log(wanted: bool, folder: Path) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Every number of every epoch as a scalar; what a killed run wrote beyond its checkpoint is written over."""
    if not wanted:
        yield lambda record: None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        fail(f"--tensorboard needs the package tensorboard ({error}). Install it with pip install 'tnlpad[tracking]'.")
    writers: list[Any] = []

    def on_epoch(record: Mapping[str, Any]) -> None:
        if not writers:  # only now: a finished run is left as it is
            writers.append(SummaryWriter(str(folder / "tensorboard"), purge_step=record["epoch"]))
        for name, value in scalars(record):
            writers[0].add_scalar(name, value, record["epoch"])

    try:
        yield on_epoch
    finally:
        for writer in writers:
            writer.close()


def scalars(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a record but its epoch, by the keys on the way to it."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from scalars(value, f"{prefix}{key}/")
        elif key != "epoch" and value is not None:
            yield f"{prefix}{key}", value


def train(
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="Your own data (a folder with a folder of images per class, a CSV or Parquet table, an .npz file, a "
            "Hugging Face dataset on disk), or a name that `tnlpad data list` shows.",
        ),
    ] = None,
    data_option: Annotated[str | None, typer.Option("--data", metavar="DATA", help="The same, by name.")] = None,
    noise: Annotated[
        str | None, typer.Option("--noise", metavar="NOISE", help="Such as symmetric:0.4; none by default.")
    ] = None,
    method: Annotated[str | None, typer.Option(metavar="NAME", help="How to train; tnlpad by default.")] = None,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What to train; by default the paper's for a published dataset, for your own one of their size.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Of every random decision; 1 by default.")
    ] = None,
    protocol: Annotated[
        Protocol | None,
        typer.Option(help="Whom to follow where they differ; the paper by default."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting, such as epochs=20. May be repeated."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A run's config.json; --seed and --set still count.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="What the paths in a table of images are relative to.")
    ] = None,
    label: LabelColumn = None,
    ignore: IgnoredColumns = None,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Weights to begin with, of --network: a .pth, .pt or .safetensors file."),
    ] = None,
    out: Out = Path("runs"),
    root: Root = None,
    device: Device = "auto",
    engine: Annotated[
        Literal["auto", "eager", "graph"],
        typer.Option(help="How steps run; auto replays CUDA graphs on a GPU. The numbers are the same."),
    ] = "auto",
    resume: Annotated[
        bool, typer.Option("--resume", help="Fail if this run was never begun. Going on needs no option.")
    ] = False,
    checkpoint_every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="At most one checkpoint in so long; 0 is every epoch.")
    ] = 0.0,
    scores: Annotated[
        bool | None,
        typer.Option(
            "--scores/--no-scores",
            help="Score every sample, and list the labels that look wrong; on for your own data.",
        ),
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard's files as well.")] = False,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON document.")] = False,
) -> None:
    """Train a classifier and record how it went.

    A run that was interrupted goes on from its last checkpoint when the same
    command is given again; a finished one is shown and not repeated. Of your
    own data it lists the labels that are probably wrong, with a page to look at:
    suspects/index.html in the run's folder.

    Example: tnlpad train digits --noise symmetric:0.4 --set epochs=20
    """
    say("Loading torch.", quiet)
    from tnlpad.runs.recipes import looks_every
    from tnlpad.runs.run import run

    words = Words(data=_one_dataset(data, data_option), noise=noise, method=method, network=network, protocol=protocol)
    where = checked_device(device)
    own = opened(words.data, images, label, ignore or [], quiet)
    chosen = chosen_run(words, own, file=config, seed=seed, settings=setting or [], weights=weights, device=where)
    tell_of_changed_data(chosen, own, out, resume, quiet)
    if resume:
        require_begun(chosen, out)
    keep_scores = own is not None if scores is None else scores  # it costs extra passes over the data

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

        # Decoding has no bar of its own here: two at once would write over each other.
        finished = run(
            chosen,
            folder,
            own=own,
            root=root,
            weights=weights,
            device=where,
            engine=engine,
            checkpoint_every_seconds=checkpoint_every,
            census_every=looks_every(chosen.epochs) if keep_scores else None,
            on_step=on_step,
            on_epoch=on_epoch,
        )

    if as_json:
        print_json(finished.summary())
    else:
        print_summary(finished.summary(), finished.path)
    if not keep_scores:
        return
    with ending_early(kept="The finished run is"):
        _list_suspects(finished, own, root, quiet, as_json)


def _list_suspects(
    finished: "RunFolder", own: "OwnDataset | None", root: Path | None, quiet: bool, as_json: bool
) -> None:
    from tnlpad.records.scores import SCORES_FILE
    from tnlpad.records.store import RecordError
    from tnlpad.suspects.export import verdict, write_beside_run

    try:
        found, page = write_beside_run(finished, own, root, partial(say, quiet=quiet))
    except RecordError as error:
        none_kept = not (finished.path / SCORES_FILE).exists()  # a run that was finished before, without scores
        say(f"No list of suspects: {error}", quiet and none_kept)
        return
    if not as_json:
        typer.echo(verdict(found))
        typer.echo(f"Suspect labels: {page}")


def _one_dataset(argument: str | None, option: str | None) -> str | None:
    if argument is not None and option is not None and argument != option:
        fail(f"DATA is {argument} and --data is {option}: name one dataset.", code=2)
    return argument if argument is not None else option
