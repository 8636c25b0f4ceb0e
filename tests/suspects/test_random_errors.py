import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tnlpad.records.samples import SampleNames
from tnlpad.records.scores import SampleScores
from tnlpad.suspects import random_errors
from tnlpad.suspects.evidence import evidence, predictions
from tnlpad.suspects.listing import rarity_notes, rate_sentences, suspects
from tnlpad.suspects.random_errors import fit_random_errors, log_probabilities, sharpened
from tnlpad.suspects.ranking import MIN_CLASS_SAMPLES, SUSPECT_FROM, rank


def judged(rate, *, samples=3000, classes=6, sharpness=3.0, temperature=2.0, seed=0, follow=False):
    """Return out-of-fold scores whose probabilities are those of the true class, made less sure, and what is wrong."""
    generator = np.random.default_rng(seed)
    logits = sharpness * generator.normal(size=(samples, classes))
    right = np.exp(logits - logits.max(1, keepdims=True))
    right /= right.sum(1, keepdims=True)
    clean = (right.cumsum(1) > generator.random((samples, 1))).argmax(1)
    wrong = generator.random(samples) < rate
    step = 1 if follow else generator.integers(1, classes, size=samples)
    given = np.where(wrong, (clean + step) % classes, clean)
    if follow:  # networks learn such errors
        right = (1 - rate) * right + rate * np.roll(right, 1, axis=1)
    return out_of_fold(right ** (1 / temperature), given), wrong


def out_of_fold(probabilities, given):
    shares = probabilities / probabilities.sum(1, keepdims=True)
    return SampleScores(
        columns={"given": given, "part": np.full(len(given), "train"), "index": np.arange(len(given))},
        probabilities=shares.astype(np.float32),
        class_names=tuple(f"class {k}" for k in range(shares.shape[1])),
        views=("sigma",),
        facts={"folds": 5, "repeats": 2},
    )


def names(size):
    return SampleNames(ids=[str(k) for k in range(size)], paths=[None] * size)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("temperature", [0.7, 3.0])
def test_the_share_of_random_errors_is_found_whatever_the_temperature(rate, temperature):
    scores, wrong = judged(rate, temperature=temperature)
    found = fit_random_errors(scores)
    assert found.rate == pytest.approx(wrong.mean(), abs=0.02)
    assert found.interval[0] <= wrong.mean() <= found.interval[1]
    assert found.temperature == pytest.approx(temperature, rel=0.2)
    assert not found.too_weak


def test_errors_that_follow_the_classes_are_not_counted_but_give_no_rate():
    scores, wrong = judged(0.3, follow=True, temperature=1.0)
    assert wrong.mean() > 0.25
    found = fit_random_errors(scores)
    assert found.rate < 0.03
    assert not found.too_weak
    ranking = rank(scores)
    assert "often labelled as others" in ranking.weakness
    assert ranking.suspects == 0
    assert rank(judged(0.3)[0]).weakness is None


def test_the_likelihood_by_hand(monkeypatch):
    scores = out_of_fold(np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1]]), np.array([0, 0]))
    monkeypatch.setattr(random_errors, "TEMPERATURES", np.array([2.0]))
    squares = np.array([[0.64, 0.01, 0.01], [0.04, 0.49, 0.01]])
    q = (squares / squares.sum(1, keepdims=True))[:, 0]
    rates = random_errors.RATES
    likelihood = np.log((1 - rates) * q[:, None] + rates * (1 - q[:, None]) / 2).sum(0)
    found = fit_random_errors(scores)
    assert found.rate == pytest.approx(rates[likelihood.argmax()], abs=0.02)
    sharp = sharpened(log_probabilities(scores.probabilities), 2.0)
    np.testing.assert_allclose(sharp[:, 0], q, rtol=1e-3)


def test_the_doubt_by_hand():
    """With two classes that the true class 1 may be taken for, one three times as often as the other."""
    scores = out_of_fold(np.array([[0.2, 0.7, 0.1], [0.1, 0.6, 0.3]]), np.array([0, 2]))
    transition = np.array([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.1, 0.1, 0.8]])
    found = evidence(scores, predictions(scores), transition, temperature=2.0)
    odds = [(0.49 * 0.3 + 0.01 * 0.1) / (0.04 * 0.8), (0.36 * 0.1 + 0.01 * 0.1) / (0.09 * 0.8)]
    np.testing.assert_allclose(found.doubt, np.log(odds), rtol=2e-3)
    assert found.suggested.tolist() == [1, 1]


