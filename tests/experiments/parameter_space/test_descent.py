import numpy as np
import pytest

from tnlpad.experiments.parameter_space.descent import two_weights
from tnlpad.experiments.parameter_space.problem import Problem, make_images


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
    problem = Problem(epochs=12, other_c2=(0.5, 2.0), stages=(2, 5, 12), contour_points=9)
    found = two_weights(problem)
    _, validation, _ = make_images(problem)
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
