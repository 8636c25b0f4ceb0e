"""The best c2 for each noise rate: a heat map for each dataset and kind of noise."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from numpy.typing import NDArray

from tnlpad.paper.cells import FIGURES
from tnlpad.records.archive import FinishedRecord
from tnlpad.report.drawings import panels
from tnlpad.report.style import BEST, FILL_HIGH, FILL_LOW, ON_FILL
from tnlpad.report.words import MINUS, percent

NAME = "c2_noise"
LINE: dict[str, Any] = {"color": BEST, "marker": "o", "markersize": 6.5, "linewidth": 2.2}
FRAME: dict[str, Any] = {"fill": False, "edgecolor": ON_FILL, "linewidth": 1.6}
FILL = LinearSegmentedColormap.from_list("fill", [FILL_LOW, FILL_HIGH])


@dataclass(frozen=True, kw_only=True, eq=False)
class Grid:
    """Accuracies in percent, a row for each c2 and a column for each noise rate; NaN where there is no run."""

    title: str
    c2: Sequence[float]
    rates: Sequence[float]
    validation: NDArray[np.float64]
    test: NDArray[np.float64]
    groups: Sequence[Sequence[FinishedRecord]]

    def best(self, accuracies: NDArray[np.float64]) -> list[int]:
        """Return the row of the best c2 for each of `columns`, the first among equals."""
        return [int(np.nanargmax(accuracies[:, column])) for column in self.columns]

    @property
    def columns(self) -> list[int]:
        """Columns with runs for at least two values of c2."""
        return [k for k in range(len(self.rates)) if np.isfinite(self.validation[:, k]).sum() > 1]

    def correlation(self) -> float | None:
        """Return Spearman's ρ between noise rate and best c2 on noisy validation; None if undefined."""
        rates = [self.rates[column] for column in self.columns]
        best = [self.c2[row] for row in self.best(self.validation)]
        if len(rates) < 3 or len(set(best)) < 2:
            return None
        from scipy.stats import spearmanr  # type: ignore[import-untyped, unused-ignore]  # slow to import

        return float(spearmanr(rates, best).statistic)


def _collect(records: panels.Records, extras: panels.Extras) -> list[Grid]:
    """Return a grid for each kind of noise, with a column for each noise rate."""
    places = panels.by_place((r for r in records if r.config["method"] == "tnlpad"), ("c2",))
    rated = [place for place in places if panels.noise_rate(place.noise) is not None]
    kinds: dict[panels.Place, list[panels.Place]] = {}
    for place in panels.wanted_panels(rated, NAME, most=None):
        kinds.setdefault(replace(place, noise=place.noise.partition(":")[0]), []).append(place)
    grids = (_grid(kind, {place: places[place] for place in members}) for kind, members in kinds.items())
    return list(filter(None, grids))[: panels.MAX_PANELS]


def _grid(
    kind: panels.Place, columns: Mapping[panels.Place, Mapping[tuple[str, float], Sequence[FinishedRecord]]]
) -> Grid | None:
    cells = {
        (float(c2), float(panels.noise_rate(place.noise) or 0)): group
        for place, groups in columns.items()
        for (_, c2), group in groups.items()
    }
    c2, rates = (sorted({key[k] for key in cells}) for k in (0, 1))

    def accuracies(name: str) -> NDArray[np.float64]:
        return np.array([[_mean(cells.get((row, column), []), name) for column in rates] for row in c2])

    grid = Grid(
        title=kind.title,
        c2=c2,
        rates=rates,
        validation=accuracies("validation_accuracy"),
        test=accuracies("test_accuracy"),
        groups=list(cells.values()),
    )
    return grid if grid.columns else None


def _mean(group: Sequence[FinishedRecord], name: str) -> float:
    return 100 * math.fsum(r.summary["chosen"][name] for r in group) / len(group) if group else math.nan


