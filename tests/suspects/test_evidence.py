import numpy as np
import pytest

from tests.suspects.made import made
from tnlpad.records.scores import SampleScores
from tnlpad.suspects.evidence import ROWS_AT_ONCE, UNSEEN, evidence, predictions

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


def judged(scores, transition):
    return evidence(scores, predictions(scores), transition)


def test_predictions_by_hand():
    parts = ["train", "validation", "train"]
    seen = predictions(of([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2], [0.3, 0.6, 0.1]], [0, 2, 1], parts))
    assert seen.predicted.tolist() == [0, 0, 1]
    np.testing.assert_allclose(seen.lead, [0.5, 0.2, 0.3], atol=1e-6)
    assert seen.held_out.tolist() == [False, True, False]
    assert (len(seen), seen.num_classes) == (3, 3)


def test_doubt_by_hand():
    found = judged(of([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2]], [0, 2]), ANYWHERE)
    c = UNSEEN / 3
    odds = [(0.3 + 2 * c) * 0.1 / ((0.7 + c) * 0.8), (0.8 + 2 * c) * 0.1 / ((0.2 + c) * 0.8)]
    np.testing.assert_allclose(found.doubt, np.log(odds), atol=1e-5)
    assert found.suggested.tolist() == [1, 0]
    np.testing.assert_allclose(found.given_probability, [0.7, 0.2], atol=1e-6)
    np.testing.assert_allclose(found.suggested_probability, [0.2, 0.5], atol=1e-6)


def test_only_a_class_that_is_taken_for_the_given_one_counts_against_it():
    scores = of([[0.45, 0.55, 0.0], [0.55, 0.45, 0.0]], [0, 1])  # the other label leads, and the other label does not
    found = judged(scores, TO_THE_NEXT)
    assert found.doubt[1] > found.doubt[0]
    assert found.suggested.tolist() == [2, 0]


def test_what_two_classes_compete_for_is_no_suspect_where_errors_go_anywhere():
    torn, wrong = judged(of([[0.45, 0.55, 0.0], [0.05, 0.5, 0.45]], [0, 0]), ANYWHERE).doubt
    assert torn < 0 < 1 < wrong - torn


@pytest.mark.parametrize("transition", [ANYWHERE, TO_THE_NEXT + 0.001])
def test_a_few_rows_at_a_time_give_what_all_at_once_do(transition):
    scores, _, _ = made(samples=ROWS_AT_ONCE + 5)
    found, rows, given = judged(scores, transition), np.arange(len(scores)), scores.columns["given"]
    terms = (scores.probabilities + UNSEEN / 3) * transition.T[given]
    right = terms[rows, given].copy()
    np.testing.assert_allclose(found.doubt, np.log((terms.sum(1) - right) / right), atol=1e-3)
    terms[rows, given] = 0
    np.testing.assert_array_equal(found.suggested, terms.argmax(1))
    np.testing.assert_array_equal(predictions(scores).predicted, scores.probabilities.argmax(1))
