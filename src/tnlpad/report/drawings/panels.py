"""Definition of a figure, and helpers to arrange records in panels.

Runs that differ only in their seed form one series. A figure draws the paper's panels if the records have any of them;
otherwise it draws up to six others, so that a small grid on other data gets figures too.
"""

import json
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from tnlpad.paper.cells import NETWORKS, VARIANTS, Experiment, curves, identity, smoke_curves
from tnlpad.records.archive import FinishedRecord
from tnlpad.report import style
from tnlpad.report.groups import groups_of
from tnlpad.report.words import counted, dataset_title, network_title, noise_title, value_text

Records = Sequence[FinishedRecord]
Extras = Mapping[str, Mapping[str, Any]]  # by figure: plain data computed by `tnlpad.paper_figures`
Curve = Callable[[FinishedRecord], Sequence[float | None] | None]

MAX_PANELS = 6
FULL_WIDTH_LETTERS, HALF_WIDTH_LETTERS = 56, 25  # of a title
# Settings that only change rounding do not separate series. Patience does, because it shortens curves.
ROUNDING = tuple(name for name in VARIANTS if name != "patience")


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure of the report.

    Args:
        title: A few words.
        caption: What is shown, how it was computed and how anything was chosen; true for any records.
        needs: What must exist before it can be drawn.
        collect: Returns the data to draw; empty or None when something is missing.
        plot: Draws these data.
        describe: Returns sentences with the numbers of these data. They follow the caption and serve screen readers.
        conclude: Returns what these data show, and whether that is what the paper says; stands above the caption.
        command: The command that makes its runs; by default `tnlpad reproduce` with the figure's name.
    """

    title: str
    caption: str
    needs: str
    collect: Callable[[Records, Extras], Any]
    plot: Callable[[Any], Figure]
    describe: Callable[[Any], str] = lambda found: ""
    conclude: Callable[[Any], str] = lambda found: ""
    command: str | None = None

    def draw(self, records: Records, extras: Extras) -> Figure | None:
        """Draw the figure; None when something that it needs is missing."""
        found = self.collect(records, extras)
        with mpl.rc_context(style.STYLE):
            return self.plot(found) if found else None

    def findings(self, records: Records, extras: Extras) -> str:
        """Describe the figure; empty when it cannot be drawn."""
        found = self.collect(records, extras)
        return self.describe(found) if found else ""

    def conclusion(self, records: Records, extras: Extras) -> str:
        """Return what the figure shows; empty when it cannot be drawn, or leaves that to the reader."""
        found = self.collect(records, extras)
        return self.conclude(found) if found else ""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Common properties of the runs in a panel; `settings` are departures from the recipe, as JSON."""

    dataset: str
    noise: str
    protocol: str
    network: str
    settings: str

    @property
    def title(self) -> str:
        """Dataset and noise, and everything that differs from the paper."""
        network = [] if NETWORKS.get(self.dataset) == self.network else [network_title(self.network)]
        departures = _departures(self.protocol, json.loads(self.settings))
        return ", ".join([dataset_title(self.dataset), noise_title(self.noise), *network, *departures])


def place_of(record: FinishedRecord, compared: Iterable[str] = ()) -> Place:
    """Return the place of a record, without the settings that are compared."""
    left_out = {*ROUNDING, *compared}
    settings = {name: value for name, value in record.settings.items() if name not in left_out}
    words = {name: str(record.config[name]) for name in ("dataset", "noise", "protocol", "network")}
    return Place(**words, settings=json.dumps(settings, sort_keys=True))


def own_settings(record: FinishedRecord) -> set[str]:
    """Return the settings of the method that depart from the recipe."""
    return set(record.settings) & set(record.config["options"])


def by_place(
    records: Iterable[FinishedRecord], compared: Sequence[str] = ()
) -> dict[Place, dict[Any, list[FinishedRecord]]]:
    """Group records by place, then by method and its values of `compared`.

    Among runs that differ in more than their seed, such as in precision, keep those with most seeds.
    """
    places: dict[Place, dict[Any, list[FinishedRecord]]] = {}
    for record in records:
        options = record.config["options"]
        key = (record.config["method"], *(options.get(name) for name in compared))
        places.setdefault(place_of(record, compared), {}).setdefault(key, []).append(record)
    return {
        place: {key: list(groups_of(group)[0].records) for key, group in groups.items()}
        for place, groups in places.items()
    }


