"""Precision and recall of sample selection, epoch by epoch."""

import math
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tnlpad.records.curves import BrokenCurve
from tnlpad.report import style
from tnlpad.report.drawings import panels
from tnlpad.report.method_styles import curve_styles
from tnlpad.report.selection import TITLE, Kept, Setting, settings_with_selection
from tnlpad.report.words import method_title

MAX_SETTINGS = 3
LEGEND_LETTERS = 27  # per line, in two columns
QUANTITIES = ("precision", "recall")


def _collect(records: panels.Records, extras: panels.Extras) -> list[tuple[Setting, list[Kept]]]:
    """Return the settings with most methods, in the order of the table, with the first row of each method."""
    found = []
    for setting in settings_with_selection(records):
        first = {kept.key.method: kept for kept in reversed(setting.rows)}
        found.append((setting, [kept for kept in setting.rows if kept is first[kept.key.method]]))
    most = sorted(range(len(found)), key=lambda k: -len(found[k][1]))[:MAX_SETTINGS]
    return [found[k] for k in sorted(most)]


def _plot(settings: Sequence[tuple[Setting, list[Kept]]]) -> Figure:
    """Draw a row for each setting: precision on the left, recall on the right."""
    lines = _lines(settings)
    lines_of_text = sum(1 + line.label.count("\n") for line in lines.values())
    figure, axes = style.panels(2 * len(settings), 2.7, below_inches=0.2 * math.ceil(lines_of_text / 2))
    for number, (setting, drawn) in enumerate(settings):
        title = setting.title if len(settings) == 1 else f"{style.letter(number)} {setting.title}"
        axes[2 * number].set_title(textwrap.fill(title, panels.FULL_WIDTH_LETTERS))  # may extend over both panels
        for quantity, panel in zip(QUANTITIES, axes[2 * number :], strict=False):
            _plot_shares(panel, drawn, quantity, lines)
    style.legend_below(figure, list(lines.values()), 2, handle_length=2.9)  # shows every dash
    return figure


def _lines(settings: Sequence[tuple[Setting, list[Kept]]]) -> dict[str, style.Line]:
    """Return the style of each row, by its label."""
    methods = {kept.key.label: kept.key.method for _, drawn in settings for kept in drawn}
    styles = zip(methods, curve_styles(list(methods.values())), strict=True)
    return {label: style.line_of(textwrap.fill(label, LEGEND_LETTERS), each) for label, each in styles}


def _plot_shares(axes: Axes, drawn: Sequence[Kept], quantity: str, lines: Mapping[str, style.Line]) -> None:
    low, epochs = 90.0, 2
    for kept in drawn:
        curves: list[BrokenCurve] = [getattr(run, quantity) for run in kept.runs]
        values = panels.stacked(curve for curve in curves if any(share is not None for share in curve))
        if values is not None:
            panels.plot_mean(axes, 100 * values, lines[kept.key.label], band=False)
            low = min([low, *100 * values[np.isfinite(values)]])
            epochs = max(epochs, values.shape[1])
    axes.set(xlabel="epoch", ylabel=f"{quantity}, %", xlim=(1, epochs), ylim=(10 * math.floor(low / 10), 101))
    panels.whole_epochs(axes)
    if not axes.get_lines():
        axes.set_axis_off()
        axes.text(
            0.5, 0.5, f"{quantity} not recorded", transform=axes.transAxes, color=style.SOFT, ha="center", va="center"
        )


def _describe(settings: Sequence[tuple[Setting, list[Kept]]]) -> str:
    sentences = [f"{setting.title}: {'; '.join(map(_kept_text, drawn))}." for setting, drawn in settings]
    seeds = panels.seeds_text(kept.group.records for _, drawn in settings for kept in drawn)
    return f"Precision and recall at the chosen epoch. {' '.join(sentences)} {seeds}"


def _kept_text(kept: Kept) -> str:
    spreads = {quantity: kept.chosen(quantity) for quantity in QUANTITIES}
    shares = [f"{each.mean:.1f}\u00a0%" if each else f"no {quantity} recorded" for quantity, each in spreads.items()]
    own = f" ({kept.key.own_settings})" if kept.key.own_settings else ""
    return f"{method_title(kept.key.method)}{own} {' and '.join(shares)}"


DRAWING = panels.Drawing(
    title=TITLE,
    caption=(
        "For methods that select samples, after every epoch: precision, the share of right labels among those kept, "
        "and recall, the share of the right labels that are kept. An epoch that keeps every label has a recall of "
        "100\u00a0%, and its precision is the share of right labels in the data. Mean over two networks where there "
        "are two, and over seeds, up to the shortest run. At most three settings are drawn, those with most methods; "
        "the table has all of them. No method is told which labels are right."
    ),
    needs="Runs of a method that selects samples, such as coteaching, with simulated or human label noise.",
    command="tnlpad reproduce smoke",
    collect=_collect,
    plot=_plot,
    describe=_describe,
)
