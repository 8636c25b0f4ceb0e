"""Curves over epochs as small SVG inside a page: mean over seeds as a line, one standard deviation as a band.

Written here and not by matplotlib, because a page may hold a hundred of them: a tenth of the bytes and of the time.
Colours are the page's CSS variables, text is text in the page's font, and each figure says in words what it shows.
Series are told apart by dashes and by a label at their end as well as by colour, for colour-blind eyes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

# In the figure's own units, which are about the page's pixels on a wide screen; a phone shows them a little smaller.
WIDTH, HEIGHT = 440, 290
LEFT, TOP, BOTTOM = 58, 12, 44
LETTER, LINE_OF_TEXT = 8.0, 13.5  # of a label: about what a letter takes in width, and a line in height
GAP = 8  # between a line's end and its label
WANTED_TICKS = 5
LEAST_SPAN = 0.5  # of an axis, in points: with less of it chance alone would look like something
LONGEST_LABEL = 20
PROMINENT = 2  # a line of this width stands out


@dataclass(frozen=True, kw_only=True)
class Series:
    """One method's curves: a row for each seed, a column for each epoch, in percent.

    `colour` is the page's CSS variable, such as `--plain`; `dashes` as SVG writes them, empty for a solid line.
    """

    label: str
    colour: str
    dashes: str
    values: Sequence[Sequence[float]]
    width: float = 2.2

    @cached_property
    def means(self) -> list[float]:
        """Over seeds, as far as all of them have come."""
        means: list[float] = self._alike.mean(axis=0).tolist()
        return means

    @cached_property
    def deviations(self) -> list[float] | None:
        """Of the sample, with n − 1; None of a single seed."""
        if len(self.values) < 2:
            return None
        deviations: list[float] = self._alike.std(axis=0, ddof=1).tolist()
        return deviations

    @cached_property
    def _alike(self) -> NDArray[np.float64]:
        """Cut to the length of the shortest: runs that stop by patience differ in it."""
        length = min(map(len, self.values))
        return np.array([row[:length] for row in self.values], dtype=np.float64)

    @property
    def in_words(self) -> str:
        means = self.means
        peak = max(range(len(means)), key=means.__getitem__)
        return (
            f"{self.label}: {means[0]:.0f} % after epoch 1, highest {means[peak]:.0f} % after epoch {peak + 1}, "
            f"{means[-1]:.0f} % at the end."
        )


@dataclass(frozen=True, kw_only=True)
class Frame:
    """Where the axes lie, and from data to the figure's units."""

    right: float
    epochs: int
    low: float
    high: float

    def x(self, epoch: float) -> float:
        return LEFT + (epoch - 1) / max(self.epochs - 1, 1) * (self.right - LEFT)

    def y(self, value: float) -> float:
        bottom = HEIGHT - BOTTOM
        return bottom - (value - self.low) / (self.high - self.low) * (bottom - TOP)


def curves(
    name: str,
    title: str,
    y_label: str,
    series: Sequence[Series],
    limits: tuple[float, float] = (0, 100),
) -> str:
    """A figure of some curves, each labelled where it ends.

    Args:
        name: Distinguishes the figure's ids from those of other figures in the page.
        title: Read out by screen readers, and shown by browsers on hover.
        y_label: Says the unit too.
        series: At least one, drawn in this order: what matters most comes last, on top.
        limits: Of the percent axis; what lies outside is cut off.
    """
    longest = max(len(_shown(each.label)) for each in series)
    epochs = max(len(each.means) for each in series)
    frame = Frame(right=WIDTH - GAP - LETTER * longest, epochs=epochs, low=limits[0], high=limits[1])
    description = "Mean over the seeds. " + " ".join(each.in_words for each in series)
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
    """Round limits around the means, within 0 to 100, once the first tenth of the epochs is over.

    In those accuracy climbs from nothing, and an axis that shows it leaves no room for what tells methods apart. The
    bands of lines that stand out are within the limits as well.
    """
    values = [value for each in series for value in _extent(each)]
    step = _step(max(max(values) - min(values), LEAST_SPAN))
    low = max(0.0, step * math.floor(min(values) / step))
    high = min(100.0, max(step * math.ceil(max(values) / step - 1e-9), low + LEAST_SPAN))
    return min(low, high - LEAST_SPAN), high


