"""Matplotlib style of the report's figures.

Figures are drawn without pyplot, so no global state changes, in the light colours of `COLOURS` or of methods.
Files keep these colours. Inside a page each becomes a CSS variable, and `stylesheet()` has its values for light pages,
dark pages and print. Text stays text. The hues of Okabe and Ito, darkened until thin lines and words are legible on
white, suit colour-blind readers. Lines also differ in dashes or carry a label at their end.

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
from tnlpad.report.figures import push_apart
from tnlpad.report.method_styles import ALL_STYLES, CurveStyle

FileFormat = Literal["svg", "pdf"]

# CSS variable: colour on light pages, colour on dark pages.
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
# Text on filled cells, which are light on every page.
ON_FILL, FILL_LOW, FILL_HIGH = "#111418", "#eef3f8", "#6fa8d6"

WIDTH_INCHES = 5.8  # a text column of a paper, and about the width of a phone
END_LABEL_POINTS = 10.5  # size of letters beside the ends of curves
PAGE_REM_PER_INCH = 7.2  # makes letters as large as the page's text
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
DOTS_PER_INCH = 220  # of rasterised parts, such as thousands of points


@dataclass(frozen=True, kw_only=True)
class Line:
    """Style of a series in matplotlib."""

    label: str
    colour: str
    dashes: Any = "-"
    width: float | None = None  # that of `STYLE`

    def options(self) -> dict[str, Any]:
        """Return keyword arguments for `Axes.plot`."""
        options = {"color": self.colour, "linestyle": self.dashes, "label": self.label}
        return options if self.width is None else {**options, "linewidth": self.width}


def line_of(label: str, style: CurveStyle) -> Line:
    """Return a curve's style for matplotlib, which counts dashes in widths of the line."""
    lengths = tuple(float(part) / style.width for part in style.dashes.split())
    return Line(label=label, colour=style.light, dashes=(0, lengths) if lengths else "-", width=style.width)


STANDARD_LINE = Line(label="Standard", colour=PLAIN, dashes="-.")
W_LINE = Line(label="w = σ + γ", colour=W, dashes=(0, (5, 1.6)))
SIGMA_LINE = Line(label="σ", colour=SIGMA)
GAMMA_LINE = Line(label="γ", colour=GAMMA, dashes=(0, (1.2, 1.2)))


def new_figure(height_inches: float) -> Figure:
    """Return an empty figure. Call this, and draw, within `mpl.rc_context(STYLE)`."""
    return Figure(figsize=(WIDTH_INCHES, height_inches), layout="constrained")


def panels(count: int, row_inches: float, below_inches: float = 0.0) -> tuple[Figure, list[Axes]]:
    """Return axes in rows of two; the last one of an odd number takes the full width."""
    columns = min(2, count)
    rows = math.ceil(count / columns)
    figure = new_figure(row_inches * rows + below_inches)
    grid = figure.add_gridspec(rows, columns)
    places = [divmod(number, columns) for number in range(count)]
    last_alone = columns == 2 and count % 2 == 1
    axes = [figure.add_subplot(grid[row, column]) for row, column in places[: count - last_alone]]
    return figure, axes + ([figure.add_subplot(grid[-1, :])] if last_alone else [])


def legend_below(
    figure: Figure, lines: Sequence[Line], columns: int, *others: Artist, handle_length: float = 2.6
) -> None:
    """Add one legend for all panels below them, in fewer columns if it is wider than the figure.

    `handle_length` is that of a line in it, in letters.
    """
    handles: list[Artist] = [*(Line2D([], [], **line.options()) for line in lines), *others]
    for count in range(columns, 0, -1):
        legend = figure.legend(handles=handles, loc="outside lower center", ncols=count, handlelength=handle_length)
        if count == 1 or legend.get_window_extent().width <= figure.bbox.width:
            break
        legend.remove()


