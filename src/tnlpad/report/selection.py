"""Sample selection: how many of the labels that a method keeps are right, and how many right labels it keeps.

Precision is the share of right labels among those kept, recall the share of right labels that are kept. Both are means
over the networks that select. Records do not hold the number of right training labels, so recall uses the precision of
an epoch that keeps every label, as nearly every recipe's first epoch does. The summary's share of wrong labels covers
training and validation together and cannot be used. Without such an epoch, or without recorded counts, recall is None.

Curves are rounded to a hundredth of a percent, which makes recall uncertain by about two: tables show one digit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from tnlpad.records.archive import FinishedRecord
from tnlpad.records.curves import BrokenCurve
from tnlpad.records.store import RecordError
from tnlpad.report.groups import Group, Spread
from tnlpad.report.latex import latex_file, latex_table
from tnlpad.report.results import all_groups
from tnlpad.report.run_fields import plain_run_fields, plain_spread
from tnlpad.report.studies import RowKey, experiment_fields, natural_order, row_key, setup_title
from tnlpad.report.table import Table, TableFiles
from tnlpad.report.words import noise_title, range_text, spread_text

NAME = "selection"  # of the files
TITLE = "Sample selection"
LEGEND = (
    "For methods that select samples, at the chosen epoch, in percent. Precision: share of right labels among those "
    "kept. Recall: share of the right labels that are kept. Kept: share of all labels that are kept. Mean over two "
    "networks where there are two; mean ± standard deviation over seeds (n − 1); · not recorded. No method is told "
    "which labels are right."
)
QUANTITIES = ("precision", "recall", "kept")


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """Shares for one run, epoch by epoch; None where not recorded."""

    precision: BrokenCurve
    recall: BrokenCurve
    kept: BrokenCurve


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A group of runs of a method that selects samples."""

    group: Group
    runs: tuple[Keeping, ...]

    @cached_property
    def key(self) -> RowKey:
        return row_key(self.group)

    def chosen(self, quantity: str) -> Spread | None:
        """Return a quantity at the chosen epoch, over the seeds that recorded it."""
        known = []
        for record, run in zip(self.group.records, self.runs, strict=True):
            curve: BrokenCurve = getattr(run, quantity)
            epoch = record.summary["chosen"]["epoch"]
            if epoch <= len(curve) and (value := curve[epoch - 1]) is not None:
                known.append(value)
        return Spread.of(known) if known else None

    def text(self, quantity: str) -> str:
        """Return a quantity with one digit, and with its own n where some seeds did not record it."""
        spread = self.chosen(quantity)
        if spread is None:
            return "·"
        text = spread_text(spread, digits=1)
        return text if spread.n == self.group.chosen.n else f"{text} (n {spread.n})"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Comparable runs: one dataset, noise, network and set of run settings."""

    setup: str
    noise: str
    rows: tuple[Kept, ...]

    @cached_property
    def title(self) -> str:
        """The setup with the noise after the dataset."""
        dataset, _, rest = self.setup.partition(", ")
        return ", ".join(filter(None, (dataset, noise_title(self.noise), rest)))


def settings_with_selection(records: Iterable[FinishedRecord]) -> list[Setting]:
    """Return all runs of methods that select samples, by setting."""
    found: dict[tuple[str, str], list[Kept]] = {}
    for group in all_groups(records):
        runs = tuple(map(keeping, group.records))
        if any(run is not None for run in runs):
            nothing = Keeping(precision=(), recall=(), kept=())
            kept = Kept(group=group, runs=tuple(run or nothing for run in runs))
            found.setdefault((setup_title(group), group.records[0].config["noise"]), []).append(kept)
    return [
        Setting(setup=key[0], noise=key[1], rows=tuple(sorted(rows, key=lambda kept: kept.key)))
        for key, rows in sorted(found.items(), key=lambda item: tuple(map(natural_order, item[0])))
    ]


def keeping(record: FinishedRecord) -> Keeping | None:
    """Return the shares of one run; None for a method that selects nothing and for unreadable curves."""
    try:
        precisions, sizes = record.curves.selection_precision, record.curves.selection_size
    except RecordError:
        return None
    if not precisions:
        return None
    train = record.summary.get("samples", {}).get("train")
    parts = [_network_keeping(curve, sizes.get(name), train) for name, curve in precisions.items()]
    return Keeping(**{quantity: _mean([getattr(part, quantity) for part in parts]) for quantity in QUANTITIES})


def selection_table(found: Sequence[Setting]) -> Table:
    """Return a row for each method of each setting."""
    return Table(
        title=TITLE,
        note=LEGEND,
        headings=["method", "data", "chosen epoch", *QUANTITIES, "n"],
        align="llrrrrr",
        rows=[_cells(setting, kept) for setting in found for kept in setting.rows],
    )


def selection_files(found: Sequence[Setting], level: int = 1) -> TableFiles:
    """Render all settings as one table, under a Markdown heading of this level."""
    table = selection_table(found)
    return TableFiles(
        markdown=table.to_markdown(level),
        latex=latex_file(TITLE, [latex_table(table, f"{TITLE}. {LEGEND}")]),
        rows=[_plain_row(kept) for setting in found for kept in setting.rows],
    )


def _network_keeping(precision: BrokenCurve, size: BrokenCurve | None, train: int | None) -> Keeping:
    nothing = (None,) * len(precision)
    if size is None or not train:
        return Keeping(precision=precision, recall=nothing, kept=nothing)
    pairs = list(zip(precision, size, strict=True))
    whole = next((share for share, count in pairs if share and count == train), None)
    return Keeping(
        precision=precision,
        # Rounded shares may give slightly more than 1.
        recall=tuple(
            None if whole is None or count is None else min(1.0, (share or 0.0) * count / (whole * train))
            for share, count in pairs
        ),
        kept=tuple(None if count is None else count / train for count in size),
    )


def _mean(curves: Sequence[BrokenCurve]) -> BrokenCurve:
    """Average over the networks that have a value: one that keeps nothing has no precision."""
    columns = ([value for value in column if value is not None] for column in zip(*curves, strict=True))
    return tuple(fmean(known) if known else None for known in columns)


def _cells(setting: Setting, kept: Kept) -> list[str]:
    texts = map(kept.text, QUANTITIES)
    return [kept.key.title, setting.title, range_text(kept.group.epochs), *texts, str(kept.group.chosen.n)]


def _plain_row(kept: Kept) -> dict[str, Any]:
    fields = {**experiment_fields(kept.group.records[0]), **plain_run_fields(kept.group)}
    row = {name: value for name, value in fields.items() if not name.endswith(("mean", "sd"))}
    for quantity in QUANTITIES:
        spread = kept.chosen(quantity)
        row |= {**plain_spread(f"{quantity}_", spread), f"{quantity}_n": spread.n if spread else 0}
    return row
