"""Find wrong labels from the class probabilities of any model: `tnlpad.find_suspects`.

The probabilities must be out of sample: of models that were not trained on the sample's label, as
`sklearn.model_selection.cross_val_predict(model, X, labels, method="predict_proba")` returns them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.errors import DataError
from tnlpad.records.scores import SampleNames, SampleScores
from tnlpad.suspects.listing import Suspect, rate_sentences, suspects
from tnlpad.suspects.ranking import Ranking, rank
from tnlpad.types import Labels

MAX_SUM_ERROR = 1e-3  # probabilities may have been rounded


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """Suspect labels, and the estimated share of wrong ones.

    Args:
        suspects: Labels that are more likely wrong than right, the most suspicious first. None is listed if the
            probabilities say too little.
        confidence: Probability that each label is wrong, in the order of the labels.
        noise_rate, noise_rate_interval: Share of labels that are wrong at random, with its 95 % interval; None if the
            probabilities say too little.
        caution: Why there is no estimate, or None.
        sentences: What the data show and what they cannot show, in words; empty without an estimate.
    """

    suspects: list[Suspect]
    confidence: NDArray[np.float64] = field(repr=False)
    noise_rate: float | None
    noise_rate_interval: tuple[float, float] | None
    caution: str | None
    sentences: tuple[str, ...]
    _ranking: Ranking = field(repr=False)
    _scores: SampleScores = field(repr=False)
    _names: SampleNames = field(repr=False)

    def ranked(self, top: int | None = None) -> list[Suspect]:
        """Return the `top` most suspicious samples, by default all samples in order of suspicion."""
        return suspects(self._ranking, self._scores, self._names, len(self._scores) if top is None else top)


def find_suspects(
    labels: Sequence[Any], *, probabilities: Any, classes: Sequence[Any] | None = None, ids: Sequence[Any] | None = None
) -> Found:
    """Rank labels by how likely they are wrong, from out-of-sample probabilities of any model.

    Args:
        labels: The given label of each sample.
        probabilities: Samples × classes; each row sums to 1.
        classes: The label of each column (default: the sorted labels, as scikit-learn orders them).
        ids: Names of the samples (default: their indices).

    Raises:
        tnlpad.DataError: The labels, classes or probabilities do not fit together.
    """
    names = sorted(set(labels)) if classes is None else list(classes)
    rows = _probabilities(probabilities, len(labels), len(names))
    given = _given(labels, names)
    texts = [str(row) for row in range(len(given))] if ids is None else [str(name) for name in ids]
    if len(texts) != len(given):
        raise DataError(f"{len(texts):,} ids, but {len(given):,} labels. Give one id per sample.")
    scores = SampleScores(
        columns={
            "index": np.arange(len(given)),
            "part": np.full(len(given), "train", dtype=object),
            "given": given,
        },
        probabilities=rows,
        class_names=tuple(map(str, names)),
        views=("given",),
        facts={"folds": 1, "repeats": 1},
    )
    sample_names = SampleNames(ids=texts, paths=[None] * len(texts))
    ranking = rank(scores)
    weak = ranking.weakness is not None
    return Found(
        suspects=suspects(ranking, scores, sample_names),
        confidence=ranking.confidence,
        noise_rate=None if weak else ranking.estimate.noise_rate,
        noise_rate_interval=None if weak else ranking.estimate.noise_rate_interval,
        caution=ranking.weakness,
        sentences=() if weak else tuple(each.removesuffix(": ") for each in rate_sentences(ranking.estimate, "")),
        _ranking=ranking,
        _scores=scores,
        _names=sample_names,
    )


def _probabilities(values: Any, samples: int, classes: int) -> NDArray[np.float32]:
    try:
        rows = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"probabilities are not numbers ({error}). Give an array of samples × classes.") from error
    if rows.shape != (samples, classes):
        shape = " × ".join(map(str, rows.shape))
        raise DataError(
            f"probabilities have the shape {shape}, but there are {samples:,} labels of {classes:,} classes. Give a "
            "row per label and a column per class, and name the columns with classes= if some class has no label."
        )
    bad = np.flatnonzero(~np.isfinite(rows).all(1) | (rows < 0).any(1) | (np.abs(rows.sum(1) - 1) > MAX_SUM_ERROR))
    if len(bad):
        raise DataError(
            f"probabilities of sample {bad[0]} (counted from 0) sum to {rows[bad[0]].sum():.4g}, with a minimum of "
            f"{rows[bad[0]].min():.4g}; {len(bad):,} samples are like that. Give numbers from 0 to 1 that sum to 1."
        )
    return rows.astype(np.float32)


def _given(labels: Sequence[Any], names: Sequence[Any]) -> Labels:
    if len(labels) == 0:
        raise DataError("There are no labels. Give one per sample.")
    if len(names) < 2:
        raise DataError(f"There is one class, {names[0]!r}. At least two are needed.")
    if len(set(names)) < len(names):
        raise DataError("classes= names a class twice. Give each column of the probabilities its own.")
    place = {name: number for number, name in enumerate(names)}
    unknown = next((label for label in labels if label not in place), None)
    if unknown is not None:
        raise DataError(f"The label {unknown!r} is not among the classes {', '.join(map(repr, names[:8]))}. Add it.")
    return np.array([place[label] for label in labels], dtype=np.int64)
