import copy

import numpy as np
import pytest

from tests.report.drawings.conftest import lines, plain, titles
from tnlpad.paper_figures.parameter_space import Problem, two_weights
from tnlpad.report.drawings.parameter_space import DRAWING, stage_radii


@pytest.fixture(scope="module")
def computed():
    problem = Problem(epochs=20, learning_rate=0.02, other_c2=(0.3, 1.5, 6.0), stages=(2, 5, 20), contour_points=11)
    real = {
        "dataset": "digits",
        "noise": "symmetric:0.4",
        "network": "small_cnn",
        "c2": 1.0,
        "seed": 1,
        "weights": 22650,
        "explained": [0.7, 0.2],
        "clean_end": [0.0, 0.0],
        "paths": {name: [[0, 0], [1, 0], [2, k]] for k, name in enumerate(("plain", "w", "sigma"))},
        "distance_to_clean": {"plain": [5, 3, 8], "w": [5, 3, 9], "sigma": [5, 4, 7]},
        "gamma_norm": [0, 1, 2],
        "test_accuracy": {"plain": [None, 0.8, 0.6], "w": [None, 0.8, 0.6], "sigma": [None, 0.7, 0.75]},
        "chosen_epoch": {"plain": 1, "w": 1, "sigma": 1},
        "commands": {},
    }
    return {"parameter_space": {"kind": "parameter_space", "two_weights": two_weights(problem), "real_run": real}}


def test_every_panel_is_there(computed):
    figure = DRAWING.draw([], computed)
    assert titles(figure) == [
        "(a) two weights",
        "(b) their distances",
        "(c) epoch 2",
        "(d) epoch 5",
        "(e) epoch 20",
        "(f) last epoch, by c2",
        "(g) last epoch, by c2",
        "(h) a network",
        "(i) its distances",
    ]


def test_the_legend_fits_into_the_figure(computed):
    figure = DRAWING.draw([], computed)
    (legend,) = figure.legends
    assert legend.get_window_extent().width <= figure.bbox.width


def test_the_paths_are_the_computed_ones(computed):
    figure = DRAWING.draw([], computed)
    found = computed["parameter_space"]["two_weights"]
    drawn = lines(figure.axes[0])
    for name, label in {"plain": "plain w", "w": "w = σ + γ", "sigma": "σ", "gamma": "γ"}.items():
        np.testing.assert_array_equal(drawn[label], found["paths"][name])
    distances = lines(figure.axes[1])["σ"]
    assert distances[:, 1].tolist() == found["distance_to_clean"]["sigma"][1:]
    markers = {line.get_marker(): line.get_xydata()[0].tolist() for line in figure.axes[0].get_lines()}
    assert markers["*"] == found["clean_optimum"]
    assert markers["X"] == found["noisy_optimum"]


def test_the_radii_of_circles(computed):
    figure = DRAWING.draw([], computed)
    found = computed["parameter_space"]["two_weights"]
    for axes, epoch in zip(figure.axes[2:5], (2, 5, 20), strict=True):
        sigma, w = (np.array(found["paths"][name]) for name in ("sigma", "w"))
        blue, _, dashed = axes.patches
        assert np.linalg.norm(sigma[epoch] - blue.center) == pytest.approx(blue.radius)
        assert np.linalg.norm(w[epoch] - dashed.center) == pytest.approx(dashed.radius, abs=1e-4)
        assert (blue.radius, dashed.radius) == stage_radii(found, epoch)
    limits = {(axes.get_xlim(), axes.get_ylim()) for axes in figure.axes[2:5]}
    assert len(limits) == 1


def test_findings_follow_the_numbers(computed):
    found = plain(DRAWING.findings([], computed))
    network = found.partition("Network (")[2]
    assert network.startswith("Digits, symmetric 40 %, small CNN, 22,650 weights, c2 = 1, seed 1):")
    assert (
        "σ ends closer to the clean optimum than w, and closer to it than plain training; plain training at its chosen "
        "epoch is closer to it than σ at the end." in network
    )
    assert "σ 7.00 (75.0 %), w 9.00 (60.0 %), plain 8.00 (60.0 %)" in network
    turned = copy.deepcopy(computed)
    turned["parameter_space"]["real_run"]["distance_to_clean"] = {
        "plain": [5, 9, 6],
        "w": [5, 3, 6],
        "sigma": [5, 4, 7],
    }
    network = plain(DRAWING.findings([], turned)).partition("Network (")[2]
    assert (
        "σ ends no closer to the clean optimum than w, and no closer to it than plain training; plain training at its "
        "chosen epoch is no closer to it than σ at the end." in network
    )


def test_the_conclusion_says_whether_the_paper_is_right(computed):
    """In the network, the chosen epoch of plain training is closer than that of σ."""
    turned = copy.deepcopy(computed)
    small, real = (turned["parameter_space"][name] for name in ("two_weights", "real_run"))
    small["chosen_epoch"] |= {"plain": 6, "sigma": 8}
    small["distance_to_clean"]["plain"][6], small["distance_to_clean"]["sigma"][8] = 0.5, 0.54
    small["distance_to_clean"]["plain"][-1], small["distance_to_clean"]["sigma"][-1] = 2.11, 1.12
    said = plain(DRAWING.conclusion([], turned))
    assert said.startswith("This does not show what the paper says of it")
    assert "two weights: σ 0.54, plain 0.50; the network: σ 4.00, plain 3.00" in said
    assert "In the last epoch it is closer (two weights: σ 1.12, plain 2.11; the network: σ 7.00, plain 8.00)." in said
    real["distance_to_clean"]["plain"][1] = 4.5
    assert "for the network alone" in DRAWING.conclusion([], turned)
    small["distance_to_clean"]["plain"][6] = 0.6
    assert DRAWING.conclusion([], turned).startswith("As in the paper’s drawing")
    assert DRAWING.conclusion([], {}) == ""


def test_findings_about_c2(computed):
    turned = copy.deepcopy(computed)
    tried = turned["parameter_space"]["two_weights"]["other_c2"]
    for each, (accuracy, gamma) in zip(tried, ((0.8, 0.0), (0.9, 1.0), (0.7, 1.0)), strict=True):
        each |= {"sigma_accuracy": accuracy, "gamma_norm": gamma}
    found = plain(DRAWING.findings([], turned))
    assert "With c2 up to 0.3, γ ends near zero and σ equals w." in found
    assert "most accurate with c2 = 1.5 (90.0 %). With c2 = 6 it is less accurate (70.0 %)" in found
    tried[0]["gamma_norm"], tried[2]["sigma_accuracy"] = 1.0, 0.95
    found = plain(DRAWING.findings([], turned))
    assert "ends near zero" not in found
    assert "less accurate" not in found


def test_nothing_computed_nothing_drawn():
    assert DRAWING.draw([], {}) is None
    assert DRAWING.findings([], {}) == ""
