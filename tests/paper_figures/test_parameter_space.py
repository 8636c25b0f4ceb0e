import json

import numpy as np
import pytest
import torch

from tnlpad.paper_figures.parameter_space import Problem, compute, loss, make_images, optimum, two_weights

PROBLEM = Problem()
SHORT = Problem(epochs=12, other_c2=(0.5, 2.0), stages=(2, 5, 12), contour_points=9)


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


@pytest.fixture(scope="module")
def found():
    return two_weights(Problem(other_c2=(0.0, 1.5)))


def path(found, name):
    return np.array(found["paths"][name])


def test_all_start_alike_and_w_is_the_sum(found):
    for name in ("plain", "w", "sigma"):
        assert path(found, name)[0].tolist() == [-0.4, -0.4]
    assert path(found, "gamma")[0].tolist() == [0, 0]
    np.testing.assert_allclose(path(found, "w"), path(found, "sigma") + path(found, "gamma"), atol=2e-5)


def test_the_plain_path_is_gradient_descent(found):
    problem = Problem()
    train, _, _ = make_images(problem)
    features, labels = train.features.numpy(), train.given.numpy()
    weights, momentum = np.array(problem.start), np.zeros(2)
    for epoch in range(1, 6):
        for _ in range(problem.steps_per_epoch):
            momentum = problem.momentum * momentum + features.T @ (features @ weights - labels) / len(labels)
            weights = weights - problem.learning_rate * momentum
        np.testing.assert_allclose(path(found, "plain")[epoch], weights, atol=1e-5)


def test_plain_descent_first_comes_near_the_clean_optimum_and_then_leaves_it(found):
    distance = found["distance_to_clean"]["plain"]
    nearest = int(np.argmin(distance))
    assert 1 < nearest < 15
    assert distance[-1] > 3 * distance[nearest]
    np.testing.assert_allclose(path(found, "plain")[-1], found["noisy_optimum"], atol=0.1)


def test_sigma_stays_nearer_to_the_clean_optimum_than_w(found):
    distance, accuracy = found["distance_to_clean"], found["test_accuracy"]
    assert distance["sigma"][-1] < 0.7 * distance["w"][-1]
    assert accuracy["sigma"][-1] > accuracy["w"][-1] + 0.03
    # And yet plain descent stopped early is better: nothing here says otherwise.
    assert distance["plain"][found["chosen_epoch"]["plain"]] < distance["sigma"][-1]


def test_the_circles_shrink_and_grow(found):
    moved = np.linalg.norm(np.diff(path(found, "sigma"), axis=0), axis=1)
    size = np.linalg.norm(path(found, "gamma"), axis=1)
    early, middle, late = found["problem"]["stages"]
    assert moved[early - 1] > moved[middle - 1] > moved[late - 1]
    assert size[early] < size[middle] < size[late]


def test_a_penalty_that_does_not_shrink_keeps_gamma_at_zero(found):
    constant, usual = found["other_c2"]
    assert constant["c2"] == 0
    assert constant["gamma_norm"] < 0.01
    assert constant["sigma_distance"] == pytest.approx(constant["w_distance"], abs=0.01)
    assert usual["sigma_distance"] == round(found["distance_to_clean"]["sigma"][-1], 4)


def test_epochs_are_chosen_by_noisy_validation():
    found = two_weights(SHORT)
    _, validation, _ = make_images(SHORT)
    for name, chosen in found["chosen_epoch"].items():
        shares = validation.accuracy(path(found, name)[1:], validation.given)
        assert shares[chosen - 1] == max(shares)
        assert max(shares[: chosen - 1], default=0) < max(shares)


def test_contours_are_around_everything_drawn(found):
    losses = found["losses"]
    assert np.shape(losses["given_labels"]) == (len(losses["y"]), len(losses["x"])) == (61, 61)
    for point in (*path(found, "w"), *path(found, "gamma"), found["noisy_optimum"], found["clean_optimum"]):
        assert losses["x"][0] < point[0] < losses["x"][-1]
        assert losses["y"][0] < point[1] < losses["y"][-1]


def test_the_file_is_whole_plain_and_always_the_same(tmp_path):
    files = [
        compute(tmp_path / name, problem=SHORT, settings={"epochs": 2, "milestones": "2"}) for name in ("one", "two")
    ]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["parameter_space.json"]
    real = json.loads(files[0].read_bytes())["real_run"]
    assert real["weights"] > 20000
    for name in ("plain", "w", "sigma"):
        assert np.shape(real["paths"][name]) == (3, 2)
        assert len(real["distance_to_clean"][name]) == 3
        assert real["test_accuracy"][name][0] is None  # nothing is measured before training
        assert real["chosen_epoch"][name] in (1, 2)
    starts = [real["paths"][name][0] for name in ("plain", "w", "sigma")]
    assert starts[0] == starts[1] == starts[2]
    assert real["gamma_norm"][0] == 0
    assert 0 < sum(real["explained"]) <= 1
    assert real["commands"]["tnlpad"].startswith("tnlpad train digits --noise symmetric:0.4 --method tnlpad --seed 1")
