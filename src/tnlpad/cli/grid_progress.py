"""Progress of a grid of runs: a live display of those that run, on a terminal, or a line per run that ends."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from heapq import heapify, heapreplace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tnlpad.cli.output import say
from tnlpad.cli.progress import duration, stderr_console
from tnlpad.report.words import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tnlpad.grid.grid import Ended
    from tnlpad.runs.config import RunConfig

MOST_RUNS_SHOWN = 8
MOST_RUNS_READ = 4 * MOST_RUNS_SHOWN  # every second, and perhaps over a network


class GridProgress(Protocol):
    """Callbacks of a running grid."""

    def on_end(self, ended: "Ended") -> None:
        """Called when a run has ended."""

    def on_wait(self, count: int) -> None:
        """Called when only `count` runs of other processes are left."""


@contextmanager
def grid_progress(
    configs: "Sequence[RunConfig]", expected: Mapping[str, float | None], out: Path, places: int | None, quiet: bool
) -> "Iterator[GridProgress]":
    """Show the progress of a grid of runs.

    Args:
        configs: The runs, in the order in which they start.
        expected: Expected seconds by run id; None where unknown.
        out: The folder of runs, from which the epochs of running runs are read.
        places: How many run at once; None if unknown.
        quiet: Show nothing.
    """
    from rich.live import Live

    console = stderr_console()
    tally = Tally(configs, expected, places)
    if quiet:
        yield _Silent()
    elif not console.is_terminal:
        yield _Lines(tally)
    else:
        display = _Display(tally, out)
        with Live(get_renderable=display.render, console=console, refresh_per_second=1, transient=True):
            yield display


class Tally:
    """Counts of ended and failed runs, and the time left.

    Runs start in order, `places` at a time, and each end starts the next one. So the time that each running run has
    taken is known. The expected seconds are scaled by the ratio of actual to expected seconds of the ended runs.
    Without a number of places, as on a cluster, the time left follows from the work done since the start.
    """

    def __init__(
        self, configs: "Sequence[RunConfig]", expected: Mapping[str, float | None], places: int | None
    ) -> None:
        self.epochs = {config.run_id: config.epochs for config in configs}
        self.total, self.ended, self.failed, self.waiting = len(configs), 0, 0, 0
        known = [seconds for run_id in self.epochs if (seconds := expected.get(run_id)) is not None]
        typical = sum(known) / len(known) if known else 1.0
        self._expected = {run_id: expected.get(run_id) or typical for run_id in self.epochs}
        self._something_known = bool(known)
        self._taken, self._was_expected = 0.0, 0.0  # sums over the ended runs
        self._next = iter(list(self.epochs))
        self._start, self._began = time.monotonic(), dict[str, float]()  # of the grid, and of each running run
        self._places_known = places is not None
        for _ in range(places or 0):
            self._start_next()

    def on_end(self, ended: "Ended") -> None:
        self.ended += 1
        self.failed += ended.failure is not None
        self.epochs.pop(ended.run_id, None)
        expected = self._expected.pop(ended.run_id, 0.0)
        if ended.failure is None and ended.seconds is not None:  # a failed run does not count for the pace
            self._taken += ended.seconds
            self._was_expected += expected
        if self._began.pop(ended.run_id, None) is not None:
            self._start_next()

    def _start_next(self) -> None:
        run_id = next((each for each in self._next if each in self.epochs), None)
        if run_id is not None:
            self._began[run_id] = time.monotonic()

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the last run ends; None while nothing is known."""
        now = time.monotonic()
        # Copies, since the display reads them from its own thread.
        left, began = dict(self._expected), dict(self._began)
        if not self._places_known:
            return (now - self._start) * sum(left.values()) / self._was_expected if self._was_expected else None
        if not self._was_expected and not self._something_known:
            return None
        pace = self._taken / self._was_expected if self._was_expected else 1.0
        places = [max(0.0, pace * left.get(run_id, 0.0) - (now - start)) for run_id, start in began.items()]
        heapify(places)
        for run_id, expected in left.items():
            if places and run_id not in began:
                heapreplace(places, places[0] + pace * expected)  # the place that becomes free first
        return max(places, default=0.0)

    def __str__(self) -> str:
        parts = [f"{self.ended:,} of {counted(self.total, 'run')}"]
        parts += [f"{self.failed} failed"] if self.failed else []
        left = self.seconds_left
        parts += [f"{duration(left)} left"] if left is not None and left >= 1 and self.ended < self.total else []
        parts += [f"waiting for {counted(self.waiting, 'run')} of another process"] if self.waiting else []
        return ", ".join(parts)


def ended_line(ended: "Ended") -> str:
    """Describe in one line how a run ended."""
    if ended.failure is not None:
        where = f" (traceback: {ended.failure.traceback})" if ended.failure.traceback is not None else ""
        return f"{ended.run_id} failed: {ended.failure.error.splitlines()[0]}{where}"
    if ended.test_accuracy is None:
        return f"{ended.run_id} was finished by another process"
    again = f", attempt {ended.attempts}" if ended.attempts > 1 else ""
    return f"{ended.run_id} test {100 * ended.test_accuracy:.1f} % in {duration(ended.seconds or 0.0)}{again}"


class _Silent:
    def on_end(self, ended: "Ended") -> None:
        pass

    def on_wait(self, count: int) -> None:
        pass


class _Lines:
    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    def on_end(self, ended: "Ended") -> None:
        self.tally.on_end(ended)
        say(f"{ended_line(ended)} ({self.tally})")

    def on_wait(self, count: int) -> None:
        if count != self.tally.waiting:
            self.tally.waiting = count
            say(str(self.tally))


class _Display:
    """A bar, the running runs with their epochs, and the last failure."""

    def __init__(self, tally: Tally, out: Path) -> None:
        self.tally, self.out, self.failure = tally, out, ""

    def on_end(self, ended: "Ended") -> None:
        self.tally.on_end(ended)
        if ended.failure is not None:
            self.failure = ended_line(ended)

    def on_wait(self, count: int) -> None:
        self.tally.waiting = count

    def render(self) -> "RenderableType":
        """Build the display; rich calls this once a second from its own thread."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        running = islice(self._running(), MOST_RUNS_SHOWN)
        lines = [Text(line, no_wrap=True, overflow="ellipsis") for line in running]
        failed = [Text(self.failure, style="red", no_wrap=True, overflow="ellipsis")] if self.failure else []
        head = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=self.tally.total, completed=self.tally.ended, width=20)
        head.add_row(bar, Text(str(self.tally)))
        return Group(head, *lines, *failed)

    def _running(self) -> Iterator[str]:
        """Yield a line per running run. Runs start in order, so these are among the first that have not ended."""
        from tnlpad.records.store import RecordError, RunFolder

        for run_id, epochs in list(self.tally.epochs.items())[:MOST_RUNS_READ]:
            folder = RunFolder(self.out / run_id)
            with suppress(RecordError):  # a damaged run raises when it is resumed
                if folder.begun:
                    yield f"  epoch {len(folder.epochs()):>3}/{epochs}  {run_id}"
