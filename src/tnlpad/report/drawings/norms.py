"""Norms of σ, γ, σ's step and the gradient over the epochs, and the epoch that releases γ."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tnlpad.paper.cells import FIGURES
from tnlpad.records.archive import FinishedRecord
from tnlpad.report import style
from tnlpad.report.drawings.beta import gamma_penalty_of_run
from tnlpad.report.drawings.panels import (
    Drawing,
    Extras,
    Place,
    Records,
    by_place,
    own_settings,
    seeds_text,
    series,
    set_title,
    wanted_panels,
    whole_epochs,
)
from tnlpad.report.style import GAMMA, GRADIENT, INK, PAPER, SIGMA, SOFT, STYLE, Line, label_ends, legend_below

NAME = "norms"
LINES = {
    "sigma": Line(label="‖σ‖", colour=SIGMA),
    "gamma": Line(label="‖γ‖", colour=GAMMA, dashes=(0, (7, 1))),
    "drift": Line(label="‖Δσ‖", colour=SIGMA, dashes=(0, (1.2, 1.2))),
    "gradient": Line(label="‖g‖", colour=GRADIENT, dashes=(0, (3, 1.2, 1, 1.2))),
    "averaged_gradient": Line(label="‖ḡ‖", colour=GRADIENT, dashes=(0, (2.2, 0.9))),
    "beta2": Line(label="β2", colour=INK, dashes=(0, (5, 1.6))),
}
Norms = Mapping[str, NDArray[np.float64]]  # by name: a number per epoch


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """Runs of one place.

    Args:
        release: First epoch with β2 below the averaged gradient, from which the loss pulls γ harder than its penalty.
            None if there is no such epoch, or if the averaged gradient was not recorded.
        least: Epoch of the smallest ‖γ‖ before the first drop of the learning rate, which shrinks γ in any case.
    """

    place: Place
    group: Sequence[FinishedRecord]
    norms: Norms
    release: int | None
    least: int


def draw(records: Records, extras: Extras) -> Figure | None:
    """Draw a panel for each dataset and noise, with logarithmic axes."""
    panels = list(_panels(records))
    if not panels:
        return None
    alone = len(panels) == 1
    with mpl.rc_context(STYLE):
        figure, every = style.panels(len(panels), 4.2 if alone else 3.0, below_inches=0.0 if alone else 0.6)
        for number, (axes, panel) in enumerate(zip(every, panels, strict=True)):
            set_title(axes, panel.place.title, number, len(panels))
            _norms(axes, panel, labelled=alone)
        if not alone:
            legend_below(figure, list(LINES.values()), 3)
    return figure


def _panels(records: Records) -> Iterator[Panel]:
    """Yield places that have runs with the paper's settings."""
    places = by_place(r for r in records if r.config["method"] == "tnlpad" and not own_settings(r))
    for place in wanted_panels(list(places), NAME):
        (group,) = places[place].values()
        norms = {name: values for name in LINES if (values := _mean(group, name)) is not None}
        if "gamma" in norms:
            times = range(1, len(norms["gamma"]) + 1)
            beta2 = gamma_penalty_of_run(group[0].config)
            norms["beta2"] = np.array([beta2(t) if beta2 else np.nan for t in times])
            released = norms["beta2"] < norms.get("averaged_gradient", 0.0)
            constant_rate = min([*group[0].config["milestones"], len(times) + 1]) - 1
            yield Panel(
                place=place,
                group=group,
                norms=norms,
                release=int(released.argmax()) + 1 if released.any() else None,
                least=int(norms["gamma"][: max(1, constant_rate)].argmin()) + 1,
            )


def _mean(group: Sequence[FinishedRecord], name: str) -> NDArray[np.float64] | None:
    """Return the geometric mean over seeds, because the axis is logarithmic."""
    values = series(group, lambda record: record.curves.norms.get(name))
    return None if values is None else np.exp(np.log(np.maximum(values, 1e-12)).mean(axis=0))


def _norms(axes: Axes, panel: Panel, labelled: bool) -> None:
    epochs = len(panel.norms["beta2"])
    for name, values in panel.norms.items():
        axes.plot(range(1, epochs + 1), values, **LINES[name].options())
    axes.set(yscale="log", xlabel="epoch", ylabel="norm, and β2", xlim=(1, max(2, epochs)))
    whole_epochs(axes)
    axes.plot(panel.least, panel.norms["gamma"][panel.least - 1], "o", markersize=7, color=GAMMA, markeredgecolor=PAPER)
    if panel.release is not None:
        axes.axvline(panel.release, color=SOFT, linewidth=1, zorder=0)
        axes.annotate(
            f"release: epoch {panel.release}",
            (panel.release, 0.015),
            xycoords=("data", "axes fraction"),
            xytext=(4, 0),
            textcoords="offset points",
            color=SOFT,
            fontsize=10,
            va="bottom",
        )
    if labelled:
        ends = [(LINES[name].label, float(values[-1]), LINES[name].colour) for name, values in panel.norms.items()]
        label_ends(axes, ends)


def findings(records: Records, extras: Extras) -> str:
    """State when γ is released, and its norm afterwards."""
    panels = list(_panels(records))
    if not panels:
        return ""
    return f"{' '.join(map(_panel_text, panels))} {seeds_text(panel.group for panel in panels)}"


def _panel_text(panel: Panel) -> str:
    if "averaged_gradient" not in panel.norms:
        release = "‖ḡ‖ was not recorded, so the release is not marked"
    elif panel.release is None:
        release = "β2 never falls below ‖ḡ‖"
    else:
        release = f"β2 first falls below ‖ḡ‖ in epoch {panel.release}"
    gamma, sigma = panel.norms["gamma"], panel.norms["sigma"]
    return (
        f"{panel.place.title}: {release}; before the first drop of the learning rate ‖γ‖ is smallest in epoch "
        f"{panel.least} ({gamma[panel.least - 1]:.2g}); in the last epoch ‖γ‖ is {gamma[-1]:.2g} and ‖σ‖ is "
        f"{sigma[-1]:.3g}."
    )


DRAWING = Drawing(
    title=FIGURES[NAME],
    caption=(
        "Norms over all decomposed weights after every epoch, on a logarithmic axis: of σ and γ; of Δσ, the change of "
        "σ within the epoch; of g, the gradient of the last batch, and of ḡ, its running mean under momentum; and β2, "
        "the strength of the penalty on γ. γ = 0 is stationary as long as ‖ḡ‖ ≤ β2, so γ is released where β2 falls "
        "below ‖ḡ‖: a vertical line marks the first such epoch. A dot marks the smallest ‖γ‖ before the first drop of "
        "the learning rate: by then the penalty has removed the initial γ. Geometric mean over seeds."
    ),
    needs="Runs of tnlpad with the paper’s settings.",
    draw=draw,
    findings=findings,
)
