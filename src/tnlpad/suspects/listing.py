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

Out-of-fold samples need no scaling. Their doubt is the logarithm of the odds of a fitted model (`random_errors.py`).

A network that is too weak gives no rate, and calls no label probably wrong: only the order remains. How much it knows
is measured on samples that it was not trained on. A class with few samples is hardly learnt, so its samples are ranked
no higher than the median, and the class is named.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.progress import SILENT, Reporter
from tnlpad.errors import DataError
from tnlpad.records.scores import SampleNames, SampleScores, read_data_file, read_names, read_samples, read_scores
from tnlpad.records.store import Record, RunFolder
from tnlpad.suspects.calibrate import comparable, confidence, out_of_fold_confidence, withheld
from tnlpad.suspects.estimate import Estimate, contradicted_clearly, estimate, estimate_out_of_fold, first_transition
from tnlpad.suspects.evidence import Evidence, Floats, evidence, out_of_fold_evidence, predictions
from tnlpad.suspects.random_errors import RandomErrors, fit_random_errors, is_out_of_fold
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
# Limits for one training with held-out samples: the mean number of classes that its predictions leave open (the
# exponential of their entropy) as a power of the number of all classes, which is never below two, and the width of the
# interval. Beyond them, estimates were 10 points off and more. Chosen with seed 1 on small images and photographs.
MAX_OPEN_POWER, MIN_OPEN = 0.5, 2.0
MAX_WIDTH = 0.5
# How far the share of contradicted labels among the clearest samples may exceed the rate of random errors. Chosen on
# seeds 1 to 4 of data as in `benchmarks/rates.py`: random errors stayed below 0.06, most other errors above 0.1.
MAX_MORE_CONTRADICTED = 0.08
MIN_CLASS_SAMPLES = 5  # a class with fewer is too rare to judge its labels
LISTED_WITHOUT_SUSPECTS = 100  # where no label can be called probably wrong
MAX_RARE_NAMED = 5
WITHOUT_ESTIMATES = (
    "So the number of wrong labels cannot be estimated. The order of the list may still help. More samples, larger "
    "images, a pretrained network or other features make stronger predictions."
)
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
        suspects: Number of samples, from the start, whose label is more likely wrong than right; 0 with a weakness.
        weakness: Why the network is too weak for estimates, or None. Only the order has a meaning then, and
            confidences that are listed stay below one half.
        rare: Labels of the classes that have too few samples to judge.
    """

    evidence: Evidence
    estimate: Estimate
    confidence: Floats
    score: Floats
    order: Index
    suspects: int
    weakness: str | None = None
    rare: tuple[int, ...] = ()

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
        """Why there are no estimates, or None."""
        return self.ranking.weakness or caution(self.summary, self.scores)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Further remarks about the ranking."""
        return rarity_notes(self.ranking, self.scores)

    @cached_property
    def samples(self) -> Mapping[str, Sequence[Any]]:
        """Columns of `samples.parquet`, with the test part; empty for a run on a published dataset."""
        return read_samples(self.folder.path)

    def suspects(self, top: int | None = None) -> list[Suspect]:
        """Return the `top` most suspicious samples, by default all that are more likely wrong than right.

        With a caution, none can be called so, and the default is the first `LISTED_WITHOUT_SUSPECTS`.
        """
        if top is None and self.caution is not None:
            top = LISTED_WITHOUT_SUSPECTS
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
            text=about.get("text_column"),
            group=about.get("group_column"),
            reporter=reporter,
        )
        if data.shape.fingerprint != about["fingerprint"]:
            raise DataError(f"{about['path']} has changed since the run in {run} was trained on it. Restore it.")
        return data


def rank_run(folder: RunFolder) -> RankedRun:
    """Read the records of a finished run and rank its samples; raise `RecordError` if they are missing or damaged."""
    scores, summary = read_scores(folder.path), folder.summary()
    ranking = rank(scores)
    if ranking.weakness is None and (weakness := caution(summary, scores)) is not None:
        ranking = _without_estimates(ranking, weakness)
    return RankedRun(
        folder=folder,
        config=folder.config(),
        summary=summary,
        about=read_data_file(folder.path) or {},
        scores=scores,
        names=read_names(folder.path, scores.columns["index"]),
        ranking=ranking,
    )


