import pytest
import torch

from tnlpad.experiments.parameter_space.problem import Problem, loss, make_images, optimum

PROBLEM = Problem()


def test_wrong_labels_are_as_many_as_asked_and_lean_only_in_training():
    train, validation, test = make_images(PROBLEM)
    for images in (train, validation, test):
        wrong = images.given != images.clean
        assert wrong.double().mean().item() == pytest.approx(0.3)
        leaning = (images.features[:, 1] * images.given)[wrong].mean().item()
        assert leaning == pytest.approx(PROBLEM.lean if images is train else 0, abs=0.08)
    assert not torch.equal(validation.features, test.features[: len(validation.features)])


def test_optima_have_no_gradient():
    train, _, test = make_images(PROBLEM)
    for features, labels in ((train.features, train.given), (test.features, test.clean)):
        weights = torch.from_numpy(optimum(features, labels)).requires_grad_()
        loss(weights, features, labels).backward()
        assert weights.grad.norm() < 1e-12


def test_the_loss_of_several_weights_at_once():
    train, _, _ = make_images(PROBLEM)
    grid = torch.tensor([[0.5, 0.1], [-1.0, 2.0]], dtype=torch.float64)
    each = [loss(weights, train.features, train.given) for weights in grid]
    torch.testing.assert_close(loss(grid, train.features, train.given), torch.stack(each))
    by_hand = ((train.given - train.features @ grid[0]) ** 2).mean() / 2  # labels are ±1
    assert each[0].item() == pytest.approx(by_hand.item())
