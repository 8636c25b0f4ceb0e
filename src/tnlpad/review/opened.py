"""Open the review of a run: its folder, its decisions and its server, and close them in order."""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from tnlpad.data.own.shards import is_shard_folder
from tnlpad.review.audit import ReviewAudit
from tnlpad.review.decisions import DecisionLog
from tnlpad.review.memory import release_memory
from tnlpad.review.routes import Routes
from tnlpad.review.samples import Samples
from tnlpad.review.saved_table import SavedTable
from tnlpad.review.server import ReviewServer
from tnlpad.review.session import (
    ANY_PORT,
    FOLDER,
    LOG_FILE,
    TABLE_FILE,
    Address,
    locked,
    new_token,
    ranking_digest,
    read_address,
    write_address,
)
from tnlpad.suspects.cleaned_files import suffix_of
from tnlpad.suspects.listing import RankedRun

LABELS_SUFFIX = ".csv"  # of labels by id or path, of shards and of a folder that is gone


@dataclass(frozen=True, kw_only=True, eq=False)
class Review:
    """An open review.

    Args:
        address: Address of the page.
        server: The server; `serve_forever` answers requests until it is interrupted.
        log: The decisions.
        table: The file with the decisions.
        command: The command to run next.
        read_ahead: Reads what the page shows first; may run in a thread.
    """

    address: str
    server: ReviewServer
    log: DecisionLog
    table: Path
    command: str
    read_ahead: Callable[[], None]


@contextmanager
def open_review(
    run: RankedRun, *, port: int | None = None, root: Path | None = None, warn: Callable[[str], None]
) -> Iterator[Review]:
    """Open the review of a run, and write its files when the block ends.

    Args:
        run: The run.
        port: The port (default: that of the last review, or a free one).
        root: Folder that holds the published datasets.
        warn: Called with a sentence if samples cannot be shown or a file cannot be written.

    Raises:
        OSError: The port is not free, or the folder of the review cannot be written.
        RecordError: The run is being reviewed already, or files of its review or audit are damaged.
    """
    folder = run.folder.path / FOLDER
    notes = _notes(run)

    def note(sentence: str) -> None:
        if sentence not in notes:
            notes.append(sentence)
            warn(sentence)

    with locked(folder):
        log = DecisionLog(folder / LOG_FILE, run)
        audit = ReviewAudit(log)
        samples = Samples(run, root, note)
        routes = Routes(samples, log, audit, notes, clean_command(run))
        server = _server(folder, run, port, routes, warn)
        table = SavedTable(folder / TABLE_FILE, log, warn)
        address = Address(port=server.server_port, token=server.token, ranking=ranking_digest(run))
        write_address(folder, address)
        release_memory()
        try:
            yield Review(
                address=address.url,
                server=server,
                log=log,
                table=table.path,
                command=routes.command,
                read_ahead=samples.read_ahead,
            )
        finally:
            server.server_close()
            log.close()
            table.close()
            audit.save()


def _server(
    folder: Path, run: RankedRun, port: int | None, routes: Routes, warn: Callable[[str], None]
) -> ReviewServer:
    """Return a server at the last address if the port is free and the positions are the same, else at a new one."""
    last = read_address(folder)
    if last is not None and last.ranking == ranking_digest(run) and port in (None, last.port):
        try:
            return ReviewServer(last.port, last.token, routes, warn)
        except OSError:  # another program listens there; a requested port fails again below
            pass
    return ReviewServer(port or ANY_PORT, new_token(), routes, warn)


def _notes(run: RankedRun) -> list[str]:
    path = run.about.get("path")
    if path is None or os.path.exists(path):
        return []
    return [f"{path} is gone, so the samples are not shown. Decisions are still possible."]


def clean_command(run: RankedRun) -> str:
    """Return the command that applies the decisions, and writes the data in the form in which they came if it can.

    Its output has a name that is free here: the data may be those that an earlier round wrote.
    """
    source = Path(run.about.get("path", "labels.csv"))
    folder = source.is_dir() and not is_shard_folder(source)
    suffix = "" if folder else suffix_of(source) or LABELS_SUFFIX
    names = (f"cleaned{number}{suffix}" for number in chain([""], count(2)))
    out = next(name for name in names if not os.path.exists(name))
    return shlex.join(["tnlpad", "clean", str(run.folder.path), "--out", out])
