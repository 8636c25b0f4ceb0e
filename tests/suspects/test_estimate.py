import numpy as np
import pytest

from tests.suspects.made import made
from tnlpad.suspects.calibrate import comparable
from tnlpad.suspects.estimate import CLEAR_SHARE, clearest, estimate, first_transition
from tnlpad.suspects.evidence import Predictions, evidence, predictions


def found(**options):
    scores, wrong, clean = made(**options)
    seen = predictions(scores)
    doubt = evidence(scores, seen, first_transition(seen)).doubt
    return seen, comparable(doubt, seen.held_out), wrong, clean


def true_matrix(clean, given, classes):
    true = np.zeros((classes, classes))
    np.add.at(true, (clean, given), 1)
    return true / true.sum(1, keepdims=True)


@pytest.mark.parametrize("samples", [600, 6000])
@pytest.mark.parametrize("rate", [0.05, 0.2, 0.4])
def test_the_rate_is_near_the_truth_and_within_the_interval(samples, rate):
    seen, doubt, wrong, _ = found(samples=samples, rate=rate)
    estimated = estimate(seen, doubt)
    low, high = estimated.noise_rate_interval
    assert estimated.noise_rate == pytest.approx(wrong.mean(), abs=0.05)
    assert low <= wrong.mean() <= high
    assert high - low < (0.15 if samples == 6000 else 0.25)
    assert estimated.held_out


def test_the_mixture_makes_up_for_few_held_out_samples():
    """By chance, 14 of the fifty held-out labels are wrong, where it is two fifths of all."""
    seen, doubt, wrong, _ = found(samples=2000, rate=0.4, sharpness=6.0, held_out=1.0)
    lucky = np.concatenate([np.flatnonzero(~wrong)[:36], np.flatnonzero(wrong)[:14]])
    held_out = np.isin(np.arange(len(seen)), lucky)
    few = Predictions(
        given=seen.given, predicted=seen.predicted, lead=seen.lead, held_out=held_out, num_classes=seen.num_classes
    )
    counted = np.mean((few.predicted != few.given)[clearest(few, held_out)])
    estimated = estimate(few, doubt)
    assert counted < 0.3
    assert abs(estimated.noise_rate - wrong.mean()) < 0.3 * abs(counted - wrong.mean())
    assert estimated.noise_rate_interval[0] < wrong.mean() < estimated.noise_rate_interval[1]


def test_a_mixture_that_contradicts_many_held_out_samples_is_rejected():
    seen, _, wrong, _ = found(samples=6000, rate=0.1, held_out=0.5)
    nonsense = np.where(np.arange(6000) % 10 < 8, 1.0, -1.0) + np.random.default_rng(0).normal(0, 0.1, 6000)
    assert estimate(seen, nonsense).noise_rate == pytest.approx(wrong.mean(), abs=0.04)


def test_a_rare_class_is_not_taken_for_wrong_labels():
    """All labels are right. The rare class is doubted more than the other, yet hardly ever contradicted."""
    generator = np.random.default_rng(0)
    given = (generator.random(1000) < 0.1).astype(int)
    seen = Predictions(
        given=given,
        predicted=np.where(generator.random(1000) < 0.02, 1 - given, given),
        lead=generator.random(1000),
        held_out=np.arange(1000) < 100,
        num_classes=2,
    )
    doubt = np.where(given == 1, -7.0, -10.5) + generator.normal(0, 0.5, 1000)
    estimated = estimate(seen, doubt)
    assert estimated.noise_rate < 0.05
    assert estimated.noise_rate_interval[0] == 0


def test_the_matrix_is_near_the_truth():
    seen, doubt, _, clean = found(samples=6000, rate=0.3)
    estimated = estimate(seen, doubt)
    np.testing.assert_allclose(estimated.transition.sum(1), 1)
    np.testing.assert_allclose(estimated.transition, true_matrix(clean, seen.given, 3), atol=0.07)
    np.testing.assert_allclose(1 - np.diag(estimated.transition), estimated.class_rates)
    assert estimated.transition_intervals.shape == (3, 3, 2)
    assert np.all(estimated.transition_intervals[..., 0] <= estimated.transition_intervals[..., 1])


def test_preferences_are_found_and_chance_is_not_taken_for_one():
    generator = np.random.default_rng(0)
    clean = generator.integers(10, size=2000)
    wrong = generator.random(2000) < 0.3
    for step, expected in ((np.ones(2000, dtype=int), 0.95), (generator.integers(1, 10, size=2000), 0.2)):
        seen = Predictions(
            given=np.where(wrong, (clean + step) % 10, clean),
            predicted=clean,
            lead=generator.random(2000),
            held_out=np.arange(2000) < 400,
            num_classes=10,
        )
        off = first_transition(seen)
        np.fill_diagonal(off, 0)
        most = (off.max(1) / off.sum(1)).mean()
        assert most > expected if expected > 0.5 else most < expected


