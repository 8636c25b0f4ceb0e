"""The decisions of a review: a log that survives a kill at any moment, and the last decision about each sample.

Each decision is a line of `review.jsonl`, which is on disk before the decision is acknowledged. A line holds the id of
the sample and the label, so it stays right if an audit changes the order or a suggestion. A last line without its end
was never acknowledged, and is removed when the log is opened. A client gives every decision a key; a key that is there
already is not stored again, so a client may send a decision again if the answer was lost.

The version is 1 before the first line and grows by one with every line. Decisions of an earlier audit have version 1.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Condition
from typing import Any, Literal, get_args

import numpy as np

from tnlpad.atomic_files import append_durably
from tnlpad.json_text import parse_json
from tnlpad.records.store import RecordError
from tnlpad.regular_files import open_regular
from tnlpad.suspects.listing import RankedRun

Choice = Literal["given", "suggested", "other", "unsure", "exclude"]
CHOICES: tuple[Choice, ...] = get_args(Choice)
FIRST_VERSION = 1
UNDECIDED = NO_LABEL = -1
MAX_KEY_CHARACTERS = 100
MAX_DECISIONS = 1000  # at once


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A decision about the sample at a position.

    Args:
        at: The position.
        choice: None withdraws an earlier decision.
        label: Name of the right class; None if there is none, or the person cannot tell.
        by: This review, or an earlier audit.
    """

    at: int
    choice: Choice | None
    label: str | None
    by: Literal["review", "earlier"] = "review"


