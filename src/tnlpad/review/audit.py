"""The random sample of a review, from which the share of wrong labels is estimated.

It is the sample of `tnlpad audit`, in the same files. A person also decides on labels because they are suspicious. If
such a decision counted whenever its label happens to be drawn, the share would be too high. The drawn labels are in
random order, so all up to the first one without a decision are a random sample of their own, whatever else was decided:
these count. Once all are decided on, the result is written, and `tnlpad suspects` and `tnlpad clean` use it.
"""

from itertools import takewhile
from threading import Lock
from typing import Any

from tnlpad.errors import DataError
from tnlpad.review.decisions import Decision, DecisionLog
from tnlpad.suspects import audited_run
from tnlpad.suspects.audit import Sample
from tnlpad.suspects.audit_files import FOLDER, read_sample, write_audit, write_sample
from tnlpad.suspects.audited_run import Audit, audit_run, draw_from_run, extended


class ReviewAudit:
    """Draws labels at random, and estimates the share of wrong ones from the decisions about them.

    Args:
        log: The decisions.

    Raises:
        RecordError: The files of an earlier sample are damaged.
    """

    def __init__(self, log: DecisionLog) -> None:
        self.log, self.run = log, log.run
        self.folder = log.run.folder.path / FOLDER
        self.sample: Sample | None = read_sample(self.folder, log.run)
        self._lock = Lock()

    def draw(self, size: int) -> None:
        """Draw a sample, or extend the present one.

        Raises:
            OSError: The sample cannot be written.
            RecordError: The present sample cannot be extended.
            ValueError: There are not so many labels.
        """
        with self._lock:
            present = self.sample
            larger = draw_from_run(self.run, size) if present is None else extended(present, size, self.run)
            if larger is not present:
                write_sample(self.folder, self.run, larger)
                self.sample = larger

    def document(self) -> dict[str, Any]:
        """Return the sample by position, in its random order, and what the decisions say."""
        sample = self.sample
        if sample is None:
            return {"positions": [], "sentence": None, "decided": 0, "drawn": 0} | _limits(None)
        decisions = self._decisions(sample)
        result = self._result(sample, decisions)
        return {
            "positions": [each.at for each in decisions],
            "sentence": None if result is None else _sentence(result),
            "decided": sum(each.choice is not None for each in decisions),
            "drawn": len(decisions),
            **_limits(result),
        }

    def save(self) -> None:
        """Write the result if all drawn labels are decided on."""
        sample = self.sample
        if sample is None:
            return
        decisions = self._decisions(sample)
        if all(each.choice is not None for each in decisions):
            result = self._result(sample, decisions)
            if result is not None:
                write_audit(self.folder, result)

    def _decisions(self, sample: Sample) -> list[Decision]:
        return [self.log.last(at) for at in self.run.ranking.positions[sample.rows].tolist()]

    def _result(self, sample: Sample, decisions: list[Decision]) -> Audit | None:
        counted = takewhile(lambda each: each.choice is not None, decisions)
        ids, ranking = self.run.names.ids, self.run.ranking
        seen = {}
        for each in counted:
            row = int(ranking.order[each.at])
            # An earlier decision may name a class that the run does not have, which the log cannot hold.
            label = ranking.decisions[row] if each.by == "earlier" else each.label
            seen[ids[row]] = _audited(each, label)
        try:
            return audit_run(self.run, seen, sample)
        except DataError:  # no label is called right or wrong yet
            return None


def _audited(decision: Decision, label: str | None) -> audited_run.Decision:
    if decision.choice == "unsure":
        return audited_run.Decision(choice="unsure", label=None)
    return audited_run.Decision(choice="right" if decision.choice == "given" else "wrong", label=label)


def _limits(result: Audit | None) -> dict[str, float | None]:
    share = None if result is None else result.rate.share
    return {name: None if share is None else getattr(share, name) for name in ("estimate", "low", "high")}


def _sentence(result: Audit) -> str:
    rate, share = result.rate, result.rate.share
    unsure = f", {rate.unsure:,} unclear" if rate.unsure else ""
    return (
        f"Checked {rate.checked + rate.unsure:,} of {result.drawn:,} labels in their random order: {rate.wrong:,} "
        f"wrong, {rate.checked - rate.wrong:,} right{unsure}. Share of wrong labels among all {result.total:,}: "
        f"{100 * share.estimate:.1f} % (95 % interval {100 * share.low:.1f} to {100 * share.high:.1f} %)."
    )
