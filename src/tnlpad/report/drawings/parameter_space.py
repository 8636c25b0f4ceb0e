"""Paths of w, σ and γ in parameter space, computed for the paper's two drawings of it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from numpy.typing import NDArray

from tnlpad.paper.cells import FIGURES
from tnlpad.report import style
from tnlpad.report.drawings.panels import Drawing, departures_text
from tnlpad.report.words import dataset_title, network_title, noise_title, percent

NAME = "parameter_space"
JUDGED = ("plain", "w", "sigma")
IDLE_GAMMA_NORM = 0.05  # γ below this is called near zero
Found = Mapping[str, Any]
LINES = {
    "plain": style.Line(label="plain w", colour=style.PLAIN, dashes="-."),
    "w": style.W_LINE,
    "sigma": style.SIGMA_LINE,
    "gamma": style.GAMMA_LINE,
}
CLEAN, NOISY, CHOSEN, LAST = "clean optimum", "noisy optimum", "chosen epoch", "last epoch"
MARKS: Mapping[str, dict[str, Any]] = {
    CLEAN: {"marker": "*", "color": style.GRADIENT, "markersize": 15},
    NOISY: {"marker": "X", "color": style.BEST, "markersize": 11},
    CHOSEN: {"marker": "o", "color": style.INK, "markersize": 8},
    LAST: {"marker": "s", "color": style.INK, "markersize": 7},
}


def _plot(found: Found) -> Figure:
    """Draw the problem with two weights (plane, distances, stages, other c2), and below it a network."""
    small, real = found["two_weights"], found["real_run"]
    figure = style.new_figure(13.8)
    rows = figure.add_gridspec(4, 1, height_ratios=(4.1, 2.7, 2.4, 3.1))

    def row(number: int, count: int) -> list[Axes]:
        columns = rows[number].subgridspec(1, count)
        return [figure.add_subplot(columns[column]) for column in range(count)]

    plane, distances = row(0, 2)
    _plane(plane, small)
    _distances(distances, small, "distance to clean optimum")
    for axes, epoch in zip(row(1, 3), small["problem"]["stages"], strict=True):
        _stage(axes, small, epoch)
    c2_distance, c2_accuracy = row(2, 2)
    _by_c2(c2_distance, small, "distance", "distance at the end")
    _by_c2(c2_accuracy, small, "accuracy", "test accuracy, %", factor=100)
    real_plane, real_distances = row(3, 2)
    _real_plane(real_plane, real)
    _distances(real_distances, real, "distance to clean end")
    stages = [f"epoch {epoch}" for epoch in small["problem"]["stages"]]
    titles = ["two weights", "their distances", *stages, "last epoch, by c2", "last epoch, by c2"]
    for number, (axes, title) in enumerate(zip(figure.axes, [*titles, "a network", "its distances"], strict=True)):
        axes.set_title(f"{style.letter(number)} {title}")
    edge = style.PAPER
    marks = [Line2D([], [], linestyle="", markeredgecolor=edge, label=name, **look) for name, look in MARKS.items()]
    style.legend_below(figure, list(LINES.values()), 4, *marks)
    return figure


def _mark(axes: Axes, place: Any, name: str, **own: Any) -> None:
    axes.plot(*place, linestyle="", markeredgecolor=style.PAPER, zorder=6, **{**MARKS[name], **own})


def _plane(axes: Axes, found: Found) -> None:
    losses = found["losses"]
    noisy, clean = np.array(losses["given_labels"]), np.array(losses["clean_labels"])
    for values, colour in ((noisy, style.BEST), (clean, style.GRADIENT)):
        levels = values.min() + (values.max() - values.min()) * np.array([0.01, 0.05, 0.14])
        axes.contour(losses["x"], losses["y"], values, levels=levels, colors=colour, linewidths=0.7, alpha=0.45)
    # The paths overlap, so each is drawn narrower than the one below it.
    for (name, line), width in zip(LINES.items(), (5.5, 3.4, 1.6, 1.9), strict=True):
        axes.plot(*path_of(found, name).T, **line.options(), linewidth=width, alpha=0.55 if name == "plain" else 1)
    _mark(axes, found["clean_optimum"], CLEAN)
    _mark(axes, found["noisy_optimum"], NOISY)
    for name in ("plain", "sigma"):
        _mark(axes, path_of(found, name)[found["chosen_epoch"][name]], CHOSEN, color=LINES[name].colour)
    _mark(axes, path_of(found, "sigma")[-1], LAST, color=style.SIGMA)
    _name(axes, path_of(found, "plain")[0], "start", (0, -6))
    _name(axes, path_of(found, "gamma")[-1], "γ", (-5, 8))
    axes.set(xlabel="weight of the real feature", ylabel="weight of the chance feature", aspect="equal")
    axes.grid(visible=False)


def _name(axes: Axes, place: Any, text: str, offset: tuple[float, float]) -> None:
    axes.annotate(text, place, xytext=offset, textcoords="offset points", ha="center", va="center", fontsize=10)


def _distances(axes: Axes, found: Found, label: str) -> None:
    for name in JUDGED:
        values = found["distance_to_clean"][name]
        axes.plot(range(1, len(values)), values[1:], **LINES[name].options())
        epoch = found["chosen_epoch"][name]
        _mark(axes, (epoch, values[epoch]), CHOSEN, color=LINES[name].colour)
    axes.set(xscale="log", xlabel="epoch", ylabel=label)
    axes.set_xlim(1, len(found["distance_to_clean"]["plain"]) - 1)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _stage(axes: Axes, found: Found, epoch: int) -> None:
    """Draw σ on a circle around its previous value, and w on one around σ; all stages have the same scale."""
    sigma, gamma = path_of(found, "sigma"), path_of(found, "gamma")
    now, w = sigma[epoch], sigma[epoch] + gamma[epoch]
    moved, size = stage_radii(found, epoch)
    axes.plot(*sigma[: epoch + 1].T, color=style.SIGMA, linewidth=1.0)
    axes.add_patch(Circle(sigma[epoch - 1], moved, facecolor=style.SIGMA, alpha=0.22, edgecolor="none"))
    axes.add_patch(Circle(sigma[epoch - 1], moved, fill=False, edgecolor=style.SIGMA, linewidth=1.4))
    axes.add_patch(Circle(now, size, fill=False, edgecolor=style.GAMMA, linewidth=1.4, linestyle="--"))
    axes.plot(*np.array([now, w]).T, color=style.GAMMA, linewidth=1.6)
    axes.plot(*now, marker="o", color=style.SIGMA, markersize=5)
    axes.plot(*w, marker="o", color=style.W, markersize=5)
    _mark(axes, found["clean_optimum"], CLEAN, markersize=12)
    _mark(axes, found["noisy_optimum"], NOISY, markersize=9)
    low, high = _stage_limits(found)
    axes.set(aspect="equal", xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[])
    axes.set_xlabel(f"σ moved {short(moved)}\n‖γ‖ is {short(size)}", fontsize=10)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set(visible=True, color=style.GRID)


def _stage_limits(found: Found) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the corners of a box around the circles of every stage and both optima."""
    sigma = path_of(found, "sigma")
    points = [np.array(found[name]) for name in ("clean_optimum", "noisy_optimum")]
    for epoch in found["problem"]["stages"]:
        moved, size = stage_radii(found, epoch)
        for centre, radius in ((sigma[epoch - 1], moved), (sigma[epoch], size)):
            points += [centre - radius, centre + radius]
    return np.min(points, axis=0) - 0.15, np.max(points, axis=0) + 0.15


