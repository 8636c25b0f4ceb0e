import numpy as np
import pytest

from tests.suspects.made import made
from tnlpad.records.scores import SampleScores
from tnlpad.suspects.ranking import SUSPECT_FROM, rank


def test_wrong_labels_come_first():
    from sklearn.metrics import roc_auc_score

    scores, wrong, _ = made()
    ranking = rank(scores)
    assert roc_auc_score(wrong, ranking.score) > 0.95
    assert wrong[ranking.order[:50]].mean() > 0.95
    assert sorted(ranking.order) == list(range(len(scores)))


def test_suspects_are_more_likely_wrong_and_have_another_label():
    scores, wrong, _ = made()
    ranking = rank(scores)
    first, rest = ranking.order[: ranking.suspects], ranking.order[ranking.suspects :]
    assert np.all(ranking.confidence[first] >= SUSPECT_FROM)
    assert np.all(ranking.confidence[rest] < SUSPECT_FROM)
    assert np.all(ranking.evidence.suggested != ranking.evidence.given)
    assert ranking.suspect_share == pytest.approx(wrong.mean(), abs=0.05)


def test_labels_that_were_half_learnt_are_found_where_each_class_is_taken_for_one_other():
    """Half of the wrong labels lead before the right ones, and no other label comes near to a right one."""
    from sklearn.metrics import roc_auc_score

    generator = np.random.default_rng(0)
    clean = generator.integers(6, size=3000)
    wrong = generator.random(3000) < 0.4
    given = np.where(wrong, (clean + 1) % 6, clean)
    # Each class and what it is taken for compete; what was trained on has moved towards its label.
    logits = generator.normal(size=(3000, 6))
    rows, held_out = np.arange(3000), generator.random(3000) < 0.2
    for step in (0, 1):
        logits[rows, (clean + step) % 6] += 4.0 - step
    logits[rows, given] += np.where(held_out, 0.0, 1.5)
    odds = np.exp(logits)
    probabilities = (odds / odds.sum(1, keepdims=True)).astype(np.float32)
    scores = SampleScores(
        columns={"given": given, "part": np.where(held_out, "validation", "train")},
        probabilities=probabilities,
        class_names=tuple("abcdef"),
        views=("sigma", "w"),
        facts={},
    )
    ranking = rank(scores)
    others = probabilities.copy()
    others[rows, given] = 0
    margin = others.max(1) - probabilities[rows, given]
    assert roc_auc_score(wrong, ranking.score) > 0.95 > roc_auc_score(wrong, margin)
    assert (ranking.evidence.suggested == clean)[wrong].mean() > (probabilities.argmax(1) == clean)[wrong].mean() + 0.2


def test_held_out_samples_compare_with_those_trained_on():
    scores, wrong, _ = made(samples=4000)
    ranking = rank(scores)
    held_out = ranking.evidence.held_out
    for part in (held_out, ~held_out):
        suspected = ranking.confidence[part] >= SUSPECT_FROM
        assert suspected.mean() == pytest.approx(wrong[part].mean(), abs=0.05)


def test_scores_fall_along_the_order():
    ranking = rank(made(samples=50)[0])
    assert np.all(np.diff(ranking.score[ranking.order]) < 0)
    assert ranking.score[ranking.order[0]] == 1


def test_clean_labels_have_hardly_a_suspect():
    assert rank(made(samples=2000, rate=0.0)[0]).suspect_share < 0.03
