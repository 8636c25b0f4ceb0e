"""Find wrong labels from the class probabilities of any model: `tnlpad.find_suspects`.

The probabilities must be out of sample: of models that were not trained on the sample's label, as
`sklearn.model_selection.cross_val_predict(model, X, labels, method="predict_proba")` returns them. A model that was
trained on a wrong label often predicts it, and the label seems right.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.own.arrays import one_label_each
from tnlpad.data.own.dataset import given_ids
from tnlpad.data.own.labels import Label
from tnlpad.data.own.objects import labels_of
from tnlpad.errors import DataError
from tnlpad.records.samples import SampleNames
from tnlpad.records.scores import SampleScores
from tnlpad.suspects.listing import (
    LISTED_WITHOUT_SUSPECTS,
    Suspect,
    rarity_notes,
    rate_sentences,
    suspects,
    verdict_on,
)
from tnlpad.suspects.neighbours import Neighbours, combined, nearest
from tnlpad.suspects.ranking import Ranking, rank
from tnlpad.types import Labels

MAX_SUM_ERROR = 1e-3  # probabilities may have been rounded
# Share of labels that are the most probable class. Of out-of-fold predictions for data without wrong labels it was
# 0.98 at most; models that memorised their labels had 1.
MAX_AGREEMENT = 0.995
MAX_NAMED = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """Suspect labels, and the estimated share of wrong ones.

    Args:
        ranking: The ranking of all samples.
        scores: Their labels and probabilities, with the votes of neighbours if features were given.
        names: Their ids.
        notes: Remarks on the labels, probabilities and features.
        neighbours: The samples that voted, if features were given.
    """

    ranking: Ranking = field(repr=False)
    scores: SampleScores = field(repr=False)
    names: SampleNames = field(repr=False)
    notes: tuple[str, ...]
    neighbours: Neighbours | None = field(default=None, repr=False)

    @cached_property
    def suspects(self) -> list[Suspect]:
        """Labels that are more likely wrong than right, the most suspicious first; none with a `caution`."""
        return self.ranked(self.ranking.suspects)

    def ranked(self, top: int | None = None) -> list[Suspect]:
        """Return the `top` most suspicious samples, by default all samples in order of suspicion."""
        listed = suspects(self.ranking, self.scores, self.names, len(self.scores) if top is None else top)
        return listed if self.neighbours is None else [self._with_votes(each, self.neighbours) for each in listed]

    def listed(self, top: int | None = None) -> list[Suspect]:
        """Return the `top` most suspicious samples, by default the suspects; with a `caution`, the first hundred."""
        without_top = LISTED_WITHOUT_SUSPECTS if self.caution is not None else self.ranking.suspects
        return self.ranked(without_top if top is None else top)

    @property
    def confidence(self) -> NDArray[np.float64]:
        """Probability that each label is wrong, in the order of the labels; below one half with a `caution`."""
        return self.ranking.confidence

    @property
    def noise_rate(self) -> float | None:
        """Share of labels that are wrong at random; None with a `caution`."""
        return self.ranking.estimate.noise_rate if self.caution is None else None

    @property
    def noise_rate_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of that share; None with a `caution`."""
        return self.ranking.estimate.noise_rate_interval if self.caution is None else None

    @property
    def caution(self) -> str | None:
        """Why there is no estimate, or None."""
        return self.ranking.weakness

    @property
    def sentences(self) -> tuple[str, ...]:
        """Two sentences on what the data show and cannot show about the rate; none with a `caution`."""
        return rate_sentences(self.ranking.estimate, None) if self.caution is None else ()

    @property
    def verdict(self) -> str:
        """The number of suspects and the rate in words, or the caution, with all notes."""
        return verdict_on(self.ranking, self.notes, None)

    def _with_votes(self, suspect: Suspect, neighbours: Neighbours) -> Suspect:
        near = self.scores.columns["given"][neighbours.rows[suspect.index]]
        given, suggested = (int((near == label).sum()) for label in (suspect.given, suspect.suggested))
        votes = f"Of the {len(near)} nearest samples, {given} have the given label and {suggested} the suggested one."
        return replace(suspect, why=f"{suspect.why} {votes}")


