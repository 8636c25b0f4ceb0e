"""Numbers as readers expect them: percent, mean ± standard deviation, n."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tnlpad.paper.cells import Published
from tnlpad.report.groups import Group, Spread
from tnlpad.report.results import Comparison, Entry

METHOD_NAMES = {"plain": "Plain SGD", "w": "TNLPAD, w = σ + γ", "sigma": "TNLPAD, σ"}
MINUS = "−"


@dataclass(frozen=True, kw_only=True)
class DemoRow:
    """One method of the demo; every cell is ready to print."""

    key: str
    method: str
    chosen: str
    chosen_epochs: str
    last: str
    memorised: str
    n: int


def markdown_row(cells: Iterable[str]) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def percent(share: float, digits: int = 1) -> str:
    """0.8266 as "82.7"."""
    return f"{100 * share:.{digits}f}"


def mean_sd(summary: Mapping[str, Any]) -> str:
    """A summary as "82.7 ± 3.1" percent; a single value has no standard deviation."""
    mean = percent(summary["mean"])
    return mean if summary["sd"] is None else f"{mean} ± {percent(summary['sd'])}"


def spread_text(spread: Spread | Published) -> str:
    """As the paper writes it, "98.95 ± 0.12"; without a standard deviation where there is none."""
    sd = spread.sd if isinstance(spread, Spread) else spread.std
    return f"{spread.mean:.2f}" if sd is None else f"{spread.mean:.2f} ± {sd:.2f}"


def published_text(published: Published | None) -> str:
    """With n, where the paper says it."""
    if published is None:
        return ""
    return f"{spread_text(published)} (n {published.n or 'not stated'})"


def n_text(entry: Entry, group: Group) -> str:
    """How many seeds, and of how many where some are missing."""
    missing = group.chosen.n < entry.cell.trials
    return f"{group.chosen.n} of {entry.cell.trials}" if missing else str(group.chosen.n)


def signed(points: float) -> str:
    """With its sign, a proper minus, and no "−0.00"."""
    text = f"{points:+.2f}"
    return "0.00" if float(text) == 0 else text.replace("-", MINUS)


def agreement_text(comparison: Comparison) -> str:
    """Whether the difference is within two standard errors, with both numbers; or why that cannot be said."""
    if comparison.bound is None:
        return f"cannot be said: {comparison.unknown}"
    answer, sign = ("yes", "≤") if comparison.within else ("no", ">")
    return f"{answer}: {abs(comparison.difference):.2f} {sign} {comparison.bound:.2f}"


def agreement_mark(comparison: Comparison) -> str:
    """≈ within two standard errors, ▲ or ▼ outside, ? where it cannot be said."""
    if comparison.within is None:
        return "?"
    return "≈" if comparison.within else "▲" if comparison.difference > 0 else "▼"


def epochs_text(epochs: tuple[int, int]) -> str:
    """One epoch, or the first and the last: 12–37."""
    return _range(epochs)


def demo_rows(record: Mapping[str, Any]) -> list[DemoRow]:
    """The demo's table: test accuracy and memorisation by method."""
    return [
        DemoRow(
            key=key,
            method=METHOD_NAMES[key],
            chosen=mean_sd(method["test_chosen_epoch"]),
            chosen_epochs=_range(method["chosen_epochs"]),
            last=mean_sd(method["test_last_epoch"]),
            memorised=mean_sd(method["memorised_last_epoch"]),
            n=method["test_last_epoch"]["n"],
        )
        for key, method in record["methods"].items()
    ]


def demo_verdict(record: Mapping[str, Any]) -> str:
    """The demo's outcome in one sentence, whichever way it went."""
    points = 100 * record["gain"]["test_last_epoch"]
    direction = "more" if points >= 0 else "less"
    sentence = f"In the last epoch σ gets {abs(points):.1f} points {direction} of the test images right than plain SGD"
    spread = record["gain"]["combined_sd"]
    if not spread:
        return f"{sentence} (one seed: nothing is known about the spread)." if spread is None else f"{sentence}."
    return f"{sentence}, {abs(points) / (100 * spread):.1f} times the combined standard deviation of the two."


def _range(epochs: Sequence[int]) -> str:
    low, high = min(epochs), max(epochs)
    return str(low) if low == high else f"{low}–{high}"
