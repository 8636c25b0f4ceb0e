"""Rank the samples of a run by suspicion, and list the suspects with the reason in words.

Samples are ranked by doubt (`evidence.py`), made comparable between training and held-out samples (`calibrate.py`).
This score was chosen with seed 1 on digits and on parts of MNIST and Fashion-MNIST, with three kinds of noise:

- The margin to the most probable other label is as good under symmetric noise, and worse where some classes are taken
  for certain others (pairflip and instance noise). It is better where a few hundred samples and a weak network give a
  wrong transition matrix. The probability of the given label alone is far worse except under symmetric noise.
- Averaging the probabilities of σ and w is about as good as the better of the two.
- Means to the end of training, single epochs, epochs weighted by accuracy, and a matrix from cleanlab's confident joint
  did not help.
- Scaling by mean and spread is as good as by quantiles, and loses less by chance with few held-out samples. A mixture
  fitted to each part fails there.

`benchmarks/suspects.py` has the numbers of other seeds.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.progress import SILENT, Reporter
from tnlpad.errors import DataError
from tnlpad.records.scores import SampleNames, SampleScores, read_data_file, read_names, read_samples, read_scores
from tnlpad.records.store import Record, RunFolder
from tnlpad.suspects.calibrate import comparable, confidence
from tnlpad.suspects.estimate import Estimate, estimate, first_transition
from tnlpad.suspects.evidence import Evidence, Floats, evidence, predictions
from tnlpad.types import Index

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset

SUSPECT_FROM = 0.5  # more likely wrong than right
NOTABLE_ABSORPTION = 1.0  # in logits: γ makes the given label e times as likely against its best rival
# Share of the gap between always predicting the most frequent label and being always right. It was chosen with seeds 1
# and 2 on small images and tables: below it, estimates were far off and corrections often wrong, and random data stayed
# below it. `benchmarks/noise_rates.py` has the numbers of other seeds.
MIN_GAIN = 0.3
MIN_HELD_OUT = 10  # fewer samples say nothing about the gain
MOVED = "Put the data back there, or run `tnlpad train` with the new path: it finds the run again."


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A sample whose given label may be wrong."""

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


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranking:
    """All samples of a run, ranked.

    Args:
        evidence: Evidence about each sample's label.
        estimate: The share of wrong labels.
        confidence: Probability that each sample's label is wrong.
        score: Share of samples that are less suspicious; 1 is the most suspicious.
        order: Rows of the samples, the most suspicious first.
        suspects: Number of samples, from the start, whose label is more likely wrong than right.
    """

    evidence: Evidence
    estimate: Estimate
    confidence: Floats
    score: Floats
    order: Index
    suspects: int

    @property
    def suspect_share(self) -> float:
        return self.suspects / max(1, len(self.order))


@dataclass(frozen=True, kw_only=True, eq=False)
class RankedRun:
    """A finished run with its samples ranked.

    Args:
        folder: The run folder.
        config, summary: Its records.
        about: Its `data.json`; empty for a run on a published dataset.
        scores, names: Scores, ids and paths of the samples.
        ranking: Their ranking.
    """

    folder: RunFolder
    config: Record
    summary: Record
    about: Record
    scores: SampleScores
    names: SampleNames
    ranking: Ranking

    @cached_property
    def caution(self) -> str | None:
        """Why the estimates are unreliable, or None."""
        return caution(self.summary, self.scores)

    @cached_property
    def samples(self) -> Mapping[str, Sequence[Any]]:
        """Columns of `samples.parquet`, with the test part; empty for a run on a published dataset."""
        return read_samples(self.folder.path)

    def suspects(self, top: int | None = None) -> list[Suspect]:
        """Return the `top` most suspicious samples, by default all that are more likely wrong than right."""
        return suspects(self.ranking, self.scores, self.names, top)

    def open_data(self, reporter: Reporter = SILENT) -> "OwnDataset":
        """Open the own data that the run was trained on.

        Raises:
            DataError: The data were moved or changed, or the run is on a published dataset.
        """
        from tnlpad.data.own import open_dataset

        about, run = self.about, self.folder.path
        if not about:
            raise DataError(f"the run in {run} is on a published dataset.")
        if not os.path.exists(about["path"]):
            raise DataError(f"{about['path']} is gone, and the run in {run} was trained on it. {MOVED}")
        data = open_dataset(
            about["path"],
            images=about["images"],
            label=about.get("label_column"),
            ignored=about.get("ignored", ()),
            reporter=reporter,
        )
        if data.shape.fingerprint != about["fingerprint"]:
            raise DataError(f"{about['path']} has changed since the run in {run} was trained on it. Restore it.")
        return data


def rank_run(folder: RunFolder) -> RankedRun:
    """Read the records of a finished run and rank its samples; raise `RecordError` if they are missing or damaged."""
    scores = read_scores(folder.path)
    return RankedRun(
        folder=folder,
        config=folder.config(),
        summary=folder.summary(),
        about=read_data_file(folder.path) or {},
        scores=scores,
        names=read_names(folder.path, scores.columns["index"]),
        ranking=rank(scores),
    )