def find_suspects(
    labels: Sequence[Any],
    *,
    probabilities: Any,
    features: Any = None,
    classes: Sequence[Any] | None = None,
    ids: Sequence[Any] | None = None,
) -> Found:
    """Rank labels by how likely they are wrong, from out-of-sample probabilities of any model.

    Args:
        labels: The given label of each sample.
        probabilities: Samples × classes; each row sums to 1.
        features: Samples × numbers on any scale, such as embeddings. The nearest samples then vote on each label, with
            the weight that fits the labels best (docs/own_data.md).
        classes: The label of each column. By default these are the sorted labels, as scikit-learn orders them, or the
            numbers of the columns if some number is not among the labels.
        ids: Names of the samples (default: their indices).

    Raises:
        tnlpad.DataError: The labels, classes, probabilities or features do not fit together.
    """
    rows = _probabilities(probabilities)
    raw = labels_of(labels)
    values = _labels(raw, rows)
    if classes is None:
        _require_one_order(raw, values, rows.shape[1])
    names = _classes(values, rows.shape[1], classes)
    given = _places(values, names)
    texts = [str(row) for row in range(len(given))] if ids is None else given_ids(ids, "ids")
    if len(texts) != len(given):
        raise DataError(f"There are {len(texts):,} ids, but {len(given):,} labels. Give one id per sample.")
    return find_among(rows, given, names, ids=texts, features=features)


def find_among(
    rows: NDArray[np.float32], given: Labels, names: tuple[str, ...], *, ids: Sequence[str], features: Any = None
) -> Found:
    """Rank labels that are columns of the probabilities.

    Args:
        rows: Out-of-sample probabilities, samples × classes.
        given: The column of the given label of each sample.
        names: The class of each column.
        ids: Names of the samples.
        features: As for `find_suspects`.
    """
    notes = _notes_on_agreement(rows, given, names)
    neighbours = None
    if features is not None:
        points = _features(features, len(given))
        notes += _notes_on_duplicates(points, given, names, ids)
        neighbours = nearest(points, given)
        rows, _ = combined(rows, neighbours.votes(given, len(names)), given)
    scores = SampleScores(
        columns={
            "index": np.arange(len(given)),
            "part": np.full(len(given), "train", dtype=object),
            "given": given,
        },
        probabilities=rows,
        class_names=names,
        views=("given",),
        facts={"folds": 1, "repeats": 1},
    )
    ranking = rank(scores)
    return Found(
        ranking=ranking,
        scores=scores,
        names=SampleNames(ids=ids, paths=[None] * len(ids)),
        notes=(*notes, *rarity_notes(ranking, scores)),
        neighbours=neighbours,
    )


# Reading --------------------------------------------------------------------------------------------------------------


def _numbers(values: Any, what: str, columns: str) -> NDArray[np.float64]:
    """Return samples × numbers; `columns` says what a column stands for."""
    form = f"Give a plain array of samples × {columns}."
    try:
        array = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{what} are not numbers ({error}). {form}") from error
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(f"{what} have the shape {_shape(array)}. {form}")
    return array


def _probabilities(values: Any) -> NDArray[np.float32]:
    rows = _numbers(values, "probabilities", "classes")
    if rows.shape[1] == 1:
        raise DataError(
            "probabilities have one column. Give one for each class; of a single probability p, give 1 − p as well."
        )
    with np.errstate(invalid="ignore"):
        sums = rows.sum(1)
    problems = (
        (~np.isfinite(rows).all(1), "which are not all finite"),
        ((rows < 0).any(1), "of which one is negative"),
        (np.abs(sums - 1) > MAX_SUM_ERROR, "which sum to {:.4g}"),
    )
    for wrong, problem in problems:
        if wrong.any():
            row, count = int(wrong.argmax()), int(wrong.sum())
            others = f" {count:,} samples are like that." if count > 1 else ""
            raise DataError(
                f"probabilities of sample {row} (counted from 0) are {_short(rows[row])}, {problem.format(sums[row])}."
                f"{others} Give numbers from 0 to 1 that sum to 1, such as the softmax of logits."
            )
    return rows.astype(np.float32)


def _features(values: Any, samples: int) -> NDArray[np.float64]:
    points = _numbers(values, "features", "numbers")
    if len(points) != samples:
        raise DataError(f"There are {len(points):,} rows of features, but {samples:,} labels. Give one row per sample.")
    if samples < 2:
        raise DataError("features of 1 sample: it has no neighbours that could vote. Leave the features out.")
    if not np.isfinite(points).all():
        row = int((~np.isfinite(points).all(1)).argmax())
        raise DataError(f"features of sample {row} (counted from 0) are not all finite numbers. Fill them in.")
    return points


def _labels(labels: Any, rows: NDArray[np.float32]) -> list[Label]:
    if len(labels) != len(rows):
        raise DataError(
            f"There are {len(labels):,} labels, but {len(rows):,} rows of probabilities. Give one row per label."
        )
    values = one_label_each(labels, rows, "labels")
    missing = next((row for row, value in enumerate(values) if value is None), None)
    if missing is not None:
        raise DataError(f"The label of sample {missing} (counted from 0) is missing. Leave such samples out.")
    return [value for value in values if value is not None]


