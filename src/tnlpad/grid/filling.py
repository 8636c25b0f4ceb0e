"""Find how many runs at once are fastest on a GPU, while they train.

The number that is best depends on the GPU, the network and the processor beside it. So runs begin with a number that is
known to be good. When each of them has finished two more epochs, this class compares how fast all of them are together
with a third more runs. It keeps the larger number if that is faster by 3 %, and tries again; otherwise it goes back: no
run is stopped, but those in excess are not followed by others.

The speed of a run is relative to its recorded speed alone, so that runs of different networks can be added up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Job = TypeVar("Job")
GAIN = 1.03  # speed-up from which more runs are worth their memory
EPOCHS = 2  # epochs of each run until a measurement: the first may have begun before the other runs


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Number of finished epochs of a run, and its speed in the last one."""

    epochs: int
    speed: float


class Filling(Generic[Job]):
    """Choose the number of parallel runs; call it again and again with the jobs that are running.

    Args:
        start: The number to begin with.
        most: The largest number, which memory and processors allow.
        progress: Returns the progress of a job; None before its first epoch has ended.
        say: Called with one line about what was found.
    """

    def __init__(
        self, *, start: int, most: int, progress: Callable[[Job], Progress | None], say: Callable[[str], None]
    ) -> None:
        self.allowed, self.most, self.progress, self.say = start, most, progress, say
        self.settled = start >= most
        self._speeds: list[tuple[int, float]] = []  # numbers of runs that were tried, with their speed
        self._running: list[Job] = []
        self._epochs: list[int] = []  # of these when they began to run together

    def __call__(self, running: Sequence[Job]) -> int:
        """Return how many may run."""
        if self.settled or len(running) != self.allowed:
            return self.allowed
        found = [self.progress(job) for job in running]
        if list(running) != self._running:
            self._running, self._epochs = list(running), [each.epochs if each else 0 for each in found]
            return self.allowed
        ready = [
            each for each, before in zip(found, self._epochs, strict=True) if each and each.epochs >= before + EPOCHS
        ]
        if len(ready) == len(found):
            self._decide(sum(each.speed for each in ready))
        return self.allowed

    def _decide(self, speed: float) -> None:
        count = self.allowed
        if self._speeds and speed < GAIN * self._speeds[-1][1]:
            self.allowed, before = self._speeds[-1]
            self.settled = True
            self.say(f"{count} runs at once train {speed / before:.2f} times as fast as {self.allowed}: back to these.")
            return
        if self._speeds:
            fewer, before = self._speeds[-1]
            self.say(f"{count} runs at once train {speed / before:.2f} times as fast as {fewer}.")
        self._speeds.append((count, speed))
        self.settled = count >= self.most
        self.allowed = min(self.most, count + max(1, count // 3))