def test_the_first_matrix_has_no_zero():
    seen, _, _, _ = found(samples=200, rate=0.0, sharpness=20.0)
    matrix = first_transition(seen)
    assert matrix.min() > 0
    np.testing.assert_allclose(matrix.sum(1), 1)


def test_no_wrong_label_among_few_is_not_taken_for_none():
    seen, doubt, _, _ = found(samples=200, rate=0.0, sharpness=20.0)
    estimated = estimate(seen, doubt)
    assert estimated.noise_rate < 0.1
    assert estimated.noise_rate_interval[0] == 0
    assert 3 / seen.held_out.sum() <= estimated.noise_rate_interval[1] < 3 / estimated.samples


def few(wrong, right, contradicted, held_out, apart):
    """The estimate where so many of the clear cases are wrong or right, with a mixture of two fifths of all samples."""
    generator = np.random.default_rng(0)
    clear = wrong + right
    given = np.zeros(400, dtype=int)
    predicted = (np.arange(400) % 5 < 2).astype(int)
    lead = np.full(400, 0.1)
    predicted[:held_out], lead[:clear] = 0, 0.9
    rows = np.r_[:wrong, clear : clear + contradicted - wrong]
    given[rows] = 1
    seen = Predictions(given=given, predicted=predicted, lead=lead, held_out=np.arange(400) < held_out, num_classes=2)
    doubt = np.where(np.arange(400) % 5 < 2, 1.0, -1.0) + generator.normal(0, apart, 400)
    return estimate(seen, doubt)


def test_none_among_a_few_clear_cases_is_weak_evidence():
    """None of 12 is wrong, and 14 of 40 contradicted: a mixture of two fifths is as likely as no wrong label."""
    estimated = few(0, 12, 14, 40, apart=0.6)
    low, high = estimated.noise_rate_interval
    assert estimated.samples == 12
    assert low == 0
    assert high > 0.3


def test_a_network_that_is_unsure_may_have_been_mistaken_about_clear_cases():
    sure, unsure = (few(5, 7, 30, 40, apart=apart) for apart in (0.2, 0.6))
    for estimated in (sure, unsure):
        assert estimated.noise_rate == pytest.approx(0.4, abs=0.08)
    below = [estimated.noise_rate - estimated.noise_rate_interval[0] for estimated in (sure, unsure)]
    assert below[1] > 2 * below[0]


def test_people_may_have_erred_about_whatever_is_not_clear():
    """No clear case is wrong, but 20 of 40 held-out labels are contradicted: half of all may be wrong."""
    low, high = few(0, 12, 20, 40, apart=0.6).noise_rate_interval
    assert low < 0.1
    assert high > 0.5


def test_no_more_labels_are_wrong_than_could_be_contradicted():
    """Of 40 held-out labels 2 are contradicted: two fifths of all cannot be wrong, whatever the mixture says."""
    estimated = few(1, 11, 2, 40, apart=0.2)
    assert estimated.noise_rate_interval[1] < 0.2
    assert estimated.noise_rate_interval[1] >= estimated.noise_rate


def test_clear_cases_are_contradicted_no_more_often_than_all():
    """Ten of 12 clear labels are contradicted by chance, but of 40 only 16: two fifths of all, as the mixture says."""
    estimated = few(10, 2, 16, 40, apart=0.2)
    assert estimated.samples == 40
    assert estimated.noise_rate == pytest.approx(0.4, abs=0.03)


def test_estimates_without_held_out_samples_are_marked():
    seen, doubt, _, _ = found(held_out=0.0)
    assert not estimate(seen, doubt).held_out


def test_the_same_seed_gives_the_same_intervals():
    seen, doubt, _, _ = found()
    one, other = (estimate(seen, doubt, seed=1) for _ in range(2))
    np.testing.assert_array_equal(one.class_rate_intervals, other.class_rate_intervals)
    np.testing.assert_array_equal(one.transition_intervals, other.transition_intervals)


def test_many_classes_have_no_interval_for_every_entry():
    seen, doubt, _, _ = found(classes=120, samples=2400, names=tuple(map(str, range(120))))
    estimated = estimate(seen, doubt, resamples=5)
    assert estimated.transition.shape == (120, 120)
    assert estimated.transition_intervals is None
    assert estimated.class_rate_intervals.shape == (120, 2)


def test_the_clearest_of_each_class_count():
    seen, _, _, _ = found(samples=300)
    clear = clearest(seen, seen.held_out)
    assert seen.held_out[clear].all()
    for label in range(3):
        of_class = seen.held_out & (seen.predicted == label)
        chosen = clear[seen.predicted[clear] == label]
        assert len(chosen) == np.ceil(CLEAR_SHARE * of_class.sum())
        left_out = np.setdiff1d(np.flatnonzero(of_class), chosen)
        assert seen.lead[chosen].min() >= seen.lead[left_out].max()
