"""How a single run goes on."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tnlpad.cli.output import say

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
