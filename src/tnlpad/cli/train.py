"""`tnlpad train`: one run from its words to its record, resumed if it was begun before."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tnlpad.cli.data import progress_reporter
from tnlpad.cli.find_run import run_caution
from tnlpad.cli.output import fail, folder_for_results, print_json, say

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.experiments.config import RunConfig
    from tnlpad.records.store import RunFolder

Protocol = Literal["paper", "authors"]
Engine = Literal["auto", "eager", "graph"]
OnStep = Callable[[int, int, int], None]
OnEpoch = Callable[[Mapping[str, Any]], None]


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
    noise: Annotated[str | None, typer.Option(metavar="NOISE", help="Such as symmetric:0.4; none by default.")] = None,
    method: Annotated[str | None, typer.Option(metavar="NAME", help="How to train; tnlpad by default.")] = None,
    network: Annotated[str | None, typer.Option(metavar="NAME", help="What to train; by default the paper's.")] = None,
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
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Weights to begin with, of --network: a .pth, .pt or .safetensors file."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where run folders go.")] = Path("runs"),
    root: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where datasets lie.")] = None,
    device: Annotated[str, typer.Option(metavar="NAME", help="cpu, cuda or auto.")] = "auto",
    engine: Annotated[
        Engine, typer.Option(help="How steps run; auto replays CUDA graphs on a GPU. The numbers are the same.")
    ] = "auto",
    resume: Annotated[
        bool, typer.Option("--resume", help="Fail if this run was never begun. Going on needs no option.")
    ] = False,
    checkpoint_every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="At most one checkpoint in so long; 0 is every epoch.")
    ] = 0.0,
    scores: Annotated[
        bool | None,
        typer.Option("--scores/--no-scores", help="Score every sample, for `tnlpad suspects`; on for your own data."),
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard's files as well.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON document.")] = False,
) -> None:
    """Train a classifier and record how it went.

    A run that was interrupted goes on from its last checkpoint when the same
    command is given again; a finished one is shown and not repeated.

    Example: tnlpad train digits --noise symmetric:0.4 --set epochs=20
    """
    say("Loading torch.", quiet)
    words = Words(data=_one_dataset(data, data_option), noise=noise, method=method, network=network, protocol=protocol)
    where = checked_device(device)
    own = opened(words.data, images, quiet)
    what = _configured(words, own, config, seed, [*(setting or []), *_named_weights(weights)], where)
    folder = folder_for_results(out, "--out")  # only now: a word that was mistyped should not leave an empty folder
    _tell_of_changed_data(what, own, folder, resume, quiet)
    if resume:
        _require_begun(what, folder)
    say(f"{what.run_id} on {where}", quiet)
    keep_scores = own is not None if scores is None else scores  # it costs extra passes over the data
    record = _run(what, own, weights, folder, root, where, engine, checkpoint_every, keep_scores, tensorboard, quiet)
    if as_json:
        print_json(record.summary())
    else:
        _print_summary(record.summary(), record.path)
        if keep_scores:
            if warning := run_caution(record):
                say(f"Caution: {warning}", quiet)
            say(f"Next: tnlpad suspects {record.path} --out suspects", quiet)


@dataclass(frozen=True, kw_only=True)
class Words:
    """What of a run can be said in words; None where nothing was said."""

    data: str | None
    noise: str | None
    method: str | None
    network: str | None
    protocol: Protocol | None


def _one_dataset(argument: str | None, option: str | None) -> str | None:
    if argument is not None and option is not None and argument != option:
        fail(f"DATA is {argument} and --data is {option}: name one dataset.", code=2)
    return argument if argument is not None else option


def opened(data: str | None, images: Path | None, quiet: bool) -> "OwnDataset | None":
    """The person's own data that a word means; None if it is the name of a dataset."""
    from tnlpad.data.catalogue import CATALOGUE
    from tnlpad.data.errors import DataError
    from tnlpad.data.own import is_path, open_dataset

    if data is None or data in CATALOGUE or not is_path(data):
        if images is not None:
            fail(f"--images {images} is for tables of your own images: leave it out.", code=2)
        return None
    try:
        with progress_reporter(quiet) as reporter:
            own = open_dataset(data, images=images, reporter=reporter)
    except DataError as error:
        fail(str(error), code=3)
    if own.problems:
        say(f"{len(own.problems):,} samples are left out; `tnlpad check {data}` says why.", quiet)
    return own


