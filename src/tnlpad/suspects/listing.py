"""List the suspects of a run, with the reason in words."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.progress import SILENT, Reporter
from tnlpad.errors import DataError
from tnlpad.records.samples import (
    DATA_FILE,
    SAMPLES_FILE,
    SampleNames,
    read_data_file,
    read_decided,
    read_names,
    read_samples,
)
from tnlpad.records.scores import SCORES_FILE, SampleScores, read_scores
from tnlpad.records.store import Record, RecordError, RunFolder
from tnlpad.records.summaries import loaded_config, loaded_summary
from tnlpad.suspects.audit_files import audit_of
from tnlpad.suspects.estimate import Estimate
from tnlpad.suspects.random_errors import is_out_of_fold
from tnlpad.suspects.ranking import MIN_CLASS_SAMPLES, SUSPECT_FROM, Ranking, rank
from tnlpad.suspects.weakness import caution
from tnlpad.types import Index

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.data.own.dataset import Listing, ReadOptions

NOTABLE_ABSORPTION = 1.0  # in logits: γ makes the given label e times as likely against its best rival
LISTED_WITHOUT_SUSPECTS = 100  # where no label can be called probably wrong
MAX_RARE_NAMED = 5
MOVED = "Put the data back there, or run `tnlpad train` with the new path: it finds the run again."


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A sample whose given label may be wrong.

    `index` is its row in the data as given, from 0: in the table, array or dataset, or in its part if each part has its
    own; for a folder, the place in the sorted list of its image files.
    """

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
class RankedRun:
    """A finished run with its samples ranked.

    Args:
        folder: The run folder.
        config, summary: Its records.
        about: Its `data.json`; empty for a run on a published dataset.
        scores, names: Scores, ids and paths of the samples.
        ranking: Their ranking, with the decisions of an audit and of earlier rounds, if there are any.
        unaudited: Their ranking without them, from which labels are drawn and which an audit recalibrates.
        earlier: Labels that a person decided on in earlier rounds, by id, except those of the audit.
    """

    folder: RunFolder
    config: Record
    summary: Record
    about: Record
    scores: SampleScores
    names: SampleNames
    ranking: Ranking
    unaudited: Ranking
    earlier: Mapping[str, str] = field(default_factory=dict)

    @property
    def caution(self) -> str | None:
        """Why there are no estimates, or None."""
        return self.ranking.weakness

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Further remarks about the ranking."""
        return rarity_notes(self.ranking, self.scores)

    @property
    def rows(self) -> Index:
        """Row of each sample in the data as given."""
        rows: Index = self.scores.columns["index"] if self.names.rows is None else self.names.rows
        return rows

    @cached_property
    def samples(self) -> Mapping[str, Sequence[Any]]:
        """Columns of `samples.parquet`, with the test part; empty for a run on a published dataset."""
        return read_samples(self.folder.path)

    @property
    def title(self) -> str:
        """Name of the data, with the noise that was added."""
        noise = self.config.get("noise")
        name = Path(self.about["path"]).name if self.about else str(self.config["dataset"])
        return name + (f", noise {noise}" if noise not in (None, "none") else "")

    def suspects(self, top: int | None = None) -> list[Suspect]:
        """Return the `top` most suspicious samples, by default all that are more likely wrong than right.

        With a caution, none can be called so, and the default is the first `LISTED_WITHOUT_SUSPECTS`.
        """
        if top is None and self.caution is not None:
            top = LISTED_WITHOUT_SUSPECTS
        return suspects(self.ranking, self.scores, self.names, top)

    def suspects_at(self, positions: Sequence[int] | Index) -> list[Suspect]:
        """Return the samples at these positions of the order, of which 0 is the most suspicious."""
        return suspects_at(self.ranking, self.scores, self.names, positions)

    def open_data(self, reporter: Reporter = SILENT) -> "OwnDataset":
        """Open the own data that the run was trained on.

        Raises:
            DataError: The data were moved or changed, or the run is on a published dataset.
        """
        from tnlpad.data.own import open_dataset

        about, run = self.about, self.folder.path
        self.require_data()
        data = open_dataset(about["path"], images=about.get("images"), reporter=reporter, **vars(self.read_options))
        if data.shape.fingerprint != about["fingerprint"]:
            way_out = "Restore it."
            if "categories" not in about:
                way_out = "Restore it. If it is unchanged, an older version read it in another way: train again."
            raise DataError(f"{about['path']} has changed since the run in {run} was trained on it. {way_out}")
        known = set(data.ids)
        if (unknown := next((name for name in self.names.ids if name not in known), None)) is not None:
            raise DataError(
                f"{about['path']} has no sample {unknown[:80]!r}, which {run / SAMPLES_FILE} names: the ids in one of "
                "them have changed. Restore it."
            )
        return data

    def list_data(self) -> "Listing":
        """List the own data that the run was trained on, without checking their content.

        Raises:
            DataError: The data were moved, or the run is on a published dataset.
        """
        from tnlpad.data.own.open import list_samples

        self.require_data()
        images = self.about.get("images")
        return list_samples(Path(self.about["path"]), None if images is None else Path(images), self.read_options)

    @property
    def read_options(self) -> "ReadOptions":
        """Options with which the data of the run are read."""
        from tnlpad.data.own.dataset import ReadOptions

        about = self.about
        kept = about.get("categories") is not None  # a table that a program held in memory
        return ReadOptions(
            label=about.get("label_column"),
            text=about.get("text_column"),
            group=about.get("group_column"),
            id=about.get("id_column"),
            columns=about.get("columns", ()) if kept else (),
            categories=about["categories"] if kept else None,
            ignored=about.get("ignored", ()),
        )

    def require_data(self) -> None:
        """Raise DataError if there is nothing at the path of the own data."""
        path, run = self.about.get("path"), self.folder.path
        if path is None:
            raise DataError(f"the run in {run} is on a published dataset.")
        if not os.path.exists(path):
            raise DataError(f"{path} is gone, and the run in {run} was trained on it. {MOVED}")


def rank_run(folder: RunFolder) -> RankedRun:
    """Rank the samples of a finished run, with the decisions of its audit and of earlier rounds, if there are any.

    Raises:
        RecordError: Records of the run are missing or damaged.
    """
    scores, summary = read_scores(folder.path), loaded_summary(folder)
    folder.warn_if_unchecked()
    ranking = rank(scores)
    names = read_names(folder.path, scores.columns["index"])  # after ranking, whose intermediate arrays are large
    if ranking.weakness is None and (weakness := caution(summary, scores)) is not None:
        ranking = ranking.without_estimates(weakness)
    audit, unaudited = audit_of(folder.path, scores, names.ids), ranking
    if audit is not None:
        ranking = ranking.audited(audit, names.ids)
    audited = {} if audit is None else audit.review
    earlier = {name: label for name, label in read_decided(folder.path).items() if name not in audited}
    rows = {row: earlier[name] for row, name in enumerate(names.ids) if name in earlier}
    about = read_data_file(folder.path) or {}
    _require_of_one_run(folder, summary, about, scores)
    return RankedRun(
        folder=folder,
        config=loaded_config(folder),
        summary=summary,
        about=about,
        scores=scores,
        names=names,
        ranking=ranking.checked(rows, scores.class_names),
        unaudited=unaudited,
        earlier=earlier,
    )


def _require_of_one_run(folder: RunFolder, summary: Record, about: Record, scores: SampleScores) -> None:
    """Raise RecordError if the scores of a run have the id or the classes of another one."""
    own, found = (record.get("run_id") for record in (summary, scores.facts))
    if own is not None and found is not None and _hash(own) != _hash(found):
        other, difference = folder.summary_file.name, f"run_id is {own!r:.200} and {found!r:.200}"
    elif tuple(about.get("class_names", scores.class_names)) != scores.class_names:
        other, difference = DATA_FILE, "their class_names differ"
    else:
        return
    raise RecordError(
        f"{folder.path / SCORES_FILE} and {other} belong to different runs ({difference}). Restore them from a copy of "
        "the run."
    )


def _hash(run_id: str) -> str:
    """Return the last word of a run's id, since the words before it depend on the name of the data."""
    return run_id.rpartition("_")[2]


