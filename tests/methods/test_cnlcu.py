"""CNLCU's bounds by hand, its history, its equivalence with Co-teaching, and outlier factors against scikit-learn."""

import math

import numpy as np
import pytest
import torch
from sklearn.neighbors import LocalOutlierFactor

from tests.methods.problems import blobs, build, same, setup_for, train, weights
from tests.methods.tables import table_setup
from tnlpad.methods.cnlcu import annealed, hard_scores, local_outlier_factors, outliers, soft_scores
from tnlpad.types import Batch, Clock

ALL = torch.ones(1, 2, dtype=torch.bool)


def test_the_soft_bound_by_hand():
    # ψ(1) = ln 2.5 and ψ(½) = ln 1.625; t = 2, n = 1, s² = 0.1
    mu = (math.log(2.5) + math.log(1.625)) / 2
    bonus = 0.1 * (2 + 0.1 * math.log(4) / 4) / (1 + 1 - 0.1)
    score = soft_scores(torch.tensor([[1.0, 0.5]]), ALL, torch.tensor([1]), torch.tensor(0.1))
    assert score.tolist() == pytest.approx([mu - bonus])
    assert score.item() == pytest.approx(0.593812, abs=1e-6)


def test_the_soft_bound_ignores_gaps_and_stops_at_zero():
    present = torch.tensor([[True, False], [True, False]])
    score = soft_scores(torch.tensor([[1.0, 7.0], [0.01, 7.0]]), present, torch.tensor([0, 0]), torch.tensor(0.5))
    bonus = 0.5 * (1 + 0.5 * math.log(2)) / (1 - 0.5)
    assert bonus > math.log(2.5)
    assert score.tolist() == [0.0, 0.0]
    free = soft_scores(torch.tensor([[1.0, 7.0]]), present[:1], torch.tensor([0]), torch.tensor(0.0))
    assert free.tolist() == pytest.approx([math.log(2.5)])


def test_the_hard_bound_by_hand_with_few_losses():
    # √(2·0.0008) = 0.04; t = 4 with no outlier, n = 3: 2·0.04·2·4/(4·2)·√(ln 16/4)
    losses = torch.tensor([[1.0, 1.1, 1.3, 9.0]])
    score = hard_scores(losses, torch.ones(1, 4, dtype=torch.bool), torch.tensor([3]), torch.tensor(0.0008))
    assert score.tolist() == pytest.approx([3.1 - 0.08 * math.sqrt(math.log(16) / 4)])


def test_the_hard_bound_by_hand_with_an_outlier():
    # t = 5, t_o = 1 (the 9), n = 0: the mean of the other four is 1.2
    losses = torch.tensor([[1.0, 1.1, 9.0, 1.25, 1.45, 77.0]])
    present = torch.tensor([[True] * 5 + [False]])
    score = hard_scores(losses, present, torch.tensor([0]), torch.tensor(0.0008), loss_bound=0.5)
    bonus = 2 * 0.04 * 0.5 * (5 + math.sqrt(2)) / (4 * math.sqrt(5)) * math.sqrt(math.log(20))
    assert score.tolist() == pytest.approx([1.2 - bonus])


def test_the_bonus_falls_linearly_to_zero():
    assert [annealed(epoch, 5) for epoch in (1, 2, 3, 4, 5, 6)] == pytest.approx([1, 0.75, 0.5, 0.25, 0, 0])
    assert [annealed(epoch, 1) for epoch in (1, 2)] == [1, 0]
    assert annealed(1, 0) == 1
    method = build("cnlcu", setup_for(blobs(), epochs=20), sigma2=0.2, anneal_share=0.4)
    strengths = []
    for epoch in (1, 2, 8, 9):
        method.begin_epoch(Clock(epoch=epoch, epochs=20))
        strengths.append(method.strength.item())
    assert strengths == pytest.approx([0.2, 0.2 * 6 / 7, 0, 0])  # 40 % of 20 epochs are 8


@pytest.mark.parametrize("name", ["cnlcu", "cnlcu_hard"])
def test_the_history_belongs_to_samples_not_to_positions(name):
    problem = blobs(samples=64)
    method = build(name, setup_for(problem, noise_rate=0.0, sgd={"lr": 0.0}), window=3)
    train(method, problem, 2, size=16)  # in another order every epoch
    with torch.no_grad():
        for k, network in enumerate(method.networks):
            losses = torch.nn.functional.cross_entropy(network(problem.points), problem.given, reduction="none")
            torch.testing.assert_close(method.history[k], torch.stack([losses, losses, 0 * losses], 1))
    assert (method.seen == 2).all()
    assert (method.picks == 2).all()
    method.begin_epoch(Clock(epoch=3, epochs=8))
    assert method.history.any()
    method.begin_epoch(Clock(epoch=4, epochs=8))  # a new window
    assert not any(tensor.any() for tensor in (method.history, method.seen, method.picks))


def test_only_a_networks_own_selections_count():
    problem = blobs()
    method = build("cnlcu", setup_for(problem, noise_rate=0.5), gradual_epochs=1)
    train(method, problem, 1)
    for k, name in enumerate(("first", "second")):
        assert torch.equal(method.picks[k], method.selections[name].long())
    assert method.picks.sum() == len(problem.given)  # half of the samples per network


