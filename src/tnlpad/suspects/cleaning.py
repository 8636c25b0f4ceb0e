"""A dataset's labels with the suspects corrected or dropped, the original label kept beside each.

What a person has decided counts, whatever the scores say. The test part stays as it is: it was never judged.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tnlpad.records.scores import SampleNames, SampleScores
from tnlpad.suspects.ranking import Ranking
from tnlpad.suspects.review import Review

Action = Literal["correct", "drop"]
HEADER = ("id", "path", "label", "split", "original_label", "changed", "confidence")


@dataclass(frozen=True, kw_only=True)
class Change:
    """What to do with labels that are wrong with at least this probability."""

    action: Action
    least_confidence: float


@dataclass(frozen=True, kw_only=True)
class Cleaned:
    """A sample that stays; `confidence` that its label was wrong, None where nothing judged it."""

    id: str
    path: str | None
    label: str
    split: str
    original_label: str
    confidence: float | None

    @property
    def changed(self) -> bool:
        return self.label != self.original_label

    def row(self) -> tuple[str | None, ...]:
        """Its fields under `HEADER`."""
        confidence = "" if self.confidence is None else f"{self.confidence:.4f}"
        changed = "yes" if self.changed else "no"
        return self.id, self.path, self.label, self.split, self.original_label, changed, confidence


def cleaned(
    ranking: Ranking, scores: SampleScores, names: SampleNames, change: Change, review: Review | None = None
) -> Iterator[Cleaned]:
    """Every sample that was judged and stays, in the order of the dataset."""
    found, decided = ranking.evidence, review or {}
    doubted = (ranking.confidence >= change.least_confidence) & (found.suggested != found.given)
    for place, is_doubted in enumerate(doubted.tolist()):
        given, suggested = (scores.class_names[int(each[place])] for each in (found.given, found.suggested))
        name = names.ids[place]
        label: str | None = given
        if name in decided:
            label = decided[name]
        elif is_doubted:
            label = suggested if change.action == "correct" else None
        if label is not None:
            yield Cleaned(
                id=name,
                path=names.paths[place],
                label=label,
                split=str(scores.columns["part"][place]),
                original_label=given,
                confidence=float(ranking.confidence[place]),
            )


def untouched(samples: Mapping[str, Sequence[Any]]) -> Iterator[Cleaned]:
    """The test part of a run's list of samples."""
    for name, path, label, part in zip(*(samples[key] for key in ("id", "path", "label_name", "part")), strict=True):
        if part == "test":
            yield Cleaned(id=name, path=path, label=label, split=part, original_label=label, confidence=None)
