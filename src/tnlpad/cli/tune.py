"""`tnlpad tune`: choose c2, or any other setting, by noisy validation accuracy over a small grid."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tnlpad.cli.output import fail, folder_for_results, print_json, say
from tnlpad.cli.train import Protocol, checked_device, pair

if TYPE_CHECKING:
    from tnlpad.experiments.tune import Tried

BAR_WIDTH = 30


def tune(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A dataset: see `tnlpad data list`.")],
    values: Annotated[str, typer.Option(metavar="A,B,…", help="What to compare, such as 0.5,1,2.")],
    field: Annotated[str, typer.Option(metavar="NAME", help="The setting to choose.")] = "c2",
    seeds: Annotated[str, typer.Option(metavar="A-B|A,B,…", help="One run per value and seed.")] = "1-3",
    noise: Annotated[str, typer.Option(metavar="NOISE", help="Such as symmetric:0.4.")] = "none",
    method: Annotated[str, typer.Option(metavar="NAME", help="How to train.")] = "tnlpad",
    network: Annotated[str | None, typer.Option(metavar="NAME", help="What to train; by default the paper's.")] = None,
    protocol: Annotated[Protocol, typer.Option(help="Whom to follow where they differ.")] = "paper",
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any other setting. May be repeated.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where run folders go.")] = Path("runs"),
    root: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where datasets lie.")] = None,
    device: Annotated[str, typer.Option(metavar="NAME", help="cpu, cuda or auto.")] = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON document.")] = False,
) -> None:
    """Choose a setting by noisy validation accuracy, as the paper does.

    Each value is trained with every seed; the test set has no say and is not
    shown. The runs are ordinary ones: an interrupted search goes on when the
    same command is given again, and `tnlpad train` finds its runs finished.

    Example: tnlpad tune digits --noise symmetric:0.4 --values 0.5,1,2
    """
    say("Loading torch.", quiet)
    from tnlpad.experiments.config import device_settings
    from tnlpad.experiments.tune import document, grid
    from tnlpad.noise.errors import NoiseDataError

    where = checked_device(device)
    try:
        rows = grid(
            data,
            field=field,
            values=_values(values),
            seeds=seed_list(seeds),
            noise=noise,
            protocol=protocol,
            method=method,
            network=network,
            settings=device_settings(where) | dict(pair(text) for text in setting or []),
        )
    except NoiseDataError as error:
        fail(str(error), code=3)
    except ValueError as error:
        fail(str(error), code=2)
    tried = _tune(rows, field, folder_for_results(out, "--out"), root, where, quiet)
    if as_json:
        print_json(document(tried, field))
    else:
        _print_curve(tried, field)


def _values(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def seed_list(text: str) -> list[int]:
    """`1-3` or `1,2,5`, and both together."""
    seeds: list[int] = []
    for part in _values(text):
        first, dash, last = part.partition("-")
        try:
            seeds += range(int(first), int(last) + 1) if dash else [int(first)]
        except ValueError:
            raise ValueError(f"--seeds {text}: write 1-3 or 1,2,5.") from None
    return seeds


def _tune(rows: Any, field: str, out: Path, root: Path | None, device: str, quiet: bool) -> "list[Tried]":
    """The search, with every way in which it can fail turned into a message and an exit code."""
    from tnlpad.data.errors import DataError
    from tnlpad.experiments.tune import tune
    from tnlpad.noise.errors import NoiseDataError
    from tnlpad.records.store import RecordError
    from tnlpad.training.loop import Diverged

    try:
        with _progress(quiet) as on_run:
            return tune(rows, field, out, root=root, device=device, on_run=on_run)
    except (DataError, NoiseDataError, RecordError) as error:
        fail(str(error), code=3)
    except Diverged as error:
        fail(f"{error} Leave that value out to compare the others.")
    except ValueError as error:
        fail(str(error), code=2)
    except OSError as error:
        fail(f"{error}. Finished runs are kept: free the disk or check the folder, and run the command again.")
    except KeyboardInterrupt:
        say("Interrupted. Finished runs and the last checkpoint are kept: run the command again to go on.")
        raise typer.Exit(130) from None


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr when someone is looking, a line for every run when not."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if quiet:
        yield None
    elif not console.is_terminal:
        yield lambda done, total: say(f"{done} of {total} runs")
    else:
        columns = (TextColumn("Training"), BarColumn(), MofNCompleteColumn(), TextColumn("runs"), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("training", total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


def _print_curve(tried: "list[Tried]", field: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from tnlpad.experiments.tune import winner

    best, lowest = winner(tried), min(each.mean for each in tried)
    span = best.mean - lowest
    table = Table(title="Noisy validation accuracy in %, mean ± sd over seeds", title_justify="left")
    table.add_column(field, justify="right")
    for heading in ("accuracy", "n"):
        table.add_column(heading, justify="right")
    table.add_column(f"{100 * lowest:.2f} to {100 * best.mean:.2f}", width=BAR_WIDTH)
    for each in tried:
        spread = "" if each.sd is None else f" ± {100 * each.sd:.2f}"
        share = (each.mean - lowest) / span if span else 1.0
        marked = each is best
        table.add_row(
            f"{each.value}{' *' if marked else ''}",
            f"{100 * each.mean:.2f}{spread}",
            str(len(each.accuracies)),
            "█" * max(1, round(BAR_WIDTH * share)),
            style="bold" if marked else None,
        )
    console = Console()
    console.print(table)
    console.print(
        f"* chosen: --set {field}={best.value}. The test set had no say.", highlight=False, markup=False, soft_wrap=True
    )