def _plot(grids: Sequence[Grid]) -> Figure:
    figure, every = panels.titled_panels([grid.title for grid in grids], 3.3, below_inches=0.6)
    for axes, grid in zip(every, grids, strict=True):
        _plot_heat_map(axes, grid)
    handles = [
        Line2D([], [], **LINE, label="best c2 by noisy validation accuracy (the choice)"),
        Patch(**FRAME, label="best c2 by test accuracy, for comparison"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=1, handlelength=2.6)
    return figure


def _plot_heat_map(axes: Axes, grid: Grid) -> None:
    axes.grid(visible=False)
    cells = np.ma.masked_invalid(grid.test)
    # Each column has its own scale: noise lowers all accuracies, and c2 is compared.
    low, high = cells.min(axis=0), cells.max(axis=0)
    shades = (cells - low) / np.maximum(high - low, 1e-9)
    axes.pcolormesh(shades, cmap=FILL, vmin=0, vmax=1, edgecolors="white")
    for row, column in np.argwhere(np.isfinite(grid.test)):
        # A background in the colour of the cell keeps the line from crossing the number.
        ground = {"facecolor": FILL(shades[row, column]), "edgecolor": "none", "pad": 0.8}
        text = f"{grid.test[row, column]:.1f}"
        axes.text(
            column + 0.5, row + 0.25, text, ha="center", va="center", fontsize=9.5, color=ON_FILL, bbox=ground, zorder=3
        )
    columns = np.array(grid.columns) + 0.5
    chosen = np.array(grid.best(grid.validation)) + 0.65
    axes.plot(columns, chosen, **LINE)
    for column, row in zip(grid.columns, grid.best(grid.test), strict=True):
        axes.add_patch(Rectangle((column + 0.06, row + 0.06), 0.88, 0.88, **FRAME))
    axes.set_xticks(np.arange(len(grid.rates)) + 0.5, [f"{100 * rate:g}" for rate in grid.rates])
    axes.set_yticks(np.arange(len(grid.c2)) + 0.5, [f"{c2:g}" for c2 in grid.c2])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    rho = grid.correlation()
    axes.set(xlabel="noise rate, %" + ("" if rho is None else f"   (ρ = {_signed(rho)})"), ylabel="c2")


def _signed(value: float) -> str:
    return f"{value:.2f}".replace("-", MINUS)


def _describe(grids: Sequence[Grid]) -> str:
    sentences = []
    for grid in grids:
        rho = grid.correlation()
        chosen = ", ".join(
            f"{grid.c2[row]:g} at {percent(grid.rates[column], 0)}"
            for column, row in zip(grid.columns, grid.best(grid.validation), strict=True)
        )
        same = sum(a == b for a, b in zip(grid.best(grid.validation), grid.best(grid.test), strict=True))
        words = "" if rho is None else f", Spearman’s ρ with the noise rate {_signed(rho)}"
        sentences.append(
            f"{grid.title}: best c2 {chosen}{words}; the test set would have chosen the same in {same} of "
            f"{len(grid.columns)} columns."
        )
    return f"{' '.join(sentences)} {panels.seeds_text(group for grid in grids for group in grid.groups)}"


DRAWING = panels.Drawing(
    title=FIGURES[NAME],
    caption=(
        "Test accuracy of σ in percent at the chosen epoch, mean over seeds, for values of c2 (rows) and noise rates "
        "(columns). Darker is better within a column. The red line joins the c2 with the highest noisy validation "
        "accuracy for each noise rate, which is how c2 is chosen. A frame marks the c2 with the highest test "
        "accuracy, which chooses nothing. Epochs are chosen on noisy validation too. ρ is Spearman’s rank correlation "
        "between noise rate and chosen c2: positive where the line rises. Columns with a single c2 have no marks."
    ),
    needs="Runs of tnlpad with two or more values of c2 on one dataset, kind of noise and noise rate.",
    collect=_collect,
    plot=_plot,
    describe=_describe,
)
