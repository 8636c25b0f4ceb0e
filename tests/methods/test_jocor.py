"""JoCoR by hand, against torch's divergences, and its equivalence with two plain runs."""

import math

import pytest
import torch
from torch.nn import functional as F

from tests.methods.problems import blobs, build, same, setup_for, train, two_plain_runs, weights
from tests.methods.tables import LN3, LN9, one_step, table_setup
from tnlpad.methods.jocor import joint_losses


def test_the_loss_by_hand():
    first, second = torch.tensor([[LN3, 0.0]]), torch.tensor([[0.0, 0.0]])
    # p1 = (¾, ¼), p2 = (½, ½): KL(p1‖p2) + KL(p2‖p1) = ¼·ln(¾/½) − ¼·ln(¼/½) = ¼·ln 3
    fit, disagreement = -math.log(0.75) - math.log(0.5), LN3 / 4
    loss = joint_losses(first, second, torch.tensor([0]), 0.7)
    assert loss.item() == pytest.approx(0.3 * fit + 0.7 * disagreement)


def test_the_loss_and_its_gradients_are_those_of_torchs_divergences():
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randn(6, 5, generator=generator, dtype=torch.float64, requires_grad=True) for _ in range(2))
    labels = torch.randint(5, (6,), generator=generator)
    log_p1, log_p2 = F.log_softmax(first, 1), F.log_softmax(second, 1)
    divergence = sum(
        F.kl_div(a, b, reduction="none", log_target=True).sum(1) for a, b in ((log_p1, log_p2), (log_p2, log_p1))
    )
    fit = sum(F.cross_entropy(logits, labels, reduction="none") for logits in (first, second))
    expected = 0.1 * fit + 0.9 * divergence
    found = joint_losses(first, second, labels, 0.9)
    torch.testing.assert_close(found, expected)
    for a, b in zip(
        torch.autograd.grad(found.sum(), (first, second)),
        torch.autograd.grad(expected.sum(), (first, second)),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_one_selection_by_the_joint_loss_and_one_optimizer():
    # Sample 0 is fitted well by both and agreed upon; sample 1 is fitted as well by the first alone.
    first, second = [LN9, LN9, -LN3, 0.0], [LN9, -LN9, -LN3, 0.0]
    method = build("jocor", table_setup(first, second), co_lambda=0.5, gradual_epochs=1)
    loss = one_step(method, 4)
    assert method.selections["joint"].tolist() == [True, False, False, True]
    assert len(method.optimizers) == 1
    # Neither disagrees with the other on the samples kept: the loss is (1 − λ)·(CE + CE), averaged over two.
    assert loss == pytest.approx(0.5 * 2 * (-math.log(0.9) - math.log(0.5)) / 2)
    for network in method.networks:
        change = network.weight[0] - torch.tensor([LN9, first[1] if network is method.networks[0] else -LN9, -LN3, 0.0])
        assert change.tolist() == pytest.approx([0.5 * 0.1 / 2, 0.0, 0.0, 0.5 * 0.5 / 2])


def test_without_agreement_and_forgetting_nothing_it_is_two_plain_runs():
    problem = blobs()
    method = build("jocor", setup_for(problem, noise_rate=0.0), co_lambda=0.0)
    train(method, problem, 3)
    assert same(weights(method), two_plain_runs(problem, 3))


@pytest.mark.parametrize("co_lambda", [-0.1, 1.0, math.nan])
def test_a_weight_outside_its_range_is_refused(co_lambda):
    with pytest.raises(ValueError, match="co_lambda="):
        build("jocor", setup_for(blobs()), co_lambda=co_lambda)