def wanted_panels(places: Sequence[Place], figure: str, most: int | None = MAX_PANELS) -> list[Place]:
    """Return the paper's panels of a figure in its order, or, without any of these, the first other places."""
    order = {identity(each): number for number, each in enumerate((*curves(figure), *smoke_curves(figure)))}
    known = {place: number for place in places if (number := _panel_number(place, order)) is not None}
    if known:
        return sorted(known, key=lambda place: (place.protocol != "paper", known[place]))
    return sorted(places, key=lambda place: (place.dataset, place.noise, place.protocol, place.settings))[:most]


def _panel_number(place: Place, order: Mapping[str, int]) -> int | None:
    settings = json.loads(place.settings)
    experiments = (
        Experiment(dataset=place.dataset, noise=place.noise, method=method, network=place.network, settings=settings)
        for method in ("standard", "tnlpad")
    )
    return next((order[name] for each in experiments if (name := identity(each)) in order), None)


def noise_rate(noise: str) -> float | None:
    """Return the share of wrong labels; None for noise without a rate."""
    try:
        return float(noise.partition(":")[2])
    except ValueError:
        return None


def series(records: Iterable[FinishedRecord], curve: Curve) -> NDArray[np.float64] | None:
    """Return the curves of records as by `stacked`, without the records that lack it."""
    return stacked(row for record in records if (row := curve(record)) is not None)


def stacked(curves: Iterable[Sequence[float | None]]) -> NDArray[np.float64] | None:
    """Return a row per seed and a column per epoch, cut to the shortest curve; None without curves."""
    rows = list(curves)
    if not rows:
        return None
    length = min(map(len, rows))
    return np.array([[np.nan if value is None else value for value in row[:length]] for row in rows], dtype=float)


def plot_mean(axes: Axes, values: NDArray[np.float64], line: style.Line, band: bool = True) -> None:
    """Plot the mean over seeds, with one standard deviation as a band."""
    epochs = np.arange(1, values.shape[1] + 1)
    mean = values.mean(axis=0)
    if band and len(values) > 1:
        sd = values.std(axis=0, ddof=1)
        axes.fill_between(epochs, mean - sd, mean + sd, color=line.colour, alpha=0.16, linewidth=0)
    axes.plot(epochs, mean, **line.options())


def whole_epochs(axes: Axes) -> None:
    """Put ticks at whole epochs only."""
    axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True))


def titled_panels(titles: Sequence[str], row_inches: float, below_inches: float = 0.0) -> tuple[Figure, list[Axes]]:
    """Return `style.panels` with titles."""
    figure, every = style.panels(len(titles), row_inches, below_inches)
    for number, (axes, title) in enumerate(zip(every, titles, strict=True)):
        set_title(axes, title, number, len(titles))
    return figure, every


def set_title(axes: Axes, title: str, number: int, count: int, first: int = 0) -> None:
    """Set a panel's title, with a letter if there are several panels, wrapped after the dataset if it is long.

    Args:
        axes: The panel.
        title: "dataset, noise, …".
        number, count: Index of the panel and number of panels, in rows of two.
        first: Number of letters used by other panels.
    """
    full_width = number == count - 1 and number % 2 == 0
    words = title if count + first == 1 else f"{style.letter(first + number)} {title}"
    limit = FULL_WIDTH_LETTERS if full_width else HALF_WIDTH_LETTERS
    if len(words) > limit:
        dataset, _, rest = words.partition(", ")
        words = "\n".join([f"{dataset},", *textwrap.wrap(rest, limit)])
    axes.set_title(words)


def seeds_text(groups: Iterable[Sequence[FinishedRecord]]) -> str:
    """Return the number of seeds: "3 seeds." or "2 to 5 seeds."."""
    sizes = [len(group) for group in groups]
    low, high = min(sizes), max(sizes)
    return f"{counted(low, 'seed')}." if low == high else f"{low} to {high} seeds."


def departures_text(found: Mapping[str, Any]) -> str:
    """Return the departures of a computed figure's runs from the recipe, each after a comma."""
    settings = {name: value for name, value in found.get("settings", {}).items() if name not in ROUNDING}
    return "".join(f", {word}" for word in _departures(found.get("protocol", "paper"), settings))


def _departures(protocol: str, settings: Mapping[str, Any]) -> list[str]:
    words = [] if protocol == "paper" else [f"{protocol}’ protocol"]
    return words + [f"{name} {value_text(value)}" for name, value in settings.items()]
