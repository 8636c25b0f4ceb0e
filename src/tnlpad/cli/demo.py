"""`tnlpad demo`: digits with 40 % wrong labels, plain SGD and TNLPAD side by side, in under a minute."""

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from tnlpad.cli.options import AsJson, Quiet
from tnlpad.cli.output import ending_early, fail, folder_for_results, print_json, say, write_text
from tnlpad.cli.progress import count_progress

DEFAULT_FOLDER = Path("demo")
DEFAULT_SEEDS = 5
MAX_WORKERS = 4  # each takes about 300 MB for torch


def demo(
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for report.html, demo.json and the runs.")
    ] = DEFAULT_FOLDER,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="Repeat with seeds 1 to N.")] = DEFAULT_SEEDS,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train on digits with 40 % wrong labels, with plain SGD and with TNLPAD, and write a report.

    Needs no download, and takes under a minute on two cores.
    """
    folder = folder_for_results(out, "--out")
    say("Loading torch.", quiet)
    from tnlpad.grid.demo import DemoFailed, demo_record, demo_runs, run_demo
    from tnlpad.grid.grid import DiskFull
    from tnlpad.report.page import demo_page
    from tnlpad.runs.devices import available_cores

    runs = demo_runs(range(1, seeds + 1))
    workers = min(MAX_WORKERS, available_cores())
    try:
        with ending_early(kept="Finished runs are"), count_progress(quiet) as progress:
            run_demo(runs, folder / "runs", workers=workers, progress=progress)
    except (DemoFailed, DiskFull) as error:
        fail(str(error))
    document = demo_record(runs, folder / "runs", _command(out, seeds))
    write_text(folder / "demo.json", json.dumps(document, indent=1, allow_nan=False) + "\n")
    page = folder / "report.html"
    write_text(page, demo_page(document))
    if as_json:
        print_json(document)
    else:
        _print_results(document, page)


def _command(out: Path, seeds: int) -> str:
    """Return the command that gives these numbers again, without options that have their default."""
    words = ["tnlpad", "demo"]
    if out != DEFAULT_FOLDER:
        words += ["--out", str(out)]
    if seeds != DEFAULT_SEEDS:
        words += ["--seeds", str(seeds)]
    return shlex.join(words)


def _print_results(document: dict[str, Any], page: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from tnlpad.report.page import demo_rows, demo_verdict

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
    console.print(f"Report: {page}", highlight=False, soft_wrap=True, markup=False)
