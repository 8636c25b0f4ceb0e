import numpy as np

from tests.suspects.made import made
from tnlpad.records.scores import SampleScores
from tnlpad.suspects.evidence import ROWS_AT_ONCE, evidence


def test_by_hand():
    scores = SampleScores(
        columns={"given": np.array([0, 2, 1]), "part": np.array(["train", "validation", "train"], dtype=object)},
        probabilities=np.array([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2], [0.6, 0.3, 0.1]], dtype=np.float32),
        class_names=("a", "b", "c"),
        views=("w",),
        facts={},
    )
    found = evidence(scores)
    assert found.suggested.tolist() == [0, 0, 0]
    np.testing.assert_allclose(found.doubt, [-0.5, 0.3, 0.3], atol=1e-6)
    np.testing.assert_allclose(found.lead, [0.5, 0.2, 0.3], atol=1e-6)
    np.testing.assert_allclose(found.given_probability, [0.7, 0.2, 0.3], atol=1e-6)
    assert found.held_out.tolist() == [False, True, False]


def test_a_few_rows_at_a_time_give_what_all_at_once_do():
    scores, _, _ = made(samples=ROWS_AT_ONCE + 5)
    found = evidence(scores)
    np.testing.assert_array_equal(found.suggested, scores.probabilities.argmax(1))
    rows = np.arange(len(scores))
    given = scores.columns["given"]
    others = scores.probabilities.copy()
    others[rows, given] = 0
    np.testing.assert_allclose(found.doubt, others.max(1) - scores.probabilities[rows, given], atol=1e-6)