def _require_one_order(labels: Any, values: Sequence[Label], columns: int) -> None:
    """Raise DataError if the labels sort in another order without their outer spaces, which are removed."""
    without = {str(text): value for text, value in zip(labels, values, strict=True) if isinstance(text, str)}
    in_order = [without[text] for text in sorted(without)]
    if len(without) == columns and in_order != sorted(in_order, key=str):
        spaced = next(text for text in sorted(without) if text != text.strip())
        raise DataError(
            f"The label {spaced!r:.80} has spaces around it, and the labels sort in another order without them. So the "
            "order of the columns is unclear. Remove the spaces, or name the classes of the columns."
        )


def _classes(labels: Sequence[Label], columns: int, classes: Sequence[Any] | None) -> tuple[str, ...]:
    """Return the name of each column."""
    if classes is not None:
        names = tuple(map(str, classes))
        if len(names) != columns:
            raise DataError(f"There are {len(names):,} classes, but {columns:,} columns of probabilities.")
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(f"The class {twice!r} occurs twice. Give each column of the probabilities its own.")
        return names
    different = set(labels)
    if all(isinstance(each, int) for each in different) and different <= set(range(columns)):
        return tuple(map(str, range(columns)))
    if len(different) != columns:
        raise DataError(
            f"There are {columns:,} columns of probabilities, but {len(different):,} different labels "
            f"({_named(sorted(different, key=str))}). Name the classes of the columns: classes= in Python, the header "
            "of a .csv file."
        )
    return tuple(map(str, sorted(different, key=lambda each: (isinstance(each, str), each))))


def _places(labels: Sequence[Label], names: Sequence[str]) -> Labels:
    """Return the column of each label: that of its name, or that of its number if no class is named by a number."""
    place: dict[Label, int] = {name: column for column, name in enumerate(names)}
    if not any(name.removeprefix("-").isdecimal() for name in names):
        place |= {column: column for column in range(len(names))}
    found = [place.get(label, place.get(str(label), -1)) for label in labels]
    if -1 in found:
        row = found.index(-1)
        raise DataError(
            f"The label {labels[row]!r} of sample {row} (counted from 0) is not among the {len(names):,} classes "
            f"{_named(names)}. Correct it, or name the classes of the columns."
        )
    return np.array(found, dtype=np.int64)


# Notes ----------------------------------------------------------------------------------------------------------------


def _notes_on_agreement(rows: NDArray[np.float32], given: Labels, names: Sequence[str]) -> tuple[str, ...]:
    """Say if the model seems to have been trained on the labels, or its columns to be in another order."""
    agreement = float((rows.argmax(1) == given).mean())
    frequent = float(np.bincount(given).max() / len(given))
    if agreement >= MAX_AGREEMENT:
        return (
            f"The most probable class is the given label for {100 * agreement:.1f} % of the samples. Unless hardly any "
            "label is wrong, the model was trained on these labels. Use out-of-fold probabilities.",
        )
    if agreement < min(frequent, 0.5):
        return (
            f"The most probable class is the given label for only {100 * agreement:.0f} % of the samples; the most "
            f"frequent label would be for {100 * frequent:.0f} %. Are the columns in the order {_named(names)}?",
        )
    return ()


def _notes_on_duplicates(
    points: NDArray[np.float64], given: Labels, names: Sequence[str], ids: Sequence[str]
) -> tuple[str, ...]:
    """Count and name samples with the same features and different labels."""
    first: dict[bytes, int] = {}
    pairs = [(first.setdefault(point.tobytes(), row), row) for row, point in enumerate(points)]
    different = [(one, other) for one, other in pairs if given[one] != given[other]]
    if not different:
        return ()
    one, other = different[0]
    return (
        f"{len(different):,} samples have the features of an earlier one and another label, such as {ids[other][:80]} "
        f"(“{names[given[other]]}”) and {ids[one][:80]} (“{names[given[one]]}”). One of the two is wrong, unless the "
        "features leave out what tells them apart.",
    )


def _shape(array: NDArray[Any]) -> str:
    return " × ".join(map(str, array.shape)) or "of a single number"


def _short(row: NDArray[np.float64]) -> str:
    return ", ".join(f"{value:.4g}" for value in row[:MAX_NAMED]) + (" …" if len(row) > MAX_NAMED else "")


def _named(names: Sequence[Any]) -> str:
    return ", ".join(str(name)[:80] for name in names[:MAX_NAMED]) + (" …" if len(names) > MAX_NAMED else "")
