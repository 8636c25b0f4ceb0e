"""Progress on stderr for commands: of one run or of reading data, of many runs, and of a long computation."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tnlpad.cli.output import say
from tnlpad.progress import SECONDS_BETWEEN_LINES, duration, ignore, progress_reporter, run_progress, stderr_console
from tnlpad.report.words import counted

__all__ = [
    "count_progress",
    "duration",
    "machine_time",
    "progress_reporter",
    "run_progress",
    "status_line",
    "stderr_console",
]


@contextmanager
def count_progress(quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show how many of some runs are done: a bar on a terminal, else a line per run."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = stderr_console()
    if quiet:
        yield ignore
    elif not console.is_terminal:
        yield lambda done, total: say(f"{done} of {total} runs")
    else:
        columns = (TextColumn("Training"), BarColumn(), MofNCompleteColumn(), TextColumn("runs"), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("training", total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def status_line(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show the current state of a long computation: one changing line on a terminal, else a line now and then."""
    console = stderr_console()
    if quiet:
        yield ignore
    elif console.is_terminal:
        with console.status("") as status:
            yield status.update
    else:
        yield _now_and_then(SECONDS_BETWEEN_LINES)


def _now_and_then(seconds: float) -> Callable[[str], None]:
    last = time.monotonic() - seconds

    def show(message: str) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            say(message)

    return show


def machine_time(seconds: float, kind: str) -> str:
    """Format machine time: "12.3 GPU hours", "4 CPU minutes", "40 CPU seconds"."""
    if seconds >= 3600:
        return f"{seconds / 3600:,.{0 if seconds >= 360_000 else 1}f} {kind} hours"
    if seconds >= 100:
        return f"{seconds / 60:.0f} {kind} minutes"
    return counted(max(1, round(seconds)), f"{kind} second")