def _extent(each: Series) -> list[float]:
    late = slice(len(each.means) // 10, None)
    sds = each.deviations if each.width >= PROMINENT else None
    pairs = zip(each.means[late], sds[late] if sds else [0.0] * len(each.means[late]), strict=True)
    return [value for mean, sd in pairs for value in (mean - sd, mean + sd)]


def _step(span: float) -> float:
    """1, 2 or 5 times a power of ten, such that about five make the span."""
    unit = 10.0 ** math.floor(math.log10(span / WANTED_TICKS))
    return next(unit * factor for factor in (1, 2, 5, 10) if unit * factor * WANTED_TICKS >= span * 0.999)


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
    path = _path([(frame.x(k + 1), frame.y(value)) for k, value in enumerate(each.means)])
    return f'<path class="line" style="stroke:var({each.colour})" stroke-width="{each.width:g}"{dashes} d="{path}"/>'


def _band(each: Series, frame: Frame) -> str:
    if each.deviations is None:
        return ""
    pairs = list(zip(each.means, each.deviations, strict=True))
    above = [(frame.x(k + 1), frame.y(mean + sd)) for k, (mean, sd) in enumerate(pairs)]
    below = [(frame.x(k + 1), frame.y(mean - sd)) for k, (mean, sd) in enumerate(pairs)]
    kind = "band" if each.width >= PROMINENT else "band faint"  # a dozen bands of full strength would hide each other
    return f'<path class="{kind}" style="fill:var({each.colour})" d="{_path([*above, *reversed(below)])}z"/>'


def _labels(series: Sequence[Series], frame: Frame) -> list[str]:
    """Right of the lines' ends, pushed apart until none covers another; a thin line leads from an end to its label."""
    ends = [(frame.x(len(each.means)), frame.y(each.means[-1])) for each in series]
    placed = spread([y for _, y in ends], apart=LINE_OF_TEXT, low=TOP, high=HEIGHT - BOTTOM)
    parts = []
    for each, (x, y), height in zip(series, ends, placed, strict=True):
        style = f'style="fill:var({each.colour})"'
        if abs(height - y) > 3 or frame.right - x > 1:
            lead = _path([(x, y), (frame.right + GAP - 2, height)])
            parts.append(f'<path class="lead" style="stroke:var({each.colour})" d="{lead}"/>')
        parts.append(
            f'<text class="label" {style} x="{_number(frame.right + GAP)}" y="{_number(height)}" dy=".35em">'
            f"{escape(_shown(each.label))}</text>"
        )
    return parts


def _shown(label: str) -> str:
    """As much as there is room for; the figure's description has all of it."""
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1].rstrip(" ,") + "…"


def spread(heights: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Heights in the same order and `apart` from each other, as near to the given ones as can be within low and high.

    Neighbours that are too near become one group, centred on where its members would be; so does what a group then
    comes too near to.
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
    for k, member in enumerate(order):  # those at the borders push the others before them
        placed[member] = min(max(wanted[k], low + apart * k), high - apart * (len(order) - 1 - k))
    return placed


def _path(points: Sequence[tuple[float, float]]) -> str:
    """Steps of a tenth of a unit from point to point: about half the letters of absolute coordinates."""
    tenths = [(round(10 * x), round(10 * y)) for x, y in points]
    steps = [f"M{_tenth(tenths[0][0])} {_tenth(tenths[0][1])}"]
    for (x0, y0), (x1, y1) in pairwise(tenths):
        steps.append(f"l{_tenth(x1 - x0)} {_tenth(y1 - y0)}")
    return "".join(steps)


def _tenth(tenths: int) -> str:
    return _number(tenths / 10)


def _number(value: float) -> str:
    """As short as SVG allows."""
    text = f"{value:.1f}".removesuffix(".0")
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text
