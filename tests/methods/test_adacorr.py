"""AdaCorr's test and retro loss by hand, its schedule, and its equivalence with plain training."""

import math
from dataclasses import replace

import pytest
import torch

from tests.methods.problems import blobs, build, same, setup_for, train, weights
from tests.methods.tables import LN3, LN9, moved, table_batch, table_setup
from tnlpad.methods.adacorr import corrected, retro_loss
from tnlpad.types import Clock


def begin(method, epoch_from_0):
    method.begin_epoch(Clock(epoch=epoch_from_0 + 1, epochs=100))


def test_a_label_is_replaced_if_another_is_clearly_likelier():
    probabilities = torch.tensor([[0.50, 0.41, 0.09], [0.50, 0.40, 0.10], [0.2, 0.7, 0.1], [0.0, 0.0, 0.0]])
    labels = torch.tensor([1, 1, 1, 2])
    # 0.50/0.41 = 1.2195 and 0.50/0.40 = 1.25; the third keeps its class, the fourth was not seen yet.
    assert corrected(labels, probabilities, 1.22).tolist() == [1, 0, 1, 2]
    assert corrected(labels, 10 * probabilities, 1.21).tolist() == [0, 0, 1, 2]


def test_the_retro_loss_by_hand():
    p = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.6, 0.3]], dtype=torch.float64)
    peak = 0.9 - 1e-4 / 2
    rows = [
        -(peak * math.log(0.5) + 1e-4 * (math.log(0.25) + math.log(0.25))),
        -(peak * math.log(0.3) + 1e-4 * (math.log(0.1) + math.log(0.6))),
    ]
    loss = retro_loss(p.log(), torch.tensor([0, 2]), 0.9, 1e-4)
    assert loss.item() == pytest.approx(sum(rows) / 2)


def test_the_retro_loss_is_that_of_the_matrix_form():
    """−Σ (A s)_j·log p_j, where row argmax(s) of A is ρ − ε/(C − 1) and the rest ε, for any soft label s."""
    generator = torch.Generator().manual_seed(0)
    soft = torch.rand(8, 5, generator=generator, dtype=torch.float64).softmax(1)
    log_p = torch.randn(8, 5, generator=generator, dtype=torch.float64).log_softmax(1)
    matrices = torch.full((8, 5, 5), 1e-4, dtype=torch.float64)
    matrices[torch.arange(8), soft.argmax(1)] = 0.9 - 1e-4 / 4
    expected = -((matrices @ soft.unsqueeze(2)).squeeze(2) * log_p).sum(1).mean()
    torch.testing.assert_close(retro_loss(log_p, soft.argmax(1), 0.9, 1e-4), expected)


def test_the_schedule():
    problem = blobs()
    method = build(
        "adacorr", setup_for(problem), start_epoch=3, update_epoch=4, remember_again_after=3, delta=1.2, window=2
    )
    own = problem.given
    other = (own + 1) % 4
    # Every prediction prefers another class by a factor of 1.23: more than δ = 1.22, less than 1.24.
    method.predictions.zero_()
    method.predictions[torch.arange(256), :, own] = 1.0
    method.predictions[torch.arange(256), :, other] = 1.23
    for epoch in range(5):
        begin(method, epoch)
        assert torch.equal(method.labels, own)
        assert method.retro_weight.item() == (epoch >= 3)
        assert method.slot.tolist() == [epoch % 2]
    begin(method, 5)  # after epoch 4, the first that corrects
    assert torch.equal(method.labels, other)
    assert torch.equal(method.remembered, own)  # stored before epoch 3
    method.predictions[torch.arange(256), :, own] = 1.23**2 * 1.001
    begin(method, 6)  # δ is 1.24 now: the corrected labels stay, and are remembered
    assert torch.equal(method.labels, other)
    assert torch.equal(method.remembered, other)