def label_ends(axes: Axes, labels: Sequence[tuple[str, float, str]]) -> None:
    """Write labels right of the axes at the height of each line's end, moved apart where they collide.

    Args:
        axes: Axes with final limits.
        labels: Text, height in data units, and colour.
    """
    figure = axes.figure.figure  # the top-level figure, also for axes in a subfigure
    texts = [
        axes.annotate(
            text,
            (1, 0.5),
            xycoords="axes fraction",
            xytext=(5, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            fontsize=END_LABEL_POINTS,
            fontweight="bold",
            annotation_clip=False,
        )
        for text, _, colour in labels
    ]
    figure.draw_without_rendering()  # the axes' height is known only after the layout has made room for the texts
    points = axes.get_window_extent().height * 72 / figure.dpi
    wanted = [float(axes.transAxes.inverted().transform(axes.transData.transform((1, y)))[1]) for _, y, _ in labels]
    placed = push_apart(wanted, apart=1.2 * END_LABEL_POINTS / points, low=0.0, high=1.0)
    for text, height in zip(texts, placed, strict=True):
        text.xy = (1, height)


def letter(number: int) -> str:
    """Return (a), (b), … for panel 0, 1, …"""
    return f"({chr(ord('a') + number)})"


# Output --------------------------------------------------------------------------------------------------------------


def save_figure(figure: Figure, path: Path) -> list[Path]:
    """Write PATH.svg and PATH.pdf, each by rename, and return both paths."""
    kinds: tuple[FileFormat, ...] = ("svg", "pdf")
    files = []
    for kind in kinds:
        files.append(path.with_name(f"{path.name}.{kind}"))
        write_by_rename(files[-1], _content(figure, kind, salt=path.name))
    return files


def inline_svg(figure: Figure, name: str, title: str, description: str) -> str:
    """Return a figure as an SVG element that uses the page's colours and font.

    Args:
        figure: Drawn in this module's style.
        name: Prefix of the element's ids, unique in the page.
        title: Read by screen readers, and shown on hover.
        description: The content in words, for screen readers.
    """
    svg = _content(figure, "svg", salt=name, transparent=True).decode()
    opening, body = svg[svg.index("<svg") :].split(">", 1)
    width_rem = PAGE_REM_PER_INCH * figure.get_figwidth()
    view_box = re.search(r'viewBox="([^"]+)"', opening)
    assert view_box, "matplotlib always writes a viewBox"
    # The page has its own style, and unused ids would repeat between figures.
    body = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", body, count=1, flags=re.DOTALL)
    body = _with_page_colours(_without_unused_ids(body))
    return (
        f'<svg class="figure" viewBox="{view_box[1]}" style="max-width: {width_rem:.1f}rem" role="img" '
        f'aria-labelledby="{name}-title {name}-description">'
        f'<title id="{name}-title">{escape(title)}</title>'
        f'<desc id="{name}-description">{escape(description)}</desc>{body.strip()}'
    )


def stylesheet() -> str:
    """Return CSS variables of all colours for light pages, dark pages and print."""
    shades = {f"--{name}": pair for name, pair in COLOURS.items()}
    shades |= {each.variable: (each.light, each.dark) for each in ALL_STYLES}
    light, dark = (" ".join(f"{name}: {pair[k]};" for name, pair in shades.items()) for k in (0, 1))
    return (
        f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
        f"@media print {{ :root {{ {light} }} }}\n"
    )


def _content(figure: Figure, kind: FileFormat, salt: str, transparent: bool = False) -> bytes:
    stream = io.BytesIO()
    omitted = {"svg": ("Date", "Creator", "Format", "Type"), "pdf": ("CreationDate", "Creator", "Producer")}[kind]
    with mpl.rc_context({**STYLE, "svg.hashsalt": salt}):
        figure.savefig(stream, format=kind, dpi=DOTS_PER_INCH, transparent=transparent, metadata=dict.fromkeys(omitted))
    return stream.getvalue()


def _with_page_colours(svg: str) -> str:
    variables = {each.light: f"var({each.variable}, {each.light})" for each in ALL_STYLES}
    variables |= {light: f"var(--{name}, {light})" for name, (light, _) in COLOURS.items()}
    return re.sub("|".join(map(re.escape, variables)), lambda found: variables[found[0]], svg)


def _without_unused_ids(svg: str) -> str:
    """Remove ids that nothing refers to: matplotlib gives axes and lines the same ids in every figure."""
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', svg))
    return re.sub(r' id="([^"]+)"', lambda found: found[0] if found[1] in used else "", svg)