def _named_weights(file: Path | None) -> list[str]:
    """The setting that a file of weights means: its name with the first digits of its SHA-256, wherever it lies."""
    if file is None:
        return []
    from tnlpad.networks.pretrained import name_with_hash

    try:
        return [f"pretrained={name_with_hash(file)}"]
    except OSError as error:
        fail(f"--weights {file}: cannot be read ({error.strerror or error}).", code=3)


def _tell_of_changed_data(config: "RunConfig", own: "OwnDataset | None", out: Path, resume: bool, quiet: bool) -> None:
    """Data that have changed make another run: whoever wants to go on with an old one is told so."""
    from tnlpad.records.samples import read_data_file
    from tnlpad.records.store import RecordError, RunFolder, find_runs

    if own is None or RunFolder(out / config.run_id).begun:
        return
    here = str(own.source.absolute())
    for folder in find_runs(out):
        try:
            remembered = read_data_file(folder.path) or {}
        except RecordError:
            continue
        if remembered.get("path") == here and remembered.get("fingerprint") != own.shape.fingerprint:
            changed = f"{own.source} has changed since {folder.path.name} was begun"
            if resume:
                fail(f"{changed}, and a run goes on with the same data only. Restore them, or leave out --resume.", 3)
            say(f"{changed}: this is a new run.", quiet)
            return


def _configured(
    words: Words, own: "OwnDataset | None", file: Path | None, seed: int | None, settings: list[str], device: str
) -> "RunConfig":
    from tnlpad.experiments.config import device_settings
    from tnlpad.noise.errors import NoiseDataError

    try:
        pairs = dict(pair(text) for text in settings)
        return (
            _from_words(words, own, seed, device_settings(device) | pairs)
            if file is None
            else _from_file(words, own, file, seed, pairs)
        )
    except NoiseDataError as error:
        fail(str(error), code=3)
    except ValueError as error:
        fail(str(error), code=2)


def _from_words(words: Words, own: "OwnDataset | None", seed: int | None, settings: Mapping[str, str]) -> "RunConfig":
    from tnlpad.experiments.config import configure

    if words.data is None:
        raise ValueError("Say what to train on, such as `tnlpad train mnist`; `tnlpad data list` shows what there is.")
    return configure(
        words.data if own is None else own.shape,
        noise=words.noise or "none",
        protocol=words.protocol or "paper",
        method=words.method or "tnlpad",
        network=words.network,
        seed=1 if seed is None else seed,
        settings=settings,
    )


def _from_file(
    words: Words, own: "OwnDataset | None", file: Path, seed: int | None, settings: Mapping[str, str]
) -> "RunConfig":
    from tnlpad.experiments.config import from_json, with_settings

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


def pair(text: str) -> tuple[str, str]:
    """Name and value of a `--set`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"--set {text}: write NAME=VALUE, such as --set epochs=20.")
    return name, value


def _require_begun(config: "RunConfig", out: Path) -> None:
    from tnlpad.records.store import RunFolder

    folder = RunFolder(out / config.run_id)
    if not folder.begun:
        fail(
            f"there is nothing to resume in {folder.path}. Leave out --resume to begin this run, or check that the "
            "words, --set and --out are those it was begun with.",
            code=3,
        )


def _run(
    config: "RunConfig",
    own: "OwnDataset | None",
    weights: Path | None,
    out: Path,
    root: Path | None,
    device: str,
    engine: Engine,
    checkpoint_every: float,
    scores: bool,
    tensorboard: bool,
    quiet: bool,
) -> "RunFolder":
    """The run, with every way in which it can fail turned into a message and an exit code."""
    from tnlpad.data.errors import DataError
    from tnlpad.experiments.own_recipe import looks_every
    from tnlpad.experiments.run import run
    from tnlpad.noise.errors import NoiseDataError
    from tnlpad.records.store import RecordError
    from tnlpad.training.loop import Diverged

    try:
        # Decoding has no bar of its own here: two at once would write over each other.
        with _tensorboard(tensorboard, out / config.run_id) as log, _progress(quiet, config.epochs) as (on_step, show):

            def on_epoch(record: Mapping[str, Any]) -> None:
                log(record)
                show(record)

            return run(
                config,
                out,
                own=own,
                root=root,
                weights=weights,
                device=device,
                engine=engine,
                checkpoint_every_seconds=checkpoint_every,
                census_every=looks_every(config.epochs) if scores else None,
                on_step=on_step,
                on_epoch=on_epoch,
            )
    except (DataError, NoiseDataError, RecordError) as error:
        fail(str(error), code=3)
    except Diverged as error:
        fail(str(error))
    except ValueError as error:  # a setting that a method or a network refuses
        fail(str(error), code=2)
    except OSError as error:
        fail(f"{error}. The last checkpoint is kept: free the disk or check the folder, and run the command again.")
    except KeyboardInterrupt:
        say("Interrupted. The last checkpoint is kept: run the command again to go on.")
        raise typer.Exit(130) from None


def checked_device(name: str) -> str:
    """The device's name, if this machine has it."""
    from tnlpad.experiments.devices import device_named

    try:
        return device_named(name)
    except ValueError as error:
        fail(f"--{error}", code=2)