def test_labels_are_remembered_before_that_epochs_correction():
    problem = blobs()
    method = build("adacorr", setup_for(problem), start_epoch=1, update_epoch=2, remember_again_after=2)
    other = (problem.given + 1) % 4
    method.predictions[torch.arange(256), 0, other] = 1.0
    begin(method, 3)
    assert torch.equal(method.labels, other)
    assert torch.equal(method.remembered, problem.given)


def test_the_step_by_hand():
    """The cross entropy uses the corrected label, the retro loss the remembered one."""
    margins = [LN3, LN9]
    method = build(
        "adacorr", replace(table_setup(margins), epochs=2), start_epoch=0, update_epoch=0, rho=0.8, epsilon=0.1
    )
    clock = Clock(epoch=1, epochs=1)
    method.begin_epoch(clock)
    method.labels.copy_(torch.tensor([0, 1]))
    method.remembered.copy_(torch.tensor([1, 0]))
    loss = method.step(table_batch(2), clock).item()
    # q is 0.8 − 0.1 = 0.7 for the remembered class and 0.1 for the other; p(0) is ¾ and 0.9.
    fit = -math.log(0.75) - math.log(0.1)
    retro = -(0.7 * math.log(0.25) + 0.1 * math.log(0.75)) - (0.7 * math.log(0.9) + 0.1 * math.log(0.1))
    assert loss == pytest.approx((fit + retro) / 2)
    # The gradient of −Σ q·log p by the logit of class 0 is p(0)·Σq − q(0).
    pulls = [(1 - 0.75) + (0.1 - 0.8 * 0.75), (0 - 0.9) + (0.7 - 0.8 * 0.9)]
    assert moved(method.network, margins) == pytest.approx([pull / 2 for pull in pulls])


def test_predictions_are_kept_by_sample_and_epoch():
    problem = blobs()
    method = build("adacorr", setup_for(problem, sgd={"lr": 0.0}), window=2, start_epoch=5, update_epoch=5)
    train(method, problem, 1)
    with torch.no_grad():
        expected = method.network(problem.points).softmax(1)
    torch.testing.assert_close(method.predictions[:, 0], expected)
    assert not method.predictions[:, 1].any()
    train(method, problem, range(2, 3))
    torch.testing.assert_close(method.predictions[:, 1], expected)


def test_a_run_that_would_end_before_the_first_correction_is_refused():
    setup = setup_for(blobs())
    build("adacorr", setup, start_epoch=2, update_epoch=setup.epochs - 2)
    with pytest.raises(ValueError, match=f"update_epoch={setup.epochs - 1}: .* in {setup.epochs} epochs"):
        build("adacorr", setup, start_epoch=2, update_epoch=setup.epochs - 1)


def test_before_its_start_it_is_plain_training():
    problem = blobs()
    method = build("adacorr", setup_for(problem), start_epoch=2, update_epoch=2)
    plain = build("standard", setup_for(problem))
    assert train(method, problem, 2) == train(plain, problem, 2)
    assert same(weights(method), weights(plain))
    train(method, problem, range(3, 4))
    train(plain, problem, range(3, 4))
    assert not same(weights(method), weights(plain))


def test_it_corrects_labels_and_does_not_change_the_given_ones():
    problem = blobs(samples=512)
    setup = setup_for(problem, sgd={"lr": 0.05, "momentum": 0.9})
    method = build("adacorr", setup, start_epoch=3, update_epoch=4, window=3)
    train(method, problem, 9)
    assert torch.equal(setup.labels, problem.given)
    wrong_before = (problem.given != problem.clean).float().mean()
    wrong_after = (method.labels != problem.clean).float().mean()
    assert wrong_before > 0.25
    assert wrong_after < 0.1


@pytest.mark.parametrize(
    "wrong", [{"start_epoch": -1}, {"window": 0}, {"delta": 0.9}, {"delta_growth": -0.1}, {"epsilon": 0.95}]
)
def test_wrong_settings_are_named(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"{name}={value}"):
        build("adacorr", setup_for(blobs()), **wrong)


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="num_classes=1"):
        build("adacorr", setup_for(blobs(), num_classes=1))
