"""The audit of a run: the share of wrong labels from decisions about a random sample, with recalibrated confidence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.errors import DataError
from tnlpad.records.store import RecordError
from tnlpad.suspects.audit import By, Choice, Rate, Sample, draw, rate, recalibrated
from tnlpad.suspects.evidence import Floats
from tnlpad.suspects.intervals import LEVEL

if TYPE_CHECKING:
    from tnlpad.suspects.listing import RankedRun

UNSURE = "?"  # as a decision in Python: the person cannot tell
RESULT_FORMAT = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit:
    """The result of an audit.

    Args:
        run: Id of the run.
        by, seed: Design and random seed of the sample; None for decisions about samples that were drawn elsewhere.
        drawn, total: Number of labels drawn, and of all labels.
        rate: The share of wrong labels.
        class_names: Names by label.
        review: The right label by id, for `tnlpad clean`: None where no class fits. Samples that the person was not
            sure about are not in it.
        given: The given label of these samples.
        weights: Number of labels that each of them stands for.
        mean_confidence: Mean confidence that a label is wrong, before and after the recalibration.
    """

    run: str
    by: By | None
    seed: int | None
    drawn: int
    total: int
    rate: Rate
    class_names: tuple[str, ...]
    review: Mapping[str, str | None]
    given: Mapping[str, str]
    weights: Mapping[str, float]
    mean_confidence: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        """Return the content of `result.json`."""
        plain = asdict(self)
        for each, found in zip(plain["rate"]["classes"], self.rate.classes, strict=True):
            each["name"] = self.class_names[found.label]
        return {"format": RESULT_FORMAT, "level": LEVEL} | plain

    def confidence(self, ids: Sequence[str], confidence: Floats) -> Floats:
        """Return recalibrated confidences of the samples with these ids; see `recalibrated`."""
        place = {name: row for row, name in enumerate(ids)}
        known = [name for name in self.review if name in place]
        rows = np.array([place[name] for name in known], dtype=np.int64)
        wrong = np.array([self.review[name] != self.given[name] for name in known], dtype=bool)
        return recalibrated(confidence, rows, wrong, np.array([self.weights[name] for name in known]))


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A decision about a label; `label` is the right class, or None where it is not known or none fits."""

    choice: Choice
    label: str | None


def audit_run(run: "RankedRun", decisions: Mapping[str, Decision | str | None], sample: Sample | None = None) -> Audit:
    """Estimate the share of wrong labels of a run, and recalibrate its confidence.

    Args:
        run: The run.
        decisions: By id: a decision, or the right label, None where no label fits and `UNSURE` if that is unknown.
        sample: The sample; by default the decided samples count as a simple random sample of all.

    Raises:
        DataError: A decision is about a sample that was not drawn, or there is none.
    """
    given, names = run.ranking.evidence.given, run.scores.class_names
    given_by_id = {name: names[label] for name, label in zip(run.names.ids, given.tolist(), strict=True)}
    require_known(decisions, given_by_id, "decisions")
    seen = {name: _decision(decision, given_by_id[name]) for name, decision in decisions.items()}
    drawn = sample if sample is not None else _as_random_sample(seen, run)
    ids = [run.names.ids[row] for row in drawn.rows.tolist()]
    require_drawn(seen, set(ids), "decisions")
    try:
        found = rate([seen[name].choice if name in seen else None for name in ids], drawn)
    except ValueError as error:
        raise DataError(str(error)) from error
    review = {name: seen[name].label for name in ids if name in seen and seen[name].choice != "unsure"}
    weights = _weights(drawn, np.array([name in review for name in ids]))
    audit = Audit(
        run=run_id(run),
        by=drawn.by if sample is not None else None,
        seed=drawn.seed if sample is not None else None,
        drawn=len(drawn),
        total=drawn.total,
        rate=found,
        class_names=tuple(names),
        review=review,
        given={name: given_by_id[name] for name in review},
        weights={name: weight for name, weight in zip(ids, weights.tolist(), strict=True) if name in review},
        mean_confidence=(float(run.unaudited.confidence.mean()), 0.0),
    )
    after = float(audit.confidence(run.names.ids, run.unaudited.confidence).mean())
    return replace(audit, mean_confidence=(audit.mean_confidence[0], after))


def _decision(decision: Decision | str | None, given: str) -> Decision:
    if isinstance(decision, Decision):
        return decision
    if decision == UNSURE != given:
        return Decision(choice="unsure", label=None)
    return Decision(choice="right" if decision == given else "wrong", label=decision)


def _as_random_sample(seen: Mapping[str, Decision], run: "RankedRun") -> Sample:
    given = run.ranking.evidence.given
    rows = np.flatnonzero([name in seen for name in run.names.ids])
    classes, cell_of, sizes = np.unique(given, return_inverse=True, return_counts=True)
    return Sample(
        by="random",
        seed=0,
        rows=rows,
        cells=cell_of[rows],
        cell_strata=np.zeros(len(classes), dtype=np.int64),
        cell_classes=classes,
        cell_sizes=sizes,
    )


def _weights(sample: Sample, decided: NDArray[np.bool_]) -> Floats:
    """Return how many labels each row of the sample stands for."""
    strata = sample.cell_strata[sample.cells]
    sizes = np.bincount(sample.cell_strata, weights=sample.cell_sizes)
    weights: Floats = (sizes / np.maximum(np.bincount(strata[decided], minlength=len(sizes)), 1))[strata]
    return weights


def run_id(run: "RankedRun") -> str:
    """Return the id of a run."""
    return str(run.scores.facts.get("run_id", run.folder.path.name))


def draw_from_run(run: "RankedRun", size: int, *, by: By = "random", seed: int = 1) -> Sample:
    """Draw labels of a run; see `draw`."""
    return draw(size, run.unaudited.evidence.given, run.unaudited.confidence, by=by, seed=seed)


def extended(sample: Sample, size: int, run: "RankedRun") -> Sample:
    """Return a larger sample with the same design and seed, which contains the present one.

    Raises:
        RecordError: The confidence has changed since the sample was drawn, so the drawing cannot be continued.
        ValueError: There are not so many labels.
    """
    if size <= len(sample):
        return sample
    larger = draw_from_run(run, size, by=sample.by, seed=sample.seed)
    if not set(sample.rows.tolist()) <= set(larger.rows.tolist()):
        raise RecordError(
            "the confidence of the run has changed since the sample was drawn, so it cannot be extended. Use the "
            "decisions that you have, or draw a new sample with --out FOLDER."
        )
    return larger


def require_known(ids: Iterable[str], known: Mapping[str, Any], where: str) -> None:
    """Raise DataError unless all of these samples are in the run."""
    if unknown := set(ids) - known.keys():
        raise DataError(
            f"{where}: {min(unknown)[:80]!r} is not a sample of this run. Are these decisions about another run?"
        )


def require_drawn(ids: Iterable[str], drawn: set[str], where: str) -> None:
    """Raise DataError unless all of these samples were drawn."""
    if others := set(ids) - drawn:
        raise DataError(
            f"{where}: {min(others)[:80]!r} is not in the sample. Only labels that were drawn at random may count. "
            "Remove it."
        )
