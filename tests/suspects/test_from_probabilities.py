"""`tnlpad.find_suspects`: wrong labels from the probabilities of any model."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import tnlpad


@pytest.fixture(scope="module")
def digits():
    """Digits of which a fifth has a random other label, with out-of-fold probabilities."""
    rows, clean = load_digits(return_X_y=True)
    generator = np.random.default_rng(0)
    wrong = generator.random(len(clean)) < 0.2
    given = np.where(wrong, (clean + generator.integers(1, 10, len(clean))) % 10, clean)
    model = LogisticRegression(C=0.003, max_iter=50)
    return clean, given, wrong, cross_val_predict(model, rows / 16, given, cv=3, method="predict_proba")


def test_wrong_labels_are_found_and_counted(digits):
    clean, given, wrong, probabilities = digits
    found = tnlpad.find_suspects(given.tolist(), probabilities=probabilities)
    first = found.ranked(int(wrong.sum()))
    assert np.mean([wrong[each.index] for each in first]) > 0.85
    assert np.mean([clean[each.index] == int(each.suggested_name) for each in first if wrong[each.index]]) > 0.85
    low, high = found.noise_rate_interval
    assert low <= wrong.mean() <= high
    assert found.caution is None
    assert "audit" not in found.sentences[1]


def test_probabilities_that_say_nothing_give_no_rate():
    labels = [0, 1] * 50
    found = tnlpad.find_suspects(labels, probabilities=np.full((100, 2), 0.5))
    assert found.noise_rate is None
    assert found.suspects == []
    assert found.caution


def test_names_of_classes_and_samples(digits):
    _, given, _, probabilities = digits
    words = [f"digit {label}" for label in given]
    classes = [f"digit {label}" for label in range(10)]
    found = tnlpad.find_suspects(
        words, probabilities=probabilities, classes=classes, ids=[f"s{n}" for n in range(1797)]
    )
    assert found.suspects[0].given_name.startswith("digit ")
    assert found.suspects[0].id == f"s{found.suspects[0].index}"


@pytest.mark.parametrize(
    ("labels", "probabilities", "options", "message"),
    [
        ([0, 1], [[0.5, 0.5]], {}, "shape 1 × 2.*2 labels of 2 classes"),
        ([0, 1], [[0.5, 0.5], [0.9, 0.3]], {}, "sample 1 .* sum to 1.2"),
        ([0, 1], [[0.5, 0.5], [1.5, -0.5]], {}, "sample 1"),
        ([0, 1], [[0.5, 0.5], [np.nan, 0.5]], {}, "sample 1"),
        ([0, 2], [[0.5, 0.5], [0.5, 0.5]], {"classes": [0, 1]}, "label 2 is not among"),
        ([0, 0], [[1.0], [1.0]], {}, "one class"),
        ([0, 1], [["a", "b"], ["c", "d"]], {}, "not numbers"),
        ([0, 1], [[0.5, 0.5], [0.5, 0.5]], {"ids": ["a"]}, "1 ids, but 2 labels"),
    ],
)
def test_what_does_not_fit_together_is_refused(labels, probabilities, options, message):
    with pytest.raises(tnlpad.DataError, match=message):
        tnlpad.find_suspects(labels, probabilities=probabilities, **options)
