"""Figures as SVG to be placed inside a page.

Drawn by matplotlib without pyplot, so that no global state is touched. Colours are written as CSS variables, so that
the page decides them for light, dark and print; text stays text, in the page's font, and each figure says in words what
it shows. Series are told apart by line style and a label at their end as well as by colour, for colour-blind eyes.
"""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

# matplotlib needs real colours; these stand for the page's variables and are replaced after drawing. A colour that no
# variable replaces would show up as nearly black.
VARIABLES = {"#000001": "var(--ink)", "#000002": "var(--grid)"}
INK, GRID = VARIABLES
WIDTH_INCHES, HEIGHT_INCHES = 5.2, 3.5
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": 11,
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "lines.linewidth": 2.2,
}


@dataclass(frozen=True, kw_only=True)
class Series:
    """One method's curves: a row for each seed, a column for each epoch, in percent."""

    label: str
    colour: str  # the page's CSS variable, such as "--plain"
    dashes: str  # a matplotlib line style
    values: Sequence[Sequence[float]]


def curves(name: str, title: str, description: str, y_label: str, series: Sequence[Series]) -> str:
    """Mean over seeds as a line, one standard deviation as a band, each line labelled where it ends.

    Args:
        name: Distinguishes the figure's ids from those of other figures in the page.
        title: Read out by screen readers, and shown by browsers on hover.
        description: What the curves say, in words, for those who do not see them.
        y_label: Says the unit too.
        series: At least one, all with the same number of epochs.
    """
    stand_ins = {f"#0000{16 + k:02x}": f"var({each.colour})" for k, each in enumerate(series)}
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(WIDTH_INCHES, HEIGHT_INCHES), layout="constrained")
        axes = figure.add_subplot()
        ends = {}
        for each, colour in zip(series, stand_ins, strict=True):
            values = np.asarray(each.values, dtype=float)
            ends[each.label] = (float(values.mean(axis=0)[-1]), colour)
            _draw(axes, values, colour, each.dashes)
        axes.set_xlabel("epoch")
        axes.set_ylabel(y_label)
        axes.set_ylim(0, 100)
        axes.margins(x=0)
        epochs = len(series[0].values[0])
        for (label, (_, colour)), height in zip(ends.items(), _spread(ends), strict=True):
            # A little right of the last point; the layout makes room for it.
            axes.annotate(
                label,
                (epochs, height),
                xytext=(6, 0),
                textcoords="offset points",
                color=colour,
                va="center",
                fontweight="bold",
                annotation_clip=False,
            )
        svg = io.StringIO()
        figure.savefig(
            svg, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    return _for_page(svg.getvalue(), name, title, description, {**VARIABLES, **stand_ins})


def _draw(axes: Axes, values: NDArray[np.float64], colour: str, dashes: str) -> None:
    epochs = np.arange(1, values.shape[1] + 1)
    mean = values.mean(axis=0)
    if len(values) > 1:
        sd = values.std(axis=0, ddof=1)
        axes.fill_between(
            epochs, np.maximum(mean - sd, 0), np.minimum(mean + sd, 100), color=colour, alpha=0.18, linewidth=0
        )
    axes.plot(epochs, mean, color=colour, linestyle=dashes, clip_on=False)


def _spread(ends: Mapping[str, tuple[float, str]], apart: float = 8.0) -> list[float]:
    """Heights for the labels: where the curves end, pushed apart until none covers another."""
    heights = np.array([height for height, _ in ends.values()], dtype=float)
    order = heights.argsort()
    placed = heights[order]
    for k in range(1, len(placed)):
        placed[k] = max(placed[k], placed[k - 1] + apart)
    placed -= max(0.0, placed[-1] - 100)  # the topmost must stay inside; those below may have to give way again
    for k in range(len(placed) - 2, -1, -1):
        placed[k] = min(placed[k], placed[k + 1] - apart)
    heights[order] = placed
    return [float(height) for height in heights]


def _for_page(svg: str, name: str, title: str, description: str, colours: Mapping[str, str]) -> str:
    """Drop what belongs to a file of its own, let the figure scale, and say what it is."""
    body = svg[svg.index("<svg") :]
    opening, rest = body.split(">", 1)
    view_box = re.search(r'viewBox="([^"]+)"', opening)
    assert view_box, "matplotlib always writes a viewBox"
    rest = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", rest, count=1, flags=re.DOTALL)
    for stand_in, variable in colours.items():
        rest = rest.replace(stand_in, variable)
    return (
        f'<svg class="figure" viewBox="{view_box[1]}" role="img" aria-labelledby="{name}-title {name}-description">'
        f'<title id="{name}-title">{escape(title)}</title>'
        f'<desc id="{name}-description">{escape(description)}</desc>{rest.strip()}'
    )
