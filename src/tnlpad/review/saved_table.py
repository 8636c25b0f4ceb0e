"""The decisions of a review as a table, `review.csv`, which a thread writes by rename shortly after each change.

Many decisions in a short time are written once. The pause between two writings grows with the time that one takes, so
a long table costs no more than a tenth of a core. The table is written again when the log is opened, so a killed server
leaves at worst an old one behind until the next start.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event, Thread

from tnlpad.review.decisions import FIRST_VERSION, DecisionLog
from tnlpad.suspects.export import write_rows

HEADER = ("id", "path", "label", "given", "suggested", "choice")
PAUSE_SECONDS = 0.5
PAUSE_PER_SECOND = 9  # of writing


def write_table(path: Path, log: DecisionLog) -> None:
    """Write the decisions of a log, in order of position."""
    write_rows(path, HEADER, _rows(log))


def _rows(log: DecisionLog) -> Iterable[tuple[str | None, ...]]:
    run = log.run
    names, ranking, samples = run.scores.class_names, run.ranking, run.names
    # For `tnlpad clean`, a withdrawn decision of an earlier round is like one that nobody is sure about.
    for each in sorted([*log.decided(), *log.reopened()], key=lambda each: each.at):
        row = int(ranking.order[each.at])
        given, suggested = names[ranking.evidence.given[row]], names[ranking.evidence.suggested[row]]
        yield samples.ids[row], samples.paths[row], each.label, given, suggested, each.choice or "unsure"


class SavedTable:
    """Keeps `review.csv` up to date until it is closed.

    Args:
        path: The file.
        log: The decisions.
        warn: Called with a sentence if the file cannot be written.
    """

    def __init__(self, path: Path, log: DecisionLog, warn: Callable[[str], None]) -> None:
        self.path, self.log, self.warn = path, log, warn
        self._written, self._failed = FIRST_VERSION, False
        self._ending = Event()
        self._write()
        self._thread = Thread(target=self._keep, name="review.csv", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what has changed, and end the thread. Close the log first."""
        self._ending.set()
        self._thread.join()
        self._write()

    def _keep(self) -> None:
        pause = PAUSE_SECONDS
        while not self.log.closed:
            self.log.wait(self._written)
            if not self._ending.wait(pause):
                begun = time.monotonic()
                self._write()
                pause = max(PAUSE_SECONDS, PAUSE_PER_SECOND * (time.monotonic() - begun))

    def _write(self) -> None:
        version = self.log.version
        if version == self._written:
            return
        try:
            write_table(self.path, self.log)
        except OSError as error:  # tried again after the next pause
            if not self._failed:
                self.warn(
                    f"Cannot write {self.path} ({error.strerror or error}). The decisions are in {self.log.path}."
                )
            self._failed = True
        else:
            self._written, self._failed = version, False
