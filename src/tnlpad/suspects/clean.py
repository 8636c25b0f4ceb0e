"""Clean a dataset: correct or drop the labels that are probably wrong, and keep the original label beside each.

The decisions of reviewers override the suggestions, and so do those of an audit and of earlier rounds. The test part is
not scored and stays as it is. A class that has too few samples to judge is left alone, and no class loses all its
samples unless a reviewer says so.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tnlpad.data.own.labels import further_label
from tnlpad.suspects.listing import RankedRun
from tnlpad.suspects.review import Review
from tnlpad.types import Index

if TYPE_CHECKING:
    import pandas as pd

Action = Literal["correct", "drop"]
DEFAULT_CONFIDENCE = 0.9
ORIGINAL = "original_label"
HEADER = ("id", "path", "label", "split", ORIGINAL, "changed", "confidence")
CHANGES_HEADER = ("id", "row", "from", "to", "why")
SUGGESTION = "suggestion"


@dataclass(frozen=True, kw_only=True)
class Cleaned:
    """A sample that is kept, and its row in the data; `confidence` in a wrong label is None in the test part."""

    id: str
    row: int
    path: str | None
    label: str
    split: str
    original_label: str
    confidence: float | None

    @property
    def changed(self) -> bool:
        return self.label != self.original_label

    def fields(self) -> tuple[str | None, ...]:
        """Return the fields under `HEADER`."""
        confidence = "" if self.confidence is None else f"{self.confidence:.4f}"
        changed = "yes" if self.changed else "no"
        return self.id, self.path, self.label, self.split, self.original_label, changed, confidence


@dataclass(frozen=True, kw_only=True)
class Change:
    """A label that was replaced, or a sample that was dropped: `after` is None; and why."""

    id: str
    row: int
    before: str
    after: str | None
    why: str

    def fields(self) -> tuple[str | int | None, ...]:
        """Return the fields under `CHANGES_HEADER`."""
        return self.id, self.row, self.before, self.after, self.why


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """The result of a cleaning.

    Args:
        kept: The samples that are kept: the scored ones in the order of the dataset, then the test part.
        changes: Labels that were replaced, and samples that were dropped, in the order of the dataset.
        spared: Classes that would have lost all their samples, so that their labels stay as they are.
        decided: Labels of kept samples that a person decided on, by id.
    """

    kept: Sequence[Cleaned]
    changes: Sequence[Change]
    spared: tuple[str, ...]
    decided: Mapping[str, str] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        return len(self.changes) > 0

    @property
    def dropped(self) -> int:
        """Number of samples that were dropped."""
        return sum(change.after is None for change in self.changes)

    @property
    def corrected(self) -> int:
        """Number of labels that were replaced."""
        return len(self.changes) - self.dropped

    @property
    def suggested(self) -> int:
        """Number of labels that were replaced by the suggested class, without a person's decision."""
        return sum(change.after is not None and change.why.startswith(SUGGESTION) for change in self.changes)


def clean_samples(
    run: RankedRun,
    *,
    action: Action = "correct",
    confidence: float | None = None,
    top: int | None = None,
    review: Review | None = None,
    undecided: Collection[str] = (),
) -> Cleaning:
    """Correct or drop labels.

    Where the network is too weak, only the labels in `top` and `review` are changed.

    Args:
        run: The run.
        action: Replace a label that is probably wrong by the suggested one, or drop the sample.
        confidence: Change labels that are wrong with at least this probability (default: `DEFAULT_CONFIDENCE`).
        top: Change this number of labels instead, the most suspicious first.
        review: Decisions of reviewers, which override the suggestions and the decisions of an audit.
        undecided: Samples that reviewers could not decide on; their labels stay as they are.
    """
    ranking, ids, classes = run.ranking, run.names.ids, run.scores.class_names
    checked = {ids[row]: label for row, label in ranking.decisions.items() if ids[row] not in undecided}
    decided = checked | dict(review or {})
    original = [classes[label] for label in ranking.evidence.given.tolist()]
    labels: list[str | None] = [*original]
    for row in _to_change(run, DEFAULT_CONFIDENCE if confidence is None else confidence, top).tolist():
        labels[row] = classes[int(ranking.evidence.suggested[row])] if action == "correct" else None
    for row, name in enumerate(ids):
        labels[row] = original[row] if name in undecided else decided.get(name, labels[row])
    spared = _spare(labels, original, [name in decided for name in ids])
    parts, rows = run.scores.columns["part"].tolist(), run.rows.tolist()
    kept = [
        Cleaned(
            id=name,
            row=rows[row],
            path=run.names.paths[row],
            label=label,
            split=str(parts[row]),
            original_label=original[row],
            confidence=float(ranking.confidence[row]),
        )
        for row, name in enumerate(ids)
        if (label := labels[row]) is not None
    ]
    why = _reasons(run, review or {})
    changes = [
        Change(id=ids[row], row=rows[row], before=before, after=after, why=why(row))
        for row, (before, after) in enumerate(zip(original, labels, strict=True))
        if before != after
    ]
    return Cleaning(
        kept=kept + _test_part(run),
        changes=changes,
        spared=spared,
        decided={row.id: row.label for row in kept if row.id in decided},
    )


