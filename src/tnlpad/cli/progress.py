"""Progress on stderr: a live display on a terminal, lines elsewhere, nothing with `--quiet`."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from tnlpad.cli.output import say
from tnlpad.report.words import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from tnlpad.data.progress import Reporter

OnStep = Callable[[int, int, int], None]
OnEpoch = Callable[[Mapping[str, Any]], None]

SECONDS_BETWEEN_LINES = 10
SECONDS_BETWEEN_RATES = 0.5


def stderr_console() -> "Console":
    """Return a console that prints to stderr."""
    from rich.console import Console

    return Console(stderr=True)


def _ignore(*_: Any) -> None:
    """Do nothing."""


@contextmanager
def progress_reporter(quiet: bool, *, samples: bool = False) -> "Iterator[Reporter]":
    """Show the progress of reading and fetching data; `samples`: with their number per second."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = stderr_console()
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

    console = stderr_console()
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

    console = stderr_console()
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
    console = stderr_console()
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
