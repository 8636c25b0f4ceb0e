"""One look for every figure: in print, in a file of its own, and inside a page in light and dark.

Figures are drawn by matplotlib without pyplot, so that no global state is touched, and in the colours of `COLOURS` for
white paper, or of `looks` where lines are methods. Files keep those colours. Inside a page each of them becomes a CSS
variable, so that the page decides; the `stylesheet()` of either has values for light, dark and print. Text stays text.
Colours are told apart by colour-blind eyes (the hues of Okabe and Ito, darkened until thin lines and words are legible
on white), and never carry a meaning alone: lines also differ in dashes or are labelled where they end.

The same figure always gives the same bytes: no dates, no version numbers, no random ids.
"""

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tnlpad.atomic_files import write_by_rename
from tnlpad.report import looks

FileFormat = Literal["svg", "pdf"]

# By the name of its CSS variable: on white, and on dark.
COLOURS = {
    "paper": ("#fffffe", "#14171b"),
    "ink": ("#1c1f24", "#e8eaed"),
    "soft": ("#5a616b", "#a6adb8"),
    "grid": ("#dde0e5", "#363c45"),
    "plain": ("#b34700", "#f0883e"),
    "w": ("#9a4c7f", "#dd96c0"),
    "sigma": ("#0062a3", "#62b6f0"),
    "gamma": ("#8a6500", "#e3b341"),
    "gradient": ("#00755c", "#45c9a0"),
    "best": ("#c8102e", "#ff7b85"),
}
PAPER, INK, SOFT, GRID, PLAIN, W, SIGMA, GAMMA, GRADIENT, BEST = (light for light, _ in COLOURS.values())
# On fills of our own, which are light on every page.
ON_FILL, FILL_LOW, FILL_HIGH = "#111418", "#eef3f8", "#6fa8d6"

# A column of text in a paper, and about the width of a phone, so that letters are legible on both.
WIDTH_INCHES = 5.8
PAGE_REM_PER_INCH = 7.2  # at this size letters are as large as those of the page's text
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "font.size": 11,
    "font.family": "sans-serif",
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelsize": 11,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.fontsize": 10.5,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "axes.facecolor": "none",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.9,
    "image.composite_image": False,
    "figure.constrained_layout.h_pad": 0.07,
}
DOTS_PER_INCH = 220  # of what is drawn as pixels: thousands of points


@dataclass(frozen=True, kw_only=True)
class Line:
    """How a series looks wherever it occurs."""

    label: str
    colour: str
    dashes: Any = "-"

    def options(self) -> dict[str, Any]:
        """For `Axes.plot`."""
        return {"color": self.colour, "linestyle": self.dashes, "label": self.label}


STANDARD_LINE = Line(label="Standard", colour=PLAIN, dashes="-.")
W_LINE = Line(label="w = σ + γ", colour=W, dashes=(0, (5, 1.6)))
SIGMA_LINE = Line(label="σ", colour=SIGMA)
GAMMA_LINE = Line(label="γ", colour=GAMMA, dashes=(0, (1.2, 1.2)))


def new_figure(height_inches: float, width_inches: float = WIDTH_INCHES) -> Figure:
    """An empty figure; call it, and draw, within `mpl.rc_context(STYLE)`."""
    return Figure(figsize=(width_inches, height_inches), layout="constrained")


def panels(count: int, row_inches: float, below_inches: float = 0.0) -> tuple[Figure, list[Axes]]:
    """Axes in rows of two; a single one has the width for itself, and so has the last of an odd number."""
    columns = min(2, count)
    rows = math.ceil(count / columns)
    figure = new_figure(row_inches * rows + below_inches)
    grid = figure.add_gridspec(rows, columns)
    places = [divmod(number, columns) for number in range(count)]
    last_alone = columns == 2 and count % 2 == 1
    axes = [figure.add_subplot(grid[row, column]) for row, column in places[: count - last_alone]]
    return figure, axes + ([figure.add_subplot(grid[-1, :])] if last_alone else [])


def legend_below(figure: Figure, lines: Sequence[Line], columns: int, *others: Artist) -> None:
    """One legend for all panels, outside of them."""
    handles: list[Artist] = [Line2D([], [], **line.options()) for line in lines]
    figure.legend(handles=[*handles, *others], loc="outside lower center", ncols=columns, handlelength=2.6)