def _print_summary(summary: Mapping[str, Any], folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=summary["run_id"], title_justify="left")
    test = "test, %" if "data" not in summary["config"] else "test part, labels as given, %"
    for heading in ("", "epoch", "noisy validation, %", test):
        table.add_column(heading, justify="left" if not heading else "right")
    for label, key in (("chosen on noisy validation", "chosen"), ("last epoch", "last")):
        row = summary[key]
        numbers = (_percent(row[name], 2) for name in ("validation_accuracy", "test_accuracy"))
        table.add_row(label, str(row["epoch"]), *numbers)
    console = Console()
    console.print(table)
    console.print(f"Record: {folder}", highlight=False, markup=False, soft_wrap=True)


def _percent(share: float | None, digits: int) -> str:
    return "no test part" if share is None else f"{100 * share:.{digits}f}"


def _nothing(*_: Any) -> None:
    """For when nobody wants to know."""


@contextmanager
def _progress(quiet: bool, epochs: int) -> Iterator[tuple[OnStep, OnEpoch]]:
    """A bar on stderr when someone is looking; a line for every epoch when not."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if quiet:
        yield _nothing, _nothing
        return
    if not console.is_terminal:
        yield _nothing, lambda record: say(_line(record, epochs))
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=10), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("starting", total=epochs)

        def on_step(epoch: int, step: int, steps: int) -> None:
            # A resumed run begins in the middle: what was done before says nothing about the time left.
            if bar.tasks[0].completed == 0:
                bar.reset(task, completed=epoch - 1)
            bar.update(task, completed=epoch - 1 + step / steps)

        yield on_step, lambda record: bar.update(task, description=_line(record, epochs))


def _line(record: Mapping[str, Any], epochs: int) -> str:
    reported = next(iter(record["judged"].values()))  # the first judged network is the one to ship
    test = "" if record["test_accuracy"] is None else f" test {100 * record['test_accuracy']:.1f} %"
    return (
        f"{record['epoch']}/{epochs} loss {record['train_loss']:.3f} "
        f"validation {reported['validation_loss']:.3f}, {100 * record['validation_accuracy']:.1f} %{test}"
    )


@contextmanager
def _tensorboard(wanted: bool, folder: Path) -> Iterator[OnEpoch]:
    """Every number of every epoch as a scalar; what a killed run wrote beyond its checkpoint is written over."""
    if not wanted:
        yield _nothing
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        fail(f"--tensorboard needs the package tensorboard ({error}). Install it with pip install 'tnlpad[tracking]'.")
    writers: list[Any] = []

    def on_epoch(record: Mapping[str, Any]) -> None:
        if not writers:  # only now: a finished run is left as it is
            writers.append(SummaryWriter(str(folder / "tensorboard"), purge_step=record["epoch"]))
        for name, value in _scalars(record):
            writers[0].add_scalar(name, value, record["epoch"])

    try:
        yield on_epoch
    finally:
        for writer in writers:
            writer.close()


def _scalars(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _scalars(value, f"{prefix}{key}/")
        elif key != "epoch" and value is not None:
            yield f"{prefix}{key}", value
