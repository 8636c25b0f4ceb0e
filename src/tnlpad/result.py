"""A finished run on user data: its classifier, and what it found out about the labels. `tnlpad.load` reads one."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tnlpad.data.own.dataset import OwnDataset
from tnlpad.data.own.labels import label_as_given
from tnlpad.data.own.objects import open_samples
from tnlpad.data.progress import Silent
from tnlpad.errors import DataError
from tnlpad.records.store import RecordError, RunFolder
from tnlpad.runs.predict import class_probabilities, inputs_of_own, most_probable, reading_options
from tnlpad.runs.shipped import Shipped, load_shipped
from tnlpad.suspects import DEFAULT_FORMATS
from tnlpad.suspects.audited_run import Audit, audit_run
from tnlpad.suspects.brief import as_html, as_text
from tnlpad.suspects.clean import Action, Cleaning, clean_samples, cleaned_frame, cleaned_labels
from tnlpad.suspects.export import PAGE_FILE, write_suspects
from tnlpad.suspects.listing import RankedRun, Suspect, rank_run
from tnlpad.suspects.prediction_files import WHOLE
from tnlpad.suspects.review import (
    REVIEW_FILE,
    MergedReview,
    Review,
    check_review,
    class_named,
    merge_reviews,
    read_review,
    read_unsure,
)

if TYPE_CHECKING:
    import pandas as pd

OneReview = str | PathLike[str] | Mapping[Any, Any]  # a file, or the right labels by id
Reviews = OneReview | Sequence[OneReview] | Literal[False] | None


class _Warnings(Silent):
    """Warns of what to know about samples to predict, such as values of a category that training did not have."""

    def say(self, message: str) -> None:
        warnings.warn(message, stacklevel=5)  # at the call of `predict_proba`


class Classifier(nn.Module):
    """The robust weights σ of a finished run, in evaluation mode; returns logits.

    Takes images of the size trained on as a tensor N×C×H×W, 8-bit or fractions from 0 to 1, or features N×D as they are
    in the data. Normalisation is included.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.eval()

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits, one row per sample, in the order of the result's classes."""
        fractions = inputs / 255 if inputs.dtype == torch.uint8 else inputs.float()
        logits: Tensor = self.network(fractions)
        return logits