def rank(scores: SampleScores) -> Ranking:
    """Rank all samples by suspicion."""
    seen = predictions(scores)
    sizes = np.bincount(seen.given, minlength=seen.num_classes)
    if is_out_of_fold(scores):
        errors = fit_random_errors(scores)
        weakness = _out_of_fold_weakness(errors, len(scores)) or _systematic(errors, *contradicted_clearly(seen))
        found = out_of_fold_evidence(scores, seen, errors)
        doubt = _without_rarity(found.doubt, sizes[seen.given])
        estimated = estimate_out_of_fold(scores, errors)
        wrong = out_of_fold_confidence(doubt, estimated.noise_rate)
    else:
        found = evidence(scores, seen, first_transition(seen))
        doubt = _without_rarity(comparable(found.doubt, found.held_out), sizes[seen.given])
        estimated = estimate(seen, doubt)
        weakness = _held_out_weakness(scores, np.flatnonzero(seen.held_out), estimated)
        wrong = confidence(doubt, estimated.noise_rate)
    order: Index = np.argsort(-doubt, kind="stable")
    score = np.empty(len(order))
    score[order] = 1 - np.arange(len(order)) / max(1, len(order))
    ranking = Ranking(
        evidence=found,
        estimate=estimated,
        confidence=wrong,
        score=score,
        order=order,
        suspects=int((wrong >= SUSPECT_FROM).sum()),
        rare=tuple(np.flatnonzero((sizes > 0) & (sizes < MIN_CLASS_SAMPLES)).tolist()),
    )
    return ranking if weakness is None else _without_estimates(ranking, weakness)


def _without_estimates(ranking: Ranking, weakness: str) -> Ranking:
    return replace(ranking, suspects=0, weakness=weakness)


def _without_rarity(doubt: Floats, class_size: NDArray[np.int64]) -> Floats:
    """Limit the doubt of samples of rare classes to the median doubt."""
    rare = class_size < MIN_CLASS_SAMPLES
    if not rare.any() or rare.all():
        return doubt
    return np.where(rare, np.minimum(doubt, np.median(doubt[~rare])), doubt)


def _out_of_fold_weakness(errors: RandomErrors, samples: int) -> str | None:
    if not errors.too_weak:
        return None
    return (
        f"The networks know too little about these {samples:,} samples: their predictions for samples that they were "
        f"not trained on hold {100 * errors.information:.0f} % of what certain ones would. {WITHOUT_ESTIMATES}"
    )


def _systematic(errors: RandomErrors, contradicted: int, clearest: int) -> str | None:
    """Return why errors seem to follow the classes, or None."""
    from scipy.stats import beta  # type: ignore[import-untyped, unused-ignore]  # slow to import

    least = float(beta.ppf(0.025, contradicted, clearest - contradicted + 1)) if contradicted else 0.0
    if least <= errors.interval[1] + MAX_MORE_CONTRADICTED:
        return None
    return (
        f"Where the networks are surest, they contradict {100 * contradicted / clearest:.0f} % of the labels, but at "
        f"most {100 * errors.interval[1]:.0f} % are wrong at random. So some classes are often labelled as others, or "
        "look alike. The data cannot tell which, so the number of wrong labels cannot be estimated. The order of the "
        "list may still help. Check a random sample: tnlpad audit RUN"
    )


def _held_out_weakness(scores: SampleScores, held_out: Index, estimated: Estimate) -> str | None:
    if len(held_out) < MIN_HELD_OUT:
        return None  # see `caution`
    classes = len(scores.class_names)
    open_classes = classes ** (1 - fit_random_errors(scores, held_out).information)
    low, high = estimated.noise_rate_interval
    # Rounding must not decide about two classes, between which nothing but the width can.
    if open_classes > max(MIN_OPEN, classes**MAX_OPEN_POWER) + 1e-6:
        return (
            f"The network knows too little: its predictions for the held-out samples leave {open_classes:.1f} of "
            f"{classes} classes open on average. {WITHOUT_ESTIMATES}"
        )
    if high - low > MAX_WIDTH:
        return (
            f"The {len(held_out):,} held-out samples leave anything from {100 * low:.0f} to {100 * high:.0f} % of "
            f"wrong labels possible. {WITHOUT_ESTIMATES}"
        )
    return None


