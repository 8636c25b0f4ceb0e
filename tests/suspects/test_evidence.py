import numpy as np
import pytest

from tests.suspects.made import made
from tnlpad.memory import MAX_ROWS_AT_ONCE
from tnlpad.records.scores import SampleScores
from tnlpad.suspects.evidence import SMOOTHING, evidence, predictions

ANYWHERE = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
TO_THE_NEXT = np.array([[0.6, 0.4, 0.0], [0.0, 0.6, 0.4], [0.4, 0.0, 0.6]])


def of(probabilities, given, parts=None):
    return SampleScores(
        columns={"given": np.array(given), "part": np.array(parts or ["train"] * len(given), dtype=object)},
        probabilities=np.array(probabilities, dtype=np.float32),
        class_names=("a", "b", "c"),
        views=("w",),
        facts={},
    )


def evidence_of(scores, transition):
    return evidence(scores, predictions(scores), transition)


def test_predictions_by_hand():
    parts = ["train", "validation", "train"]
    seen = predictions(of([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2], [0.3, 0.6, 0.1]], [0, 2, 1], parts))
    assert seen.predicted.tolist() == [0, 0, 1]
    np.testing.assert_allclose(seen.lead, [0.5, 0.2, 0.3], atol=1e-6)
    assert seen.held_out.tolist() == [False, True, False]
    assert (len(seen), seen.num_classes) == (3, 3)


def test_doubt_by_hand():
    found = evidence_of(of([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2]], [0, 2]), ANYWHERE)
    c = SMOOTHING / 3
    odds = [(0.3 + 2 * c) * 0.1 / ((0.7 + c) * 0.8), (0.8 + 2 * c) * 0.1 / ((0.2 + c) * 0.8)]
    np.testing.assert_allclose(found.doubt, np.log(odds), atol=1e-5)
    assert found.suggested.tolist() == [1, 0]
    np.testing.assert_allclose(found.given_probability, [0.7, 0.2], atol=1e-6)
    np.testing.assert_allclose(found.suggested_probability, [0.2, 0.5], atol=1e-6)


def test_a_class_counts_only_as_far_as_it_becomes_the_given_one():
    scores = of([[0.45, 0.55, 0.0], [0.55, 0.45, 0.0]], [0, 1])  # the other label leads, and the other label does not
    found = evidence_of(scores, TO_THE_NEXT)
    assert found.doubt[1] > found.doubt[0]
    assert found.suggested.tolist() == [2, 0]


def test_two_competing_classes_are_not_suspect_under_symmetric_noise():
    torn, wrong = evidence_of(of([[0.45, 0.55, 0.0], [0.05, 0.5, 0.45]], [0, 0]), ANYWHERE).doubt
    assert torn < 0 < 1 < wrong - torn


@pytest.mark.parametrize("transition", [ANYWHERE, TO_THE_NEXT + 0.001])
def test_chunks_give_the_same_as_all_rows(transition):
    scores, _, _ = made(samples=MAX_ROWS_AT_ONCE + 5)
    found, rows, given = evidence_of(scores, transition), np.arange(len(scores)), scores.columns["given"]
    terms = (scores.probabilities + SMOOTHING / 3) * transition.T[given]
    right = terms[rows, given].copy()
    np.testing.assert_allclose(found.doubt, np.log((terms.sum(1) - right) / right), atol=1e-3)
    terms[rows, given] = 0
    np.testing.assert_array_equal(found.suggested, terms.argmax(1))
    np.testing.assert_array_equal(predictions(scores).predicted, scores.probabilities.argmax(1))