def test_equal_scores_keep_the_order_of_the_dataset():
    margins = [0.1, 0.2, 0.3, 0.4]
    setup = table_setup(margins, margins)
    method = build("cnlcu", setup, sigma2=0.9, gradual_epochs=1)  # every score is clamped to zero
    clock = Clock(epoch=1, epochs=1)
    method.begin_epoch(clock)
    index = torch.tensor([3, 1, 2, 0])
    method.step(
        Batch(index=index, images=torch.eye(4, dtype=torch.float64)[index], labels=torch.zeros(4, dtype=torch.int64)),
        clock,
    )
    assert method.selections["first"].tolist() == [True, True, False, False]


@pytest.mark.parametrize(("name", "off"), [("cnlcu", {"sigma2": 0.0}), ("cnlcu_hard", {"tau_min": 0.0})])
def test_with_a_window_of_one_and_no_bonus_it_is_coteaching(name, off):
    # ψ grows with the loss, so both rank alike.
    problem = blobs()
    method, plain = build(name, setup_for(problem), window=1, **off), build("coteaching", setup_for(problem))
    train(method, problem, 4)
    train(plain, problem, 4)
    assert same(weights(method), weights(plain))


def test_a_longer_window_is_not_coteaching():
    problem = blobs()
    method, plain = build("cnlcu", setup_for(problem), window=4), build("coteaching", setup_for(problem))
    train(method, problem, 4)
    train(plain, problem, 4)
    assert not same(weights(method), weights(plain))


def test_a_sample_seen_more_often_than_the_window_is_long_keeps_its_last_losses():
    method = build("cnlcu", table_setup([1.0], [1.0], sgd={"lr": 0.5}), window=2)
    clock = Clock(epoch=1, epochs=1)
    method.begin_epoch(clock)
    batch = Batch(index=torch.tensor([0]), images=torch.eye(1, dtype=torch.float64), labels=torch.tensor([0]))
    losses = [method.step(batch, clock).item() for _ in range(3)]
    assert method.history[0, 0].tolist() == pytest.approx([losses[2], losses[1]])


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("cnlcu", {"window": 0}),
        ("cnlcu", {"sigma2": 1.0}),
        ("cnlcu", {"anneal_share": 1.5}),
        ("cnlcu_hard", {"tau_min": -1.0}),
        ("cnlcu_hard", {"loss_bound": math.inf}),
    ],
)
def test_wrong_settings_are_named(name, wrong):
    ((field, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"{field}={value}"):
        build(name, setup_for(blobs()), **wrong)


def oracle(row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    model = LocalOutlierFactor(n_neighbors=2, contamination=0.1)
    flagged = model.fit_predict(row.reshape(-1, 1)) == -1
    return -model.negative_outlier_factor_, flagged


@pytest.mark.parametrize("length", [5, 6, 7, 8, 12, 21])
def test_factors_and_outliers_are_scikit_learns(length):
    rows = np.random.default_rng(length).exponential(size=(60, length))
    everything = torch.ones(60, length, dtype=torch.bool)
    factors = local_outlier_factors(torch.from_numpy(rows), everything).numpy()
    flags = outliers(torch.from_numpy(rows), everything).numpy()
    expected = [oracle(row) for row in rows]
    np.testing.assert_allclose(factors, [factor for factor, _ in expected], rtol=1e-9)
    np.testing.assert_array_equal(flags, [flag for _, flag in expected])
    assert flags.any()
    assert not flags.all(axis=1).any()


def test_values_that_nearly_coincide_have_scikit_learns_factors():
    rows = np.random.default_rng(0).exponential(size=(20, 7)) * 1e-9
    factors = local_outlier_factors(torch.from_numpy(rows), torch.ones(20, 7, dtype=torch.bool))
    np.testing.assert_allclose(factors, [oracle(row)[0] for row in rows], rtol=1e-6)


def test_outliers_ignore_gaps():
    generator = np.random.default_rng(0)
    rows = generator.exponential(size=(40, 8))
    counts = generator.integers(3, 9, size=40)
    present = np.arange(8) < counts[:, None]
    flags = outliers(torch.from_numpy(np.where(present, rows, 1e6)), torch.from_numpy(present)).numpy()
    for row, flag, count in zip(rows, flags, counts, strict=True):
        expected = oracle(row[:count])[1] if count >= 5 else np.zeros(count, dtype=bool)
        np.testing.assert_array_equal(flag[:count], expected)
        assert not flag[count:].any()
    assert (counts < 5).any()
    assert flags.any()


def test_equal_values_are_no_outliers():
    assert not outliers(torch.ones(2, 7), torch.ones(2, 7, dtype=torch.bool)).any()


def test_a_value_far_from_the_others_is_an_outlier():
    row = torch.tensor([[1.0, 1.1, 9.0, 1.25, 1.45]])
    assert outliers(row, torch.ones(1, 5, dtype=torch.bool)).tolist() == [[False, False, True, False, False]]
