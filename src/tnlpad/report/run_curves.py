"""Curves over the epochs of the runs of a table's column or of a study: on the page, and as files for a paper."""

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure

from tnlpad.records.archive import FinishedRecord
from tnlpad.records.store import RecordError
from tnlpad.report import style
from tnlpad.report.drawings import panels
from tnlpad.report.figures import Series, curves, fitting
from tnlpad.report.groups import Group, reported
from tnlpad.report.method_styles import CurveStyle, curve_styles
from tnlpad.report.paper_tables import Block
from tnlpad.report.studies import RowKey
from tnlpad.report.words import method_title

MAX_CURVES = 12  # of a study in one figure
LEGEND_LETTERS, LEGEND_COLUMNS = 17, 3
# Quantity: title, and label of the percent axis.
QUANTITIES = {
    "test": ("Test accuracy over the epochs", "test accuracy, %"),
    "memorised": ("Wrong training labels memorised over the epochs", "memorised, %"),
}


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A group of runs with the label and the style of its curve."""

    label: str
    group: Group
    style: CurveStyle


def block_curves(block: Block) -> list[Curve]:
    """Return one group of each method: the main variant, or another one where it is missing."""
    found = []
    for entry in block.entries:
        if entry.groups:
            group = next((each for each in entry.groups if each.label == block.main_label), entry.groups[0])
            label = ", ".join(filter(None, (method_title(entry.cell.row), block.variant(group))))
            found.append((entry.cell.row, label, group))
    return _styled(found)


def study_curves(rows: Sequence[tuple[RowKey, Group]]) -> list[Curve]:
    """Return the rows of a study; empty if there are too many to tell curves apart."""
    if len(rows) > MAX_CURVES:
        return []
    times = Counter(key.method for key, _ in rows)
    return _styled(
        [(key.method, key.title if times[key.method] > 1 else method_title(key.method), group) for key, group in rows]
    )


def _styled(found: Sequence[tuple[str, str, Group]]) -> list[Curve]:
    """Give each curve a style of its own; prominent ones come last, to be drawn on top."""
    styles = curve_styles([method for method, _, _ in found])
    drawn = [Curve(label=label, group=group, style=each) for (_, label, group), each in zip(found, styles, strict=True)]
    drawn.reverse()
    drawn.sort(key=lambda curve: curve.style.width)
    return drawn


def page_figures(name: str, title: str, drawn: Sequence[Curve]) -> list[Markup]:
    """Draw test accuracy and memorisation for the page, of every group whose curves can be read."""
    figures = []
    for quantity, (heading, y_label) in QUANTITIES.items():
        series = [each for curve in drawn if (each := _series(curve, quantity)) is not None]
        if series:
            svg = curves(f"{name}-{quantity}", f"{heading}: {title}", y_label, series, limits=fitting(series))
            figures.append(Markup(svg))  # escaped there
    return figures


def file_figure(title: str, drawn: Sequence[Curve]) -> Figure | None:
    """Draw both quantities side by side for a file, with a legend below; None if no curve can be read."""
    found = {
        quantity: [(curve, each) for curve in drawn if (each := _series(curve, quantity)) is not None]
        for quantity in QUANTITIES
    }
    shown = {quantity: pairs for quantity, pairs in found.items() if pairs}
    if not shown:
        return None
    lines = {curve.label: _line(curve) for pairs in shown.values() for curve, _ in reversed(pairs)}
    rows = math.ceil(sum(1 + line.label.count("\n") for line in lines.values()) / LEGEND_COLUMNS)
    with mpl.rc_context(style.STYLE):
        figure, every = style.panels(len(shown), 2.9, below_inches=0.2 * rows)
        figure.suptitle(title, x=0.02, ha="left", fontsize=11, fontweight="bold")
        for axes, (quantity, pairs) in zip(every, shown.items(), strict=True):
            for curve, series in pairs:
                values = np.array([row[: len(series.means)] for row in series.values], dtype=float)
                panels.plot_mean(axes, values, lines[curve.label], band=series.prominent)
            limits = fitting([series for _, series in pairs])
            axes.set(xlabel="epoch", ylabel=QUANTITIES[quantity][1], ylim=limits)
            axes.margins(x=0)
            panels.whole_epochs(axes)
        style.legend_below(figure, list(lines.values()), LEGEND_COLUMNS, handle_length=4)  # shows every dash
    return figure


def _line(curve: Curve) -> style.Line:
    return style.line_of(textwrap.fill(curve.label, LEGEND_LETTERS), curve.style)


def _series(curve: Curve, quantity: str) -> Series | None:
    values = [row for record in curve.group.records if (row := _percents(record, quantity))]
    if not values:
        return None
    each = curve.style
    return Series(label=curve.label, colour=each.variable, dashes=each.dashes, width=each.width, values=values)


def _percents(record: FinishedRecord, quantity: str) -> list[float] | None:
    """Return a curve in percent; None where it is unreadable, which `problems` reports, or not recorded."""
    try:
        run = record.curves
    except RecordError:
        return None
    if quantity == "test":
        return [100 * share for share in run.test_accuracy]
    chosen = [run.memorised[name] for name in reported(run.memorised)]
    if not chosen or any(value is None for curve in chosen for value in curve):
        return None
    return [100 * sum(value or 0 for value in column) / len(column) for column in zip(*chosen, strict=True)]
