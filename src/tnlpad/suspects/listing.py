"""The ranked list as people read it: a row per suspect, with its names and the reason in words."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.records.scores import SampleNames, SampleScores
from tnlpad.suspects.ranking import SUSPECT_FROM, Ranking

NOTABLE_ABSORPTION = 1.0  # in logits: γ makes the given label e times as likely against its best rival


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """One sample whose label is in doubt."""

    rank: int
    index: int
    id: str
    path: str | None
    part: str
    given: int
    given_name: str
    suggested: int
    suggested_name: str
    score: float
    confidence: float
    why: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def suspects(ranking: Ranking, scores: SampleScores, names: SampleNames, top: int | None = None) -> list[Suspect]:
    """The first `top` of the list; by default all that are more likely wrong than right."""
    places = ranking.order[: ranking.suspects if top is None else top]
    found, columns, classes = ranking.evidence, scores.columns, scores.class_names
    extra = absorbed(columns, scores.views, places)

    def of_these(column: NDArray[Any]) -> list[Any]:  # plain numbers: a hundred thousand rows are made of them
        values: list[Any] = np.asarray(column)[places].tolist()
        return values

    rows = zip(
        places.tolist(),
        of_these(columns["index"]),
        of_these(columns["part"]),
        of_these(found.given),
        of_these(found.suggested),
        of_these(ranking.score.round(6)),
        of_these(ranking.confidence.round(4)),
        of_these(found.given_probability),
        of_these(found.suggested_probability),
        of_these(columns[f"agreed_{scores.views[0]}"]),
        [0.0] * len(places) if extra is None else extra.tolist(),
        strict=True,
    )
    epochs = int(scores.facts["epochs_until_chosen"])
    return [
        Suspect(
            rank=rank,
            index=index,
            id=names.ids[place],
            path=names.paths[place],
            part=part,
            given=given,
            given_name=classes[given],
            suggested=suggested,
            suggested_name=classes[suggested],
            score=score,
            confidence=confidence,
            why=_why(
                f"“{classes[given]}” ({_percent(of_given)})",
                f"“{classes[suggested]}” ({_percent(of_suggested)} on average)",
                f"{round(agreed * epochs)} of {epochs}",
                preferred=of_suggested > of_given,
                suspect=confidence >= SUSPECT_FROM,
                held_out=part == "validation",
                by_heart=learnt >= NOTABLE_ABSORPTION,
            ),
        )
        for rank, (
            place,
            index,
            part,
            given,
            suggested,
            score,
            confidence,
            of_given,
            of_suggested,
            agreed,
            learnt,
        ) in enumerate(rows, start=1)
    ]


def _why(
    given: str, suggested: str, agreed: str, *, preferred: bool, suspect: bool, held_out: bool, by_heart: bool
) -> str:
    """What speaks against the given label, with the numbers that it rests on."""
    if preferred:
        said = f"Over the epochs the network sees {suggested}, not {given}"
    elif suspect:
        said = (
            f"Over the epochs the network sees {given}, but also {suggested}, and the one is often taken for the other"
        )
    else:
        said = f"Over the epochs the network agrees with {given}"
    said += f"; it gave the label as given in {agreed} epochs"
    if held_out:
        said += "; it was never trained on this sample"
    elif by_heart:
        said += "; γ had to learn the label as given by heart"
    return said + "."


def absorbed(columns: Mapping[str, NDArray[Any]], views: Sequence[str], rows: Any = slice(None)) -> Any:
    """How much γ adds to the margin of the given labels, to the end of training; None without a decomposition."""
    if tuple(views) != ("sigma", "w"):
        return None
    return columns["margin_w_to_end"][rows] - columns["margin_sigma_to_end"][rows]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.005 else "under 1 %"
