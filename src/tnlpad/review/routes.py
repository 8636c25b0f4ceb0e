"""The requests that the page makes, and their answers. Samples are named by position, never by path."""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.records.store import RecordError
from tnlpad.review.audit import ReviewAudit
from tnlpad.review.decisions import DecisionLog, parse_decisions
from tnlpad.review.duplicates import contradicting_duplicates
from tnlpad.review.maps import MapKind, make_map, map_kinds
from tnlpad.review.once import Once
from tnlpad.review.samples import Samples
from tnlpad.suspects.listing import rate_sentences

STATIC = Path(__file__).parent / "static"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
BYTES, JPEG, JSON = "application/octet-stream", "image/jpeg", "application/json"
MAX_SAMPLES = 200  # at once
MAX_WAIT_SECONDS = 30
MAX_QUERY_CHARACTERS = 1000
WHOLE = re.compile(r"[0-9]{1,15}")
Query = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to a request."""

    content: bytes = b""
    kind: str = JSON
    status: int = 200
    cache: str = "no-store"


class BadRequest(ValueError):
    """A request cannot be answered; the message says why."""


class Routes:
    """Answers the requests about one run.

    Args:
        samples: The samples.
        log: The decisions about them.
        audit: The random sample.
        notes: Remarks to show beside those about the ranking.
        command: The command to run after the review.
    """

    def __init__(self, samples: Samples, log: DecisionLog, audit: ReviewAudit, notes: list[str], command: str) -> None:
        self.samples, self.log, self.audit, self.notes, self.command = samples, log, audit, notes, command
        run = samples.run
        self._maps = {kind: Once(partial(self._make_map, kind)) for kind in map_kinds()}
        self._duplicates = Once(lambda: contradicting_duplicates(run, samples.data()))
        self._static = {path.relative_to(STATIC).as_posix(): path for path in STATIC.rglob("*") if path.suffix in KINDS}
        self._get: dict[str, Callable[[str, Query], Answer | None]] = {
            "": lambda rest, query: self._file("index.html"),
            "static": lambda rest, query: self._file(rest),
            "about": lambda rest, query: _json(self._about()),
            "columns": lambda rest, query: Answer(content=samples.columns(), kind=BYTES),
            "samples": lambda rest, query: _json(samples.details(self._positions(query.get("at", "")))),
            "picture": lambda rest, query: self._picture(rest, large="large" in query),
            "search": lambda rest, query: self._search(query.get("q", "")),
            "decisions": lambda rest, query: self._decisions(query),
            "map": lambda rest, query: self._map(query.get("kind", "pca")),
            "duplicates": lambda rest, query: _json({"groups": self._duplicates()}),
            "audit": lambda rest, query: _json(audit.document()),
        }
        self._post: dict[str, Callable[[Any], Answer]] = {"decide": self._decide, "audit": self._draw}

    def get(self, path: str, query: Query) -> Answer | None:
        """Answer a GET request; None if there is nothing at this path.

        Raises:
            BadRequest: A value of the query is wrong.
        """
        name, _, rest = path.partition("/")
        if name not in self._get or (rest and name not in ("static", "picture")):
            return None
        return self._get[name](rest, query)

    def post(self, path: str, document: Any) -> Answer | None:
        """Answer a POST request with a JSON document; None if there is nothing at this path.

        Raises:
            BadRequest: The document is wrong. Nothing is stored then.
            RecordError: It cannot be stored.
        """
        return self._post[path](document) if path in self._post else None

    # Answers ----------------------------------------------------------------------------------------------------------

    def _file(self, name: str) -> Answer | None:
        path = self._static.get(name)
        if path is None:
            return None
        return Answer(content=path.read_bytes(), kind=KINDS[path.suffix], cache="no-cache")

    def _about(self) -> dict[str, Any]:
        run = self.samples.run
        sample = self.audit.sample
        folder = shlex.quote(str(run.folder.path))
        return {
            "title": run.title,
            "run": folder,
            "command": self.command,
            "samples": len(self.samples),
            "suspects": run.ranking.suspects,
            "classes": list(run.scores.class_names),
            "kind": self.samples.kind,
            "pictures": self.samples.has_pictures,
            "caution": run.caution,
            "sentences": []
            if run.caution is not None
            else list(rate_sentences(run.ranking.estimate, f"tnlpad audit {folder}")),
            "notes": [*run.notes, *self.notes],
            "columns": list(self.samples.further().columns),
            "maps": list(self._maps),
            "audit": None if sample is None else {"drawn": len(sample)},
            "version": self.log.version,
        }

    def _positions(self, text: str) -> list[int]:
        parts = text.split(",")
        if len(parts) > MAX_SAMPLES:
            raise BadRequest(f"{len(parts)} positions: ask for at most {MAX_SAMPLES} at once.")
        return [self._position(part) for part in parts]

    def _position(self, text: str) -> int:
        if not WHOLE.fullmatch(text) or int(text) >= len(self.samples):
            raise BadRequest(f"{text[:80]!r} is not a position. Positions are 0 to {len(self.samples) - 1}.")
        return int(text)

    def _picture(self, at: str, *, large: bool) -> Answer | None:
        picture = self.samples.picture(self._position(at), large=large)
        return None if picture is None else Answer(content=picture, kind=JPEG, cache="private, max-age=3600")

    def _search(self, query: str) -> Answer:
        if len(query) > MAX_QUERY_CHARACTERS:
            raise BadRequest(f"A search may have {MAX_QUERY_CHARACTERS} characters, not {len(query)}.")
        return Answer(content=self.samples.search(query).astype("<u4").tobytes(), kind=BYTES)

    def _decisions(self, query: Query) -> Answer:
        since, wait = (query.get(name, "0") for name in ("since", "wait"))
        if not WHOLE.fullmatch(since) or not WHOLE.fullmatch(wait):
            raise BadRequest(f"since={since[:80]!r} and wait={wait[:80]!r}: write whole numbers.")
        self.log.wait(int(since), min(int(wait), MAX_WAIT_SECONDS))
        version, decisions = self.log.since(int(since))
        return _json({"version": version, "decisions": [vars(each) for each in decisions]})

    def _map(self, kind: str) -> Answer:
        for known, points in self._maps.items():
            if kind == known:
                return Answer(content=points().astype("<f4").tobytes(), kind=BYTES)
        raise BadRequest(f"kind={kind[:80]!r}: the maps here are {', '.join(self._maps)}.")

    def _make_map(self, kind: MapKind) -> NDArray[np.float32]:
        return make_map(self.samples, kind)

    def _decide(self, document: Any) -> Answer:
        try:
            decisions, keys = parse_decisions(document, len(self.samples), self.samples.run.scores.class_names)
        except ValueError as error:
            raise BadRequest(str(error)) from error
        with _storing(self.log.path):
            return _json({"version": self.log.append(decisions, keys)})

    def _draw(self, document: Any) -> Answer:
        size = document.get("sample") if isinstance(document, dict) else None
        if type(size) is not int or size < 1:
            raise BadRequest(f"sample={size!r:.80} is not a number of labels to draw.")
        try:
            with _storing(self.audit.folder):
                self.audit.draw(size)
        except ValueError as error:
            raise BadRequest(str(error)) from error
        return _json(self.audit.document())


@contextmanager
def _storing(where: Path) -> Iterator[None]:
    """Turn errors of the disk into ones that name the file."""
    try:
        yield
    except OSError as error:
        raise RecordError(
            f"nothing was stored, since {where} cannot be written ({error.strerror or error}). Free some space there."
        ) from error


def _json(document: Any) -> Answer:
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Answer(content=text.encode("utf-8", "replace"))