def suspects(ranking: Ranking, scores: SampleScores, names: SampleNames, top: int | None = None) -> list[Suspect]:
    """List the `top` most suspicious samples, by default all that are more likely wrong than right."""
    found, classes = ranking.evidence, scores.class_names
    out_of_fold, epochs = is_out_of_fold(scores), int(scores.facts.get("epochs_until_chosen", 0))
    absorption = absorbed(scores.columns, scores.views)
    columns = (
        np.arange(len(scores)),
        scores.columns["index"],
        scores.columns["part"],
        found.given,
        found.suggested,
        ranking.score.round(6),
        (ranking.confidence if ranking.weakness is None else withheld(ranking.confidence)).round(4),
        found.given_probability,
        found.suggested_probability,
        np.zeros(len(scores)) if out_of_fold else scores.columns[f"agreed_{scores.views[0]}"],
        np.zeros(len(scores)) if absorption is None else absorption,
    )
    places = ranking.order[: ranking.suspects if top is None else top]
    listed = []
    # Plain numbers are much faster than those of NumPy for a hundred thousand rows.
    for number, row in enumerate(zip(*(column[places].tolist() for column in columns), strict=True), start=1):
        place, index, part, given, suggested, score, sure, of_given, of_suggested, agreed, absorbed_margin = row
        names_and_shares = (
            f"“{classes[given]}” ({_percent(of_given)})",
            f"“{classes[suggested]}” ({_percent(of_suggested)})",
        )
        why = (
            _why_out_of_fold(*names_and_shares, preferred=of_suggested > of_given, rare=given in ranking.rare)
            if out_of_fold
            else _why(
                *names_and_shares,
                f"{round(agreed * epochs)} of {epochs}",
                preferred=of_suggested > of_given,
                suspect=sure >= SUSPECT_FROM,
                held_out=part == "validation",
                memorised=absorbed_margin >= NOTABLE_ABSORPTION,
            )
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


def _why_out_of_fold(given: str, suggested: str, *, preferred: bool, rare: bool) -> str:
    """Explain the rank of an out-of-fold sample."""
    if preferred:
        text = f"Networks that never saw this label predict {suggested}, not {given}"
    else:
        text = f"Networks that never saw this label agree with {given}"
    return text + ("; the class has too few samples to judge." if rare else ".")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.005 else "under 1 %"


def caution(summary: Mapping[str, Any], scores: SampleScores) -> str | None:
    """Return why a run has no estimates, as far as its accuracy and its number of held-out samples say; or None.

    The accuracy on held-out labels alone says little, since the most frequent label may be right for nine tenths of the
    data. The gain over it counts: see `MIN_GAIN`.
    """
    if is_out_of_fold(scores):
        return None  # `rank` measures what the networks know about all samples
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


def rarity_notes(ranking: Ranking, scores: SampleScores) -> tuple[str, ...]:
    """Name the classes that have too few samples to judge."""
    if not ranking.rare:
        return ()
    names = [f"“{scores.class_names[label]}”" for label in ranking.rare[:MAX_RARE_NAMED]]
    more = len(ranking.rare) - len(names)
    listed = ", ".join(names) + (f" and {more:,} more" if more else "")
    return (
        f"{'Class' if len(ranking.rare) == 1 else 'Classes'} {listed}: fewer than {MIN_CLASS_SAMPLES} samples, too few "
        "to judge. Check these labels yourself.",
    )


def rate_sentences(estimate: Estimate, audit: str = "tnlpad audit RUN") -> tuple[str, str]:
    """Return what the data show about the share of wrong labels, and what they cannot show.

    Args:
        estimate: The estimate.
        audit: The command that settles it.
    """
    low, high = estimate.noise_rate_interval
    share = f"{100 * estimate.noise_rate:.1f} % ({100 * low:.1f} to {100 * high:.1f} %)"
    if estimate.random_only:
        shown = f"Random errors: the data show that {share} of the labels are wrong at random."
        hidden = (
            "Errors that follow the classes, such as one class often labelled as another, come on top and cannot be "
            "told from classes that look alike."
        )
    else:
        shown = f"Estimated share of wrong labels: {share}."
        hidden = (
            "Errors that the network learnt as if they were right, such as those of a rule, cannot be seen in the data."
        )
    return shown, f"{hidden} To measure all errors, check a random sample: {audit}"


def verdict(run: RankedRun) -> str:
    """Summarise how many labels are suspect and how many are probably wrong, or why that is unknown."""
    notes = "".join(f"\nNote: {note}" for note in run.notes)
    if run.caution is not None:
        return f"Caution: {run.caution}{notes}"
    ranking = run.ranking
    shown, hidden = rate_sentences(ranking.estimate, f"tnlpad audit {shlex.quote(str(run.folder.path))}")
    return (
        f"{ranking.suspects:,} of {len(ranking.order):,} labels {'is' if ranking.suspects == 1 else 'are'} more likely "
        f"wrong than right.\n{shown}\n{hidden}{notes}"
    )