def _by_c2(axes: Axes, found: Found, what: str, label: str, factor: float = 1) -> None:
    tried = found["other_c2"]
    values = [each["c2"] for each in tried]
    plain = {"distance": found["distance_to_clean"], "accuracy": found["test_accuracy"]}[what]["plain"][-1]
    axes.axhline(factor * plain, **LINES["plain"].options())
    for name in ("w", "sigma"):
        ends = [factor * each[f"{name}_{what}"] for each in tried]
        axes.plot(values, ends, **LINES[name].options(), marker="o", markersize=4)
    axes.axvline(found["problem"]["c2"], color=style.SOFT, linewidth=0.9, zorder=0)
    axes.set(xscale="log", xlabel="c2", ylabel=label)
    shown = [values[0], 0.6, 1, found["problem"]["c2"], 3, values[-1]]
    axes.set_xticks(shown, [f"{value:g}" for value in shown])
    axes.minorticks_off()
    if what == "distance":
        axes.set_ylim(bottom=0)


def _real_plane(axes: Axes, found: Found) -> None:
    for name in JUDGED:
        path = path_of(found, name)
        axes.plot(*path.T, **LINES[name].options())
        _mark(axes, path[found["chosen_epoch"][name]], CHOSEN, color=LINES[name].colour)
    _mark(axes, found["clean_end"], CLEAN)
    _mark(axes, path_of(found, "plain")[-1], NOISY)
    _name(axes, path_of(found, "plain")[0], "start", (12, -10))
    first, second = (percent(share, 0) for share in found["explained"])
    axes.set(xlabel=f"1st direction ({first})", ylabel=f"2nd direction ({second})")
    axes.set_aspect("equal", adjustable="datalim")
    axes.grid(visible=False)


