from collections import Counter

import pytest
import torch
from torch import nn

from tnlpad.training.schedule import learning_rate, set_learning_rate


def epochs_at(milestones, **options):
    """How many of a hundred epochs train at which rate, in their order."""
    rates = [learning_rate(epoch, 0.01, milestones, 0.1, **options) for epoch in range(1, 101)]
    assert rates == sorted(rates, reverse=True)
    return [(pytest.approx(rate), count) for rate, count in Counter(rates).items()]


def test_the_authors_runs():
    assert epochs_at((40, 80)) == [(0.01, 39), (0.001, 40), (0.0001, 21)]
    assert epochs_at((10, 20)) == [(0.01, 9), (0.001, 10), (0.0001, 81)]


def test_the_conventional_reading():
    assert epochs_at((40, 80), takes_effect="after") == [(0.01, 40), (0.001, 40), (0.0001, 20)]
    assert epochs_at((10, 20), takes_effect="after") == [(0.01, 10), (0.001, 10), (0.0001, 80)]


def test_the_conventional_reading_is_that_of_torch():
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.01)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [40, 80], 0.1)
    for epoch in range(1, 101):
        expected = learning_rate(epoch, 0.01, (40, 80), 0.1, "after")
        assert optimizer.param_groups[0]["lr"] == pytest.approx(expected)
        optimizer.step()
        scheduler.step()


def test_without_milestones_nothing_changes():
    assert {learning_rate(epoch, 0.3, (), 0.1) for epoch in range(1, 9)} == {0.3}


def test_every_group_of_every_optimizer_by_its_scale():
    a, b, c = (nn.Parameter(torch.zeros(1)) for _ in range(3))
    first = torch.optim.SGD([{"params": [a]}, {"params": [b], "lr_scale": 2.0}], lr=1.0)
    second = torch.optim.SGD([c], lr=1.0)
    set_learning_rate([first, second], 0.25)
    assert [group["lr"] for group in first.param_groups] == [0.25, 0.5]
    assert second.param_groups[0]["lr"] == 0.25


def test_a_tensor_is_filled_and_not_replaced():
    rate = torch.tensor(1.0)
    optimizer = torch.optim.SGD([{"params": [nn.Parameter(torch.zeros(1))], "lr_scale": 2.0}], lr=rate)
    held = optimizer.param_groups[0]["lr"]
    set_learning_rate([optimizer], 0.25)
    assert optimizer.param_groups[0]["lr"] is held
    assert held.item() == 0.5