def suspects(ranking: Ranking, scores: SampleScores, names: SampleNames, top: int | None = None) -> list[Suspect]:
    """List the `top` most suspicious samples, by default all that are more likely wrong than right."""
    return suspects_at(ranking, scores, names, range(len(ranking.order))[: ranking.suspects if top is None else top])


def suspects_at(
    ranking: Ranking, scores: SampleScores, names: SampleNames, positions: Sequence[int] | Index
) -> list[Suspect]:
    """List the samples at these positions of the order."""
    found, classes = ranking.evidence, scores.class_names
    out_of_fold, epochs = is_out_of_fold(scores), int(scores.facts.get("epochs_until_chosen", 0))
    at = np.asarray(positions, dtype=np.int64)
    places = ranking.order[at]
    seen = {name: column[places] for name, column in scores.columns.items()}
    absorption = absorbed(seen, scores.views)
    columns = (
        at + 1,
        places,
        seen["index"] if names.rows is None else names.rows[places],
        seen["part"],
        found.given[places],
        found.suggested[places],
        ranking.score[places].round(6),
        ranking.confidence[places].round(4),
        found.given_probability[places],
        found.suggested_probability[places],
        np.zeros(len(at)) if out_of_fold else seen[f"agreed_{scores.views[0]}"],
        np.zeros(len(at)) if absorption is None else absorption,
    )
    listed = []
    # Plain numbers are much faster than those of NumPy for a hundred thousand rows.
    for row in zip(*(column.tolist() for column in columns), strict=True):
        number, place, index, part, given, suggested, score, sure, of_given, of_suggested, agreed, absorbed_margin = row
        names_and_shares = (
            f"“{classes[given]}” ({_percent(of_given)})",
            f"“{classes[suggested]}” ({_percent(of_suggested)})",
        )
        if place in ranking.decisions:
            why = _why_checked(ranking.decisions[place], classes[given])
        elif out_of_fold:
            why = _why_out_of_fold(*names_and_shares, preferred=of_suggested > of_given, rare=given in ranking.rare)
        else:
            why = _why(
                *names_and_shares,
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
        text = f"On average over the epochs the network finds {suggested} more likely than {given}"
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
        text = f"Models that never saw this label find {suggested} more likely than {given}"
    else:
        text = f"Models that never saw this label agree with {given}"
    return text + ("; the class has too few samples to judge." if rare else ".")


def _why_checked(label: str | None, given: str) -> str:
    """Explain the rank of a sample that a person has checked."""
    if label == given:
        return "You checked this label: it is right."
    return "You checked this label: no class fits." if label is None else f"You checked this label: it is “{label}”."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.005 else "under 1 %"


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


def rate_sentences(estimate: Estimate, audit: str | None = "tnlpad audit RUN") -> tuple[str, str]:
    """Return what the data show about the share of wrong labels, and what they cannot show.

    Args:
        estimate: The estimate.
        audit: The command that settles it, if there is one.
    """
    low, high = estimate.noise_rate_interval
    share = f"{100 * estimate.noise_rate:.1f} % ({100 * low:.1f} to {100 * high:.1f} %)"
    if estimate.checked is not None:
        return (
            f"Share of wrong labels, by the {estimate.checked:,} that you checked: {share}.",
            f"This counts errors of every kind. To narrow it, check more: {audit}",
        )
    if estimate.random_only:
        shown = f"About {share} of the labels are wrong at random."
        hidden = (
            "Errors that follow the classes, such as one class often labelled as another, come on top and cannot be "
            "told from classes that look alike."
        )
    else:
        shown = f"Estimated share of wrong labels: {share}."
        hidden = (
            "Errors that the network has learnt, such as those of a rule, do not show, and classes that look alike may "
            "count as errors."
        )
    return shown, f"{hidden} To measure all errors, check a random sample{'.' if audit is None else f': {audit}'}"


def verdict(run: RankedRun) -> str:
    """Summarise how many labels are suspect and how many are probably wrong, or why that is unknown."""
    return verdict_on(run.ranking, run.notes, f"tnlpad audit {shlex.quote(str(run.folder.path))}")


def verdict_on(ranking: Ranking, remarks: Sequence[str], audit: str | None) -> str:
    """Summarise a ranking as `verdict` does; for `audit` see `rate_sentences`."""
    notes = "".join(f"\nNote: {remark}" for remark in remarks)
    if ranking.weakness is not None:
        return f"Caution: {ranking.weakness}{notes}"
    shown, hidden = rate_sentences(ranking.estimate, audit)
    return (
        f"{ranking.suspects:,} of {len(ranking.order):,} labels {'is' if ranking.suspects == 1 else 'are'} more likely "
        f"wrong than right.\n{shown}\n{hidden}{notes}"
    )
