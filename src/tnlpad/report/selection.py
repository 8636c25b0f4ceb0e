"""What methods keep: of those that pick samples, how many of the labels they learn from are right.

Precision is the share of right labels among those kept, recall the share of the right labels that are kept, each the
mean over the networks that pick. How many labels of the training part are right is not recorded as such; but an epoch
that keeps all of them, as the first does by nearly every recipe, says it by its precision. (The summary's share of
wrong labels will not do: it is that of training and validation part together.) Runs without such an epoch, and those of
versions that did not record how many were kept, have no recall, and none is guessed.

Curves are rounded to a hundredth of a percent, which leaves a recall uncertain by about two: one digit is shown.

What the methods keep at the chosen epoch, as Markdown, CSV and LaTeX: a row for each method under each setting.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from tnlpad.records.archive import FinishedRecord
from tnlpad.records.curves import BrokenCurve
from tnlpad.records.store import RecordError
from tnlpad.report.groups import Group, Spread
from tnlpad.report.latex import environment, escape_latex
from tnlpad.report.plain import csv_of, digits
from tnlpad.report.results import all_groups
from tnlpad.report.studies import RowKey, as_counted, row_key, set_up, settings_text
from tnlpad.report.tables import epochs_text, markdown_row
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


NAME = "selection"  # of its files
TITLE = "What the methods keep"
LEGEND = (
    "Of methods that pick the samples they learn from, at the chosen epoch, in percent: precision, the share of right "
    "labels among those kept; recall, the share of the right labels that is kept; and the share of all labels that is "
    "kept. Of two networks their mean. Mean ± standard deviation over seeds (n − 1); · where it is not recorded. No "
    "method sees which labels are right."
)
HEADINGS = ("method", "data", "chosen epoch", *QUANTITIES, "n")


def selection_text(spread: Spread | None, n: int) -> str:
    """With one digit, and with its own n where not all seeds have it."""
    if spread is None:
        return "·"
    text = f"{spread.mean:.1f}" if spread.sd is None else f"{spread.mean:.1f} ± {spread.sd:.1f}"
    return text if spread.n == n else f"{text} (n {spread.n})"


def selection_markdown(found: Sequence[Setting], level: int = 1) -> str:
    """Under a heading of this level."""
    head = [f"{'#' * level} {TITLE}", "", LEGEND, ""]
    rows = [HEADINGS, ("---", "---", *["---:"] * (len(HEADINGS) - 2)), *_rows(found)]
    return "\n".join([*head, *map(markdown_row, rows), ""])


def selection_latex(found: Sequence[Setting]) -> str:
    """A table environment, without any package."""
    rows = (map(escape_latex, row) for row in _rows(found))
    head = f"% {TITLE}. Written by `tnlpad report` from records; needs no package."
    return "\n".join([head, *environment(f"{TITLE}. {LEGEND}", HEADINGS[1:], rows, words=2)]) + "\n"


def selection_csv(found: Sequence[Setting]) -> str:
    """A line for each group of runs."""
    return csv_of(selection_rows(found))


def selection_rows(found: Sequence[Setting]) -> list[dict[str, Any]]:
    """As plain data: one for each group of runs; shares in percent."""
    return [_plain(kept) for setting in found for kept in setting.rows]


def _rows(found: Sequence[Setting]) -> Iterator[tuple[str, ...]]:
    for setting in found:
        for kept in setting.rows:
            n = kept.group.chosen.n
            texts = (selection_text(kept.chosen(quantity), n) for quantity in QUANTITIES)
            yield kept.key.title, setting.title, epochs_text(kept.group.epochs), *texts, str(n)


def _plain(kept: Kept) -> dict[str, Any]:
    group, first = kept.group, kept.group.records[0]
    row = {
        **{name: first.config[name] for name in ("dataset", "noise", "method", "network")},
        "settings": settings_text(first.settings),
        "variant": group.label,
        "selection": group.selection,
        "chosen_epochs": epochs_text(group.epochs),
        "n": group.chosen.n,
        "seeds": list(group.seeds),
        "runs": [record.run_id for record in group.records],
    }
    for quantity in QUANTITIES:
        spread = kept.chosen(quantity)
        row[f"{quantity}_mean"] = digits(spread.mean) if spread else None
        row[f"{quantity}_sd"] = digits(spread.sd) if spread else None
        row[f"{quantity}_n"] = spread.n if spread else 0
    return row
