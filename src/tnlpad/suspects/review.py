"""Tables of decisions about labels, as the pages save them: one row per sample, with its id and the right label.

Several people may review the same labels. Where they disagree, the majority decides. Without one, or if nobody is sure,
the sample stays undecided, and keeps its label.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tnlpad.data.own.columns import place_of
from tnlpad.data.own.tables import read_csv
from tnlpad.errors import DataError
from tnlpad.records.store import RecordError

Review = Mapping[str, str | None]  # the right label by id; None where no label fits
REVIEW_FILE = Path("review") / "review.csv"  # in a run folder, by `tnlpad review`
CHOICES = ("given", "suggested", "other", "neither", "exclude", "unsure", "right", "wrong")  # the last two of an audit
WITHOUT_LABEL = ("neither", "exclude")  # the sample is dropped


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """Different decisions about a sample.

    Args:
        id: The sample.
        votes: Number of people per label, the most frequent first; None means that no label fits.
        decided: Whether most of them agree on the first.
    """

    id: str
    votes: tuple[tuple[str | None, int], ...]
    decided: bool

    def to_json(self) -> dict[str, Any]:
        votes = [{"label": label, "votes": count} for label, count in self.votes]
        return {"id": self.id, "votes": votes, "decided": self.decided}


@dataclass(frozen=True, kw_only=True)
class MergedReview:
    """Decisions of one or several people.

    Args:
        decisions: The right labels.
        disagreements: Decisions that differ.
        undecided: Samples that were looked at without a decision: nobody was sure, or there is no majority.
    """

    decisions: Review
    disagreements: tuple[Disagreement, ...] = ()
    undecided: frozenset[str] = frozenset()


def read_decision_table(path: Path) -> list[dict[str, str]]:
    """Read the rows of a CSV file with the columns `id` and `label`; a spreadsheet may have saved it with semicolons.

    Raises:
        RecordError: The file is no such table.
    """
    try:
        columns, _ = read_csv(path)
    except DataError as error:
        raise RecordError(str(error)) from error
    if missing := {"id", "label"} - columns.keys():
        raise RecordError(
            f"{path} has no column {min(missing)}. Give the file that the page saves, or a table with the columns id "
            "and label."
        )
    ids = columns["id"]
    nameless = next((row for row, name in enumerate(ids) if not name.strip()), None)
    if nameless is not None:
        raise RecordError(f"{path}, {place_of(ids, nameless)}: the id is missing. Fill it in, or remove the line.")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def read_review(path: Path, ids: Iterable[str], classes: Collection[str] = ()) -> Review:
    """Read the right label of each sample that was decided on.

    An empty label, or the choice `exclude`, means that none fits. Rows with the choice `unsure` are no decisions.

    Args:
        path: The file that a page saves, or another table.
        ids: Ids of the run's samples.
        classes: Names of the run's classes; labels may name further ones.

    Raises:
        RecordError: The file is no such table, contradicts itself, or is about another run.
    """
    found: dict[str, str | None] = {}
    rows = read_decision_table(path)
    for row in rows:
        choice = (row.get("choice") or "").strip()
        if choice == "unsure":
            continue
        label = _label(row, choice, path, classes)
        if found.setdefault(row["id"], label) != label:
            raise RecordError(f"{path} has two labels for {row['id'][:80]!r}: {found[row['id']]!r} and {label!r}.")
    check_review(dict.fromkeys(row["id"] for row in rows), ids, str(path))
    return found


def read_unsure(path: Path) -> set[str]:
    """Read the samples of a file about which the person was not sure."""
    return {row["id"] for row in read_decision_table(path) if (row.get("choice") or "").strip() == "unsure"}


def class_named(text: str, classes: Collection[str]) -> str | None:
    """Return the class that a cell of a table names, with or without its outer spaces; None if the cell is empty."""
    if text in classes:
        return text
    word = text.strip()
    if not word or word in classes:
        return word or None
    return next((name for name in classes if name.strip() == word), word)


def _label(row: Mapping[str, str], choice: str, path: Path, classes: Collection[str]) -> str | None:
    label = class_named(row["label"], classes)
    if choice and choice not in CHOICES:
        raise RecordError(f"{path} has the choice {choice[:80]!r}. Allowed are {', '.join(CHOICES)}.")
    if choice in WITHOUT_LABEL and label is not None:
        raise RecordError(f"{path} has the choice {choice} and the label {label[:80]!r} for {row['id'][:80]!r}.")
    if choice in ("given", "suggested", "other", "right") and label is None:
        raise RecordError(f"{path} has the choice {choice} without a label for {row['id'][:80]!r}. Complete it.")
    return label


def read_reviews(paths: Sequence[Path], ids: Iterable[str], classes: Collection[str] = ()) -> MergedReview:
    """Read the decisions of several people, one file each, and merge them; for the arguments see `read_review`.

    Raises:
        RecordError: See `read_review`.
    """
    known = set(ids)
    return merge_reviews([read_review(path, known, classes) for path in paths], set().union(*map(read_unsure, paths)))


def merge_reviews(reviews: Sequence[Review], unsure: Collection[str] = ()) -> MergedReview:
    """Merge decisions: more than half of the people who decided on a sample must agree.

    Args:
        reviews: The decisions of each person.
        unsure: Samples about which somebody was not sure.
    """
    decisions: dict[str, str | None] = {}
    disagreements: list[Disagreement] = []
    for name in dict.fromkeys(name for review in reviews for name in review):
        votes = Counter(review[name] for review in reviews if name in review)
        ((label, count), *others) = votes.most_common()
        majority = 2 * count > votes.total()
        if majority:
            decisions[name] = label
        if others:
            disagreements.append(Disagreement(id=name, votes=((label, count), *others), decided=majority))
    open_ones = {each.id for each in disagreements if not each.decided}
    return MergedReview(
        decisions=decisions,
        disagreements=tuple(disagreements),
        undecided=frozenset(open_ones | (set(unsure) - decisions.keys())),
    )


def check_review(review: Review, ids: Iterable[str], where: str) -> None:
    """Raise `RecordError` if a decision is about a sample that is not in the run."""
    if unknown := review.keys() - set(ids):
        raise RecordError(
            f"{where} has {min(unknown)[:80]!r}, which is not a sample of this run. Is it the review of another run?"
        )