def _test_part(run: RankedRun) -> list[Cleaned]:
    columns = [run.samples.get(key, ()) for key in ("id", "path", "label_name", "part")]
    rows = run.samples.get("row", range(len(columns[0])))
    return [
        Cleaned(id=name, row=row, path=path, label=label, split=part, original_label=label, confidence=None)
        for name, path, label, part, row in zip(*columns, rows, strict=True)
        if part == "test"
    ]


def _reasons(run: RankedRun, review: Review) -> Callable[[int], str]:
    """Return a function that says why the label of a row was changed."""

    def why(row: int) -> str:
        if run.names.ids[row] in review:
            return "your decision"
        if row in run.ranking.decisions:
            return "earlier decision" if run.names.ids[row] in run.earlier else "audit"
        known = f", confidence {run.ranking.confidence[row]:.4f}" if run.caution is None else ""
        return f"{SUGGESTION}{known}"

    return why


def _to_change(run: RankedRun, confidence: float, top: int | None) -> Index:
    """Return the rows whose label the network changes."""
    ranking = run.ranking
    judged = (ranking.evidence.suggested != ranking.evidence.given) & ~np.isin(ranking.evidence.given, ranking.rare)
    judged[list(ranking.decisions)] = False
    if top is not None:
        rows: Index = ranking.order[judged[ranking.order]][:top]
        return rows
    return np.flatnonzero(judged & (ranking.confidence >= confidence))


def _spare(labels: list[str | None], original: Sequence[str], decided: Sequence[bool]) -> tuple[str, ...]:
    """Give classes that have no sample left their original labels back, unless a person decided; return the classes."""
    spared: set[str] = set()
    while True:
        lost = set(original) - set(labels)
        rows = [row for row, label in enumerate(original) if label in lost and not decided[row]]
        if not rows:
            return tuple(sorted(spared))
        for row in rows:
            labels[row] = original[row]
            spared.add(original[row])


# Data in memory -------------------------------------------------------------------------------------------------------


def cleaned_labels(run: RankedRun, kept: Sequence[Cleaned], labels: Sequence[Any]) -> tuple[list[int], list[Any]]:
    """Return the rows of the kept samples, ascending, and their labels in the values that `labels` has.

    Args:
        run: The run.
        kept: The samples that are kept.
        labels: The original labels of all rows. A class that is not among them is a text, or a number like them.
    """
    values: dict[str, Any] = {}
    for row, label in zip(run.rows.tolist(), run.scores.columns["given"].tolist(), strict=True):
        values.setdefault(run.scores.class_names[label], labels[row])
    for name in {sample.label for sample in kept} - values.keys():
        values[name] = further_label(name, labels)
    chosen = sorted(kept, key=lambda sample: sample.row)
    return [sample.row for sample in chosen], [
        values[sample.label] if sample.changed else labels[sample.row] for sample in chosen
    ]


def cleaned_frame(run: RankedRun, kept: Sequence[Cleaned], frame: "pd.DataFrame", column: Any) -> "pd.DataFrame":
    """Return a DataFrame with its label column corrected, and the original labels beside it.

    Rows that could not be used stay as they are. Original labels of an earlier cleaning stay as well.
    """
    labels = frame[column].tolist()
    corrected = dict(zip(*cleaned_labels(run, kept, labels), strict=True))
    used = set(run.samples["row"])
    rows = [row for row in range(len(labels)) if row in corrected or row not in used]
    values = np.empty(len(rows), dtype=object)
    values[:] = [corrected.get(row, labels[row]) for row in rows]
    result = frame.iloc[rows].copy()
    original = result[column].array
    result[column] = values
    if set(values) <= set(labels):  # no class is new
        result[column] = result[column].astype(frame[column].dtype)
    else:
        result[column] = result[column].infer_objects()
    if ORIGINAL not in result.columns:
        result.insert(result.columns.get_loc(column) + 1, ORIGINAL, original)
    return result
