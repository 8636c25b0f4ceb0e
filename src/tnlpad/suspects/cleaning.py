"""A dataset's labels with the suspects corrected or dropped, the original label kept beside each."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tnlpad.records.scores import SampleNames, SampleScores
from tnlpad.suspects.ranking import Ranking

Action = Literal["correct", "drop"]
HEADER = ("id", "path", "label", "split", "original_label", "changed", "confidence")


@dataclass(frozen=True, kw_only=True)
class Change:
    """What to do with labels that are wrong with at least this probability."""

    action: Action
    least_confidence: float


def cleaned(
    ranking: Ranking, scores: SampleScores, names: SampleNames, change: Change
) -> Iterator[tuple[str, str | None, str, str, str, str, str]]:
    """A row under `HEADER` for every sample that stays, in the order of the dataset."""
    found = ranking.evidence
    doubted = (ranking.confidence >= change.least_confidence) & (found.suggested != found.given)
    for place, is_doubted in enumerate(doubted.tolist()):
        if is_doubted and change.action == "drop":
            continue
        given, suggested = (scores.class_names[int(each[place])] for each in (found.given, found.suggested))
        yield (
            names.ids[place],
            names.paths[place],
            suggested if is_doubted else given,
            str(scores.columns["part"][place]),
            given,
            "yes" if is_doubted else "no",
            f"{ranking.confidence[place]:.4f}",
        )
