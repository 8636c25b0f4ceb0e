"""Share of wrong labels that each set of weights has memorised, epoch by epoch."""

from collections.abc import Iterator, Mapping, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import float64
from numpy.typing import NDArray

from tnlpad.paper.cells import FIGURES
from tnlpad.records.archive import FinishedRecord
from tnlpad.report import style
from tnlpad.report.drawings.panels import (
    MAX_PANELS,
    Drawing,
    Extras,
    Place,
    Records,
    by_place,
    own_settings,
    plot_mean,
    seeds_text,
    series,
    set_title,
    wanted_panels,
    whole_epochs,
)
from tnlpad.report.style import SIGMA_LINE, STANDARD_LINE, STYLE, W_LINE, label_ends, legend_below
from tnlpad.report.words import percent

NAME = "memorisation"
LINES = {("standard", "w"): STANDARD_LINE, ("tnlpad", "w"): W_LINE, ("tnlpad", "sigma"): SIGMA_LINE}
AXIS_TOPS = (10, 20, 50)  # of the shared percent axis, otherwise 100
Shares = Mapping[tuple[str, str], NDArray[float64]]  # by method and judged weights, in percent


def draw(records: Records, extras: Extras) -> Figure | None:
    """Draw a panel for each dataset and noise."""
    panels = list(_panels(records))
    if not panels:
        return None
    alone = len(panels) == 1
    highest = max(values.mean(axis=0).max() for _, shares, _ in panels for values in shares.values())
    top = next((top for top in AXIS_TOPS if highest <= 0.9 * top), 100)
    with mpl.rc_context(STYLE):
        figure, every = style.panels(len(panels), 3.6 if alone else 2.8, below_inches=0.0 if alone else 0.4)
        for number, (axes, (place, shares, _)) in enumerate(zip(every, panels, strict=True)):
            set_title(axes, place.title, number, len(panels))
            _shares(axes, shares, top=top, labelled=alone)
        if not alone:
            legend_below(figure, list(LINES.values()), 3)
    return figure


def _panels(records: Records) -> Iterator[tuple[Place, Shares, Sequence[Sequence[FinishedRecord]]]]:
    """Yield places that have runs with the paper's settings and known wrong labels."""
    plain = [r for r in records if r.config["method"] in ("standard", "tnlpad") and not own_settings(r)]
    places = {place: groups for place, groups in by_place(plain).items() if ("tnlpad",) in groups}
    wanted = wanted_panels(list(places), NAME, most=None)
    compared = [place for place in wanted if ("standard",) in places[place]]
    for place in (compared or wanted)[:MAX_PANELS]:
        groups = places[place]
        shares = {key: values for key in LINES if (values := _curve(groups.get((key[0],), []), key[1])) is not None}
        if shares:
            yield place, shares, [groups[method,] for method in dict.fromkeys(method for method, _ in shares)]


def _curve(group: Sequence[FinishedRecord], weights: str) -> NDArray[float64] | None:
    values = series(group, lambda record: record.curves.memorised.get(weights))
    return None if values is None else 100 * values


def _shares(axes: Axes, shares: Shares, top: float, labelled: bool) -> None:
    for key, values in shares.items():
        plot_mean(axes, values, LINES[key])
    axes.set(xlabel="epoch", ylabel="memorised, %", ylim=(0, top))
    axes.margins(x=0)
    whole_epochs(axes)
    if labelled:
        ends = [(LINES[key].label, float(values.mean(axis=0)[-1]), LINES[key].colour) for key, values in shares.items()]
        label_ends(axes, ends)


def findings(records: Records, extras: Extras) -> str:
    """State the memorised shares in the last epoch."""
    panels = list(_panels(records))
    if not panels:
        return ""
    sentences = [
        f"{place.title}: "
        + ", ".join(f"{LINES[key].label} {percent(values.mean(axis=0)[-1] / 100, 0)}" for key, values in shares.items())
        + "."
        for place, shares, _ in panels
    ]
    seeds = seeds_text(group for _, _, groups in panels for group in groups)
    return f"Memorised in the last epoch. {' '.join(sentences)} {seeds}"


DRAWING = Drawing(
    title=FIGURES[NAME],
    caption=(
        "Share of wrongly labelled training images to which the network gives exactly their wrong label, after every "
        "epoch: for ordinary training (Standard), for the decomposition’s full weights (w = σ + γ), and for σ alone. "
        "Line: mean over seeds; band: one standard deviation. At most 5,000 wrong labels are checked, the same in "
        "every epoch."
    ),
    needs="Runs of tnlpad, and preferably of standard, with simulated or human label noise.",
    draw=draw,
    findings=findings,
)
