"""The folder `review` of a run: its lock, and the address of its server.

review.jsonl   the log of decisions
review.csv     the decisions as a table
server.json    port and token of the last server, which the next one uses again, so that open tabs find it
lock           held by the one server of the run
"""

import hashlib
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tnlpad.atomic_files import PRIVATE_MODE, remove_leftovers, write_by_rename
from tnlpad.json_text import load_json
from tnlpad.records.store import LOCK_TIMEOUT_SECONDS, RunInUse
from tnlpad.suspects.listing import RankedRun
from tnlpad.suspects.review import REVIEW_FILE

FOLDER, TABLE_FILE = str(REVIEW_FILE.parent), REVIEW_FILE.name
LOG_FILE, SERVER_FILE, LOCK_FILE = "review.jsonl", "server.json", "lock"
HOST = "127.0.0.1"
TOKEN_BYTES = 24
ANY_PORT = 0


@dataclass(frozen=True, kw_only=True)
class Address:
    """Port and token of a server, and the ranking whose positions its clients know."""

    port: int
    token: str
    ranking: str

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/{self.token}/"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a review's folder, which is created if needed. The system releases it when the process dies.

    Raises:
        RunInUse: Another server holds it; the message has its address.
    """
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK_FILE)
    try:
        lock.acquire(timeout=LOCK_TIMEOUT_SECONDS, poll_interval=LOCK_TIMEOUT_SECONDS / 10)
    except Timeout as error:
        running = read_address(folder)
        where = "" if running is None else f" at {running.url}"
        raise RunInUse(
            f"this run is being reviewed{where} already. Use that page, or stop its server first."
        ) from error
    try:
        remove_leftovers(folder)
        yield
    finally:
        lock.release()


def read_address(folder: Path) -> Address | None:
    """Return the address of the last server; None if there is none, or its file is damaged."""
    try:
        return Address(**load_json(folder / SERVER_FILE))
    except (OSError, ValueError, TypeError):
        return None


def write_address(folder: Path, address: Address) -> None:
    """Store the address where only its owner can read it."""
    write_by_rename(folder / SERVER_FILE, json.dumps(asdict(address)).encode(), PRIVATE_MODE)


def new_token() -> str:
    """Return a token that nobody can guess."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def ranking_digest(run: RankedRun) -> str:
    """Return a digest of order and suggestions. If an audit changes them, tabs must not go on with old positions."""
    total = hashlib.sha256()
    for column in (run.ranking.order, run.ranking.evidence.given, run.ranking.evidence.suggested):
        total.update(np.ascontiguousarray(column, dtype=np.int64).tobytes())
    return total.hexdigest()[:16]
