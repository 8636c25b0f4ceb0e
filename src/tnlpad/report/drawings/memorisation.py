"""How many of the wrong labels each set of weights has learnt by heart, epoch after epoch."""

from collections.abc import Iterator, Mapping, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import float64
from numpy.typing import NDArray

from tnlpad.paper.cells import FIGURES, curves, smoke_curves
from tnlpad.records.archive import FinishedRecord
from tnlpad.report import style
from tnlpad.report.drawings.panels import (
    MOST_PANELS,
    Drawing,
    Extras,
    Place,
    Records,
    by_place,
    own_settings,
    percent,
    plot_mean,
    seeds_in_words,
    series,
    set_title,
    wanted_panels,
    whole_epochs,
)
from tnlpad.report.style import SIGMA_LINE, STANDARD_LINE, STYLE, W_LINE, label_ends, legend_below

NAME = "memorisation"
LINES = {("standard", "w"): STANDARD_LINE, ("tnlpad", "w"): W_LINE, ("tnlpad", "sigma"): SIGMA_LINE}
TOPS = (10, 20, 50)  # of the axis, which all panels share; otherwise it goes up to 100
Shares = Mapping[tuple[str, str], NDArray[float64]]  # by method and judged weights, in percent


def draw(records: Records, extras: Extras) -> Figure | None:
    """A panel for each dataset and noise."""
    panels = list(_panels(records))
    if not panels:
        return None
    alone = len(panels) == 1
    highest = max(values.mean(axis=0).max() for _, shares, _ in panels for values in shares.values())
    top = next((top for top in TOPS if highest <= 0.9 * top), 100)
    with mpl.rc_context(STYLE):
        figure, every = style.panels(len(panels), 3.6 if alone else 2.8, below_inches=0.0 if alone else 0.4)
        for number, (axes, (place, shares, _)) in enumerate(zip(every, panels, strict=True)):
            set_title(axes, place.title, number, len(panels))
            _shares(axes, shares, top=top, labelled=alone)
        if not alone:
            legend_below(figure, list(LINES.values()), 3)
    return figure


def _panels(records: Records) -> Iterator[tuple[Place, Shares, Sequence[Sequence[FinishedRecord]]]]:
    """Places with a run of the method as the paper has it, where it is known which labels are wrong."""
    plain = [r for r in records if r.config["method"] in ("standard", "tnlpad") and not own_settings(r)]
    places = {place: groups for place, groups in by_place(plain).items() if ("tnlpad",) in groups}
    wanted = wanted_panels(list(places), (*curves(NAME), *smoke_curves(NAME)), most=None)
    compared = [place for place in wanted if ("standard",) in places[place]]
    for place in (compared or wanted)[:MOST_PANELS]:
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
    """How much of it each has learnt at the end."""
    panels = list(_panels(records))
    if not panels:
        return ""
    sentences = [
        f"{place.title}: "
        + ", ".join(f"{LINES[key].label} {percent(values.mean(axis=0)[-1] / 100, 0)}" for key, values in shares.items())
        + "."
        for place, shares, _ in panels
    ]
    seeds = seeds_in_words(group for _, _, groups in panels for group in groups)
    return f"Memorised in the last epoch. {' '.join(sentences)} {seeds}"


DRAWING = Drawing(
    title=FIGURES[NAME],
    caption=(
        "Of the training images whose given label is wrong, the share to which the network gives exactly that wrong "
        "label, after every epoch: ordinary training (Standard), the decomposition’s whole weights (w = σ + γ), and σ "
        "alone. Line: mean over the seeds; band: one standard deviation. At most 5,000 wrong labels are looked at, the "
        "same ones in every epoch."
    ),
    needs="Runs of tnlpad, better also of standard, with simulated or human label noise.",
    draw=draw,
    findings=findings,
)
