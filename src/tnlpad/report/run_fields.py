"""Fields of a group of runs in tables: cells of text, and plain data."""

from typing import Any

from tnlpad.report.groups import Group, Spread
from tnlpad.report.words import range_text, spread_text

HEADINGS = ("method", "chosen epoch", "last epoch", "wrong labels memorised", "n")
NO_RUNS: dict[str, Any] = {
    **dict.fromkeys(("variant", "selection", "chosen_epochs", "mean", "sd")),
    "n": 0,
    "seeds": [],
    "runs": [],
    **dict.fromkeys(("last_mean", "last_sd", "memorised_mean", "memorised_sd")),
}


def group_cells(group: Group) -> list[str]:
    """Return the cells under `HEADINGS`, without the method."""
    return [
        f"{spread_text(group.chosen)} (epoch {range_text(group.epochs)})",
        spread_text(group.last),
        spread_text(group.memorised) if group.memorised else "",
        str(group.chosen.n),
    ]


def plain_run_fields(group: Group) -> dict[str, Any]:
    """Return plain data about a group of runs; the same fields as in `NO_RUNS`."""
    return {
        "variant": group.label,
        "selection": group.selection,
        "chosen_epochs": range_text(group.epochs),
        **plain_spread("", group.chosen),
        "n": group.chosen.n,
        "seeds": list(group.seeds),
        "runs": [record.run_id for record in group.records],
        **plain_spread("last_", group.last),
        **plain_spread("memorised_", group.memorised),
    }


def plain_spread(prefix: str, spread: Spread | None) -> dict[str, float | None]:
    """Return mean and standard deviation as plain data."""
    mean, sd = (spread.mean, spread.sd) if spread else (None, None)
    return {f"{prefix}mean": plain_number(mean), f"{prefix}sd": plain_number(sd)}


def plain_number(value: float | None) -> float | None:
    """Round to four digits, which removes floating-point noise."""
    return None if value is None else round(value, 4)