def found_wrong(scores, wrong, clean):
    """Return the AUROC of the ranking and of the probability of the given label, and the share of right suggestions."""
    ranking, given = rank(scores), scores.columns["given"]
    alone = -scores.probabilities[np.arange(len(given)), given]
    right = (ranking.evidence.suggested == clean)[wrong].mean()
    return roc_auc_score(wrong, ranking.score), roc_auc_score(wrong, alone), right


def test_errors_that_follow_the_classes_are_ranked_by_the_classes_that_are_taken_for_others():
    scores, wrong = judged(0.3, follow=True, temperature=1.0)
    clean = (scores.columns["given"] - wrong) % 6
    ours, alone, right = found_wrong(scores, wrong, clean)
    assert ours > alone + 0.03
    assert right > 0.9


def test_random_errors_are_ranked_as_without_preferences():
    scores, wrong = judged(0.3, sharpness=2.0)
    ours, alone, _ = found_wrong(scores, wrong, scores.columns["given"])
    assert ours == pytest.approx(alone, abs=0.003)


def test_of_many_samples_a_part_is_fitted(monkeypatch):
    scores, wrong = judged(0.2)
    monkeypatch.setattr(random_errors, "MAX_FITTED", 1500)
    assert fit_random_errors(scores).rate == pytest.approx(wrong.mean(), abs=0.04)


def test_a_single_class_and_no_samples_have_no_estimate():
    assert fit_random_errors(out_of_fold(np.ones((5, 1)), np.zeros(5, dtype=np.int64))).too_weak
    assert fit_random_errors(judged(0.1)[0], np.array([], dtype=np.int64)).too_weak


def test_confidence_is_calibrated():
    scores, wrong = judged(0.3, samples=6000)
    ranking = rank(scores)
    bins = np.minimum((ranking.confidence * 10).astype(int), 9)
    gaps = [abs(ranking.confidence[bins == k].mean() - wrong[bins == k].mean()) * (bins == k).mean() for k in set(bins)]
    assert sum(gaps) < 0.03
    assert ranking.estimate.random_only
    assert ranking.estimate.class_rates == pytest.approx(wrong.mean(), abs=0.05)
    np.testing.assert_allclose(ranking.estimate.transition.sum(1), 1.0)
    low, high = np.moveaxis(ranking.estimate.class_rate_intervals, -1, 0)
    assert np.all((low <= ranking.estimate.class_rates) & (ranking.estimate.class_rates <= high))


def test_clean_labels_have_no_suspect_and_a_few_errors_none_that_is_certain():
    assert rank(judged(0.0)[0]).suspects <= 3
    assert rank(judged(0.1, samples=100)[0]).confidence.max() < 0.95


@pytest.mark.parametrize("sharpness", [0.0, 0.7])
def test_networks_that_know_little_give_an_order_and_nothing_else(sharpness):
    scores, _ = judged(0.3, sharpness=sharpness)
    ranking = rank(scores)
    assert ranking.weakness is not None
    assert ranking.suspects == 0
    rows = suspects(ranking, scores, names(len(scores)), len(scores))
    assert max(row.confidence for row in rows) < SUSPECT_FROM
    assert np.all(np.diff([row.confidence for row in rows]) <= 0)


def test_a_rare_class_is_named_and_not_suspect():
    scores, _ = judged(0.2)
    rare = MIN_CLASS_SAMPLES - 1
    given = scores.columns["given"]
    probabilities = np.c_[scores.probabilities, np.full(len(given), 1e-4)]
    given[:rare] = 6  # networks give the seventh class no chance
    ranking = rank(out_of_fold(probabilities, given))
    assert ranking.rare == (6,)
    assert ranking.score[:rare].max() <= 0.51
    assert ranking.confidence[:rare].max() < SUSPECT_FROM
    (note,) = rarity_notes(ranking, out_of_fold(probabilities, given))
    assert "“class 6”" in note


def test_the_reason_names_networks_that_never_saw_the_label():
    scores, _ = judged(0.2, samples=200)
    rows = suspects(rank(scores), scores, names(200), 200)
    assert f"find “{rows[0].suggested_name}”" in rows[0].why
    assert "never saw this label agree" in rows[-1].why
    assert not any("epoch" in row.why for row in rows)


def test_two_sentences_tell_what_is_shown_and_what_is_not():
    estimate = rank(judged(0.2)[0]).estimate
    shown, hidden = rate_sentences(estimate, "tnlpad audit here")
    low, high = estimate.noise_rate_interval
    assert f"{100 * estimate.noise_rate:.1f} % ({100 * low:.1f} to {100 * high:.1f} %)" in shown
    assert hidden.endswith("tnlpad audit here")