class DecisionLog:
    """Decisions about the samples of a run, for several threads.

    Args:
        path: The file of the log; it need not exist.
        run: The run.

    Raises:
        RecordError: The file is damaged, or the log of another run.
    """

    def __init__(self, path: Path, run: RankedRun) -> None:
        ranking, samples = run.ranking, len(run.ranking.order)
        self.path, self.run = path, run
        self.version = FIRST_VERSION
        self._given = ranking.evidence.given[ranking.order]
        self._suggested = ranking.evidence.suggested[ranking.order]
        self._labels = {name: label for label, name in enumerate(run.scores.class_names)}
        self._choice = np.full(samples, UNDECIDED, dtype=np.int8)
        self._label = np.full(samples, NO_LABEL, dtype=np.int32)
        self._version_of = np.zeros(samples, dtype=np.int64)
        self._earlier = np.zeros(samples, dtype=np.bool_)
        self._keys: set[str] = set()
        self._closed = False
        self._changed = Condition()
        self._take_audited()
        self._read()

    # Reading ----------------------------------------------------------------------------------------------------------

    def last(self, at: int) -> Decision:
        """Return the last decision about a sample; its choice is None without one."""
        choice, label = int(self._choice[at]), int(self._label[at])
        return Decision(
            at=at,
            choice=None if choice == UNDECIDED else CHOICES[choice],
            label=None if label == NO_LABEL else self.run.scores.class_names[label],
            by="earlier" if self._earlier[at] else "review",
        )

    def since(self, version: int) -> tuple[int, list[Decision]]:
        """Return the present version, and the last decision of each sample that changed after a version."""
        with self._changed:
            if version > self.version:  # of a log that was removed
                version = 0
            return self.version, [self.last(at) for at in np.flatnonzero(self._version_of > version).tolist()]

    def wait(self, version: int, seconds: float | None = None) -> int:
        """Wait for a version after this one, or for the end of the log; return the present version."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self.version != version, seconds)
            return self.version

    def decided(self) -> list[Decision]:
        """Return the decisions of this log that hold, in order of position."""
        with self._changed:
            return [self.last(at) for at in np.flatnonzero((self._choice != UNDECIDED) & ~self._earlier).tolist()]

    def reopened(self) -> list[Decision]:
        """Return the decisions of an earlier round or audit that were withdrawn here, in order of position."""
        ranking = self.run.ranking
        earlier = np.sort(ranking.positions[np.array(list(ranking.decisions), dtype=np.int64)])
        with self._changed:
            return [self.last(at) for at in earlier[self._choice[earlier] == UNDECIDED].tolist()]

    @property
    def closed(self) -> bool:
        return self._closed

    # Writing ----------------------------------------------------------------------------------------------------------

    def append(self, decisions: Sequence[Decision], keys: Sequence[str]) -> int:
        """Store decisions, each under its key unless that is there already; return the version once they are on disk.

        Raises:
            OSError: They cannot be written. None is stored then.
            RecordError: The log is closed.
        """
        with self._changed:
            if self._closed:
                raise RecordError(f"{self.path} is closed, since the server is ending. Start it again.")
            fresh = {key: each for key, each in zip(keys, decisions, strict=True) if key not in self._keys}
            if fresh:
                resolved = {key: self._resolved(each) for key, each in fresh.items()}
                append_durably(self.path, b"".join(self._line(key, each) for key, each in resolved.items()))
                for key, each in resolved.items():
                    self._take(key, each)
                self._changed.notify_all()
            return self.version

    def close(self) -> None:
        """Accept no more decisions, and wake all who wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _line(self, key: str, decision: Decision) -> bytes:
        run = self.run
        content = {
            "key": key,
            "id": run.names.ids[run.ranking.order[decision.at]],
            "choice": decision.choice,
            "label": decision.label,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        return json.dumps(content).encode() + b"\n"

    def _take(self, key: str, decision: Decision) -> None:
        self.version += 1
        self._keys.add(key)
        self._hold(decision)
        self._earlier[decision.at] = False
        self._version_of[decision.at] = self.version

    def _hold(self, decision: Decision) -> None:
        at, label = decision.at, decision.label
        self._choice[at] = UNDECIDED if decision.choice is None else CHOICES.index(decision.choice)
        self._label[at] = NO_LABEL if label is None else self._labels[label]

    def _resolved(self, decision: Decision) -> Decision:
        """Return the decision with the label that its choice means, and the choice that its label means."""
        names, at, choice = self.run.scores.class_names, decision.at, decision.choice
        given, suggested = names[self._given[at]], names[self._suggested[at]]
        label = {"given": given, "suggested": suggested, "other": decision.label}.get(choice or "")
        if choice == "other" and label in (given, suggested):
            choice = "given" if label == given else "suggested"
        return Decision(at=at, choice=choice, label=label)

    # The file ---------------------------------------------------------------------------------------------------------

    def _take_audited(self) -> None:
        """Take over the decisions of an earlier audit."""
        ranking = self.run.ranking
        for row, label in ranking.decisions.items():
            at = int(ranking.positions[row])
            known = label in self._labels
            self._hold(self._resolved(Decision(at=at, choice="other" if known else "exclude", label=label)))
            self._version_of[at], self._earlier[at] = FIRST_VERSION, True

    def _read(self) -> None:
        try:
            with open_regular(self.path) as file:
                content = file.read()
        except FileNotFoundError:
            return
        except OSError as error:
            raise RecordError(
                f"{self.path} cannot be read ({error.strerror or error}). Restore the file, or move it away to begin a "
                "new review."
            ) from error
        complete = content[: content.rfind(b"\n") + 1]
        if len(complete) < len(content):
            os.truncate(self.path, len(complete))
        lines = complete.split(b"\n")[:-1]
        places = dict(zip(self.run.names.ids, self.run.ranking.positions.tolist(), strict=True)) if lines else {}
        for number, line in enumerate(lines, start=1):
            try:
                key, decision = self._parsed(parse_json(line), places)
            except (ValueError, KeyError, TypeError) as error:
                raise RecordError(
                    f"{self.path}, line {number} is damaged, or about another run ({error!r:.200}). Restore the file, "
                    "or move it away to begin a new review."
                ) from error
            self._take(key, decision)

    def _parsed(self, line: Mapping[str, Any], places: Mapping[str, int]) -> tuple[str, Decision]:
        """Return a line as a decision; its label counts, since the suggestion may have changed since."""
        at, choice, label = places[line["id"]], line["choice"], line["label"]
        if choice is not None and choice not in CHOICES:
            raise ValueError(f"choice {choice!r}")
        if (choice in ("given", "suggested", "other")) != (label in self._labels):
            raise ValueError(f"label {label!r}")
        if label is not None:
            choice = "other"
        return str(line["key"]), self._resolved(Decision(at=at, choice=choice, label=label))


def parse_decisions(document: Any, samples: int, class_names: Sequence[str]) -> tuple[list[Decision], list[str]]:
    """Return the decisions of a request and their keys.

    Raises:
        ValueError: The document is not as the page sends it; the message says why.
    """
    entries = document.get("decisions") if isinstance(document, dict) else None
    if not isinstance(entries, list) or len(entries) > MAX_DECISIONS:
        raise ValueError(f"Send an object with at most {MAX_DECISIONS} `decisions`.")
    known = set(class_names)
    parsed = [_parse(entry, samples, known) for entry in entries]
    return [decision for decision, _ in parsed], [key for _, key in parsed]


def _parse(entry: Any, samples: int, class_names: set[str]) -> tuple[Decision, str]:
    if not isinstance(entry, dict):
        raise ValueError("A decision is an object with `at`, `choice`, `label` and `key`.")
    at, choice, label, key = (entry.get(name) for name in ("at", "choice", "label", "key"))
    if type(at) is not int or not 0 <= at < samples:
        raise ValueError(f"at={at!r:.80} is not a position. Positions are 0 to {samples - 1}.")
    if choice is not None and choice not in CHOICES:
        raise ValueError(f"choice={choice!r:.80}: allowed are {', '.join(CHOICES)} and null.")
    if choice == "other" and (not isinstance(label, str) or label not in class_names):
        raise ValueError(f"label={label!r:.80} is not a class of the data.")
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_CHARACTERS:
        raise ValueError(f"key={key!r:.80}: a key is a text of 1 to {MAX_KEY_CHARACTERS} characters.")
    return Decision(at=at, choice=choice, label=label if choice == "other" else None), key
