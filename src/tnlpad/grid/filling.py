"""Find how many runs at once are fastest on a GPU, while they train.

The best number depends on the GPU, the network and the processor beside it. So it is found for each kind of run (a
network on a dataset), from the number on that was fastest where it was measured. `Search` compares two numbers at a
time. Both are judged by the same runs: each is compared with itself, since runs of other methods take other times. No
run is stopped: to try a smaller number, runs that end are not followed by others.

A run of a kind of which n run at once takes up 1/n of the GPU. A run starts as soon as there is room for it, so kinds
can mix, but speeds are measured only while all runs are of one kind. Each run gets its share of the GPU's processors
from the number at which it starts, and keeps it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from statistics import fmean, median

from tnlpad.grid.grid import Job, job_folder
from tnlpad.grid.mps import AtOnce, Kind, kind_of, share_environment
from tnlpad.records.store import RecordError, RunFolder

GAIN = 1.03  # speed-up from which more runs are worth their memory
EPOCHS = 3  # epochs of each run for a measurement; the first may have begun before the other runs trained


class Search:
    """The number of parallel runs of one kind: the numbers that may be best, of which two neighbours are compared.

    The arguments are those of `AtOnce`.
    """

    def __init__(self, *, start: int, most: int, least: int = 1) -> None:
        self._left = [start]
        while self._left[0] > least:
            self._left.insert(0, max(least, self._left[0] * 2 // 3))
        while self._left[-1] < most:
            self._left.append(min(most, self._left[-1] + max(1, self._left[-1] // 2)))
        self._seconds: dict[int, dict[str, float]] = {}  # seconds per epoch of each run, by the number of runs
        self.number, self._rival = start, self._neighbour(start)

    @property
    def settled(self) -> bool:
        """Whether one number is left."""
        return len(self._left) == 1

    def take(self, seconds: dict[str, float]) -> str | None:
        """Take the seconds per epoch of runs while `number` run at once; return what was found, if it is something.

        Then `number` is the one to measure next, or the best one.
        """
        self._seconds[self.number] = seconds
        low, high = sorted((self.number, self._rival))
        few, many = (self._seconds.get(number, {}) for number in (low, high))
        slower = [many[run] / few[run] for run in many.keys() & few.keys()]
        if 2 * len(slower) < low:  # too many have ended: measure the rival with the runs that train now
            self.number, self._rival = self._rival, self.number
            return None
        gain = high / low / median(slower)
        best = high if gain >= GAIN else low
        self._left = [each for each in self._left if (each > low if best == high else each < high)]
        self.number, self._rival = self._neighbour(best), best
        found = f"{high} runs at once train {gain:.2f} times as fast as {low}"
        return f"{found}, and {best} {'are' if best > 1 else 'is'} kept." if self.settled else f"{found}."

    def _neighbour(self, number: int) -> int:
        """Return the next larger number that is left, or else the next smaller one, or else the number itself."""
        larger, smaller = [each for each in self._left if each > number], [each for each in self._left if each < number]
        return larger[0] if larger else smaller[-1] if smaller else number


class Filling:
    """Choose which run may start when; an `admit` of `executors.execute`.

    Args:
        numbers: The numbers that may be tried, for each kind of run.
        shares: Whether runs get a share of the GPU's processors.
        say: Called with one line about what was found.
        seconds: Returns the seconds of each finished epoch of a job.
    """

    def __init__(
        self,
        numbers: Mapping[Kind, AtOnce],
        *,
        shares: bool,
        say: Callable[[str], None],
        seconds: "Callable[[Job], Sequence[float]] | None" = None,
    ) -> None:
        self.searches = {kind: Search(**asdict(number)) for kind, number in numbers.items()}
        self.shares, self.say, self.seconds = shares, say, seconds or epoch_seconds
        self._epochs: dict[str, int] = {}  # finished epochs of each run when a measurement began
        self._all_train = False  # before that, some may be compiling

    def __call__(self, job: Job, running: Sequence[Job]) -> Mapping[str, str] | None:
        """Return the environment variables with which the job may start, or None if it has to wait."""
        self._measure(running)
        number = self._search(job).number
        if self._taken(running) + Fraction(1, number) > 1:
            return None
        return share_environment(number) if self.shares else {}

    def _search(self, job: Job) -> Search:
        return self.searches[kind_of(job.config)]

    def _taken(self, running: Iterable[Job]) -> Fraction:
        return sum((Fraction(1, self._search(job).number) for job in running), Fraction())

    def _measure(self, running: Sequence[Job]) -> None:
        kinds = {kind_of(job.config) for job in running}
        if len(kinds) != 1 or (search := self._search(running[0])).settled or len(running) != search.number:
            self._epochs = {}
            return
        seconds = {job.run_id: self.seconds(job) for job in running}
        finished = {run: len(its) for run, its in seconds.items()}
        if finished.keys() != self._epochs.keys():
            self._epochs, self._all_train = finished, False
            return
        awaited = EPOCHS if self._all_train else 1
        if any(finished[run] < before + awaited for run, before in self._epochs.items()):
            return
        if not self._all_train:
            self._epochs, self._all_train = finished, True
        elif found := search.take({run: fmean(its[1 - EPOCHS :]) for run, its in seconds.items()}):
            self.say(f"{running[0].config['network']}: {found}")


def epoch_seconds(job: Job) -> list[float]:
    """Return the seconds of training of each finished epoch of a job."""
    try:
        return [max(float(epoch["seconds"]["training"]), 1e-9) for epoch in RunFolder(job_folder(job)).epochs()]
    except (RecordError, OSError, LookupError, TypeError, ValueError):  # not begun, or being written
        return []
