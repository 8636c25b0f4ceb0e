"""Small-loss selection against the published schedule and NumPy's sort."""

import math

import numpy as np
import pytest
import torch

from tnlpad.methods.selection import Forgetting, keep_count, masked_mean, ranks, smallest


def rate(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize(
    ("size", "noise_rate", "counts"),
    [
        (64, 0.2, [64, 62, 61, 59, 58, 56, 55, 54, 52, 51, 51]),
        (64, 0.4, [64, 61, 58, 55, 52, 49, 46, 44, 41, 38, 38]),
        (8, 0.4, [8, 7, 7, 6, 6, 6, 5, 5, 5, 4, 4]),
    ],
)
def test_how_many_are_kept_in_the_first_epochs(size, noise_rate, counts):
    found = [int(keep_count(size, rate(Forgetting().forget_rate(epoch, noise_rate)))) for epoch in range(1, 12)]
    assert found == counts


def test_the_schedule_of_the_paper_is_one_epoch_ahead():
    rates = [Forgetting(schedule="paper").forget_rate(epoch, 0.2) for epoch in (1, 5, 10, 50)]
    assert rates == pytest.approx([0.02, 0.1, 0.2, 0.2])
    assert [Forgetting().forget_rate(epoch, 0.2) for epoch in (1, 10, 50)] == pytest.approx([0.0, 0.2, 0.2])


def test_one_gradual_epoch_forgets_in_full_at_once():
    assert Forgetting(gradual_epochs=1).forget_rate(1, 0.4) == 0.4


def test_wrong_settings_of_the_schedule_are_named():
    with pytest.raises(ValueError, match="gradual_epochs=0"):
        Forgetting(gradual_epochs=0).forget_rate(1, 0.2)
    with pytest.raises(ValueError, match="schedule='linear'"):
        Forgetting(schedule="linear").forget_rate(1, 0.2)


def test_rounding_does_not_lose_a_sample():
    assert math.floor((1 - 0.9) * 10) == 0  # without a tolerance
    assert keep_count(10, rate(0.9)) == 1


def test_a_batch_is_kept_whole_if_nothing_would_be_kept():
    assert keep_count(2, rate(0.6)) == 2
    assert smallest(torch.tensor([3.0, 1.0]), rate(0.6)).tolist() == [True, True]


@pytest.mark.parametrize("forget", [0.0, 0.1, 0.37, 0.5, 0.9])
@pytest.mark.parametrize("ties", [False, True])
def test_the_smallest_are_those_of_numpy(forget, ties):
    scores = np.random.default_rng(0).normal(size=50)
    scores = np.round(scores) if ties else scores
    expected = np.zeros(50, dtype=bool)
    expected[np.argsort(scores, kind="stable")[: math.floor((1 - forget) * 50 + 1e-9)]] = True
    assert smallest(torch.from_numpy(scores), rate(forget)).tolist() == expected.tolist()


@pytest.mark.parametrize("forget", [0.0, 0.3, 0.5, 0.99])
def test_the_smallest_of_a_part_are_those_of_the_part_alone(forget):
    generator = np.random.default_rng(1)
    scores, part = generator.normal(size=40), generator.random(40) < 0.4
    members = np.flatnonzero(part)
    alone = smallest(torch.from_numpy(scores[members]), rate(forget)).numpy()
    expected = np.zeros(40, dtype=bool)
    expected[members[alone]] = True
    assert smallest(torch.from_numpy(scores), rate(forget), torch.from_numpy(part)).tolist() == expected.tolist()


def test_nothing_is_kept_of_an_empty_part():
    assert not smallest(torch.rand(4), rate(0.5), torch.zeros(4, dtype=torch.bool)).any()


def test_a_score_that_is_not_finite_comes_last():
    scores = torch.tensor([math.nan, 2.0, math.inf, 1.0])
    assert ranks(scores).tolist() == [3, 1, 2, 0]


def test_the_mean_of_nothing_is_zero_with_a_gradient_of_zero():
    values = torch.tensor([1.0, 2.0], requires_grad=True)
    mean = masked_mean(values, torch.tensor([False, False]))
    mean.backward()
    assert mean.item() == 0
    assert values.grad.tolist() == [0.0, 0.0]


def test_values_outside_the_mask_do_not_affect_the_mean():
    values = torch.tensor([1.0, math.inf, math.nan, 4.0])
    assert masked_mean(values, torch.tensor([True, False, False, True])).item() == 2.5
