"""`tnlpad.find_suspects`: wrong labels from the probabilities of any model."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
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


def test_a_class_without_samples_is_not_said_to_be_wrong_throughout(digits):
    _, given, wrong, probabilities = digits
    wider = np.append(0.9999 * probabilities, np.full((len(given), 1), 0.0001), axis=1)
    found = tnlpad.find_suspects(given, probabilities=wider, classes=range(11)).ranking.estimate
    rates, intervals = found.class_rates, found.class_rate_intervals
    assert rates[10] == pytest.approx(found.noise_rate)
    assert intervals[10, 0] <= wrong.mean() <= intervals[10, 1]
    assert (intervals[10, 1] - intervals[10, 0]) > 3 * (intervals[:10, 1] - intervals[:10, 0]).max()
    np.testing.assert_allclose(found.transition.sum(1), 1)


def test_with_a_few_samples_every_row_of_the_matrix_is_a_distribution():
    found = tnlpad.find_suspects([0, 1, 2], probabilities=np.eye(200)[:3], classes=range(200))
    np.testing.assert_allclose(found.ranking.estimate.transition.sum(1), 1)


def test_one_sample_has_no_neighbours():
    with pytest.raises(tnlpad.DataError, match="features of 1 sample"):
        tnlpad.find_suspects([0], probabilities=[[0.5, 0.5]], features=[[1.0]])


def auroc(wrong, found):
    return roc_auc_score(wrong, found.ranking.score)


def test_neighbours_improve_the_order(digits):
    """Features alone would do less: the votes are combined with the probabilities."""
    _, given, wrong, probabilities = digits
    pixels = load_digits().data
    plain, voted = (tnlpad.find_suspects(given, probabilities=probabilities, features=each) for each in (None, pixels))
    assert auroc(wrong, voted) > auroc(wrong, plain) + 0.003
    low, high = voted.noise_rate_interval
    assert low <= wrong.mean() <= high
    assert "nearest samples" in voted.suspects[0].why
    assert "nearest samples" not in plain.suspects[0].why


def test_features_without_meaning_change_little(digits):
    _, given, wrong, probabilities = digits
    random = np.random.default_rng(1).normal(size=(len(given), 8))
    found = tnlpad.find_suspects(given, probabilities=probabilities, features=random)
    assert auroc(wrong, found) == pytest.approx(
        auroc(wrong, tnlpad.find_suspects(given, probabilities=probabilities)), abs=2e-3
    )


def test_identical_samples_with_different_labels_are_named():
    features = np.arange(60.0).reshape(30, 2)
    features[29] = features[3]
    labels = ["cat", "dog"] * 15
    probabilities = np.tile([[0.9, 0.1], [0.1, 0.9]], (15, 1))
    ids = [f"p{row}" for row in range(30)]
    labels[29] = "cat"
    found = tnlpad.find_suspects(labels, probabilities=probabilities, features=features, ids=ids)
    (note,) = (note for note in found.notes if "features" in note)
    assert "1 samples" in note
    assert "p29 (“cat”) and p3 (“dog”)" in note


def test_predictions_that_seem_to_be_in_sample_are_named(digits):
    _, given, _, probabilities = digits
    rows = load_digits().data
    memorised = RandomForestClassifier(20, random_state=0).fit(rows, given).predict_proba(rows)
    (note,) = tnlpad.find_suspects(given, probabilities=memorised).notes
    assert "100.0 %" in note or "99." in note
    assert "out-of-fold" in note
    assert tnlpad.find_suspects(given, probabilities=probabilities).notes == ()


def test_columns_in_another_order_are_named(digits):
    _, given, _, probabilities = digits
    (note,) = tnlpad.find_suspects(given, probabilities=np.roll(probabilities, 1, axis=1)).notes
    assert "in the order 0, 1, 2, 3, 4, 5, 6, 7 …" in note


@pytest.mark.parametrize(
    ("labels", "classes", "names", "given"),
    [
        ([0, 2, 2], None, ("0", "1", "2"), [0, 2, 2]),  # a class without a label
        ([1, 2, 3], None, ("1", "2", "3"), [0, 1, 2]),
        (["b", "c", "a"], None, ("a", "b", "c"), [1, 2, 0]),
        (["10", "9", "1"], None, ("1", "10", "9"), [1, 2, 0]),  # texts, as scikit-learn orders them
        (np.array([1.0, 2.0, 0.0]), None, ("0", "1", "2"), [1, 2, 0]),
        ([10, 30, 20], [30, 20, 10], ("30", "20", "10"), [2, 0, 1]),
        ([0, 2, 1], ["a", "b", "c"], ("a", "b", "c"), [0, 2, 1]),  # numbers of the columns
    ],
)
def test_columns_are_matched_with_labels(labels, classes, names, given):
    found = tnlpad.find_suspects(labels, probabilities=np.full((3, 3), 1 / 3), classes=classes)
    assert found.scores.class_names == names
    assert found.scores.columns["given"].tolist() == given


HALF = [[0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("labels", "probabilities", "options", "message"),
    [
        ([0, 1], [[0.5, 0.5]], {}, "2 labels, but 1 rows"),
        ([0, 1], [[0.5, 0.5], [0.9, 0.3]], {}, "sample 1 .*0.9, 0.3, which sum to 1.2"),
        ([0, 1], [[0.5, 0.5], [1.5, -0.5]], {}, "sample 1 .*1.5, -0.5, of which one is negative"),
        ([0, 1], [[np.nan, 0.5], [np.inf, -np.inf]], {}, "sample 0 .*nan, 0.5, .*not all finite. 2 samples"),
        ([0, 1], [0.5, 0.5], {}, "shape 2. .*samples × classes"),
        ([0, 1], np.empty((0, 2)), {}, "shape 0 × 2"),
        ([0, 0], [[1.0], [1.0]], {}, "one column"),
        ([0, 1], [["a", "b"], ["c", "d"]], {}, "not numbers"),
        ([0, 1], [[10**400, 0], [0, 1]], {}, "not numbers"),
        ([0, 2], HALF, {"classes": [0, 1]}, "label 2 of sample 1 .*classes 0, 1"),
        ([0, 1], HALF, {"classes": ["a", "b", "c"]}, "3 classes, but 2 columns"),
        ([0, 1], HALF, {"classes": ["a", "a"]}, "'a' occurs twice"),
        (["a", "a"], HALF, {}, "2 columns .* 1 different labels"),
        (["a", None], HALF, {}, "sample 1 .*missing"),
        ([0, 0.5], HALF, {}, "0.5 is a number with a fraction"),
        ([[0, 1], [1, 0]], HALF, {}, "a label is a list"),
        ([0, 1], HALF, {"ids": ["a"]}, "1 ids, but 2 labels"),
        ([0, 1], HALF, {"ids": ["a", "a"]}, "'a' occurs twice"),
        ([0, 1], HALF, {"features": [[1.0], [2.0], [3.0]]}, "3 rows of features, but 2 labels"),
        ([0, 1], HALF, {"features": [[1.0], [np.nan]]}, "features of sample 1 .*finite"),
        ([0, 1], HALF, {"features": [1.0, 2.0]}, "features have the shape 2"),
        ([0, 1], HALF, {"features": csr_array(np.eye(2))}, "features are not numbers"),
    ],
)
def test_what_does_not_fit_together_is_refused(labels, probabilities, options, message):
    with pytest.raises(tnlpad.DataError, match=message):
        tnlpad.find_suspects(labels, probabilities=probabilities, **options)


def test_spaces_around_labels_do_not_change_the_order_of_columns():
    generator = np.random.default_rng(0)
    labels = np.array(["a", " b", "c"])[generator.integers(3, size=90)]
    probabilities = generator.dirichlet([1, 1, 1], size=90)
    with pytest.raises(tnlpad.DataError, match="' b' has spaces"):  # scikit-learn puts it before "a"
        tnlpad.find_suspects(labels, probabilities=probabilities)
    found = tnlpad.find_suspects(labels, probabilities=probabilities, classes=["b", "a", "c"])
    assert {each.given_name for each in found.ranked()} == {"a", "b", "c"}
    trailing = np.array(["a", "b ", "c"])[generator.integers(3, size=90)]  # sorted as without the space
    assert tnlpad.find_suspects(trailing, probabilities=probabilities).scores.class_names == ("a", "b", "c")
