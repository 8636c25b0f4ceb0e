"""Share of wrong labels that each set of weights has memorised, epoch by epoch."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import float64
from numpy.typing import NDArray

from tnlpad.paper.cells import FIGURES
from tnlpad.records.archive import FinishedRecord
from tnlpad.report import style
from tnlpad.report.drawings import panels
from tnlpad.report.words import percent

NAME = "memorisation"
LINES = {
    ("standard", "w"): style.STANDARD_LINE,
    ("tnlpad", "w"): style.W_LINE,
    ("tnlpad", "sigma"): style.SIGMA_LINE,
}
AXIS_TOPS = (10, 20, 50)  # of the shared percent axis, otherwise 100
Shares = Mapping[tuple[str, str], NDArray[float64]]  # by method and judged weights, in percent
Panel = tuple[panels.Place, Shares, Sequence[Sequence[FinishedRecord]]]


def _collect(records: panels.Records, extras: panels.Extras) -> list[Panel]:
    """Return places that have runs with the paper's settings and known wrong labels."""
    plain = [r for r in records if r.config["method"] in ("standard", "tnlpad") and not panels.own_settings(r)]
    places = {place: groups for place, groups in panels.by_place(plain).items() if ("tnlpad",) in groups}
    wanted = panels.wanted_panels(list(places), NAME, most=None)
    compared = [place for place in wanted if ("standard",) in places[place]]
    found: list[Panel] = []
    for place in (compared or wanted)[: panels.MAX_PANELS]:
        groups = places[place]
        shares = {key: values for key in LINES if (values := _curve(groups.get((key[0],), []), key[1])) is not None}
        if shares:
            methods = dict.fromkeys(method for method, _ in shares)
            found.append((place, shares, [groups[method,] for method in methods]))
    return found


def _curve(group: Sequence[FinishedRecord], weights: str) -> NDArray[float64] | None:
    values = panels.series(group, lambda record: record.curves.memorised.get(weights))
    return None if values is None else 100 * values


def _plot(found: Sequence[Panel]) -> Figure:
    alone = len(found) == 1
    highest = max(values.mean(axis=0).max() for _, shares, _ in found for values in shares.values())
    top = next((top for top in AXIS_TOPS if highest <= 0.9 * top), 100)
    titles = [place.title for place, _, _ in found]
    figure, every = panels.titled_panels(titles, 3.6 if alone else 2.8, below_inches=0.0 if alone else 0.4)
    for axes, (_, shares, _) in zip(every, found, strict=True):
        _plot_shares(axes, shares, top=top, labelled=alone)
    if not alone:
        style.legend_below(figure, list(LINES.values()), 3)
    return figure


def _plot_shares(axes: Axes, shares: Shares, top: float, labelled: bool) -> None:
    for key, values in shares.items():
        panels.plot_mean(axes, values, LINES[key])
    axes.set(xlabel="epoch", ylabel="memorised, %", ylim=(0, top))
    axes.margins(x=0)
    panels.whole_epochs(axes)
    if labelled:
        ends = [(LINES[key].label, float(values.mean(axis=0)[-1]), LINES[key].colour) for key, values in shares.items()]
        style.label_ends(axes, ends)


def _describe(found: Sequence[Panel]) -> str:
    sentences = []
    for place, shares, _ in found:
        last = (f"{LINES[key].label} {percent(values.mean(axis=0)[-1] / 100, 0)}" for key, values in shares.items())
        sentences.append(f"{place.title}: {', '.join(last)}.")
    seeds = panels.seeds_text(group for _, _, groups in found for group in groups)
    return f"Memorised in the last epoch. {' '.join(sentences)} {seeds}"


DRAWING = panels.Drawing(
    title=FIGURES[NAME],
    caption=(
        "Share of wrongly labelled training images to which the network gives exactly their wrong label, after every "
        "epoch: for ordinary training (Standard), for the decomposition’s full weights (w = σ + γ), and for σ alone. "
        "Line: mean over seeds; band: one standard deviation. At most 5,000 wrong labels are checked, the same in "
        "every epoch."
    ),
    needs="Runs of tnlpad, and preferably of standard, with simulated or human label noise.",
    collect=_collect,
    plot=_plot,
    describe=_describe,
)
