"""Command-line options that several verbs share, and the parsing of their values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tnlpad.cli.output import exit_codes, fail
from tnlpad.errors import as_utf8

if TYPE_CHECKING:
    from tnlpad.grid.mps import AtOnce, Kind

# Options under a heading of their own in the help.
data_option = partial(typer.Option, rich_help_panel="Data")
training_option = partial(typer.Option, rich_help_panel="Training")
output_option = partial(typer.Option, rich_help_panel="Output")

MAX_SEEDS = 10_000
Protocol = Literal["paper", "authors"]
Executor = Literal["local", "ray"]

RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A finished run: its folder, its name or hash, the start of one, or latest (see tnlpad runs).",
    ),
]
Runs = Annotated[Path, typer.Option(metavar="FOLDER", help="Folder that holds the runs.")]
ImagesFolder = Annotated[
    Path | None,
    data_option(
        "--images",
        metavar="FOLDER",
        help="Folder that the paths in a table of images are relative to (default: the table's).",
    ),
]
LabelColumn = Annotated[
    str | None, data_option("--label", metavar="COLUMN", help="Name of the label column (default: label).")
]
IgnoredColumns = Annotated[
    list[str] | None, data_option("--ignore", metavar="COLUMN", help="Column to exclude. Repeatable.")
]
TextColumn = Annotated[
    str | None,
    data_option(
        "--text", metavar="COLUMN", help="Name of the text column (default: one named like text, or of free text)."
    ),
]
GroupColumn = Annotated[
    str | None,
    data_option("--group", metavar="COLUMN", help="Column whose equal values mark samples that belong together."),
]
IdColumn = Annotated[
    str | None, data_option("--id", metavar="COLUMN", help="Name of the column that identifies samples (default: id).")
]
Backbone = Annotated[
    str,
    training_option(
        metavar="NAME",
        help="Train on features of a pretrained network: lite (EfficientNet-Lite0), a Hugging Face model or its "
        "folder, a network of ours with --weights, none, or auto: lite for photographs, if it is installed.",
    ),
]
Noise = Annotated[
    str | None,
    data_option("--noise", metavar="NOISE", help="Noise to add to the labels, such as symmetric:0.4 (default: none)."),
]
Method = Annotated[str | None, training_option(metavar="NAME", help="Training method (default: tnlpad).")]
Weights = Annotated[
    Path | None,
    training_option(metavar="FILE", help="Weights of --network or --backbone: a .pth, .pt or .safetensors file."),
]
Finetune = Annotated[
    bool, training_option("--finetune", help="Train the --backbone itself from its weights, not heads on its features.")
]
Folds = Annotated[
    int | None, training_option(metavar="N", help="Folds of features; labels are judged out of fold (default: 5).")
]
Repeats = Annotated[
    int | None, training_option(metavar="N", help="Times that features are divided into folds (default: 1 to 3).")
]
Cache = Annotated[
    Path | None,
    data_option(
        "--cache", metavar="FOLDER", help="Folder of computed features (default: $TNLPAD_CACHE, or a user cache)."
    ),
]
Memory = Annotated[
    str | None,
    data_option(
        "--memory",
        metavar="SIZE",
        help="Memory for decoded images, such as 8GB. Image files that need more are read again in every epoch "
        "(default: $TNLPAD_MEMORY, or up to 4 GiB).",
    ),
]
Root = Annotated[
    Path | None,
    data_option(
        metavar="FOLDER", help="Folder that holds the published datasets (default: $TNLPAD_DATA, or a user cache)."
    ),
]
FollowProtocol = Annotated[Protocol, training_option(help="Follow the paper or the authors' code where they differ.")]
Network = Annotated[
    str | None,
    training_option(
        metavar="NAME", help="Network architecture (default: the paper's, or one that fits the size of your data)."
    ),
]
Setting = Annotated[
    list[str] | None,
    training_option(
        "--set", metavar="NAME=VALUE", help="Any other setting (see `tnlpad train --settings`). Repeatable."
    ),
]
Epochs = Annotated[int | None, training_option(metavar="N", help="Number of epochs (default: see `train --settings`).")]
BatchSize = Annotated[int | None, training_option(metavar="N", help="Batch size (default: see `train --settings`).")]
LearningRate = Annotated[
    float | None, training_option("--lr", metavar="RATE", help="Learning rate (default: see `train --settings`).")
]
Device = Annotated[str, training_option(metavar="NAME", help="cpu, cuda or auto.")]
Out = Annotated[Path, output_option(metavar="FOLDER", help="Folder for the runs.")]
SpreadsheetSafe = Annotated[
    bool,
    output_option(
        "--spreadsheet-safe",
        help="Write an apostrophe before text in CSV files that a spreadsheet takes for a formula.",
    ),
]
Quiet = Annotated[bool, output_option("--quiet", "-q", help="Print results and errors only.")]
AsJson = Annotated[bool, output_option("--json", help="Print one JSON document.")]


def table_options(
    label: str | None,
    ignored: Iterable[str],
    *,
    text: str | None = None,
    group: str | None = None,
    id: str | None = None,
) -> list[str]:
    """Return the words of a command that select the columns of a table."""
    given = {"--label": label, "--text": text, "--group": group, "--id": id}
    words = [word for option, column in given.items() if column is not None for word in (option, column)]
    return words + [word for name in ignored for word in ("--ignore", name)]


def read_settings(texts: Iterable[str]) -> dict[str, str]:
    """Parse the values of `--set NAME=VALUE`; the last one wins where a name is repeated."""
    return dict(_pair(text) for text in texts)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"--set {text}: write NAME=VALUE, such as --set epochs=20.")
    return name, value


def read_list(text: str) -> list[str]:
    """Split a comma-separated list; empty items are dropped."""
    return [part.strip() for part in text.split(",") if part.strip()]


def read_seeds(text: str) -> list[int]:
    """Parse seeds such as `1-3`, `1,2,5` or `1-3,7`."""
    seeds: list[int] = []
    for part in read_list(text):
        first, dash, last = part.partition("-")
        try:
            start, stop = int(first), int(last if dash else first) + 1
        except ValueError:
            raise ValueError(f"--seeds {text}: write 1-3 or 1,2,5.") from None
        if len(seeds) + stop - start > MAX_SEEDS:
            raise ValueError(f"--seeds {text}: these are more than {MAX_SEEDS:,} seeds. Give fewer.")
        seeds += range(start, stop)
    return seeds


def cache_folder(chosen: Path | None) -> Path:
    """Return the folder of computed features; exit with code 2 if the chosen one is a file."""
    from tnlpad.features.cache import default_cache

    if chosen is not None and chosen.exists() and not chosen.is_dir():
        fail(f"--cache {chosen} is a file, and features need a folder. Name another one.", code=2)
    return chosen if chosen is not None else default_cache()


def everyday_settings(texts: Iterable[str], everyday: Mapping[str, float | None]) -> dict[str, str]:
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


def checked_device(name: str) -> str:
    """Return the name of a device that this machine has; exit with code 2 if it does not."""
    from tnlpad.runs.devices import device_named

    try:
        return device_named(name)
    except ValueError as error:
        fail(f"--{error}", code=2)


def ray_device(name: str) -> str:
    """Return the device of Ray's workers, which this machine may lack; exit with code 2 if it names one GPU."""
    if name.startswith("cuda:"):
        fail(f"--device {name}: Ray chooses the GPU of each process. Use --device cuda.", code=2)
    return name if name == "cuda" else checked_device(name)


