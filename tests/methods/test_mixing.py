import math

import pytest
import torch

from tnlpad.methods.mixing import (
    linear_ramp,
    mixed,
    negative_entropy,
    prior_penalty,
    refined,
    sharpened,
    soft_cross_entropy,
    squared_distance,
)

LN3 = math.log(3)


def rows(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_sharpening():
    """At T = 0.5 squares: (0.8, 0.2) → (0.64, 0.04)/0.68; at T = 1 nothing."""
    assert sharpened(rows([0.8, 0.2]), 0.5).tolist()[0] == pytest.approx([16 / 17, 1 / 17])
    assert sharpened(rows([0.8, 0.2]), 1.0).tolist()[0] == pytest.approx([0.8, 0.2])


def test_refinement():
    """A quarter of the label, three quarters of the prediction."""
    p, labels = rows([0.2, 0.8], [0.5, 0.5]), torch.tensor([0, 1])
    found = refined(p, labels, torch.tensor([0.25, 1.0], dtype=torch.float64))
    assert found.tolist() == [pytest.approx([0.25 + 0.75 * 0.2, 0.75 * 0.8]), [0, 1]]


def test_mixing():
    values, order = rows([0.0], [10.0], [20.0]), torch.tensor([2, 0, 1])
    assert mixed(values, order, rows(0.75)).flatten().tolist() == [5, 7.5, 17.5]


def test_the_loss_of_labelled_rows():
    """Logits (ln 3, 0) are p = (3/4, 1/4)."""
    logits, targets = rows([LN3, 0.0], [LN3, 0.0], [0.0, LN3]), rows([1.0, 0.0], [0.5, 0.5], [1.0, 0.0])
    first, second, third = -math.log(0.75), -0.5 * (math.log(0.75) + math.log(0.25)), -math.log(0.25)
    assert soft_cross_entropy(logits, targets).item() == pytest.approx((first + second + third) / 3)


def test_the_loss_of_unlabelled_rows():
    """(0.25² + 0.25²)/2 and 0, over two rows."""
    logits, targets = rows([LN3, 0.0], [0.0, 0.0]), rows([1.0, 0.0], [0.5, 0.5])
    assert squared_distance(logits, targets).item() == pytest.approx(0.25**2 / 2)


def test_the_penalty_for_forgotten_classes():
    """p̄ = (3/4, 1/4) against one half each, and no penalty where both classes are as frequent."""
    expected = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)
    assert prior_penalty(rows([LN3, 0.0], [LN3, 0.0])).item() == pytest.approx(expected)
    assert prior_penalty(rows([LN3, 0.0], [0.0, LN3])).item() == pytest.approx(0, abs=1e-12)


def test_negative_entropy():
    """Of (3/4, 1/4) once and of (1/2, 1/2) twice."""
    expected = 0.75 * math.log(0.75) + 0.25 * math.log(0.25)
    found = negative_entropy(rows([LN3, 0.0], [0.0, 0.0], [1.0, 1.0])).item()
    assert found == pytest.approx((expected - 2 * math.log(2)) / 3)


def test_the_ramp():
    assert linear_ramp(torch.tensor([-1.0, 0.0, 4.0, 16.0, 20.0]), 16).tolist() == [0, 0, 0.25, 1, 1]
    assert linear_ramp(torch.tensor([0.0, 0.5, 2.0]), 0).tolist() == [1, 1, 1]
