"""Progress on stderr: a live display on a terminal, lines elsewhere, nothing with `--quiet`."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from heapq import heapify, heapreplace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tnlpad.cli.output import say
from tnlpad.report.words import counted

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress, TaskID

    from tnlpad.data.progress import Reporter
    from tnlpad.grid.grid import Ended
    from tnlpad.runs.config import RunConfig

OnStep = Callable[[int, int, int], None]
OnEpoch = Callable[[Mapping[str, Any]], None]

SECONDS_BETWEEN_LINES = 10
SECONDS_BETWEEN_RATES = 0.5
MOST_RUNS_SHOWN = 8
MOST_RUNS_READ = 4 * MOST_RUNS_SHOWN  # every second, and perhaps over a network


def _console() -> "Console":
    from rich.console import Console

    return Console(stderr=True)


def _ignore(*_: Any) -> None:
    """Do nothing."""


@contextmanager
def progress_reporter(quiet: bool, *, samples: bool = False) -> "Iterator[Reporter]":
    """Show the progress of reading and fetching data; `samples`: with their number per second."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = _console()
    if quiet or not console.is_terminal:
        yield _SampleLines() if samples and not quiet else _ReporterLines(quiet)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        yield _ReporterBars(bars, samples=samples)


class _ReporterLines:
    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet

    def say(self, message: str) -> None:
        say(message, self.quiet)

    def progress(self, task: str, done: int, total: int) -> None: ...


class _SampleLines(_ReporterLines):
    """A line now and then about a task that takes long."""

    def __init__(self) -> None:
        super().__init__(quiet=False)
        self.rates: dict[str, _Rate] = {}

    def progress(self, task: str, done: int, total: int) -> None:
        rate = self.rates.setdefault(task, _Rate(SECONDS_BETWEEN_LINES))
        if rate.due(done) and done < total:
            say(f"{task}: {done:,} of {total:,} ({rate.text(done)}, {duration(rate.seconds_left(done, total))} left)")
        if done >= total:
            del self.rates[task]


class _Rate:
    """Samples per second since the first report, and whether it is time for a line."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.began = seconds, time.monotonic()
        self.last, self.first = self.began, 0

    def due(self, done: int) -> bool:
        now, self.first = time.monotonic(), self.first or done
        if now - self.last < self.seconds:
            return False
        self.last = now
        return True

    def per_second(self, done: int) -> float:
        return (done - self.first) / max(time.monotonic() - self.began, 1e-9)

    def text(self, done: int) -> str:
        return f"{self.per_second(done):,.0f}/s"

    def seconds_left(self, done: int, total: int) -> float:
        return (total - done) / max(self.per_second(done), 1e-9)


class _ReporterBars:
    """One bar per task, removed when the task is done."""

    def __init__(self, bars: "Progress", *, samples: bool = False) -> None:
        self.bars, self.samples = bars, samples
        self.tasks: dict[str, TaskID] = {}
        self.rates: dict[str, _Rate] = {}

    def say(self, message: str) -> None:
        self.bars.console.print(message, markup=False, highlight=False, soft_wrap=True)

    def progress(self, task: str, done: int, total: int) -> None:
        if task not in self.tasks:
            self.tasks[task] = self.bars.add_task(task, total=total)
        self.bars.update(self.tasks[task], completed=done, total=total)
        if self.samples:
            rate = self.rates.setdefault(task, _Rate(SECONDS_BETWEEN_RATES))
            if rate.due(done):
                self.bars.update(self.tasks[task], description=f"{task} ({rate.text(done)})")
        if done >= total:
            self.bars.remove_task(self.tasks.pop(task))
            self.rates.pop(task, None)


class RunProgress(NamedTuple):
    """Callbacks of one run: for preparing its data, for each step, and for each epoch."""

    reporter: "Reporter"
    on_step: OnStep
    on_epoch: OnEpoch


@contextmanager
def run_progress(epochs: int, quiet: bool) -> Iterator[RunProgress]:
    """Show the progress of one run: a bar on a terminal, else a line per epoch, and the time after the first one."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = _console()
    if quiet:
        yield RunProgress(_ReporterLines(quiet=True), _ignore, _ignore)
        return
    if not console.is_terminal:
        lines = _EpochLines(epochs)
        yield RunProgress(_SampleLines(), lines.on_step, lines.on_epoch)
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=10), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=console) as bars:
        training: list[TaskID] = []

        def on_step(epoch: int, step: int, steps: int) -> None:
            if not training:  # a resumed run starts in the middle: the time per epoch counts from there
                training.append(bars.add_task("Training", total=epochs, completed=epoch - 1))
            bars.update(training[0], completed=epoch - 1 + step / steps)

        def on_epoch(record: Mapping[str, Any]) -> None:
            if training:
                bars.update(training[0], description=epoch_line(record, epochs))

        yield RunProgress(_ReporterBars(bars, samples=True), on_step, on_epoch)


class _EpochLines:
    """A line per epoch; after the first one also the time that the others will take."""

    def __init__(self, epochs: int) -> None:
        self.epochs, self.began, self.first = epochs, 0.0, True

    def on_step(self, epoch: int, step: int, steps: int) -> None:
        self.began = self.began or time.monotonic()

    def on_epoch(self, record: Mapping[str, Any]) -> None:
        say(epoch_line(record, self.epochs))
        left = (self.epochs - record["epoch"]) * (time.monotonic() - self.began)
        if self.first and self.began and left >= SECONDS_BETWEEN_LINES:
            say(f"About {duration(left)} left.")
        self.first = False


def epoch_line(record: Mapping[str, Any], epochs: int) -> str:
    """Format an epoch's record, short enough to leave room for the bar."""
    reported = next(iter(record["judged"].values()))  # the first judged network is the one to ship
    test = "" if record["test_accuracy"] is None else f" test {100 * record['test_accuracy']:.1f} %"
    return (
        f"{record['epoch']}/{epochs} loss {record['train_loss']:.3f} val_loss {reported['validation_loss']:.3f} "
        f"val {100 * record['validation_accuracy']:.1f} %{test}"
    )


@contextmanager
def count_progress(quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show how many of some runs are done: a bar on a terminal, else a line per run."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = _console()
    if quiet:
        yield _ignore
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
    console = _console()
    if quiet:
        yield _ignore
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

    console = _console()
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


def duration(seconds: float) -> str:
    """Format a duration: "40 s", "12 min", "3.4 h", "1,240 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 10 else f"{hours:,.0f} h"


def machine_time(seconds: float, kind: str) -> str:
    """Format machine time: "12.3 GPU hours", "4 CPU minutes", "40 CPU seconds"."""
    if seconds >= 3600:
        return f"{seconds / 3600:,.{0 if seconds >= 360_000 else 1}f} {kind} hours"
    if seconds >= 100:
        return f"{seconds / 60:.0f} {kind} minutes"
    return counted(max(1, round(seconds)), f"{kind} second")


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
