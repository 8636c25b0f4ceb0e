"""What stopping on patience would have changed, told from runs that went on to their last epoch.

A run may end once its best noisy validation accuracy lies some epochs back. Where full runs show that the chosen epoch
would have been the same, further runs can be shorter and mean the same; where it would not, they cannot.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean

from tnlpad.records.archive import FinishedRecord
from tnlpad.report.tables import markdown_row, signed
from tnlpad.report.words import dataset_title, method_title

PATIENCES = (10, 20, 30)
HEADINGS = ("data", "method", "patience", "same epoch chosen", "change of test accuracy", "epochs spared")


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """Full runs of one method on one dataset, as a patience would have ended them.

    Args:
        runs: How many there are.
        same: How many would have chosen the same epoch.
        change: Mean change of the chosen epoch's test accuracy, in points.
        spared: Share of all epochs that would not have been run.
    """

    runs: int
    same: int
    change: float
    spared: float


def stopped(validation: Sequence[float], patience: int) -> tuple[int, int]:
    """The chosen and the last epoch of a run that ends when the first best one lies `patience` epochs back."""
    best = 1
    for epoch in range(1, len(validation) + 1):
        if validation[epoch - 1] > validation[best - 1]:
            best = epoch
        if epoch - best >= patience:
            return best, epoch
    return best, len(validation)


def stopping(records: Sequence[FinishedRecord], patience: int) -> Stopping:
    """Over runs that had no patience themselves."""
    same, changes, run, planned = 0, [], 0, 0
    for record in records:
        validation, test = record.curves.validation_accuracy, record.curves.test_accuracy
        full, _ = stopped(validation, len(validation))
        early, last = stopped(validation, patience)
        same += early == full
        changes.append(100 * (test[early - 1] - test[full - 1]))
        run, planned = run + last, planned + len(validation)
    return Stopping(runs=len(records), same=same, change=mean(changes), spared=1 - run / planned)


def patience_markdown(records: Iterable[FinishedRecord]) -> str:
    """A table with a line for each dataset, method and patience."""
    groups: dict[tuple[str, str], list[FinishedRecord]] = {}
    for record in records:
        if record.config.get("patience") is None:
            groups.setdefault((record.config["dataset"], record.config["method"]), []).append(record)
    rows = [list(HEADINGS), ["---", "---", *["---:"] * 4]]
    for (dataset, method), group in groups.items():
        for patience in PATIENCES:
            each = stopping(group, patience)
            words = [dataset_title(dataset), method_title(method), str(patience), f"{each.same} of {each.runs}"]
            rows.append([*words, signed(each.change), f"{100 * each.spared:.0f} %"])
    return "\n".join(map(markdown_row, rows)) + "\n"
