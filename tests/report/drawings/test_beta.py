import warnings
from itertools import pairwise

import pytest
import torch

from tnlpad.core.penalties import ExponentialDecay, PowerDecay, StepDecay
from tnlpad.methods.tnlpad import TnlpadConfig
from tnlpad.paper.cells import FAMILIES
from tnlpad.report.drawings.beta import BETA1, C2_DASHES, DRAWING, gamma_penalty, gamma_penalty_of_run

EPOCHS = 100
TIMES = range(1, EPOCHS + 1)


def test_it_shows_the_formulas():
    (axes,) = DRAWING.draw([], {}).axes
    drawn = [line.get_xydata().tolist() for line in axes.get_lines()]
    assert drawn == [[[t, PowerDecay(c2)(t)] for t in TIMES] for c2 in (0.2, 0.6, 0.8, 1.5, 2.0)] + [
        [[t, 1e-4 * t] for t in TIMES]
    ]
    assert axes.get_yscale() == "log"


def test_every_line_is_named_where_it_ends():
    figure = DRAWING.draw([], {})
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == [f"β2, c2 = {c2}" for c2 in C2_DASHES] + ["β1"]
    boxes = sorted((text.get_window_extent() for text in axes.texts), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 + 1 for below, above in pairwise(boxes))


def test_lines_of_one_colour_differ_in_dashes():
    assert len({str(dashes) for dashes in C2_DASHES.values()}) == len(C2_DASHES)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_families_are_those_of_training(family):
    drawn, trained = gamma_penalty(family, c2=0.6, epochs=EPOCHS), TnlpadConfig(gamma_family=family, c2=0.6)
    assert [drawn(t) for t in TIMES] == [trained.gamma_penalty(EPOCHS)(t) for t in TIMES]
    assert drawn(1) == 1


@pytest.mark.parametrize(
    ("c2", "values"),
    [
        (0.6, {1: 1, 2: 0.660, 5: 0.381, 10: 0.251, 20: 0.166, 40: 0.109, 80: 0.072, 100: 0.063}),
        (0.2, {10: 0.631, 40: 0.478, 100: 0.398}),
        (0.8, {10: 0.158, 40: 0.052, 100: 0.025}),
        (1.5, {10: 0.0316, 40: 0.0040, 100: 0.0010}),
        (2.0, {10: 0.01, 40: 0.0006, 100: 0.0001}),
    ],
)
def test_values_computed_elsewhere(c2, values):
    digits = 3 if c2 < 1 else 4
    for epoch, value in values.items():
        assert round(PowerDecay(c2)(epoch), digits) == pytest.approx(value, abs=1e-12)


def test_beta1_grows_to_a_hundredth():
    assert BETA1(1) == pytest.approx(1e-4)
    assert BETA1(100) == pytest.approx(0.01)


def scheduled(make):
    """Return the learning rates of a torch scheduler for each epoch, starting from 1."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = make(optimizer)
    rates = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the optimizer takes no step
        for _ in TIMES:
            rates.append(optimizer.param_groups[0]["lr"])
            scheduler.step()
    return rates


@pytest.mark.parametrize(
    ("family", "make"),
    [
        ("constant", lambda o: torch.optim.lr_scheduler.ConstantLR(o, factor=1.0)),
        (
            "linear",
            lambda o: torch.optim.lr_scheduler.LinearLR(o, start_factor=1.0, end_factor=0.0, total_iters=EPOCHS),
        ),
        ("power", lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda k: (k + 1) ** -0.6)),
        ("exponential", lambda o: torch.optim.lr_scheduler.ExponentialLR(o, ExponentialDecay().factor)),
        ("step", lambda o: torch.optim.lr_scheduler.StepLR(o, StepDecay().every, StepDecay().factor)),
    ],
)
def test_the_families_are_torchs_schedules(family, make):
    drawn = [gamma_penalty(family, c2=0.6, epochs=EPOCHS)(t) for t in TIMES]
    assert drawn == pytest.approx(scheduled(make), rel=0, abs=1e-12)


def test_exponential_and_step_have_the_same_trend():
    assert ExponentialDecay().factor ** StepDecay().every == pytest.approx(StepDecay().factor, abs=2e-3)


def test_an_unknown_family_raises():
    with pytest.raises(KeyError, match="quadratic"):
        gamma_penalty("quadratic", c2=1.0, epochs=10)


def test_a_recorded_run():
    options = {"c2": 1.5, "gamma_family": "power", "gamma_constraint": True}
    assert gamma_penalty_of_run({"options": options, "epochs": 5})(4) == 4**-1.5
    assert gamma_penalty_of_run({"options": options | {"gamma_constraint": False}, "epochs": 5}) is None