def path_of(found: Found, name: str) -> NDArray[np.float64]:
    """Return a path: the start, then a row for each epoch."""
    return np.array(found["paths"][name], dtype=float)


def stage_radii(found: Found, epoch: int) -> tuple[float, float]:
    """Return how far σ moves in an epoch, and ‖γ‖ at its end."""
    sigma, gamma = path_of(found, "sigma"), path_of(found, "gamma")
    return float(np.linalg.norm(sigma[epoch] - sigma[epoch - 1])), float(np.linalg.norm(gamma[epoch]))


def short(value: float) -> str:
    """Return a length with two significant digits."""
    return f"{value:.2g}" if value >= 0.001 else "below 0.001"


def _describe(found: Found) -> str:
    small, real = found["two_weights"], found["real_run"]
    network = (
        f"Network ({dataset_title(real['dataset'])}, {noise_title(real['noise'])}, {network_title(real['network'])}, "
        f"{real['weights']:,} weights, c2 = {real['c2']:g}, seed {real['seed']}{departures_text(real)}):"
    )
    return f"Two weights: {_ends(small)} {_radii(small)} {_c2_text(small)} {network} {_ends(real)}"


def _ends(found: Found) -> str:
    distance, accuracy, chosen = found["distance_to_clean"], found["test_accuracy"], found["chosen_epoch"]
    last = {name: f"{distance[name][-1]:.2f} ({percent(accuracy[name][-1])})" for name in JUDGED}
    best = {
        name: f"{distance[name][epoch]:.2f} ({percent(accuracy[name][epoch])}) in epoch {epoch}"
        for name, epoch in chosen.items()
    }
    stopped, end = distance["plain"][chosen["plain"]], distance["sigma"][-1]
    return (
        f"σ ends {_than(end, distance['w'][-1])} the clean optimum than w, and {_than(end, distance['plain'][-1])} it "
        f"than plain training; plain training at its chosen epoch is {_than(stopped, end)} it than σ at the end. "
        f"Distance (and test accuracy) in the last epoch: σ {last['sigma']}, w {last['w']}, plain {last['plain']}; at "
        f"the chosen epoch: σ {best['sigma']}, plain {best['plain']}."
    )


