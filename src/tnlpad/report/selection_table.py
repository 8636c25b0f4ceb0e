"""What the methods keep at the chosen epoch, as Markdown, CSV and LaTeX: a row for each method under each setting."""

from collections.abc import Iterator, Sequence
from typing import Any

from tnlpad.report.groups import Spread
from tnlpad.report.latex import environment, escape_latex
from tnlpad.report.plain import csv_of, digits
from tnlpad.report.selection import QUANTITIES, Kept, Setting
from tnlpad.report.studies import settings_text
from tnlpad.report.tables import epochs_text, markdown_row

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
