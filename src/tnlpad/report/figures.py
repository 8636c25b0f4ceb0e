"""Curves over epochs as small inline SVG: mean over seeds as a line, one standard deviation as a band.

Matplotlib's SVG takes ten times the bytes and the time, and a page may hold a hundred of these. Colours are the page's
CSS variables, text uses the page's font, and a description in words serves screen readers. Series also differ in dashes
and carry a label at their end, for colour-blind readers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

# In SVG units, about a pixel each on a wide screen.
WIDTH, HEIGHT = 440, 290
LEFT, TOP, BOTTOM = 58, 12, 44
LETTER_WIDTH, LABEL_HEIGHT = 8.0, 13.5
LABEL_GAP = 8  # between a line's end and its label
TICKS = 5
MIN_SPAN_POINTS = 0.5  # of the percent axis, so that chance differences do not fill it
MAX_LABEL_LETTERS = 20
PROMINENT_WIDTH = 2  # lines at least this wide have a full band


@dataclass(frozen=True, kw_only=True)
class Series:
    """Curves of one method: a row for each seed, a column for each epoch, in percent.

    `colour` is a CSS variable, such as `--plain`; `dashes` is SVG's stroke-dasharray, empty for a solid line.
    """

    label: str
    colour: str
    dashes: str
    values: Sequence[Sequence[float]]
    width: float = 2.2

    @cached_property
    def means(self) -> NDArray[np.float64]:
        """Means over seeds, up to the shortest run."""
        return np.asarray(self._same_length.mean(axis=0))

    @cached_property
    def deviations(self) -> NDArray[np.float64] | None:
        """Sample standard deviations (n − 1); None for a single seed."""
        return np.asarray(self._same_length.std(axis=0, ddof=1)) if len(self.values) > 1 else None

    @property
    def _same_length(self) -> NDArray[np.float64]:
        """Values cut to the shortest run: runs with patience differ in length."""
        length = min(map(len, self.values))
        return np.array([row[:length] for row in self.values], dtype=np.float64)

    @property
    def prominent(self) -> bool:
        return self.width >= PROMINENT_WIDTH

    @property
    def description(self) -> str:
        first, peak, last = self.means[0], self.means.argmax(), self.means[-1]
        return (
            f"{self.label}: {first:.0f} % after epoch 1, highest {self.means[peak]:.0f} % after epoch {peak + 1}, "
            f"{last:.0f} % at the end."
        )


@dataclass(frozen=True, kw_only=True)
class Frame:
    """Axes of a figure, and the transform from data to SVG units."""

    right: float
    epochs: int
    low: float
    high: float

    def x(self, epoch: float) -> float:
        return LEFT + (epoch - 1) / max(self.epochs - 1, 1) * (self.right - LEFT)

    def y(self, value: float) -> float:
        bottom = HEIGHT - BOTTOM
        return bottom - (value - self.low) / (self.high - self.low) * (bottom - TOP)

    def points(self, values: NDArray[np.float64]) -> list[tuple[float, float]]:
        return [(self.x(epoch), self.y(float(value))) for epoch, value in enumerate(values, start=1)]


def curves(
    name: str,
    title: str,
    y_label: str,
    series: Sequence[Series],
    limits: tuple[float, float] = (0, 100),
) -> str:
    """Return a figure with a label at the end of each curve.

    Args:
        name: Prefix of the element's ids, unique in the page.
        title: Read by screen readers, and shown on hover.
        y_label: Label of the percent axis, with its unit.
        series: At least one; later ones are drawn on top.
        limits: Limits of the percent axis; curves are clipped to them.
    """
    longest = max(len(_shown(each.label)) for each in series)
    epochs = max(len(each.means) for each in series)
    frame = Frame(right=WIDTH - LABEL_GAP - LETTER_WIDTH * longest, epochs=epochs, low=limits[0], high=limits[1])
    description = "Mean over the seeds. " + " ".join(each.description for each in series)
    bands, lines = ([draw(each, frame) for each in series] for draw in (_band, _line))
    return (
        f'<svg class="figure curves" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-labelledby="{name}-title {name}-description">'
        f'<title id="{name}-title">{escape(title)}</title>'
        f'<desc id="{name}-description">{escape(description)}</desc>'
        f'<clipPath id="{name}-clip"><rect x="{LEFT}" y="{TOP - 2}" width="{_number(frame.right - LEFT + 2)}" '
        f'height="{HEIGHT - BOTTOM - TOP + 4}"/></clipPath>'
        f'{"".join(_axes(frame, y_label))}<g clip-path="url(#{name}-clip)">{"".join(bands)}{"".join(lines)}</g>'
        f"{''.join(_labels(series, frame))}</svg>"
    )


def fitting(series: Sequence[Series]) -> tuple[float, float]:
    """Return round axis limits around the means, within 0 to 100, without the first tenth of the epochs.

    Accuracy climbs steeply in those, and an axis that shows it leaves little room for the differences between methods.
    The bands of prominent lines are included.
    """
    values = np.concatenate([_extent(each) for each in series])
    lowest, highest = float(values.min()), float(values.max())
    step = _step(max(highest - lowest, MIN_SPAN_POINTS))
    low = max(0.0, step * math.floor(lowest / step))
    high = min(100.0, max(step * math.ceil(highest / step - 1e-9), low + MIN_SPAN_POINTS))
    return min(low, high - MIN_SPAN_POINTS), high


def _extent(each: Series) -> NDArray[np.float64]:
    late = slice(len(each.means) // 10, None)
    sd = each.deviations[late] if each.prominent and each.deviations is not None else 0.0
    return np.concatenate([each.means[late] - sd, each.means[late] + sd])


def _step(span: float) -> float:
    """Return 1, 2 or 5 times a power of ten, so that about five steps make the span."""
    unit = 10.0 ** math.floor(math.log10(span / TICKS))
    return next(unit * factor for factor in (1, 2, 5, 10) if unit * factor * TICKS >= span * 0.999)


def _ticks(low: float, high: float) -> list[float]:
    step = _step(high - low)
    first = math.ceil(low / step - 1e-9)
    return [step * k for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _axes(frame: Frame, y_label: str) -> list[str]:
    bottom = HEIGHT - BOTTOM
    parts = []
    for tick in _ticks(frame.low, frame.high):
        y = _number(frame.y(tick))
        parts.append(f'<path class="rule" d="M{LEFT} {y}H{_number(frame.right)}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 7}" y="{y}" dy=".35em" text-anchor="end">{tick:g}</text>')
    epochs = [1, *(tick for tick in _ticks(0, frame.epochs) if tick > 1 and tick == int(tick))]
    if len(epochs) > 1 and frame.x(epochs[1]) - frame.x(1) < 22:
        del epochs[0]
    for tick in epochs:
        x = _number(frame.x(tick))
        parts.append(f'<path class="axis" d="M{x} {bottom}v5"/>')
        parts.append(f'<text class="tick" x="{x}" y="{bottom + 18}" text-anchor="middle">{tick:g}</text>')
    middle = _number((LEFT + frame.right) / 2)
    height = _number((TOP + bottom) / 2)
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{_number(frame.right)}"/>')
    parts.append(f'<text class="name" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">epoch</text>')
    parts.append(
        f'<text class="name" transform="translate(13 {height}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>"
    )
    return parts


def _line(each: Series, frame: Frame) -> str:
    dashes = f' stroke-dasharray="{each.dashes}"' if each.dashes else ""
    path = _path(frame.points(each.means))
    return f'<path class="line" style="stroke:var({each.colour})" stroke-width="{each.width:g}"{dashes} d="{path}"/>'


def _band(each: Series, frame: Frame) -> str:
    if each.deviations is None:
        return ""
    above, below = (frame.points(each.means + sign * each.deviations) for sign in (1, -1))
    kind = "band" if each.prominent else "band faint"  # a dozen full bands would hide each other
    return f'<path class="{kind}" style="fill:var({each.colour})" d="{_path([*above, *reversed(below)])}z"/>'


def _labels(series: Sequence[Series], frame: Frame) -> list[str]:
    """Return labels right of the lines' ends; a thin line leads to a label that had to move."""
    ends = [frame.points(each.means)[-1] for each in series]
    placed = push_apart([y for _, y in ends], apart=LABEL_HEIGHT, low=TOP, high=HEIGHT - BOTTOM)
    parts = []
    for each, (x, y), height in zip(series, ends, placed, strict=True):
        style = f'style="fill:var({each.colour})"'
        if abs(height - y) > 3 or frame.right - x > 1:
            lead = _path([(x, y), (frame.right + LABEL_GAP - 2, height)])
            parts.append(f'<path class="lead" style="stroke:var({each.colour})" d="{lead}"/>')
        parts.append(
            f'<text class="label" {style} x="{_number(frame.right + LABEL_GAP)}" y="{_number(height)}" dy=".35em">'
            f"{escape(_shown(each.label))}</text>"
        )
    return parts