def _conclude(found: Found) -> str:
    """Compare σ with plain training at the chosen epochs: the paper draws σ closer to the clean optimum."""
    parts = {"two weights": found["two_weights"], "the network": found["real_run"]}
    chosen = {name: {each: _chosen_distance(part, each) for each in ("sigma", "plain")} for name, part in parts.items()}
    ends = {
        name: {each: float(part["distance_to_clean"][each][-1]) for each in ("sigma", "plain")}
        for name, part in parts.items()
    }
    closer = [name for name, each in chosen.items() if each["sigma"] < each["plain"]]
    if len(closer) == len(parts):
        opening = "As in the paper’s drawing, σ at its chosen epoch is closer to the clean optimum than plain training"
    elif closer:
        opening = f"σ at its chosen epoch is closer to the clean optimum than plain training for {closer[0]} alone"
    else:
        opening = (
            "This does not show what the paper says of it: at its chosen epoch σ is no closer to the clean optimum "
            "than plain training"
        )
    last = "closer" if all(each["sigma"] < each["plain"] for each in ends.values()) else "not always closer"
    return f"{opening} ({_distances_text(chosen)}). In the last epoch it is {last} ({_distances_text(ends)})."


def _chosen_distance(part: Found, name: str) -> float:
    return float(part["distance_to_clean"][name][part["chosen_epoch"][name]])


def _distances_text(parts: Mapping[str, Mapping[str, float]]) -> str:
    return "; ".join(f"{name}: σ {each['sigma']:.2f}, plain {each['plain']:.2f}" for name, each in parts.items())


def _than(first: float, second: float) -> str:
    return "closer to" if first < second else "no closer to"


def _radii(found: Found) -> str:
    radii = {epoch: stage_radii(found, epoch) for epoch in found["problem"]["stages"]}
    moved, size = (", ".join(short(pair[k]) for pair in radii.values()) for k in (0, 1))
    return f"In epochs {', '.join(map(str, radii))} σ moves by {moved}, and ‖γ‖ is {size}."


def _c2_text(found: Found) -> str:
    tried = found["other_c2"]
    idle = [each["c2"] for each in tried if each["gamma_norm"] < IDLE_GAMMA_NORM]
    best, largest = max(tried, key=lambda each: float(each["sigma_accuracy"])), tried[-1]
    sentences = [
        f"With c2 up to {max(idle):g}, γ ends near zero and σ equals w." if idle else "",
        f"The final σ is most accurate with c2 = {best['c2']:g} ({percent(best['sigma_accuracy'])}).",
        f"With c2 = {largest['c2']:g} it is less accurate ({percent(largest['sigma_accuracy'])}): γ then also absorbs "
        "correct patterns."
        if largest["sigma_accuracy"] < best["sigma_accuracy"]
        else "",
    ]
    return " ".join(filter(None, sentences))


DRAWING = Drawing(
    title=FIGURES[NAME],
    caption=(
        "Computed paths. (a) A problem with two weights: one for a feature that separates two classes, one for a "
        "feature that correlates with the wrong training labels by chance and is noise on new images. Contour lines: "
        "loss on the given labels (red) and on clean labels (green), with their optima. Plain gradient descent and "
        "the decomposition’s w and σ start at the same point; γ = w − σ is drawn from the origin. Moving along the "
        "first weight is learning, along the second memorising. (b) Distance of each to the clean optimum. Dots: the "
        "chosen epoch, the first with the highest accuracy on noisy validation labels. (c–e) Three stages: σ moves "
        "within the blue circle during the epoch, and w lies on the dashed circle, whose radius is ‖γ‖; a penalty on "
        "a norm acts like such a bound. (f, g) The last epoch for other values of c2; the vertical line marks the "
        "value used above. (h, i) A network on real images: the paths of all its weights in the plane of the two "
        "directions with the largest variance, with the share of variance along each, and their full distances. Its "
        "clean optimum is the end of plain training on clean labels from the same start; the cross is the end on "
        "noisy labels."
    ),
    needs="parameter_space.json, which `tnlpad reproduce parameter_space` computes in seconds.",
    collect=lambda records, extras: extras.get(NAME),
    plot=_plot,
    describe=_describe,
    conclude=_conclude,
)
