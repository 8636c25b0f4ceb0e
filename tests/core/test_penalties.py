import itertools

import pytest
import torch

from tnlpad.core.penalties import Constant, ExponentialDecay, LinearDecay, LinearGrowth, PowerDecay, StepDecay, strength

EPOCHS = range(1, 101)


def test_linear_growth():
    assert [LinearGrowth(1e-4)(t) for t in (1, 40, 100)] == pytest.approx([1e-4, 4e-3, 1e-2])


@pytest.mark.parametrize(
    ("c2", "values"),
    [
        (0.6, {1: 1.0, 2: 0.660, 5: 0.381, 10: 0.251, 20: 0.166, 40: 0.109, 80: 0.072, 100: 0.063}),
        (0.2, {10: 0.631, 40: 0.478, 100: 0.398}),
        (0.8, {10: 0.158, 40: 0.052, 100: 0.025}),
        (2.0, {10: 0.01, 40: 0.0006, 100: 0.0001}),
    ],
)
def test_power_decay_has_the_published_values(c2, values):
    assert {t: round(PowerDecay(c2)(t), len(str(v)) - 2 if v < 1 else 1) for t, v in values.items()} == values


@pytest.mark.parametrize(
    ("penalty", "scheduler"),
    [
        (ExponentialDecay(0.95), lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.95)),
        (StepDecay(0.6, 10), lambda o: torch.optim.lr_scheduler.StepLR(o, 10, 0.6)),
        (Constant(1.0), lambda o: torch.optim.lr_scheduler.ConstantLR(o, 1.0)),
        (LinearDecay(100), lambda o: torch.optim.lr_scheduler.LinearLR(o, 1.0, 0.0, 100)),
    ],
)
def test_families_equal_the_schedulers_of_torch(penalty, scheduler):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = scheduler(optimizer)
    for epoch in EPOCHS:
        assert penalty(epoch) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-12)
        optimizer.step()
        schedule.step()


@pytest.mark.parametrize("penalty", [PowerDecay(), Constant(), LinearDecay(100), ExponentialDecay(), StepDecay()])
def test_every_gamma_penalty_starts_at_one_and_never_grows(penalty):
    values = [penalty(t) for t in EPOCHS]
    assert values[0] == 1.0
    assert all(a >= b >= 0 for a, b in itertools.pairwise(values))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LinearGrowth(-1.0), "c1=-1.0"),
        (lambda: LinearGrowth(float("inf")), "c1=inf"),
        (lambda: PowerDecay(float("nan")), "c2=nan"),
        (lambda: PowerDecay("x"), "c2='x'"),
        (lambda: Constant(-0.1), "value=-0.1"),
        (lambda: Constant(None), "value=None"),
        (lambda: LinearDecay(0), "epochs=0"),
        (lambda: LinearDecay(float("inf")), "epochs=inf"),
        (lambda: ExponentialDecay(1.5), "factor=1.5"),
        (lambda: StepDecay(0.5, 0), "every=0"),
    ],
)
def test_bad_arguments_are_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_strength_of_no_penalty_is_zero():
    assert strength(None, 3, "sigma_penalty") == 0.0
