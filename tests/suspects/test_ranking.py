import numpy as np
import pytest

from tests.suspects.made import made
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
    assert np.all(ranking.evidence.suggested[first] != ranking.evidence.given[first])
    agreed = ranking.evidence.suggested[rest] == ranking.evidence.given[rest]
    assert np.all(agreed | (ranking.confidence[rest] < SUSPECT_FROM))
    assert ranking.suspect_share == pytest.approx(wrong.mean(), abs=0.05)


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
