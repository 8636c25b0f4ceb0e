"""Commands of the program to attack, each with the files that it needs, run in processes that cost little.

Most are forked from this process, which has imported everything already. So a command takes tenths of a second. Others
are started as a user does, to attack them while they start, or because they start processes of their own.
"""

import hashlib
import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.faults import samples

HANGING_SECONDS = 120
CACHE = "cache"
TIMES = ("seconds", "sha256")  # keys of records that hold durations, or checksums over such files
POLL_SECONDS = 0.005
HELD_BACK = {signal.SIGINT, signal.SIGTERM}

Words = Callable[[Path], list[str]]


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command to attack.

    Args:
        words: Its words, for the folder that it works in.
        data: The kind of data that are there; none if it is empty.
        trained: Whether a finished run on them is there as well.
        started: Whether it is started as a user does, and not forked.
    """

    words: Words
    data: str = ""
    trained: bool = True
    started: bool = False


def _train(folder: Path, kind: str) -> list[str]:
    words = ["train", str(samples.data_of(folder, kind)), "--out", str(folder / "runs"), "--backbone", "none"]
    return [*words, "--set", "epochs=3", "--checkpoint-every", "0"]


def _run(folder: Path) -> str:
    return str(next(path.parent for path in folder.glob("runs/*/config.json")))


def _suspects(folder: Path) -> list[str]:
    formats = "csv,html,parquet,label-studio,cleanlab"
    return ["suspects", _run(folder), "--out", str(folder / "list"), "--format", formats]


COMMANDS: Mapping[str, Command] = {
    **{
        f"train {kind}": Command(words=lambda folder, kind=kind: _train(folder, kind), data=kind, trained=False)
        for kind in ("features", "texts", "photos")
    },
    "suspects": Command(words=_suspects, data="photos"),
    "clean table": Command(
        words=lambda folder: ["clean", _run(folder), "--out", str(folder / "new.csv"), "--top", "3"], data="table"
    ),
    "clean photos": Command(
        words=lambda folder: ["clean", _run(folder), "--out", str(folder / "new"), "--top", "3"], data="photos"
    ),
    "predict": Command(
        words=lambda folder: [
            *("predict", _run(folder), str(samples.data_of(folder, "texts"))),
            *("--out", str(folder / "predicted.csv")),
        ],
        data="texts",
    ),
    "audit": Command(words=lambda folder: ["audit", _run(folder), "--sample", "9"], data="features"),
    "report": Command(
        words=lambda folder: ["report", str(folder / "runs"), "--archive", str(folder / "archive")], data="digits"
    ),
    "export": Command(
        words=lambda folder: ["export", _run(folder), "--safetensors", "--out", str(folder / "network.safetensors")],
        data="features",
    ),
    "noise": Command(
        words=lambda folder: ["noise", "digits", "--noise", "instance:0.2", "--out", str(folder / "labels.npz")],
        trained=False,
    ),
    "prepare": Command(
        words=lambda folder: ["data", "prepare", str(samples.data_of(folder, "photos")), "--resize", "6"],
        data="photos",
        trained=False,
    ),
    "tune": Command(
        words=lambda folder: [
            *("tune", str(samples.data_of(folder, "features")), "--values", "0.5,1", "--seeds", "1", "--jobs", "1"),
            *("--set", "epochs=2", "--out", str(folder / "runs")),
        ],
        data="features",
        trained=False,
    ),
    "suspects, started": Command(words=_suspects, data="features", started=True),
    "reproduce, started": Command(
        words=lambda folder: [
            *("reproduce", "smoke", "--methods", "standard,tnlpad", "--seeds", "1", "--set", "epochs=2"),
            *("--jobs", "2", "--device", "cpu", "--out", str(folder / "runs")),
        ],
        trained=False,
        started=True,
    ),
}
FORKED = tuple(name for name, command in COMMANDS.items() if not command.started)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The end of a process: its exit code, negative for a signal, None if it had to be killed; and what it printed."""

    code: int | None
    errors: str

    @property
    def has_traceback(self) -> bool:
        return "Traceback (most recent call last)" in self.errors

    @property
    def by_interpreter(self) -> bool:
        """Whether Python itself was interrupted while it started, before any line of the program."""
        return (self.code == -signal.SIGINT and not self.errors) or (
            self.has_traceback and ", in main" not in self.errors
        )


def forked(words: Sequence[str], folder: Path, errors: Path, prepare: Callable[[], object] = lambda: None) -> int:
    """Start a command in a process and process group of its own, after `prepare` there; return its id.

    A signal may come before the child runs its first line. It is held back until the command handles it. Signals do
    what they do to a new process, whatever handlers this one has: libraries set some, such as Ray for SIGTERM.
    """
    errors.write_bytes(b"")
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
    child = os.fork()
    if child:
        os.setpgid(child, child)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
        return child
    code = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        descriptor = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        # Not those of this process, which a test runner may have replaced.
        sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
        os.chdir(folder)
        os.environ["TNLPAD_CACHE"] = str(folder / CACHE)
        sys.argv = ["tnlpad", *words]
        prepare()
        code = _called()
    finally:
        os._exit(code)


