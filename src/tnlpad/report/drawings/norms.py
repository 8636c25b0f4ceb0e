"""Norms of σ, γ, σ's step and the gradient over the epochs, and the epoch that releases γ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tnlpad.paper.cells import FIGURES
from tnlpad.records.archive import FinishedRecord
from tnlpad.report import style
from tnlpad.report.drawings import panels
from tnlpad.report.drawings.beta import gamma_penalty_of_run

NAME = "norms"
LINES = {
    "sigma": style.Line(label="‖σ‖", colour=style.SIGMA),
    "gamma": style.Line(label="‖γ‖", colour=style.GAMMA, dashes=(0, (7, 1))),
    "drift": style.Line(label="‖Δσ‖", colour=style.SIGMA, dashes=(0, (1.2, 1.2))),
    "gradient": style.Line(label="‖g‖", colour=style.GRADIENT, dashes=(0, (3, 1.2, 1, 1.2))),
    "averaged_gradient": style.Line(label="‖ḡ‖", colour=style.GRADIENT, dashes=(0, (2.2, 0.9))),
    "beta2": style.Line(label="β2", colour=style.INK, dashes=(0, (5, 1.6))),
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

    place: panels.Place
    group: Sequence[FinishedRecord]
    norms: Norms
    release: int | None
    least: int


def _collect(records: panels.Records, extras: panels.Extras) -> list[Panel]:
    """Return places that have runs with the paper's settings."""
    places = panels.by_place(r for r in records if r.config["method"] == "tnlpad" and not panels.own_settings(r))
    found = []
    for place in panels.wanted_panels(list(places), NAME):
        (group,) = places[place].values()
        norms = {name: values for name in LINES if (values := _mean(group, name)) is not None}
        if "gamma" in norms:
            times = range(1, len(norms["gamma"]) + 1)
            beta2 = gamma_penalty_of_run(group[0].config)
            norms["beta2"] = np.array([beta2(t) if beta2 else np.nan for t in times])
            released = norms["beta2"] < norms.get("averaged_gradient", 0.0)
            constant_rate = min([*group[0].config["milestones"], len(times) + 1]) - 1
            release = int(released.argmax()) + 1 if released.any() else None
            least = int(norms["gamma"][: max(1, constant_rate)].argmin()) + 1
            found.append(Panel(place=place, group=group, norms=norms, release=release, least=least))
    return found


def _mean(group: Sequence[FinishedRecord], name: str) -> NDArray[np.float64] | None:
    """Return the geometric mean over seeds, because the axis is logarithmic."""
    values = panels.series(group, lambda record: record.curves.norms.get(name))
    return None if values is None else np.exp(np.log(np.maximum(values, 1e-12)).mean(axis=0))


def _plot(found: Sequence[Panel]) -> Figure:
    alone = len(found) == 1
    titles = [panel.place.title for panel in found]
    figure, every = panels.titled_panels(titles, 4.2 if alone else 3.0, below_inches=0.0 if alone else 0.6)
    for axes, panel in zip(every, found, strict=True):
        _plot_norms(axes, panel, labelled=alone)
    if not alone:
        style.legend_below(figure, list(LINES.values()), 3)
    return figure


def _plot_norms(axes: Axes, panel: Panel, labelled: bool) -> None:
    epochs = len(panel.norms["beta2"])
    for name, values in panel.norms.items():
        axes.plot(range(1, epochs + 1), values, **LINES[name].options())
    axes.set(yscale="log", xlabel="epoch", ylabel="norm, and β2", xlim=(1, max(2, epochs)))
    panels.whole_epochs(axes)
    axes.plot(
        panel.least,
        panel.norms["gamma"][panel.least - 1],
        "o",
        markersize=7,
        color=style.GAMMA,
        markeredgecolor=style.PAPER,
    )
    if panel.release is not None:
        axes.axvline(panel.release, color=style.SOFT, linewidth=1, zorder=0)
        axes.annotate(
            f"release: epoch {panel.release}",
            (panel.release, 0.015),
            xycoords=("data", "axes fraction"),
            xytext=(4, 0),
            textcoords="offset points",
            color=style.SOFT,
            fontsize=10,
            va="bottom",
        )
    if labelled:
        ends = [(LINES[name].label, float(values[-1]), LINES[name].colour) for name, values in panel.norms.items()]
        style.label_ends(axes, ends)


def _describe(found: Sequence[Panel]) -> str:
    return f"{' '.join(map(_panel_text, found))} {panels.seeds_text(panel.group for panel in found)}"


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


DRAWING = panels.Drawing(
    title=FIGURES[NAME],
    caption=(
        "Norms over all decomposed weights after every epoch, on a logarithmic axis: of σ and γ; of Δσ, the change of "
        "σ within the epoch; of g, the gradient of the last batch, and of ḡ, its running mean under momentum; and β2, "
        "the strength of the penalty on γ. γ = 0 is stationary as long as ‖ḡ‖ ≤ β2, so γ is released where β2 falls "
        "below ‖ḡ‖: a vertical line marks the first such epoch. A dot marks the smallest ‖γ‖ before the first drop of "
        "the learning rate: by then the penalty has removed the initial γ. Geometric mean over seeds."
    ),
    needs="Runs of tnlpad with the paper’s settings.",
    collect=_collect,
    plot=_plot,
    describe=_describe,
)
