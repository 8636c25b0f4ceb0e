"""`tnlpad demo`: digits with 40 % wrong labels, plain SGD and the decomposition side by side, in under a minute."""

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tnlpad.cli.output import folder_for_results, print_json, say, write_text

if TYPE_CHECKING:
    from tnlpad.grid.demo import DemoConfig, Progress

DEFAULT_FOLDER = Path("demo")
DEFAULT_SEEDS = 5
MOST_WORKERS = 4  # each holds its own copy of torch, some 300 MB


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where report.html and demo.json go.")] = DEFAULT_FOLDER,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="Repeat with seeds 1 to N.")] = DEFAULT_SEEDS,
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="Instead, compare learning rates and weight decays by noisy validation accuracy (several minutes).",
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as one JSON document.")] = False,
) -> None:
    """Train on digits of which 40 % carry a wrong label, with plain SGD and with TNLPAD, and write a report.

    Needs no download and under a minute on two cores.
    """
    folder = folder_for_results(out, "--out")
    say("Loading torch and the digits.", quiet)
    # Here and not above: torch takes a second to load, and `tnlpad --help` should not wait for it.
    from tnlpad.grid.demo import DemoConfig
    from tnlpad.runs.devices import available_cores

    config = replace(DemoConfig(), seeds=tuple(range(1, seeds + 1)))
    workers = min(MOST_WORKERS, available_cores())
    if tune:
        _tune(config, folder, workers, quiet, as_json)
    else:
        _demo(config, folder, workers, quiet, as_json, _command(out, seeds))


def _command(out: Path, seeds: int) -> str:
    """What to type to get these numbers again; the folder is left out when it is the usual one."""
    words = ["tnlpad", "demo"]
    if out != DEFAULT_FOLDER:
        words += ["--out", str(out)]
    if seeds != DEFAULT_SEEDS:
        words += ["--seeds", str(seeds)]
    return shlex.join(words)


def _demo(config: "DemoConfig", folder: Path, workers: int, quiet: bool, as_json: bool, command: str) -> None:
    from tnlpad.grid.demo import record, run_demo

    with _progress(quiet) as progress:
        result = run_demo(config, workers=workers, progress=progress)
    document = record(result, command)
    from tnlpad.report.page import demo_page

    write_text(folder / "demo.json", json.dumps(document, indent=1, allow_nan=False) + "\n")
    page = folder / "report.html"
    write_text(page, demo_page(document))
    if as_json:
        print_json(document)
    else:
        _print_results(document, page)


def _print_results(document: dict[str, Any], page: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from tnlpad.report.tables import demo_rows, demo_verdict, mean_sd

    config = document["configuration"]
    table = Table(
        title=f"Test accuracy in %, mean ± sd over {len(config['seeds'])} seeds; "
        f"{100 * config['noise_rate']:.0f} % of the training labels are wrong",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("method")
    for heading in ("last epoch", "epoch chosen on\nnoisy validation", "wrong labels\nmemorised", "n"):
        table.add_column(heading, justify="right")
    for row in demo_rows(document):
        style = "bold" if row.key == "sigma" else None
        table.add_row(row.method, row.last, row.chosen, row.memorised, str(row.n), style=style)
    console = Console()
    console.print(table)
    console.print(demo_verdict(document), highlight=False, soft_wrap=True)
    candidates = ", ".join(
        f"{candidate['c2']:g}: {mean_sd(candidate['validation_last_epoch'])}"
        for candidate in document["selection"]["candidates"]
    )
    console.print(
        f"c2 = {document['selection']['chosen_c2']:g}, chosen by σ's noisy validation accuracy in the last epoch "
        f"({candidates}).",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"Report: {page}", highlight=False, soft_wrap=True, markup=False)


def _tune(config: "DemoConfig", folder: Path, workers: int, quiet: bool, as_json: bool) -> None:
    from tnlpad.grid.demo import tune, versions

    with _progress(quiet) as progress:
        cells = tune(config, workers=workers, progress=progress)
    document = {"kind": "demo-tuning", "versions": versions(), "seeds": list(config.seeds), "cells": cells}
    write_text(folder / "tuning.json", json.dumps(document, indent=1, allow_nan=False) + "\n")
    if as_json:
        print_json(document)
    else:
        _print_tuning(cells, len(config.seeds))


def _print_tuning(cells: list[dict[str, Any]], seeds: int) -> None:
    from rich.console import Console
    from rich.table import Table

    from tnlpad.report.tables import percent

    table = Table(title=f"Noisy validation accuracy in %, mean over {seeds} seeds", title_justify="left")
    for heading in (
        "learning\nrate",
        "weight\ndecay",
        "plain,\nlast",
        "σ,\nlast",
        "plain,\nchosen",
        "σ,\nchosen",
        "σ's\nc2",
    ):
        table.add_column(heading, justify="right")
    for cell in cells:
        last, chosen = cell["validation_last_epoch"], cell["validation_chosen_epoch"]
        numbers = [percent(each[method]) for each in (last, chosen) for method in ("plain", "sigma")]
        table.add_row(f"{cell['learning_rate']:g}", f"{cell['weight_decay']:g}", *numbers, f"{cell['c2']:g}")
    Console().print(table)


@contextmanager
def _progress(quiet: bool) -> Iterator["Progress | None"]:
    """A bar on stderr when someone is looking, one line when not."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        say("Training.", quiet)
        yield None
        return
    columns = (TextColumn("Training"), BarColumn(), MofNCompleteColumn(), TextColumn("networks"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("training", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