def label_ends(axes: Axes, labels: Sequence[tuple[str, float, str]], size: float = 10.5) -> None:
    """Write labels right of the axes, each at the height (in data) of its line's end, pushed apart where they collide.

    Args:
        axes: Its limits must be final.
        labels: Text, height and colour.
        size: Of the letters, in points.
    """
    figure = axes.figure.figure  # the whole one, also where the axes are in a part of it
    texts = [
        axes.annotate(
            text,
            (1, 0.5),
            xycoords="axes fraction",
            xytext=(5, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            fontsize=size,
            fontweight="bold",
            annotation_clip=False,
        )
        for text, _, colour in labels
    ]
    figure.draw_without_rendering()  # makes room for the texts, and only then the axes' height is known
    points = axes.get_window_extent().height * 72 / figure.dpi
    wanted = [float(axes.transAxes.inverted().transform(axes.transData.transform((1, y)))[1]) for _, y, _ in labels]
    for text, height in zip(texts, spread(wanted, apart=1.2 * size / points), strict=True):
        text.xy = (1, height)


def spread(heights: Sequence[float], apart: float, top: float = 1.0) -> list[float]:
    """The same heights in the same order, moved until neighbours are `apart` and none is above `top`."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    placed = [heights[k] for k in order]
    for k in range(1, len(placed)):
        placed[k] = max(placed[k], placed[k - 1] + apart)
    limit = top
    for k in reversed(range(len(placed))):  # the topmost must stay inside, and those below may have to give way again
        placed[k] = min(placed[k], limit)
        limit = placed[k] - apart
    result = [0.0] * len(heights)
    for k, height in zip(order, placed, strict=True):
        result[k] = height
    return result


def letter(number: int) -> str:
    """(a), (b), …: panels are spoken of by these."""
    return f"({chr(ord('a') + number)})"


# Out of matplotlib ----------------------------------------------------------------------------------------------------


def save_figure(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as a file, by rename.

    Args:
        figure: Drawn in this module's style.
        path: Ending in `.svg` or `.pdf`; without either, both are written.

    Returns:
        The files written.
    """
    known: tuple[FileFormat, ...] = ("svg", "pdf")
    wanted = [kind for kind in known if path.suffix == f".{kind}"]
    files = {path: wanted[0]} if wanted else {path.with_name(f"{path.name}.{kind}"): kind for kind in known}
    for file, kind in files.items():
        write_by_rename(file, _content(figure, kind, salt=file.stem))
    return list(files)


def inline_svg(figure: Figure, name: str, title: str, description: str) -> str:
    """A figure as an element of a page, in the page's colours and font and at most as large as reads well.

    Args:
        figure: Drawn in this module's style.
        name: Distinguishes the figure's ids from those of other figures in the page.
        title: Read out by screen readers, and shown by browsers on hover.
        description: What the figure says, in words, for those who do not see it.
    """
    svg = _content(figure, "svg", salt=name, transparent=True).decode()
    opening, body = svg[svg.index("<svg") :].split(">", 1)
    width_rem = PAGE_REM_PER_INCH * figure.get_figwidth()
    view_box = re.search(r'viewBox="([^"]+)"', opening)
    assert view_box, "matplotlib always writes a viewBox"
    # What belongs to a file of its own goes, and so do ids that nothing refers to.
    body = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", body, count=1, flags=re.DOTALL)
    body = _in_the_pages_colours(_without_idle_ids(body))
    return (
        f'<svg class="figure" viewBox="{view_box[1]}" style="max-width: {width_rem:.1f}rem" role="img" '
        f'aria-labelledby="{name}-title {name}-description">'
        f'<title id="{name}-title">{escape(title)}</title>'
        f'<desc id="{name}-description">{escape(description)}</desc>{body.strip()}'
    )


def stylesheet() -> str:
    """The values of the colours' variables for light pages, dark ones and print."""

    def values(index: int) -> str:
        return " ".join(f"--{name}: {shades[index]};" for name, shades in COLOURS.items())

    light = values(0)
    return (
        f":root {{ {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {values(1)} }} }}\n"
        f"@media print {{ :root {{ {light} }} }}\n"
    )


def _content(figure: Figure, kind: FileFormat, salt: str, transparent: bool = False) -> bytes:
    stream = io.BytesIO()
    # Neither the time nor the version of the program that drew it.
    nothing = {"svg": ("Date", "Creator", "Format", "Type"), "pdf": ("CreationDate", "Creator", "Producer")}[kind]
    with mpl.rc_context({**STYLE, "svg.hashsalt": salt}):
        figure.savefig(stream, format=kind, dpi=DOTS_PER_INCH, transparent=transparent, metadata=dict.fromkeys(nothing))
    return stream.getvalue()


def _in_the_pages_colours(svg: str) -> str:
    variables = {look.light: f"var({looks.variable(name)}, {look.light})" for name, look in looks.LOOKS.items()}
    variables |= {light: f"var(--{name}, {light})" for name, (light, _) in COLOURS.items()}
    return re.sub("|".join(map(re.escape, variables)), lambda found: variables[found[0]], svg)


def _without_idle_ids(svg: str) -> str:
    """An id must occur once in a page, and matplotlib numbers axes and lines alike in every figure: keep those used."""
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', svg))
    return re.sub(r' id="([^"]+)"', lambda found: found[0] if found[1] in used else "", svg)
