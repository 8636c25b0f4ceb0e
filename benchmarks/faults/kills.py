"""Kill commands, interrupt them, and fill their disk: the same command must then finish with the same result.

`operations` strikes at every file operation; `disks` lets the disk be full from one on; `moments` strikes from outside
at any time, up to three times in a row. After each, nothing may hang, print a traceback, or be
left behind once the command has finished.
"""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from math import gcd
from pathlib import Path

from benchmarks.faults.case import Case, Failure
from benchmarks.faults.commands import COMMANDS, FORKED, POLL_SECONDS, Ended, Workplace, end_of
from benchmarks.faults.file_operations import FileOperations, disk_full, send

MAX_IN_A_ROW = 3
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
ORPHAN_SECONDS = 30  # in which processes notice that the one that started them is gone

Wrong = tuple[str, str]  # in few words, and in detail


class Kills:
    """Attack commands in a folder, in one way. `struck` counts the processes that each signal ended.

    Args:
        folder: Where to work.
        seed: Of everything random.
        kinds: Names of the commands.
        strike: Attacks a command once or several times; returns what is wrong with how it ended.
    """

    def __init__(
        self, folder: Path, seed: int, kinds: Sequence[str], strike: Callable[[Workplace, Case, int], Wrong | None]
    ) -> None:
        self.folder, self.seed, self.kinds, self.strike = folder, seed, kinds, strike
        self.workplaces: dict[str, Workplace] = {}
        self.struck: Counter[str] = Counter()

    def batch(self, kind: str) -> int:
        """Return how many attacks are made at once: few of commands that take long."""
        return 1 if COMMANDS[kind].started else 4

    def attack(self, cases: Sequence[Case]) -> list[Failure]:
        """Attack a command once for each case, and return what went wrong."""
        kind = cases[0].kind
        if kind not in self.workplaces:
            self.workplaces[kind] = Workplace(self.folder / kind, kind)
        return [failure for case in cases if (failure := self._attack(self.workplaces[kind], case))]

    def _attack(self, workplace: Workplace, case: Case) -> Failure | None:
        workplace.begin()
        wrong = self.strike(workplace, case, self.seed) or finishes_the_same(workplace)
        self.struck += workplace.struck
        workplace.struck.clear()
        return wrong and Failure(case=case, kind=f"{case.part} {case.kind}: {wrong[0]}", detail=wrong[1])


def spread(number: int, operations: int) -> int:
    """Return the operation to strike at. Operations of successive numbers are far apart; each comes once in a round."""
    near_golden = max(1, round(0.618 * operations))
    step = next(each for each in count(near_golden) if gcd(each, operations) == 1)
    return number * step % operations + 1


def at_operation(workplace: Workplace, case: Case, seed: int) -> Wrong | None:
    """Strike at a file operation: kill, kill in the middle of a write, terminate, interrupt. Each round is another."""
    at, way = spread(case.number, workplace.operations), (case.number + case.number // workplace.operations) % 4
    number = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[way]
    operations = FileOperations(workplace.place, at, send(number), halves=way == 1)
    ended = workplace.run(operations.install)
    workplace.count(number, ended)
    return wrong_end(ended, number, f"at operation {at}")


def full_disk(workplace: Workplace, case: Case, seed: int) -> Wrong | None:
    """Let the disk be full from a file operation on."""
    at = spread(case.number, workplace.operations)
    ended = workplace.run(FileOperations(workplace.place, at, disk_full, lasting=True).install)
    if ended.code in (0, 1) and not ended.has_traceback and ("Error: " in ended.errors) == (ended.code == 1):
        return None
    return f"a full disk ends it with {ended.code}", f"from operation {at} on\n{ended.errors}"


def at_moment(workplace: Workplace, case: Case, seed: int) -> Wrong | None:
    """Strike from outside at any time, up to three times."""
    draw = case.draw(seed)
    for _ in range(draw.randint(1, MAX_IN_A_ROW)):
        if workplace.content() == workplace.expected:
            break  # complete already, and some commands do not write twice
        number, delay = draw.choice(SIGNALS), draw.random() * workplace.seconds
        child = workplace.start()
        time.sleep(delay)
        if os.waitpid(child, os.WNOHANG) != (0, 0):
            continue  # it was faster
        os.killpg(child, number) if number is signal.SIGINT else os.kill(child, number)  # a terminal tells them all
        ended = end_of(child, workplace.errors)
        workplace.count(number, ended)
        wrong = wrong_end(ended, number, f"after {delay:.3f} s") or orphans(child)
        if wrong:
            return wrong
    return None


def orphans(child: int) -> Wrong | None:
    """Wait for the processes that a dead one has started."""
    limit = time.monotonic() + ORPHAN_SECONDS
    while time.monotonic() < limit:
        try:
            os.killpg(child, 0)
        except ProcessLookupError:
            return None
        time.sleep(POLL_SECONDS)
    os.killpg(child, signal.SIGKILL)
    return "leaves processes behind", ""


WAYS: dict[str, Callable[[Path, int], Kills]] = {
    "operations": partial(Kills, kinds=FORKED, strike=at_operation),
    "disks": partial(Kills, kinds=FORKED, strike=full_disk),
    "moments": partial(Kills, kinds=tuple(COMMANDS), strike=at_moment),
}


def wrong_end(ended: Ended, number: signal.Signals, when: str) -> Wrong | None:
    """Return what is wrong with how a command ended after a signal."""
    if ended.code is None:
        return f"hangs after {number.name}", f"{when}\n{ended.errors}"
    if number is signal.SIGINT and ended.by_interpreter:
        return None
    if ended.has_traceback:
        return f"{number.name} prints a traceback", f"{when}\n{ended.errors}"
    allowed = (0, 130) if number is signal.SIGINT else (0, -number)
    if ended.code not in allowed or (ended.code == 130 and "Interrupted." not in ended.errors):
        return f"{number.name} ends it with {ended.code}", f"{when}\n{ended.errors}"
    return None


def finishes_the_same(workplace: Workplace) -> Wrong | None:
    """Run the command again; return how its result differs from that of an undisturbed one."""
    ended = workplace.run()
    if ended.code is None:
        return "hangs when it is run again", ended.errors
    found = workplace.content()
    names = {*found, *workplace.expected}
    different = sorted(name for name in names if found.get(name) != workplace.expected.get(name))
    if different and ended.code:
        return f"run again, it ends with {ended.code}", ended.errors
    if left := workplace.leftovers():
        return "leaves files behind", "\n".join(left)
    return ("has another result", "\n".join(different)) if different else None