@dataclass(frozen=True, kw_only=True)
class Where:
    """The place where runs are executed; of these options, only the device changes a number."""

    executor: Executor
    jobs: int
    address: str | None
    send_back: bool
    out: Path
    root: Path | None
    device: str
    quiet: bool
    at_once: "Mapping[Kind, AtOnce] | None" = (
        None  # by kind of run, to find the best number; `jobs` is the most to begin
    )

    @property
    def on_ray(self) -> bool:
        return self.executor == "ray"

    @property
    def on_gpu(self) -> bool:
        return self.device.startswith("cuda")


def where_to_run(
    executor: Executor,
    jobs: int | None,
    address: str | None,
    send_back: bool,
    out: Path,
    root: Path | None,
    device: str,
    dry_run: bool,
    quiet: bool,
) -> Where:
    """Combine the options that say where runs are executed; exit with code 2 if they contradict each other."""
    from tnlpad.runs.devices import available_cores

    with exit_codes():
        as_utf8(str(out), "--out", ValueError)
    if executor == "local" and (address is not None or send_back):
        option = "--send-back" if send_back else "--address"
        fail(f"{option} needs --executor ray. Add it, or leave {option} out.", code=2)
    if executor == "ray":
        chosen = ray_device(device)
    else:
        needless = dry_run and device.partition(":")[0] == "cuda"  # a dry run needs no GPU
        chosen = device if needless else checked_device(device)
    return Where(
        executor=executor,
        jobs=jobs or (1 if chosen.startswith("cuda") else available_cores()),
        address=address,
        send_back=send_back,
        out=out,
        root=root,
        device=chosen,
        quiet=quiet,
    )
