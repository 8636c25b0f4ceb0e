"""The five families of β2, and the test accuracy under each of them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tnlpad.core.penalties import ExponentialDecay, StepDecay
from tnlpad.paper.cells import FIGURES
from tnlpad.records.archive import FinishedRecord
from tnlpad.report import style
from tnlpad.report.drawings import panels
from tnlpad.report.drawings.beta import gamma_penalty
from tnlpad.report.words import percent

NAME = "beta2_families"
LINES = {
    "standard": style.STANDARD_LINE,
    "constant": style.Line(label="constant", colour=style.W, dashes=(0, (5, 1.6))),
    "linear": style.Line(label="linear", colour=style.GAMMA, dashes=(0, (3, 1.2, 1, 1.2, 1, 1.2))),
    "exponential": style.Line(label="exponential", colour=style.GRADIENT, dashes=(0, (2.2, 1.2))),
    "step": style.Line(label="step", colour=style.INK, dashes=(0, (1, 1))),
    "power": style.Line(label="power", colour=style.SIGMA),
}
Groups = Mapping[str, Sequence[FinishedRecord]]


def _collect(records: panels.Records, extras: panels.Extras) -> list[tuple[panels.Place, Groups]]:
    """Return places with runs of a family other than power, and the records of each line."""
    tried = (record for record in records if record.config["method"] in ("standard", "tnlpad"))
    found: dict[panels.Place, Groups] = {}
    for place, groups in panels.by_place(tried, ("gamma_family",)).items():
        named = {family or method: group for (method, family), group in groups.items()}
        if named.keys() - {"standard", "power"}:
            found[place] = {name: named[name] for name in LINES if name in named}
    return [(place, found[place]) for place in panels.wanted_panels(list(found), NAME)]


def _plot(found: Sequence[tuple[panels.Place, Groups]]) -> Figure:
    """Draw the families on top, and below them a panel for each dataset and noise."""
    rows = math.ceil(len(found) / 2)
    figure = style.new_figure(2.9 + 2.7 * rows + 0.5)
    # Subfigures, so that the labels right of the upper panel do not narrow the lower ones.
    upper, lower = np.ravel(np.asarray(figure.subfigures(2, 1, height_ratios=(2.9, 2.7 * rows))))
    grid = lower.add_gridspec(rows, 2)
    for number, (place, groups) in enumerate(found):
        alone = number == len(found) - 1 and number % 2 == 0
        axes = lower.add_subplot(grid[number // 2, slice(None) if alone else number % 2])
        _plot_accuracies(axes, groups)
        panels.set_title(axes, place.title, number, len(found), first=1)
    star: dict[str, Any] = {"color": style.INK, "marker": "*", "markersize": 11, "markeredgecolor": style.PAPER}
    style.legend_below(figure, list(LINES.values()), 4, Line2D([], [], **star, linestyle="", label="chosen"))
    _plot_families(upper.add_subplot(), [record for _, groups in found for each in groups.values() for record in each])
    return figure


def _plot_families(axes: Axes, records: Sequence[FinishedRecord]) -> None:
    epochs = max(int(record.config["epochs"]) for record in records)
    powers = sorted({c2 for record in records if (c2 := _c2(record)) is not None})
    times = range(1, epochs + 1)
    labels = []
    for family, line in LINES.items():
        for c2 in powers if family == "power" else [0.0] if family != "standard" else []:
            values = [gamma_penalty(family, c2=c2, epochs=epochs)(t) for t in times]
            axes.plot(times, values, **line.options(), drawstyle="steps-mid" if family == "step" else "default")
            labels.append((f"power, c2 = {c2:g}" if family == "power" else family, values[-1], line.colour))
    axes.set(
        title=f"{style.letter(0)} β2 over the epochs", xlabel="epoch", ylabel="β2", xlim=(1, epochs), ylim=(0, 1.03)
    )
    panels.whole_epochs(axes)
    style.label_ends(axes, labels)


def _c2(record: FinishedRecord) -> float | None:
    options: Mapping[str, Any] = record.config["options"]
    return float(options["c2"]) if options.get("gamma_family") == "power" else None


def _plot_accuracies(axes: Axes, groups: Groups) -> None:
    low = []
    for name, group in groups.items():
        values = panels.series(group, lambda record: record.curves.test_accuracy)
        if values is None:
            continue
        panels.plot_mean(axes, 100 * values, LINES[name], band=False)
        epoch, accuracy = _chosen(group)
        axes.plot(
            epoch, accuracy, marker="*", markersize=13, color=LINES[name].colour, markeredgecolor=style.PAPER, zorder=5
        )
        low += [accuracy, float(100 * values.mean(axis=0)[-1])]
    axes.set(xlabel="epoch", ylabel="test accuracy, %")
    axes.set_ylim(bottom=max(0.0, 10 * math.floor((min(low) - 5) / 10)))
    axes.margins(x=0.02)
    panels.whole_epochs(axes)


def _chosen(group: Sequence[FinishedRecord]) -> tuple[float, float]:
    """Return the mean chosen epoch, and the mean test accuracy at it in percent."""
    ends = [record.summary["chosen"] for record in group]
    return float(np.mean([end["epoch"] for end in ends])), 100 * float(np.mean([end["test_accuracy"] for end in ends]))


def _describe(found: Sequence[tuple[panels.Place, Groups]]) -> str:
    sentences = []
    for place, groups in found:
        chosen = {LINES[name].label: _chosen(group)[1] for name, group in groups.items()}
        order = sorted(chosen, key=lambda name: -chosen[name])
        words = [f"{name} {percent(chosen[name] / 100)}" for name in order]
        sentences.append(f"{place.title}: {', '.join(words)}.")
    seeds = panels.seeds_text(group for _, groups in found for group in groups.values())
    return f"Test accuracy at the chosen epoch, best first. {' '.join(sentences)} {seeds}"


DRAWING = panels.Drawing(
    title=FIGURES[NAME],
    caption=(
        "(a) Five schedules of β2, all starting at 1: constant; linear, 1 − (t − 1)/T over T epochs; power, t^(−c2), "
        f"the paper’s choice; exponential, {ExponentialDecay().factor}^(t − 1); step, times {StepDecay().factor} "
        f"after every {StepDecay().every} epochs. Other panels: test accuracy of σ under each schedule, and of "
        "ordinary training (Standard), mean over seeds. A star marks the chosen epoch, the first with the highest "
        "accuracy on noisy validation labels, and its test accuracy, both as means over seeds. The test set chooses "
        "nothing. Early epochs of low accuracy are cut off."
    ),
    needs="Runs of tnlpad with two or more values of gamma_family on one dataset and noise.",
    collect=_collect,
    plot=_plot,
    describe=_describe,
)
