"""What methods keep: of those that pick samples, how many of the labels they learn from are right.

Precision is the share of right labels among those kept, recall the share of the right labels that are kept, each the
mean over the networks that pick. How many labels of the training part are right is not recorded as such; but an epoch
that keeps all of them, as the first does by nearly every recipe, says it by its precision. (The summary's share of
wrong labels will not do: it is that of training and validation part together.) Runs without such an epoch, and those of
versions that did not record how many were kept, have no recall, and none is guessed.

Curves are rounded to a hundredth of a percent, which leaves a recall uncertain by about two: one digit is shown.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from tnlpad.records.archive import FinishedRecord
from tnlpad.records.curves import BrokenCurve
from tnlpad.records.store import RecordError
from tnlpad.report.groups import Group, Spread
from tnlpad.report.results import all_groups
from tnlpad.report.studies import RowKey, as_counted, row_key, set_up
from tnlpad.report.words import noise_title

QUANTITIES = ("precision", "recall", "kept")


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """One run, epoch after epoch; all of them shares of 1, None where there is nothing to say."""

    precision: BrokenCurve
    recall: BrokenCurve
    kept: BrokenCurve


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Runs that differ in their seed alone, of a method that picks samples."""

    group: Group
    runs: tuple[Keeping, ...]

    @cached_property
    def key(self) -> RowKey:
        """Where its row stands, and what it says."""
        return row_key(self.group)

    def chosen(self, quantity: str) -> Spread | None:
        """At the chosen epoch, over the seeds that have it."""
        known = []
        for record, run in zip(self.group.records, self.runs, strict=True):
            curve: BrokenCurve = getattr(run, quantity)
            epoch = record.summary["chosen"]["epoch"]
            if epoch <= len(curve) and (value := curve[epoch - 1]) is not None:
                known.append(value)
        return Spread.of(known) if known else None


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What can be compared: one dataset, noise, network and set-up of the run."""

    set_up: str
    noise: str
    rows: tuple[Kept, ...]

    @cached_property
    def title(self) -> str:
        """The dataset and the noise first."""
        dataset, _, rest = self.set_up.partition(", ")
        return ", ".join(filter(None, (dataset, noise_title(self.noise), rest)))


def settings_with_selection(records: Iterable[FinishedRecord]) -> list[Setting]:
    """All runs of methods that pick samples, those that were set up alike together."""
    found: dict[tuple[str, str], list[Kept]] = {}
    for group in all_groups(records):
        runs = tuple(map(keeping, group.records))
        if any(run is not None for run in runs):
            nothing = Keeping(precision=(), recall=(), kept=())
            kept = Kept(group=group, runs=tuple(run or nothing for run in runs))
            found.setdefault((set_up(group), group.records[0].config["noise"]), []).append(kept)
    return [
        Setting(set_up=key[0], noise=key[1], rows=tuple(sorted(rows, key=lambda kept: kept.key)))
        for key, rows in sorted(found.items(), key=lambda item: tuple(map(as_counted, item[0])))
    ]


def keeping(record: FinishedRecord) -> Keeping | None:
    """Of one run; None of a method that picks nothing, and where curves cannot be read."""
    try:
        precisions, sizes = record.curves.selection_precision, record.curves.selection_size
    except RecordError:
        return None
    if not precisions:
        return None
    train = record.summary.get("samples", {}).get("train")
    parts = [_of_network(curve, sizes.get(name), train) for name, curve in precisions.items()]
    return Keeping(**{quantity: _mean([getattr(part, quantity) for part in parts]) for quantity in QUANTITIES})


def _of_network(precision: BrokenCurve, size: BrokenCurve | None, train: int | None) -> Keeping:
    nothing = (None,) * len(precision)
    if size is None or not train:
        return Keeping(precision=precision, recall=nothing, kept=nothing)
    pairs = list(zip(precision, size, strict=True))
    whole = next((share for share, count in pairs if share and count == train), None)
    return Keeping(
        precision=precision,
        # Rounded shares may give a little more than 1.
        recall=tuple(
            None if whole is None or count is None else min(1.0, (share or 0.0) * count / (whole * train))
            for share, count in pairs
        ),
        kept=tuple(None if count is None else count / train for count in size),
    )


def _mean(curves: Sequence[BrokenCurve]) -> BrokenCurve:
    """Over the networks that have a value: one that picked nothing has no precision."""
    columns = ([value for value in column if value is not None] for column in zip(*curves, strict=True))
    return tuple(fmean(known) if known else None for known in columns)
