"""Options that several verbs have, in the same words everywhere, and how their text is read.

Where runs are carried out: on which device, on this machine or a cluster, how many at once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from tnlpad.cli.output import fail

Protocol = Literal["paper", "authors"]

Network = Annotated[str | None, typer.Option(metavar="NAME", help="What to train; by default the paper's.")]
LabelColumn = Annotated[
    str | None,
    typer.Option("--label", metavar="COLUMN", help="What a table calls the column of the classes; label by default."),
]
IgnoredColumns = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="COLUMN", help="A column of a table not to look at. May be repeated."),
]
Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Where run folders go.")]
Root = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where datasets lie.")]
Device = Annotated[str, typer.Option(metavar="NAME", help="cpu, cuda or auto.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]


def table_words(label: str | None, ignored: Iterable[str]) -> list[str]:
    """The options that say how a table is read, for a command that is shown."""
    words = ["--label", label] if label is not None else []
    return words + [word for name in ignored for word in ("--ignore", name)]


def read_settings(texts: Iterable[str]) -> dict[str, str]:
    """The values of every `--set`, by name; of one that is given twice the last."""
    return dict(_pair(text) for text in texts)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"--set {text}: write NAME=VALUE, such as --set epochs=20.")
    return name, value


def read_list(text: str) -> list[str]:
    """What stands between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def read_seeds(text: str) -> list[int]:
    """`1-3` or `1,2,5`, and both together."""
    seeds: list[int] = []
    for part in read_list(text):
        first, dash, last = part.partition("-")
        try:
            seeds += range(int(first), int(last) + 1) if dash else [int(first)]
        except ValueError:
            raise ValueError(f"--seeds {text}: write 1-3 or 1,2,5.") from None
    return seeds


def checked_device(name: str) -> str:
    """The device's name, if this machine has it."""
    from tnlpad.runs.devices import device_named

    try:
        return device_named(name)
    except ValueError as error:
        fail(f"--{error}", code=2)


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where and how to carry out a plan; nothing here changes a number but the device."""

    executor: Literal["local", "ray"]
    jobs: int
    address: str | None
    send_back: bool
    out: Path
    root: Path | None
    device: str
    quiet: bool

    @property
    def on_ray(self) -> bool:
        return self.executor == "ray"

    @property
    def on_gpu(self) -> bool:
        return self.device.startswith("cuda")


def where_to_run(
    executor: Literal["local", "ray"],
    jobs: int | None,
    address: str | None,
    send_back: bool,
    out: Path,
    root: Path | None,
    device: str,
    dry_run: bool,
    quiet: bool,
) -> Where:
    """What the options of a command line mean; those that contradict each other are refused."""
    from tnlpad.runs.devices import available_cores

    if executor == "local" and (address is not None or send_back):
        option = "--send-back" if send_back else "--address"
        fail(f"{option} is for --executor ray: add that, or leave {option} out.", code=2)
    # The machines of a cluster may have what this one has not, and a plan needs nothing.
    elsewhere = (executor == "ray" or dry_run) and device.partition(":")[0] in ("cpu", "cuda")
    chosen = device if elsewhere else checked_device(device)
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
