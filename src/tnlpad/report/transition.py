"""Picture of a transition matrix: a row for each clean class, a column for each given label, shares in colour.

The picture is a file with fixed colours on white. The colour scale is that of the square root, which keeps the few
percent off the diagonal visible. Cells show their percentage as long as there is room; cells without samples are empty.
"""

import io
from collections.abc import Sequence
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import ArrayLike, NDArray

PictureFormat = Literal["png", "svg"]
MAX_LABELLED_CLASSES = 20
DOTS_PER_INCH = 150
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.edgecolor": "0.8",
}


def transition_picture(
    counts: ArrayLike, class_names: Sequence[str], title: str, picture_format: PictureFormat
) -> bytes:
    """Return the picture as the bytes of a file; the same labels give the same bytes.

    Args:
        counts: counts[i, j] samples of clean class i have label j. A class without samples is an empty row.
        class_names: One for each class.
        title: One or two lines.
        picture_format: "png" or "svg".
    """
    table = np.asarray(counts, dtype=np.float64)
    if table.shape != (len(class_names), len(class_names)):
        raise ValueError(f"counts have shape {table.shape}: they need a row and a column for each class name.")
    samples = table.sum(axis=1, keepdims=True)
    shares = np.divide(table, samples, out=np.zeros_like(table), where=samples > 0)
    with mpl.rc_context({**STYLE, "svg.hashsalt": "transition"}):
        figure = _figure(shares, class_names, title)
        stream = io.BytesIO()
        # Matplotlib's date and version would change the bytes.
        omitted = dict.fromkeys(("Date", "Creator", "Format", "Type") if picture_format == "svg" else ("Software",))
        figure.savefig(stream, format=picture_format, dpi=DOTS_PER_INCH, metadata=omitted)
    return stream.getvalue()


def _figure(shares: NDArray[np.float64], class_names: Sequence[str], title: str) -> Figure:
    labelled = len(class_names) <= MAX_LABELLED_CLASSES
    inches = 2.4 + 0.48 * len(class_names) if labelled else 7.5
    figure = Figure(figsize=(inches + 0.8, inches), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    empty = np.ma.masked_equal(shares, 0)  # white, not the palest blue
    image = axes.imshow(empty, cmap="Blues", norm=PowerNorm(0.5, vmin=0, vmax=1), aspect="equal")
    axes.set_xlabel("given label")
    axes.set_ylabel("clean label")
    axes.set_title(title, loc="left", fontsize=10, wrap=True)
    if labelled:
        _name_classes(axes, class_names)
        _write_percentages(axes, shares)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, ticks=[0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1])
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
    bar.set_label("share of the clean class")
    bar.outline.set_visible(False)
    return figure


def _name_classes(axes: Axes, class_names: Sequence[str]) -> None:
    places = range(len(class_names))
    slanted = max(map(len, class_names)) > 3
    axes.set_xticks(places, class_names, rotation=45 if slanted else 0, ha="right" if slanted else "center")
    axes.set_yticks(places, class_names)
    axes.tick_params(length=0)
    # Thin lines separate pale cells.
    axes.set_xticks(np.arange(len(class_names) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(class_names) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="0.88", linewidth=0.8)
    axes.tick_params(which="minor", length=0)


def _write_percentages(axes: Axes, shares: NDArray[np.float64]) -> None:
    for row, column in np.argwhere(shares > 0):
        share = shares[row, column]
        axes.text(
            column,
            row,
            f"{100 * share:.0f}" if share >= 0.095 else f"{100 * share:.1f}",
            ha="center",
            va="center",
            fontsize=8,
            color="white" if share > 0.3 else "black",
        )
