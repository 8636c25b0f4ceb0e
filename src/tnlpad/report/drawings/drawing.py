"""What a figure of the report is: what it needs, how it is drawn, and what may be said of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from tnlpad.records.archive import FinishedRecord

Records = Sequence[FinishedRecord]
Extras = Mapping[str, Mapping[str, Any]]  # by figure: what `tnlpad.experiments` computed for it, as plain data


def nothing_found(records: Records, extras: Extras) -> str:
    """Of a figure that depends on no record."""
    return ""


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure of the report.

    Args:
        title: A few words.
        caption: What is shown, how it was computed and by which rule anything was chosen; true of any records.
        needs: What must be there for it to be drawn, in words.
        draw: The figure, or None when something that it needs is missing.
        findings: What these very records say, in sentences made from their numbers; empty when there is nothing to say.
            Goes below the figure after the caption, and is what those hear who do not see it.
        command: What makes runs for it; by default `tnlpad reproduce` with the figure's name.
    """

    title: str
    caption: str
    needs: str
    draw: Callable[[Records, Extras], Figure | None]
    findings: Callable[[Records, Extras], str] = nothing_found
    command: str | None = None
