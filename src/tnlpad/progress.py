"""Show the progress of one run on stderr: a live display on a terminal, lines now and then elsewhere.

The command line and `tnlpad.fit` share it.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from tnlpad.data.progress import SILENT, Reporter, Silent

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

OnStep = Callable[[int, int, int], None]
OnEpoch = Callable[[Mapping[str, Any]], None]

SECONDS_BETWEEN_LINES = 10
SECONDS_BETWEEN_EPOCH_LINES = 30
SECONDS_BETWEEN_RATES = 0.5


def stderr_console() -> "Console":
    """Return a console that prints to stderr."""
    from rich.console import Console

    return Console(stderr=True)


def is_watched() -> bool:
    """Whether a person sees stderr as it is written: in a terminal or a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel") or stderr_console().is_terminal


def _print(message: str) -> None:
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


@contextmanager
def progress_reporter(quiet: bool, *, samples: bool = False) -> Iterator[Reporter]:
    """Show the progress of reading and fetching data; `samples`: with their number per second."""
    if quiet:
        yield SILENT
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = stderr_console()
    if not console.is_terminal:
        yield _SampleLines() if samples else _Lines()
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        yield _ReporterBars(bars, samples=samples)


class _Lines(Silent):
    """Print messages, and no progress."""

    def say(self, message: str) -> None:
        _print(message)


class _SampleLines(_Lines):
    """A line now and then about a task that takes long."""

    def __init__(self) -> None:
        self.rates: dict[str, _Rate] = {}

    def progress(self, task: str, done: int, total: int) -> None:
        rate = self.rates.setdefault(task, _Rate(SECONDS_BETWEEN_LINES))
        if rate.due(done) and done < total:
            left = duration(rate.seconds_left(done, total))
            _print(f"{task}: {done:,} of {total:,} ({rate.text(done)}, {left} left)")
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

    reporter: Reporter
    on_step: OnStep
    on_epoch: OnEpoch


@contextmanager
def run_progress(epochs: int, quiet: bool) -> Iterator[RunProgress]:
    """Show the progress of one run: a bar on a terminal, else lines about some epochs, with the time that is left."""
    if quiet:
        yield RunProgress(SILENT, ignore, ignore)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = stderr_console()
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


def ignore(*_: Any) -> None:
    """Do nothing."""


class _EpochLines:
    """Print a line about the first epoch, the last, and every half minute; each but the last with the time left.

    During a long first epoch, the time is estimated from its steps, which leave out what is measured after an epoch.
    """

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self.began: float | None = None  # time from which the pace is measured
        self.start, self.printed = 0.0, 0.0  # epochs done at that time, and the time of the last line
        self.finished, self.estimated = False, False  # whether an epoch is over, and whether a line had the time left

    def on_step(self, epoch: int, step: int, steps: int) -> None:
        now, done = time.monotonic(), epoch - 1 + step / steps
        if self.began is None:
            self.began, self.start, self.printed = now, done, now
        elif now - self.printed >= SECONDS_BETWEEN_EPOCH_LINES:
            more = "" if self.finished else ", and more for measuring after each epoch"
            self._print_line(f"{epoch}/{self.epochs} step {step:,} of {steps:,}", done, more)

    def on_epoch(self, record: Mapping[str, Any]) -> None:
        first_or_last = not self.finished or record["epoch"] == self.epochs
        due = time.monotonic() - self.printed >= SECONDS_BETWEEN_EPOCH_LINES
        if first_or_last or due or not self.estimated:
            self._print_line(epoch_line(record, self.epochs), record["epoch"])
        if not self.finished:  # from here on an epoch is timed with its measurements, and without the start
            self.finished, self.began, self.start = True, time.monotonic(), record["epoch"]

    def _print_line(self, line: str, done: float, more: str = "") -> None:
        self.printed = time.monotonic()
        left = self._seconds_left(done)
        self.estimated = self.estimated or left is not None
        _print(line if left is None else f"{line} (about {duration(left)} left{more})")

    def _seconds_left(self, done: float) -> float | None:
        """Return the time for the other epochs at the pace so far; None if there are none or it is unknown."""
        if self.began is None or done <= self.start or done >= self.epochs:
            return None
        return (self.epochs - done) * (time.monotonic() - self.began) / (done - self.start)


def epoch_line(record: Mapping[str, Any], epochs: int) -> str:
    """Format an epoch's record, short enough to leave room for the bar."""
    reported = next(iter(record["judged"].values()))  # the first judged network is the one to ship
    test = "" if record["test_accuracy"] is None else f" test {100 * record['test_accuracy']:.1f} %"
    return (
        f"{record['epoch']}/{epochs} loss {record['train_loss']:.3f} val_loss {reported['validation_loss']:.3f} "
        f"val {100 * record['validation_accuracy']:.1f} %{test}"
    )


def duration(seconds: float) -> str:
    """Format a duration: "40 s", "12 min", "3.4 h", "1,240 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 10 else f"{hours:,.0f} h"
