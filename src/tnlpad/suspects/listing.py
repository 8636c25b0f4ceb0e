"""The ranked list as people read it: a row per suspect, with its names and the reason in words.

When the numbers of a list should not be believed: the network hardly knows labels that it never saw.

How often it gives held-out samples their label says little by itself: the most frequent label alone is right for nine
tenths of some data. What counts is the gain, how far it closes the gap between that and always being right. The least
gain was chosen with seeds 1 and 2 on small images and tables, with wrong labels of two kinds and rates from none to a
half: below it estimates were far off and corrections often wrong, above it both were good, and on numbers without any
meaning the gain stayed below. `benchmarks/noise_rates.py` has the numbers of other seeds.

And of a few held-out samples the gain says nothing: one alone is always of the most frequent label.

A finished run with the label of every sample judged: what its folder holds, read and ranked.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.progress import SILENT, Reporter
from tnlpad.errors import DataError
from tnlpad.records.scores import SampleNames, SampleScores, read_data_file, read_names, read_scores
from tnlpad.records.store import RunFolder
from tnlpad.suspects.ranking import SUSPECT_FROM, Ranking, rank

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset

MOVED = "Put it back there; or give `tnlpad train` the place where it is now, and it finds the run again."

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


LEAST_GAIN = 0.3  # of the way from the most frequent label to all labels
FEWEST_HELD_OUT = 10


def caution(agreement: float | None, usual: float) -> str | None:
    """A warning in words; None where there is nothing to warn of.

    Args:
        agreement: The accuracy on held-out labels as given.
        usual: What always giving the most frequent of those labels would reach.
    """
    if agreement is None or agreement - usual >= LEAST_GAIN * (1 - usual):
        return None
    return (
        f"The network gives only {100 * agreement:.0f} % of the held-out samples the label that they carry, and always "
        f"giving the most frequent one would be right for {100 * usual:.0f} %: it is too weak for these data, or too "
        "many labels are wrong. So it cannot be told how many are. The order of the list may still help. More samples, "
        "larger images or pretrained weights make a stronger network."
    )


def caution_of_few(held_out: int) -> str | None:
    """The same where too few samples were held out to know whether it is needed."""
    if held_out >= FEWEST_HELD_OUT:
        return None
    return (
        f"Only {held_out} samples were held out, and it takes {FEWEST_HELD_OUT} or more to tell whether the network "
        "knows labels that it never saw. So it cannot be told how many are wrong. The order of the list may still "
        "help. Add samples, or hold out more of them with --set validation_fraction=…"
    )


def caution_of_run(folder: RunFolder, scores: SampleScores) -> str | None:
    """Either of them about a finished run; one without samples held out chose its epoch on others, of clean labels."""
    held_out = np.asarray(scores.columns["given"])[np.asarray(scores.columns["part"]) == "validation"]
    agreement = (folder.summary().get("chosen") or {}).get("validation_accuracy")
    if not len(held_out):
        return caution(agreement, 0.0)
    usual = float(np.unique(held_out, return_counts=True)[1].max() / len(held_out))
    return caution_of_few(len(held_out)) or caution(agreement, usual)


@dataclass(frozen=True, kw_only=True, eq=False)
class JudgedSamples:
    """The run, its samples' scores and names, and the judgement."""

    folder: RunFolder
    scores: SampleScores
    names: SampleNames
    ranking: Ranking

    @property
    def caution(self) -> str | None:
        """Why the estimates should not be believed, if so."""
        return caution_of_run(self.folder, self.scores)

    def suspects(self, top: int | None = None) -> list[Suspect]:
        """The most suspicious first; by default all that are more likely wrong than right."""
        return suspects(self.ranking, self.scores, self.names, top)


def judged(folder: RunFolder) -> JudgedSamples:
    """Read a run's scores and rank its samples."""
    scores = read_scores(folder.path)
    names = read_names(folder.path, scores.columns["index"])
    return JudgedSamples(folder=folder, scores=scores, names=names, ranking=rank(scores))


def open_run_data(folder: RunFolder, reporter: Reporter = SILENT) -> "OwnDataset":
    """Open the own data that a run was trained on, from the place where they were.

    Raises:
        DataError: The data have moved or changed, or the run is on a published dataset.
    """
    from tnlpad.data.own import open_dataset

    about = read_data_file(folder.path)
    if about is None:
        raise DataError(f"the run in {folder.path} is on a published dataset.")
    if not os.path.exists(about["path"]):
        raise DataError(f"{about['path']} is gone, and the run in {folder.path} was trained on it. {MOVED}")
    own = open_dataset(
        about["path"],
        images=about["images"],
        label=about.get("label_column"),
        ignored=about.get("ignored", ()),
        reporter=reporter,
    )
    if own.shape.fingerprint != about["fingerprint"]:
        raise DataError(f"{about['path']} has changed since the run in {folder.path} was trained on it. Restore it.")
    return own
