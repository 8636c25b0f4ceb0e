"""How a single run goes on.

A grid's progress on stderr: a live display where someone is looking, a line for every run where not.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from heapq import heapify, heapreplace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tnlpad.cli.output import say
from tnlpad.report.words import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tnlpad.grid.grid import Ended
    from tnlpad.runs.config import RunConfig

OnStep = Callable[[int, int, int], None]
OnEpoch = Callable[[Mapping[str, Any]], None]


def _nothing(*_: Any) -> None:
    """For when nobody wants to know."""


@contextmanager
def run_progress(epochs: int, quiet: bool) -> Iterator[tuple[OnStep, OnEpoch]]:
    """A bar on stderr when someone is looking; a line for every epoch when not."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if quiet:
        yield _nothing, _nothing
        return
    if not console.is_terminal:
        yield _nothing, lambda record: say(epoch_line(record, epochs))
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=10), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("starting", total=epochs)

        def on_step(epoch: int, step: int, steps: int) -> None:
            # A resumed run begins in the middle: what was done before says nothing about the time left.
            if bar.tasks[0].completed == 0:
                bar.reset(task, completed=epoch - 1)
            bar.update(task, completed=epoch - 1 + step / steps)

        yield on_step, lambda record: bar.update(task, description=epoch_line(record, epochs))


def epoch_line(record: Mapping[str, Any], epochs: int) -> str:
    """An epoch's record, short enough to leave room for the bar."""
    reported = next(iter(record["judged"].values()))  # the first judged network is the one to ship
    test = "" if record["test_accuracy"] is None else f" test {100 * record['test_accuracy']:.1f} %"
    return (
        f"{record['epoch']}/{epochs} loss {record['train_loss']:.3f} "
        f"validation {reported['validation_loss']:.3f}, {100 * record['validation_accuracy']:.1f} %{test}"
    )


SHOWN_AT_WORK = 8
SECONDS_BETWEEN_LINES = 10
LOOKED_AT = 4 * SHOWN_AT_WORK  # every second, and perhaps over a network


class Progress(Protocol):
    """Whoever is told how a grid goes on."""

    def on_end(self, ended: "Ended") -> None:
        """A run has ended."""

    def on_wait(self, count: int) -> None:
        """Only runs of other processes are left, so many."""


@contextmanager
def grid_progress(
    configs: "Sequence[RunConfig]", expected: Mapping[str, float | None], out: Path, places: int | None, quiet: bool
) -> "Iterator[Progress]":
    """Shows how these runs go on.

    Args:
        configs: The runs, in the order in which they start.
        expected: Seconds that each is expected to take, by its name; None where nobody knows.
        out: The folder of runs, where those at work are looked up.
        places: How many run at once; None where nobody knows.
        quiet: Show nothing.
    """
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    tally = Tally(configs, expected, places)
    if quiet:
        yield _Silent()
    elif not console.is_terminal:
        yield _Lines(tally)
    else:
        display = _Display(tally, out)
        with Live(get_renderable=display.render, console=console, refresh_per_second=1, transient=True):
            yield display


@contextmanager
def telling(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Shows what someone says about a long computation; where no one is looking, a line now and then."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet:
        yield lambda words: None
    elif console.is_terminal:
        with console.status("") as status:
            yield status.update
    else:
        yield _now_and_then(SECONDS_BETWEEN_LINES)


def _now_and_then(seconds: float) -> Callable[[str], None]:
    last = time.monotonic() - seconds

    def tell(words: str) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            say(words)

    return tell


class Tally:
    """How many runs ended and how, and how long the others will take.

    Runs start in order, as many at once as there are places, and each end makes room for the next: so it is known how
    long those at work have been at it. What a run takes is what was expected of it, corrected by what those that ended
    have taken of theirs. Without a number of places, as on a cluster, the pace is that of all since the start.
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
        self._taken, self._was_expected = 0.0, 0.0  # of those that ended, together
        self._next = iter(list(self.epochs))
        self._start, self._began = time.monotonic(), dict[str, float]()  # of all, and of each that is at work
        self._places_known = places is not None
        for _ in range(places or 0):
            self._start_next()

    def on_end(self, ended: "Ended") -> None:
        self.ended += 1
        self.failed += ended.failure is not None
        self.epochs.pop(ended.run_id, None)
        expected = self._expected.pop(ended.run_id, 0.0)
        if ended.failure is None and ended.seconds is not None:  # a failure says nothing about the others
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
        """Until the last place is empty; None as long as nothing is known."""
        now = time.monotonic()
        # The display's thread asks while runs end in another.
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
                heapreplace(places, places[0] + pace * expected)  # the first place that is free
        return max(places, default=0.0)

    def __str__(self) -> str:
        parts = [f"{self.ended:,} of {counted(self.total, 'run')}"]
        parts += [f"{self.failed} failed"] if self.failed else []
        left = self.seconds_left
        parts += [f"{duration(left)} left"] if left is not None and left >= 1 and self.ended < self.total else []
        parts += [f"waiting for {self.waiting} of another process"] if self.waiting else []
        return ", ".join(parts)


def duration(seconds: float) -> str:
    """In the unit that fits: "40 s", "12 min", "3.4 h", "1,240 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 10 else f"{hours:,.0f} h"


def machine_time(seconds: float, kind: str) -> str:
    """As it is counted out: "12.3 GPU hours", "4 CPU minutes", "40 CPU seconds"."""
    if seconds >= 3600:
        return f"{seconds / 3600:,.{0 if seconds >= 360_000 else 1}f} {kind} hours"
    if seconds >= 100:
        return f"{seconds / 60:.0f} {kind} minutes"
    return counted(max(1, round(seconds)), f"{kind} second")


def in_a_line(ended: "Ended") -> str:
    """A run and how it ended."""
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
        say(f"{in_a_line(ended)} ({self.tally})")

    def on_wait(self, count: int) -> None:
        if count != self.tally.waiting:
            self.tally.waiting = count
            say(str(self.tally))


class _Display:
    """A bar, the runs at work with their epochs, and the last failure."""

    def __init__(self, tally: Tally, out: Path) -> None:
        self.tally, self.out, self.failure = tally, out, ""

    def on_end(self, ended: "Ended") -> None:
        self.tally.on_end(ended)
        if ended.failure is not None:
            self.failure = in_a_line(ended)

    def on_wait(self, count: int) -> None:
        self.tally.waiting = count

    def render(self) -> "RenderableType":
        """Called by the display's own thread, once a second."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        at_work = islice(self._at_work(), SHOWN_AT_WORK)
        lines = [Text(line, no_wrap=True, overflow="ellipsis") for line in at_work]
        failed = [Text(self.failure, style="red", no_wrap=True, overflow="ellipsis")] if self.failure else []
        head = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=self.tally.total, completed=self.tally.ended, width=20)
        head.add_row(bar, Text(str(self.tally)))
        return Group(head, *lines, *failed)

    def _at_work(self) -> Iterator[str]:
        """Runs start in order, so those at work are among the first that have not ended."""
        from tnlpad.records.store import RecordError, RunFolder

        for run_id, epochs in list(self.tally.epochs.items())[:LOOKED_AT]:
            folder = RunFolder(self.out / run_id)
            with suppress(RecordError):  # damaged: it will say so itself
                if folder.begun:
                    yield f"  epoch {len(folder.epochs()):>3}/{epochs}  {run_id}"