@dataclass(frozen=True, kw_only=True, eq=False)
class Given:
    """Samples as they were passed to `fit`, for `Result.clean`: a DataFrame with a label column, or separate labels."""

    labels: Sequence[Any] | None = None
    frame: "pd.DataFrame | None" = None
    column: Any = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Result:
    """A trained classifier, and what it found out about the labels. It prints as a short table.

    Args:
        folder: The run folder; temporary unless `fit` was called with `out`.
        summary: Content of `summary.json`: the chosen epoch, its accuracies, the settings.
        shipped: The network, with everything needed to use it.
        run: Scores and ranking of the samples.
        label: Name of the label column, if it was given; data to predict on may have it too.
        data: The samples, unless the result was loaded.
        given: The samples as they were passed to `fit`, unless the data are a dataset or a path.
    """

    folder: Path
    summary: Mapping[str, Any]
    shipped: Shipped
    run: RankedRun
    label: str | None = None
    data: OwnDataset | None = None
    given: Given | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__} in {self.folder}\n{as_text(self.run)}"

    def _repr_html_(self) -> str:
        return as_html(self.run)

    @cached_property
    def model(self) -> Classifier:
        """An ordinary module in evaluation mode with the robust weights; see `Classifier` for its inputs."""
        return Classifier(self.shipped.network)

    @cached_property
    def classes(self) -> NDArray[Any]:
        """The labels in the order of the model's outputs: whole numbers if all of them are, else texts."""
        return _values(self.shipped.class_names)

    @cached_property
    def suspects(self) -> list[Suspect]:
        """Labels that are more likely wrong than right, the most suspicious first, each with a suggested label."""
        return self.run.suspects()

    def ranked(self, top: int | None = None) -> list[Suspect]:
        """Return the `top` most suspicious samples, by default all samples in order of suspicion."""
        return self.run.suspects(len(self.run.scores) if top is None else top)

    @property
    def noise_rate(self) -> float | None:
        """The estimated share of wrong labels; None with a `caution`."""
        return None if self.caution is not None else self.run.ranking.estimate.noise_rate

    @property
    def noise_rate_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of that share, None with a `caution`; see docs/own_data.md for its assumptions."""
        return None if self.caution is not None else self.run.ranking.estimate.noise_rate_interval

    @property
    def transition(self) -> NDArray[np.float64] | None:
        """The estimate of transition[i, j] = P(given j | true i), in the order of `classes`; None with a `caution`."""
        return None if self.caution is not None else self.run.ranking.estimate.transition

    @property
    def validation_accuracy(self) -> float:
        """The accuracy of the chosen epoch on the given labels of the held-out samples."""
        return float(self.summary["chosen"]["validation_accuracy"])

    @property
    def caution(self) -> str | None:
        """Why there are no estimates, for example a network that is too weak; else None."""
        return self.run.caution

    def predict_proba(self, data: Any) -> NDArray[np.float32]:
        """Return the probability of each class for samples of any kind that `fit` takes; labels are ignored.

        Raises:
            tnlpad.DataError: Samples cannot be used. None is left out, so that rows stay aligned with the data.
        """
        own = open_samples(data, label=self.label, labelled=False, **reading_options(self.shipped))
        if own.problems:
            first, count = own.problems[0], len(own.problems)
            samples, them = ("1 sample", "it") if count == 1 else (f"{count:,} samples", "them")
            raise DataError(f"{samples} cannot be predicted. Sample {first.id[:80]}: {first.reason}. Leave {them} out.")
        rows = class_probabilities(self.shipped, inputs_of_own(own, self.shipped, reporter=_Warnings()))
        found: NDArray[np.float32] = torch.cat(list(rows)).numpy()
        return found

    def predict(self, data: Any) -> NDArray[Any]:
        """Return the most probable of the `classes` for each sample."""
        labels: NDArray[Any] = self.classes[self.predict_proba(data).argmax(1)]
        return labels

    def predict_top(self, data: Any, k: int) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Return the `k` most probable of the `classes` for each sample, the first first, and their probabilities."""
        shares, labels = most_probable(torch.from_numpy(self.predict_proba(data)), k)
        return self.classes[labels.numpy()], shares.numpy()

    def audit(self, decisions: Mapping[Any, Any]) -> Audit:
        """Estimate the share of wrong labels from checked ones, whatever the errors are, with an exact interval.

        The checked samples must have been drawn at random, such as by `tnlpad audit RUN --sample 100`.

        Args:
            decisions: The right label by id, such as one of `classes`; None where no class fits, and "?" if it is
                unknown.

        Raises:
            tnlpad.DataError: A decision is about an unknown sample, or there is none.
        """
        return audit_run(self.run, self._by_id(decisions, "decisions"))

    def to_pandas(self, top: int | None = None) -> "pd.DataFrame":
        """Return the suspects, or the `top` most suspicious samples, as a DataFrame; needs pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("pandas is missing: pip install pandas, or use the list `suspects`.") from error
        listed = self.suspects if top is None else self.ranked(top)
        columns = [each.name for each in fields(Suspect)]
        return pd.DataFrame([each.to_json() for each in listed], columns=columns)

    def save_page(self, folder: str | PathLike[str], top: int | None = None) -> Path:
        """Write the page of suspects, `index.html`, and `suspects.csv` into a folder, as `tnlpad suspects --out` does.

        Decisions made on the page are saved as `review.csv`, for `clean`.

        Args:
            folder: The folder; created if needed.
            top: Number of samples (default: all that are more likely wrong than right).

        Returns:
            The path of the page.
        """
        listed = self.run.suspects(top)
        write_suspects(Path(folder), DEFAULT_FORMATS, self.run, listed, data=self.data, warn=warnings.warn)
        return Path(folder) / PAGE_FILE

    def clean(
        self,
        *,
        action: Action = "correct",
        confidence: float | None = None,
        top: int | None = None,
        review: Reviews = None,
    ) -> "tuple[NDArray[Any], NDArray[Any]] | pd.DataFrame":
        """Return the labels cleaned, by the rules of `tnlpad clean`: a test part stays as it is.

        If the result has a `caution`, only the labels in `top` and `review` are changed. Labels of classes with fewer
        than five samples are changed by `review` alone, and so are those of a class that would lose all its samples.

        Args:
            action: "correct" replaces a label that is probably wrong by the suggested one, "drop" drops the sample.
            confidence: Change labels that are wrong with at least this probability, from 0.5 to 1 (default: 0.9).
            top: Change this number of labels instead, the most suspicious first.
            review: The `review.csv` that a page saves, or a mapping of ids to right labels, None where no label fits;
                or a list of those of several people, of whom the majority decides. These decisions override the
                suggestions. By default those of `tnlpad review` are used, if there are any; False leaves them out.

        Returns:
            For a DataFrame with a label column, the DataFrame with that column corrected and the original labels beside
            it in `original_label`. Else `(kept, labels)`: the places of the samples that are kept, and their labels in
            the values that were passed to `fit`. For a Hugging Face dataset, a path or a loaded run, `kept` has their
            ids, as whole numbers if all of them are, and `labels` has values of `classes`.

        Raises:
            ValueError: `action`, `confidence` or `top` is out of range.
            tnlpad.DataError: The review is not one of this run.
        """
        if action not in ("correct", "drop"):
            raise ValueError(f"action={action!r}: choose correct or drop.")
        if confidence is not None and not 0.5 <= confidence <= 1:
            raise ValueError(f"confidence={confidence}: must be from 0.5 to 1.")
        if top is not None and (top < 1 or confidence is not None):
            raise ValueError(f"top={top}: must be at least 1, and confidence= must be left out.")
        if self.caution is not None and top is None and confidence != 1:
            warnings.warn(f"{self.caution} No label is changed, unless by a review.", stacklevel=2)
        try:
            merged = self._decisions(review)
            cleaning = clean_samples(
                self.run,
                action=action,
                confidence=confidence,
                top=top,
                review=merged.decisions,
                undecided=merged.undecided,
            )
        except RecordError as error:
            raise DataError(str(error)) from error
        for sentence in _remarks(self.run, merged, cleaning):
            warnings.warn(sentence, stacklevel=2)
        kept, given = cleaning.kept, self.given
        if given is None:
            names = self.shipped.class_names
            labels = _values([*names, *(row.label for row in kept)])[len(names) :]
            return _values([row.id for row in kept]), labels
        if given.labels is None:
            return cleaned_frame(self.run, kept, given.frame, given.column)
        places, values = cleaned_labels(self.run, kept, given.labels)
        return np.array(places, dtype=np.int64), np.array(values)

    def _decisions(self, reviews: Reviews) -> MergedReview:
        own = self.folder / REVIEW_FILE
        if reviews is None and own.exists():
            warnings.warn(f"The decisions in {own} are used. review=False leaves them out.", stacklevel=3)
            reviews = own
        if reviews is None or reviews is False:
            return MergedReview(decisions={})
        given = [reviews] if isinstance(reviews, (str, PathLike, Mapping)) else reviews
        unsure = [name for each in given if not isinstance(each, Mapping) for name in read_unsure(Path(each))]
        return merge_reviews([self._review(each) for each in given], unsure)

    def _review(self, review: OneReview) -> Review:
        if not isinstance(review, Mapping):
            return read_review(Path(review), self.run.names.ids, self.run.scores.class_names)
        decisions = self._by_id(review, "review")
        check_review(decisions, self.run.names.ids, "review")
        return decisions

    def _by_id(self, decisions: Mapping[Any, Any], what: str) -> dict[str, str | None]:
        """Return ids and names of classes as texts, as a file of the same decisions has them."""
        names = self.run.scores.class_names
        return {str(each): _class_of(label, names, what) for each, label in decisions.items()}


def load(run: str | PathLike[str]) -> Result:
    """Return the result of a finished run on own data, such as one of `tnlpad train`; its data are not needed.

    Args:
        run: The run folder.

    Raises:
        tnlpad.DataError: There is no such run, it is not finished, kept no scores, or is damaged.
    """
    folder = RunFolder(Path(run))
    if not folder.finished:
        state = "is not finished: repeat the command that started it" if folder.begun else "is not a run folder"
        raise DataError(f"{run} {state}. Give the folder that `tnlpad train` prints, or `folder` of a result.")
    try:
        ranked = rank_run(folder)
        return result_of(ranked, ranked.about.get("label_column"))
    except (RecordError, ValueError) as error:  # a ValueError is about the weights of a backbone
        raise DataError(str(error)) from error


def result_of(
    ranked: RankedRun, label: str | None, data: OwnDataset | None = None, given: Given | None = None
) -> Result:
    """Return the result of a finished run, with the samples as they were passed to `fit`."""
    return Result(
        folder=ranked.folder.path,
        summary=ranked.summary,
        shipped=load_shipped(ranked.folder),
        run=ranked,
        label=label,
        data=data,
        given=given,
    )


def _remarks(run: RankedRun, merged: MergedReview, cleaning: Cleaning) -> Iterator[str]:
    """Yield what to know about a cleaning."""
    if undecided := [each.id for each in merged.disagreements if not each.decided]:
        yield (
            f"The reviews have no majority about {len(undecided):,} samples, such as {undecided[0][:80]!r}. Their "
            "labels stay as they are."
        )
    if cleaning.spared:
        yield f"All samples of {', '.join(cleaning.spared)} are suspect. Their labels stay as they are."
    if new := sorted({row.label for row in cleaning.kept} - set(run.scores.class_names)):
        yield f"The review adds the class {new[0][:80]!r}: the data have no such label."


def _values(names: Sequence[str]) -> NDArray[Any]:
    """Convert class names to integers if all are integers in canonical form; "007" stays text."""
    whole = all(WHOLE.fullmatch(name) for name in names)
    return np.array([int(name) for name in names] if whole else names)


def _class_of(label: Any, names: Sequence[str], what: str) -> str | None:
    """Return the class that a decision names; a whole number counts the classes if none of them is named by one."""
    value = label if isinstance(label, str) else label_as_given(label, what)
    if isinstance(value, int) and value in range(len(names)) and not any(map(WHOLE.fullmatch, names)):
        return names[value]
    return None if value is None else class_named(str(value), names)
