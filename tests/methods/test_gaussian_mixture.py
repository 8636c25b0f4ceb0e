import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from tnlpad.methods.gaussian_mixture import Mixture, clean_probability, fit, normalised, posterior, two_means

SETTINGS = {"max_iter": 10, "tol": 1e-2, "reg_covar": 5e-4}


def losses(seed, samples=2000, wrong=0.4):
    """Return small and large losses, as after a warm-up."""
    random = np.random.default_rng(seed)
    small = random.gamma(2, 0.05, round(samples * (1 - wrong)))
    large = random.normal(0.6, 0.2, samples - len(small)).clip(0)
    return normalised(torch.from_numpy(random.permutation(np.concatenate([small, large]))))


def by_scikit_learn(values, mixture, **changes):
    """Return the fitted model and its posterior of the lower component, from this start."""
    weights, means, variances = (part.numpy() for part in mixture)
    column = values.numpy()[:, None]
    model = GaussianMixture(
        2,
        **{**SETTINGS, **changes},
        weights_init=weights,
        means_init=means[:, None],
        precisions_init=1 / variances[:, None, None],
        random_state=0,
    ).fit(column)
    return model, model.predict_proba(column)[:, model.means_.argmin()]


@pytest.mark.parametrize("wrong", [0.1, 0.4, 0.8])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_posterior_is_scikit_learns(seed, wrong):
    """Starting from the assignment of its own k-means at convergence."""
    values = losses(seed, wrong=wrong)
    clusters = KMeans(2, tol=0, n_init=1, random_state=seed, max_iter=1000).fit(values.numpy()[:, None])
    upper = clusters.labels_ == clusters.cluster_centers_[:, 0].argmax()
    assert np.array_equal(two_means(values).numpy(), upper)
    groups = [values[torch.from_numpy(~upper)], values[torch.from_numpy(upper)]]
    start = Mixture(
        torch.tensor([len(group) / len(values) for group in groups], dtype=torch.float64),
        torch.stack([group.mean() for group in groups]),
        torch.stack([group.var(correction=0) + SETTINGS["reg_covar"] for group in groups]),
    )
    model, expected = by_scikit_learn(values, start)
    assert 1 < model.n_iter_ < 10
    assert np.abs(clean_probability(values).numpy() - expected).max() < 1e-6


@pytest.mark.parametrize("means", [[0.1, 0.4], [0.4, 1e6]], ids=["two groups", "empty second group"])
def test_from_any_start(means):
    values = losses(4)
    start = Mixture(*torch.tensor([[0.3, 0.7], means, [0.02, 0.3]], dtype=torch.float64))
    _, expected = by_scikit_learn(values, start)
    ours = posterior(values, fit(values, start, reg_covar=SETTINGS["reg_covar"]))
    assert np.abs(ours.numpy() - expected).max() < 1e-6


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_it_stops_after_ten_iterations():
    values = losses(4)
    start = Mixture(*torch.tensor([[0.3, 0.7], [0.1, 0.4], [0.02, 0.3]], dtype=torch.float64))
    model, expected = by_scikit_learn(values, start, tol=0)
    assert model.n_iter_ == 10
    ours = posterior(values, fit(values, start, tol=0, reg_covar=SETTINGS["reg_covar"]))
    assert np.abs(ours.numpy() - expected).max() < 1e-6
    on_and_on = posterior(values, fit(values, start, max_iter=20, tol=0, reg_covar=SETTINGS["reg_covar"]))
    assert np.abs(on_and_on.numpy() - expected).max() > 1e-3


def test_two_iterations_by_hand():
    """Numbers 0, 0, 1, 1: assigned for certain, so means 0 and 1, and variances of reg_covar only."""
    values = torch.tensor([0.0, 0.0, 1.0, 1.0], dtype=torch.float64)
    mixture = fit(values, reg_covar=0.01)
    assert mixture.weights.tolist() == pytest.approx([0.5, 0.5])
    assert mixture.means.tolist() == pytest.approx([0, 1], abs=1e-6)
    assert mixture.variances.tolist() == pytest.approx([0.01, 0.01])
    # Halfway between the two both are equally likely; at 0.4 the odds are exp((0.6² − 0.4²)/(2·0.01)) = e^10.
    assert posterior(torch.tensor([0.5, 0.4], dtype=torch.float64), mixture).tolist() == pytest.approx(
        [0.5, 1 / (1 + np.exp(-10))], rel=1e-6
    )


def test_small_losses_are_the_clean_ones_whatever_the_order():
    values = losses(5)
    clean = clean_probability(values)
    assert torch.equal(clean_probability(values.flip(0)).flip(0) > 0.5, clean > 0.5)
    assert clean[values < 0.1].min() > 0.5
    assert clean[values > 0.6].max() < 0.5


def test_losses_on_any_scale_lie_in_0_to_1():
    assert normalised(torch.tensor([2.0, 4.0, 3.0])).tolist() == [0, 1, 0.5]
    assert normalised(torch.tensor([2.0, 2.0])).tolist() == [0, 0]


@pytest.mark.parametrize("count", [1, 5])
def test_equal_losses_are_all_clean(count):
    assert clean_probability(normalised(torch.full((count,), 3.0))).tolist() == [1.0] * count
