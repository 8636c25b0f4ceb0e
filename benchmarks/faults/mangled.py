"""Read mangled inputs: each must be read, or refused with an error of this project, within limits of time and memory."""

import json
import linecache
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.faults.case import Case, Failure
from benchmarks.faults.inputs import KINDS
from benchmarks.faults.mangle import mangled

PART = "mangled"
SECONDS_PER_INPUT = 20
MEMORY_PER_INPUT = 1 << 30
PACKAGE = f"{os.sep}tnlpad{os.sep}"


class Inputs:
    """Samples of all kinds, written once, in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sample(self, kind: str) -> Path:
        """Return the folder of a sample; write it at the first call."""
        place = self.folder / "samples" / kind / "sample"
        if not place.exists():
            place.mkdir(parents=True)
            KINDS[kind].write(place)
            KINDS[kind].read(place)  # an undamaged sample must be readable
        return place

    def attack(self, cases: Sequence[Case], seed: int) -> list[Failure]:
        """Read the mangled inputs of some cases of one kind, and return how the reader failed."""
        failures: list[Failure] = []
        left = list(cases)
        while left:
            done, found, ended = self._attack_until_death(left, seed)
            failures += found
            if done < len(left):
                failures.append(Failure(case=left[done], kind=f"{left[done].kind}: {ended}", detail=ended))
            left = left[done + 1 :]
        return failures

    def _attack_until_death(self, cases: Sequence[Case], seed: int) -> tuple[int, list[Failure], str]:
        """Read inputs in a child; return how many it has read, how they failed, and how the child ended."""
        sample = self.sample(cases[0].kind)
        with tempfile.TemporaryDirectory(dir=self.folder) as folder, tempfile.TemporaryFile("w+") as results:
            place = Path(folder) / "input"
            child = os.fork()
            if not child:
                with _leaving():
                    shutil.copytree(sample, place)
                    for case in cases:
                        signal.setitimer(signal.ITIMER_REAL, SECONDS_PER_INPUT)  # nobody handles it: it kills
                        failure = read_mangled(case, seed, place)
                        results.write(json.dumps(failure and [failure.kind, failure.detail]) + "\n")
                        results.flush()
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            results.seek(0)
            lines = [json.loads(line) for line in results]
        found = [
            Failure(case=case, kind=line[0], detail=line[1])
            for case, line in zip(cases, lines, strict=False)
            if line is not None
        ]
        return len(lines), found, _ending(status)


def _ending(status: int) -> str:
    if status == -signal.SIGALRM:
        return f"took more than {SECONDS_PER_INPUT} seconds"
    return f"the process was killed by {signal.Signals(-status).name}" if status < 0 else f"the process exited with {status}"


@contextmanager
def _leaving() -> Iterator[None]:
    """Limit this process, run the block, and exit without cleaning up for the parent."""
    code = 1
    try:
        warnings.simplefilter("ignore")
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)  # libraries for images print their own warnings
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_PER_INPUT, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        yield
        code = 0
    finally:
        os._exit(code)


def read_mangled(case: Case, seed: int, place: Path) -> Failure | None:
    """Mangle a file of the sample in a folder, read the sample, and restore the file; return how the reader failed."""
    draw = case.draw(seed)
    file = draw.choice(sorted(path for path in place.rglob("*") if path.is_file()))
    content = file.read_bytes()
    file.write_bytes(mangled(file.name, content, draw))
    try:
        KINDS[case.kind].read(place)
    except Exception as error:
        if not is_ours(error):
            return Failure(case=case, kind=brief(error), detail=f"{file.relative_to(place)}\n{traced(error)}")
    finally:
        file.write_bytes(content)
    return None


def is_ours(error: BaseException) -> bool:
    """Return whether an error is one that the project promises: its own kinds, and ValueErrors that it raises itself."""
    from tnlpad.errors import DataError, NoiseDataError
    from tnlpad.records.store import RecordError
    from tnlpad.training.checkpoint import CheckpointError

    if isinstance(error, (DataError, NoiseDataError, RecordError, CheckpointError)):
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    raised = linecache.getline(last.filename, last.lineno or 0).lstrip().startswith("raise ")
    return type(error) is ValueError and PACKAGE in last.filename and raised


def brief(error: BaseException) -> str:
    """Return the kind of an error and the last line of ours that it passed."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if PACKAGE in frame.filename]
    place = f"{ours[-1].filename.rpartition(PACKAGE)[2]}:{ours[-1].lineno} {ours[-1].name}" if ours else "outside"
    return f"{type(error).__name__} at {place}"


def traced(error: BaseException) -> str:
    """Return the end of the traceback of an error."""
    lines = "".join(traceback.format_exception(error)).splitlines()
    return "\n".join(line[:200] for line in lines[-14:])


if __name__ == "__main__":
    sys.exit("python -m benchmarks.soak runs this.")
