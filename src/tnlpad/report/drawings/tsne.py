"""t-SNE maps of test features, with scores of how well the classes are separated."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from tnlpad.paper.cells import FIGURES
from tnlpad.report.drawings.panels import Drawing, Extras, Records, departures_text
from tnlpad.report.style import GRID, INK, PAPER, new_figure
from tnlpad.report.words import MINUS, dataset_title, noise_title, percent

NAME = "tsne"
# Legible on white and on dark pages. Ten hues are hard to tell apart, so the number of each class is written on it.
# fmt: off
CLASS_COLOURS = (
    "#4477aa", "#ee7733", "#228833", "#cc3366", "#8866cc", "#997744", "#dd77bb", "#7f8791", "#b5a11f", "#33b5c8",
)
# fmt: on
VIEWS = {"w": "Standard", "sigma": "σ", "sigma_reestimated": "σ, own statistics"}
PANEL_INCHES = 2.0
Found = Mapping[str, Any]


def _collect(records: Records, extras: Extras) -> Found | None:
    found = extras.get(NAME)
    return found if found and found["panels"] else None


def _plot(found: Found) -> Figure:
    """Draw a block for each noise, with a row for each set of weights and a column for each epoch."""
    blocks = _blocks(found)
    heights = [len(rows) * PANEL_INCHES + 0.35 for rows in blocks.values()]
    labels = np.array(found["labels"])
    figure = new_figure(sum(heights) + 0.8)
    parts = np.ravel(np.asarray(figure.subfigures(len(blocks), 1, height_ratios=heights)))
    for part, (noise, rows) in zip(parts, blocks.items(), strict=True):
        part.suptitle(f"{dataset_title(found['dataset'])}, {noise_title(noise)}", x=0.01, ha="left", weight="bold")
        _plot_block(part, rows, found["epochs"], labels)
    _name_classes(figure, found["class_names"])
    return figure


def _blocks(found: Found) -> dict[str, dict[str, list[Found]]]:
    """Group panels by noise, then by the weights that they show."""
    blocks: dict[str, dict[str, list[Found]]] = {}
    for panel in found["panels"]:
        blocks.setdefault(panel["noise"], {}).setdefault(panel["view"], []).append(panel)
    return blocks


def _plot_block(part: SubFigure, rows: Mapping[str, Sequence[Found]], epochs: Sequence[int], labels: Any) -> None:
    grid = part.subplots(len(rows), len(epochs), squeeze=False)
    for across, (view, panels) in zip(grid, rows.items(), strict=True):
        by_epoch = {panel["epoch"]: panel for panel in panels}
        across[0].set_ylabel(VIEWS.get(view, view).replace(", ", ",\n"), weight="bold")
        for axes, epoch in zip(across, epochs, strict=True):
            _plot_panel(axes, by_epoch[epoch], labels)


def _plot_panel(axes: Axes, panel: Found, labels: Any) -> None:
    positions = np.array(panel["positions"])
    colours = np.array(CLASS_COLOURS)[labels % len(CLASS_COLOURS)]
    # Thousands of points are rasterised. A random order hides no class behind another.
    order = np.random.default_rng(0).permutation(len(labels))
    size = float(np.clip(3000 / len(labels), 0.5, 7))
    axes.scatter(
        positions[order, 0], positions[order, 1], s=size, c=colours[order], linewidths=0, alpha=0.75, rasterized=True
    )
    classes = np.unique(labels)
    if len(classes) <= len(CLASS_COLOURS):
        for number in classes:
            x, y = np.median(positions[labels == number], axis=0)
            box = {"boxstyle": "round,pad=0.12", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.8}
            axes.text(x, y, str(number), ha="center", va="center", fontsize=8.5, weight="bold", color=INK, bbox=box)
    axes.set_title(f"epoch {panel['epoch']}", loc="center", weight="normal", fontsize=10, pad=3)
    silhouette, neighbours = _scores(panel)
    axes.set_xlabel(f"silhouette {silhouette}\n10-NN {neighbours}", fontsize=9.5, labelpad=2)
    axes.set(xticks=[], yticks=[])
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set(visible=True, color=GRID)


def _scores(panel: Found) -> tuple[str, str]:
    return f"{panel['silhouette']:.2f}".replace("-", MINUS), percent(panel["neighbours_accuracy"])


def _name_classes(figure: Figure, names: Sequence[str]) -> None:
    if len(names) > len(CLASS_COLOURS):
        return
    handles = [
        Line2D([], [], marker="o", linestyle="", color=colour, label=name if name == str(k) else f"{k} {name}")
        for k, (name, colour) in enumerate(zip(names, CLASS_COLOURS, strict=False))
    ]
    half = (len(handles) + 1) // 2  # legends fill column by column and are read row by row
    handles = [handle for pair in zip_longest(handles[:half], handles[half:]) for handle in pair if handle is not None]
    figure.legend(handles=handles, loc="outside lower center", ncols=half, handletextpad=0.1, columnspacing=1.2)


def _describe(found: Found) -> str:
    sentences = []
    for noise, rows in _blocks(found).items():
        words = []
        for view, panels in rows.items():
            scores = ", ".join(f"{' and '.join(_scores(panel))} at epoch {panel['epoch']}" for panel in panels)
            words.append(f"{VIEWS.get(view, view)}: {scores}")
        sentences.append(f"{noise_title(noise)}: {'; '.join(words)}.")
    return (
        f"{dataset_title(found['dataset'])}, {len(found['labels']):,} of {found['test_images']:,} test images shown, "
        f"seed {found['seed']}{departures_text(found)}. Silhouette and 10-nearest-neighbour accuracy. "
        f"{' '.join(sentences)}"
    )


DRAWING = Drawing(
    title=FIGURES[NAME],
    caption=(
        "Features of the penultimate layer for clean test images, coloured and numbered by true class, at three "
        "epochs: for ordinary training (Standard); for σ with BatchNorm statistics from training, as the paper "
        "evaluates it; and, if the network has BatchNorm, for σ with statistics re-estimated on training images. "
        "Computed as 50 principal components and t-SNE with perplexity 30 from a fixed start; positions and distances "
        "of clusters mean little. The scores below each map use the components: the mean silhouette of the true "
        "classes (1 is separated, 0 is mixed), and the share of images whose class is the most frequent among their "
        "10 nearest neighbours. One seed; nothing is chosen."
    ),
    needs="tsne.json, which `tnlpad reproduce tsne` computes.",
    collect=_collect,
    plot=_plot,
    describe=_describe,
)