def _shown(label: str) -> str:
    """Shorten a label; the figure's description has the whole of it."""
    return label if len(label) <= MAX_LABEL_LETTERS else label[: MAX_LABEL_LETTERS - 1].rstrip(" ,") + "…"


def push_apart(heights: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Move heights until neighbours are at least `apart`, in the same order and within low and high.

    Neighbours that are too close form a group around the mean of their heights; groups that become too close merge.
    """
    groups: list[tuple[float, list[int]]] = []  # centre and members
    for k in sorted(range(len(heights)), key=heights.__getitem__):
        centre, members = heights[k], [k]
        while groups and centre - groups[-1][0] < apart * (len(groups[-1][1]) + len(members)) / 2:
            members = groups.pop()[1] + members
            centre = sum(heights[member] for member in members) / len(members)
        groups.append((centre, members))
    order = [member for _, members in groups for member in members]
    wanted = [centre + apart * (k - (len(members) - 1) / 2) for centre, members in groups for k in range(len(members))]
    placed = [0.0] * len(heights)
    for k, member in enumerate(order):
        placed[member] = min(max(wanted[k], low + apart * k), high - apart * (len(order) - 1 - k))
    return placed


def _path(points: Sequence[tuple[float, float]]) -> str:
    """Return relative steps in tenths of a unit: half the length of absolute coordinates."""
    tenths = [(round(10 * x), round(10 * y)) for x, y in points]
    steps = [(x1 - x0, y1 - y0) for (x0, y0), (x1, y1) in pairwise(tenths)]
    first, *others = (f"{_number(x / 10)} {_number(y / 10)}" for x, y in [tenths[0], *steps])
    return "".join([f"M{first}", *(f"l{step}" for step in others)])


def _number(value: float) -> str:
    """Return a number in the shortest form that SVG allows."""
    text = f"{value:.1f}".removesuffix(".0")
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text
