"""Run attacks in a child process, which may die, hang or use up memory without harm to the others."""

import json
import os
import resource
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.faults.case import Case, Failure

SECONDS_PER_CASE = 30
MEMORY_PER_CASE = 1 << 30


def in_children(cases: Sequence[Case], attack: Callable[[Case], Failure | None]) -> list[Failure]:
    """Attack one case after the other and return how they failed; a child that dies fails the case it was at."""
    failures: list[Failure] = []
    left = list(cases)
    while left:
        results, ending = _until_death(left, attack)
        failures += filter(None, results)
        if len(results) < len(left):
            dead = left[len(results)]
            failures.append(Failure(case=dead, kind=f"{dead.kind}: {ending}", detail=""))
        left = left[len(results) + 1 :]
    return failures


def _until_death(cases: Sequence[Case], attack: Callable[[Case], Failure | None]) -> tuple[list[Failure | None], str]:
    """Attack cases in one child; return the results it came to, and how it ended."""
    with tempfile.TemporaryFile("w+") as results:
        child = os.fork()
        if not child:
            with _limited():
                for case in cases:
                    signal.setitimer(signal.ITIMER_REAL, SECONDS_PER_CASE)  # nobody handles the signal: it kills
                    failure = attack(case)
                    results.write(json.dumps(failure and [failure.kind, failure.detail]) + "\n")
                    results.flush()
        ending = how_it_ended(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        results.seek(0)
        lines = [json.loads(line) for line in results]
    pairs = zip(cases, lines, strict=False)
    return [line and Failure(case=case, kind=line[0], detail=line[1]) for case, line in pairs], ending


def how_it_ended(code: int) -> str:
    """Describe the exit code of a process."""
    if code == -signal.SIGALRM:
        return f"took more than {SECONDS_PER_CASE} seconds"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"


@contextmanager
def _limited() -> Iterator[None]:
    """Run the block with limits in this process, then exit without cleaning up what belongs to the parent."""
    code = 1
    try:
        warnings.simplefilter("ignore")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries for images print warnings of their own
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY_PER_CASE,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        yield
        code = 0
    finally:
        os._exit(code)