def started(words: Sequence[str], folder: Path, errors: Path) -> int:
    """Start a command as a user does, in a session of its own; return its id."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "tnlpad", *words],
        os.environ | {"TNLPAD_CACHE": str(folder / CACHE)},
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, errors, flags, 0o666), (os.POSIX_SPAWN_DUP2, 1, 2)],
        setsid=True,
        setsigdef=[signal.SIGINT],
    )


def _called() -> int:
    """Run the command as its console script does, and return the exit code."""
    from tnlpad.__main__ import main
    from tnlpad.interrupts import leave_when_interrupted

    try:
        leave_when_interrupted()  # the first line of the command, which must come before a signal that was held back
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
        main()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def end_of(child: int, errors: Path, seconds: float = HANGING_SECONDS) -> Ended:
    """Wait for a process; after that many seconds, kill it."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return Ended(code=os.waitstatus_to_exitcode(status), errors=errors.read_text(errors="replace"))
        time.sleep(POLL_SECONDS)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return Ended(code=None, errors=errors.read_text(errors="replace"))


class Workplace:
    """The folder in which a command works, as often as wanted from the same beginning.

    Its path is part of records, so it is the same every time.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.command, self.name = COMMANDS[name], name
        self.place, self.base = folder / "work", folder / "base"
        self.errors, self.counted = folder / "errors", folder / "count"
        self.place.mkdir(parents=True)
        if self.command.trained:
            samples.train(self.place, self.command.data)
        elif self.command.data:
            samples.WRITERS[self.command.data](self.place)
        shutil.copytree(self.place, self.base)
        self.operations, self.seconds = 0, 0.0
        self.struck: Counter[str] = Counter()
        self.expected = self._undisturbed()

    def begin(self) -> None:
        """Put everything back to the beginning."""
        shutil.rmtree(self.place)
        shutil.copytree(self.base, self.place)

    def run(self, prepare: Callable[[], object] = lambda: None) -> Ended:
        """Run the command to its end."""
        return end_of(self.start(prepare), self.errors)

    def start(self, prepare: Callable[[], object] = lambda: None) -> int:
        """Start the command and return the id of its process."""
        words = self.command.words(self.place)
        if self.command.started:
            return started(words, self.place, self.errors)
        return forked(words, self.place, self.errors, prepare)

    def count(self, number: signal.Signals, ended: Ended) -> None:
        """Count a signal, unless the command had come to its end before."""
        self.struck[number.name] += ended.code != 0

    def content(self) -> dict[str, str]:
        """Return a digest of every file by its name, without durations and caches."""
        files = sorted(path for path in self.place.rglob("*") if path.is_file())
        names = {str(path.relative_to(self.place)): path for path in files}
        return {name: digest(path) for name, path in names.items() if not name.startswith(f"{CACHE}{os.sep}")}

    def leftovers(self) -> list[str]:
        """Return the temporary files that are there, also in caches."""
        return [str(path.relative_to(self.place)) for path in self.place.rglob(".*tmp*")]

    def _undisturbed(self) -> dict[str, str]:
        """Run the command without a fault; note how long it takes and how many file operations."""
        from benchmarks.faults.file_operations import FileOperations

        operations = FileOperations(self.place)
        begin = time.monotonic()

        def count() -> None:
            operations.install()
            leave = os._exit

            def counted(code: int) -> None:
                Path(self.counted).write_text(str(operations.count))
                leave(code)

            os._exit = counted  # type: ignore[assignment]

        ended = self.run(count)
        if ended.code != 0:
            raise RuntimeError(f"{self.name} fails without any fault ({ended.code}):\n{ended.errors}")
        self.seconds = time.monotonic() - begin
        self.operations = 0 if self.command.started else int(self.counted.read_text())
        return self.content()


def digest(path: Path) -> str:
    """Return a hash of a file; of JSON, without durations."""
    content = path.read_bytes()
    if path.suffix in (".json", ".jsonl"):
        texts = [content] if path.suffix == ".json" else content.splitlines()
        with suppress(ValueError):  # a line that a kill has cut off
            content = json.dumps([without_times(json.loads(text)) for text in texts], sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()


def without_times(value: Any) -> Any:
    """Return a record without what differs between two runs of the same configuration."""
    if isinstance(value, dict):
        return {key: without_times(each) for key, each in value.items() if key not in TIMES}
    return [without_times(each) for each in value] if isinstance(value, list) else value
