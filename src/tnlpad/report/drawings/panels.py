"""What a figure of the report is: what it needs, how it is drawn, and what may be said of it.

Records put together: runs that differ in their seed alone are one series, and what is compared shares a panel.

The paper's own panels are drawn where there is any of them; otherwise whatever the records have, six at most, so that a
small grid on other data gets its figures too.
"""

import json
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from tnlpad.paper.cells import NETWORKS, VARIANTS, Experiment, identity
from tnlpad.records.archive import FinishedRecord
from tnlpad.report.groups import groups_of
from tnlpad.report.style import Line, letter
from tnlpad.report.words import dataset_title, network_title, noise_title

Records = Sequence[FinishedRecord]
Extras = Mapping[str, Mapping[str, Any]]  # by figure: what `tnlpad.runs` computed for it, as plain data


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


MOST_PANELS = 6
FULL_WIDTH_LETTERS, HALF_WIDTH_LETTERS = 56, 25  # of a title
# Rounding alone: runs that differ in nothing else are one series. Patience is not: it cuts curves short.
ROUNDING = tuple(name for name in VARIANTS if name != "patience")
Curve = Callable[[FinishedRecord], Sequence[float | None] | None]


@dataclass(frozen=True, kw_only=True)
class Place:
    """What the runs of a panel have in common; `settings` are departures from the recipe, as JSON."""

    dataset: str
    noise: str
    protocol: str
    network: str
    settings: str

    @property
    def title(self) -> str:
        """In words, with whatever is not as in the paper."""
        return ", ".join([dataset_title(self.dataset), noise_title(self.noise), *self.departures])

    @property
    def departures(self) -> list[str]:
        words = [] if NETWORKS.get(self.dataset) == self.network else [network_title(self.network)]
        words += [] if self.protocol == "paper" else [f"{self.protocol}’ protocol"]
        return words + [f"{name} {_plain(value)}" for name, value in json.loads(self.settings).items()]


def place_of(record: FinishedRecord, apart: Iterable[str] = ()) -> Place:
    """Where a record belongs, leaving out the settings that are compared."""
    left_out = {*ROUNDING, *apart}
    settings = {name: value for name, value in record.settings.items() if name not in left_out}
    words = {name: str(record.config[name]) for name in ("dataset", "noise", "protocol", "network")}
    return Place(**words, settings=json.dumps(settings, sort_keys=True))


def own_settings(record: FinishedRecord) -> set[str]:
    """The method's own settings that depart from the recipe."""
    return set(record.settings) & set(record.config["options"])


def by_place(
    records: Iterable[FinishedRecord], apart: Iterable[str] = ()
) -> dict[Place, dict[Any, list[FinishedRecord]]]:
    """Records by place, and within it by what is compared: the method with its values of `apart`.

    Of runs that differ in more than their seed, such as in precision, those of most seeds are drawn.
    """
    names = tuple(apart)
    places: dict[Place, dict[Any, list[FinishedRecord]]] = {}
    for record in records:
        options = record.config["options"]
        key = (record.config["method"], *(options.get(name) for name in names))
        places.setdefault(place_of(record, names), {}).setdefault(key, []).append(record)
    # As in the tables, only runs that differ in nothing but their seed are ever averaged.
    return {
        place: {key: list(groups_of(group)[0].records) for key, group in compared.items()}
        for place, compared in places.items()
    }


def wanted_panels(places: Sequence[Place], papers: Iterable[Experiment], most: int | None = MOST_PANELS) -> list[Place]:
    """The paper's where there is any of them, in its order; otherwise the first, as many as there is room for."""
    order = {identity(each): number for number, each in enumerate(papers)}
    known = {place: number for place in places if (number := _number_of(place, order)) is not None}
    if known:
        return sorted(known, key=lambda place: (place.protocol != "paper", known[place]))
    return sorted(places, key=lambda place: (place.dataset, place.noise, place.protocol, place.settings))[:most]


def _number_of(place: Place, order: Mapping[str, int]) -> int | None:
    for method in ("standard", "tnlpad"):
        experiment = Experiment(
            dataset=place.dataset,
            noise=place.noise,
            method=method,
            network=place.network,
            settings=json.loads(place.settings),
        )
        if (number := order.get(identity(experiment))) is not None:
            return number
    return None


def noise_rate(noise: str) -> float | None:
    """The share of wrong labels, where the noise has one."""
    try:
        return float(noise.partition(":")[2])
    except ValueError:
        return None


def series(records: Iterable[FinishedRecord], curve: Curve) -> NDArray[np.float64] | None:
    """A row per seed and a column per epoch, cut to the shortest; None when no record has the curve."""
    return stacked(row for record in records if (row := curve(record)) is not None)


def stacked(curves: Iterable[Sequence[float | None]]) -> NDArray[np.float64] | None:
    """The same of curves that are at hand."""
    rows = list(curves)
    if not rows:
        return None
    length = min(map(len, rows))
    return np.array([[np.nan if value is None else value for value in row[:length]] for row in rows], dtype=float)


def plot_mean(axes: Axes, values: NDArray[np.float64], line: Line, band: bool = True) -> None:
    """Mean over the seeds as a line; one standard deviation as a band."""
    epochs = np.arange(1, values.shape[1] + 1)
    mean = values.mean(axis=0)
    if band and len(values) > 1:
        sd = values.std(axis=0, ddof=1)
        axes.fill_between(epochs, mean - sd, mean + sd, color=line.colour, alpha=0.16, linewidth=0)
    axes.plot(epochs, mean, **line.options())


def whole_epochs(axes: Axes) -> None:
    """No ticks between epochs, of which there may be few."""
    axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True))


def set_title(axes: Axes, title: str, number: int, count: int, first: int = 0) -> None:
    """With the panel's letter where there are several; in as many lines as it takes, the dataset in the first.

    Args:
        axes: The panel.
        title: "dataset, noise, …".
        number, count: Which of how many panels it is, in rows of two.
        first: The number of letters that other panels have taken.
    """
    alone = number == count - 1 and number % 2 == 0  # in its row
    words = title if count + first == 1 else f"{letter(first + number)} {title}"
    limit = FULL_WIDTH_LETTERS if alone else HALF_WIDTH_LETTERS
    if len(words) > limit:
        dataset, _, rest = words.partition(", ")
        words = "\n".join([f"{dataset},", *textwrap.wrap(rest, limit)])
    axes.set_title(words)


def percent(share: float, digits: int = 1) -> str:
    """0.8266 as "82.7 %", the number and the sign never parted."""
    return f"{100 * share:.{digits}f}\u00a0%"


def seeds_in_words(groups: Iterable[Sequence[FinishedRecord]]) -> str:
    """Over how many seeds the means are."""
    sizes = sorted({len(group) for group in groups})
    if sizes == [1]:
        return "One seed."
    return f"{sizes[0]} seeds." if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} seeds."


def departures_text(found: Mapping[str, Any]) -> str:
    """To follow the seed of a computed figure: what else about its runs is not as in the recipe."""
    words = [] if found.get("protocol", "paper") == "paper" else [f"{found['protocol']}’ protocol"]
    settings = {name: value for name, value in found.get("settings", {}).items() if name not in ROUNDING}
    words += [f"{name} {_plain(value)}" for name, value in settings.items()]
    return "".join(f", {word}" for word in words)


def _plain(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value).lower()