def rank(scores: SampleScores) -> Ranking:
    """Rank all samples by suspicion."""
    seen = predictions(scores)
    found = evidence(scores, seen, first_transition(seen))
    doubt = comparable(found.doubt, found.held_out)
    estimated = estimate(seen, doubt)
    wrong = confidence(doubt, estimated.noise_rate)
    order: Index = np.argsort(-doubt, kind="stable")
    score = np.empty(len(order))
    score[order] = 1 - np.arange(len(order)) / max(1, len(order))
    return Ranking(
        evidence=found,
        estimate=estimated,
        confidence=wrong,
        score=score,
        order=order,
        suspects=int((wrong >= SUSPECT_FROM).sum()),
    )


def suspects(ranking: Ranking, scores: SampleScores, names: SampleNames, top: int | None = None) -> list[Suspect]:
    """List the `top` most suspicious samples, by default all that are more likely wrong than right."""
    found, classes, epochs = ranking.evidence, scores.class_names, int(scores.facts["epochs_until_chosen"])
    absorption = absorbed(scores.columns, scores.views)
    columns = (
        np.arange(len(scores)),
        scores.columns["index"],
        scores.columns["part"],
        found.given,
        found.suggested,
        ranking.score.round(6),
        ranking.confidence.round(4),
        found.given_probability,
        found.suggested_probability,
        scores.columns[f"agreed_{scores.views[0]}"],
        np.zeros(len(scores)) if absorption is None else absorption,
    )
    places = ranking.order[: ranking.suspects if top is None else top]
    listed = []
    # Plain numbers are much faster than those of NumPy for a hundred thousand rows.
    for number, row in enumerate(zip(*(column[places].tolist() for column in columns), strict=True), start=1):
        place, index, part, given, suggested, score, sure, of_given, of_suggested, agreed, absorbed_margin = row
        why = _why(
            f"“{classes[given]}” ({_percent(of_given)})",
            f"“{classes[suggested]}” ({_percent(of_suggested)})",
            f"{round(agreed * epochs)} of {epochs}",
            preferred=of_suggested > of_given,
            suspect=sure >= SUSPECT_FROM,
            held_out=part == "validation",
            memorised=absorbed_margin >= NOTABLE_ABSORPTION,
        )
        listed.append(
            Suspect(
                rank=number,
                index=index,
                id=names.ids[place],
                path=names.paths[place],
                part=part,
                given=given,
                given_name=classes[given],
                suggested=suggested,
                suggested_name=classes[suggested],
                score=score,
                confidence=sure,
                why=why,
            )
        )
    return listed


def absorbed(columns: Mapping[str, NDArray[Any]], views: Sequence[str]) -> Any:
    """Return how much γ adds to the margin of each given label by the end of training; None without a decomposition."""
    if tuple(views) != ("sigma", "w"):
        return None
    return columns["margin_w_to_end"] - columns["margin_sigma_to_end"]


def _why(
    given: str, suggested: str, agreed: str, *, preferred: bool, suspect: bool, held_out: bool, memorised: bool
) -> str:
    """Explain the rank of a sample with the mean probabilities behind it."""
    if preferred:
        text = f"On average over the epochs the network predicts {suggested}, not {given}"
    elif suspect:
        text = f"On average over the epochs the network predicts {given}, but also {suggested}, and often confuses them"
    else:
        text = f"On average over the epochs the network agrees with {given}"
    text += f"; it predicted the given label in {agreed} epochs"
    if held_out:
        text += "; it was never trained on this sample"
    elif memorised:
        text += "; the given label was memorised by γ"
    return text + "."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.005 else "under 1 %"


def caution(summary: Mapping[str, Any], scores: SampleScores) -> str | None:
    """Return why the estimates of a run are unreliable, or None.

    The accuracy on held-out labels alone says little, since the most frequent label may be right for nine tenths of the
    data. The gain over it counts: see `MIN_GAIN`.
    """
    held_out = np.asarray(scores.columns["given"])[np.asarray(scores.columns["part"]) == "validation"]
    accuracy = (summary.get("chosen") or {}).get("validation_accuracy")
    if 0 < len(held_out) < MIN_HELD_OUT:
        return (
            f"Only {len(held_out)} samples were held out. It takes {MIN_HELD_OUT} or more to tell whether the network "
            "is good enough to estimate how many labels are wrong. The order of the list may still help. Add samples, "
            "or hold out more of them with --set validation_fraction=…"
        )
    # Without held-out samples, the epoch was chosen on clean labels of other samples.
    frequent = float(np.unique(held_out, return_counts=True)[1].max() / len(held_out)) if len(held_out) else 0.0
    if accuracy is None or accuracy - frequent >= MIN_GAIN * (1 - frequent):
        return None
    return (
        f"The network predicts the given label for only {100 * accuracy:.0f} % of the held-out samples; always "
        f"predicting the most frequent label would be right for {100 * frequent:.0f} %. It is too weak for these data, "
        "or too many labels are wrong, so their number cannot be estimated. The order of the list may still help. More "
        "samples, larger images or pretrained weights make a stronger network."
    )


def verdict(run: RankedRun) -> str:
    """Summarise how many labels are suspect and how many are probably wrong, or why that is unknown."""
    if run.caution is not None:
        return f"Caution: {run.caution}"
    ranking = run.ranking
    rate, (low, high) = ranking.estimate.noise_rate, ranking.estimate.noise_rate_interval
    return (
        f"{ranking.suspects:,} of {len(ranking.order):,} labels {'is' if ranking.suspects == 1 else 'are'} more likely "
        "wrong than right.\n"
        f"Estimated share of wrong labels: {100 * rate:.1f} % ({100 * low:.1f} to {100 * high:.1f} %)."
    )
