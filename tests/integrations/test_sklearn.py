"""The classifier under scikit-learn's estimator checks, in pipelines and searches, and with cleanlab."""

import pickle
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.sparse import coo_array, csr_array, csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks
from torch import nn

from tnlpad.integrations import sklearn as module
from tnlpad.integrations.sklearn import TnlpadClassifier
from tnlpad.runs.folds import divide


@parametrize_with_checks([TnlpadClassifier()])
def test_estimator_checks(estimator, check):
    check(estimator)


def test_there_were_checks_to_pass():
    assert len(list(estimator_checks_generator(TnlpadClassifier()))) >= 50


def blobs(samples=300, wrong=0.3):
    """Return features, given and clean labels of three well separated classes."""
    features, clean = make_blobs(samples, centers=3, cluster_std=0.6, random_state=0)
    random = np.random.default_rng(1)
    flipped = random.random(samples) < wrong
    return features, np.where(flipped, (clean + random.integers(1, 3, samples)) % 3, clean), clean


def digits(wrong=0.4):
    """Return half of the digits with given labels, and the other half with clean ones."""
    features, labels = load_digits(return_X_y=True)
    train, test, given, clean = train_test_split(features, labels, train_size=900, random_state=0, stratify=labels)
    random = np.random.default_rng(1)
    flipped = random.random(len(given)) < wrong
    return train, np.where(flipped, (given + random.integers(1, 10, len(given))) % 10, given), test, clean


def test_it_learns_from_labels_of_which_40_percent_are_wrong():
    train, given, test, clean = digits()
    classifier = TnlpadClassifier(random_state=0).fit(train, given)
    assert classifier.score(test, clean) > 0.85
    assert 1 <= classifier.epoch_ <= classifier.epochs


def test_a_random_state_determines_everything_and_no_global_generator_is_touched():
    features, given, _ = blobs()
    before = torch.get_rng_state()
    first, again, other = (
        TnlpadClassifier(epochs=3, random_state=seed).fit(features, given).predict_proba(features) for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_clones_and_pickles():
    features, given, clean = blobs()
    classifier = TnlpadClassifier(epochs=5, learning_rate=0.02, hidden=(16,), random_state=0).fit(features, given)
    loaded = pickle.loads(pickle.dumps(classifier))
    assert np.array_equal(loaded.predict_proba(features), classifier.predict_proba(features))
    fresh = clone(classifier)
    assert not hasattr(fresh, "module_")
    assert np.array_equal(fresh.fit(features, given).predict_proba(features), classifier.predict_proba(features))
    assert classifier.score(features, clean) > 0.9


def test_a_pipeline_in_a_grid_search():
    features, given, clean = blobs()
    names = np.array(["apple", "pear", "plum"])
    pipeline = make_pipeline(MinMaxScaler(), TnlpadClassifier(epochs=5, random_state=0))
    search = GridSearchCV(
        pipeline, {"tnlpadclassifier__c2": [0.2, 1.0], "tnlpadclassifier__optimizer": ["sgd", "adamw"]}, cv=2
    )
    search.fit(features, names[given])
    assert set(search.best_params_) == {"tnlpadclassifier__c2", "tnlpadclassifier__optimizer"}
    assert search.score(features, names[clean]) > 0.9
    assert list(search.classes_) == sorted(names)


def test_cleanlab_finds_the_wrong_labels_with_it():
    reason = "cleanlab is not installed: pip install 'tnlpad[compare]'"
    classification = pytest.importorskip("cleanlab.classification", reason=reason)
    features, given, clean = blobs()
    quick = TnlpadClassifier(epochs=8, learning_rate=0.02, c2=2.0, random_state=0)
    # In one process: cleanlab forks its own, and a fork of a process with threads may hang.
    learner = classification.CleanLearning(quick, cv_n_folds=3, seed=0, find_label_issues_kwargs={"n_jobs": 1})
    learner.fit(features, given)
    issues = learner.get_label_issues()
    found, wrong = issues["is_label_issue"].to_numpy(), given != clean
    assert wrong[found].mean() > 0.9
    assert found[wrong].mean() > 0.9
    assert (issues["predicted_label"].to_numpy()[found] == clean[found]).mean() > 0.9
    assert (learner.predict(features) == clean).mean() > 0.95


def test_suspects_are_judged_out_of_fold():
    train, given, _, _ = digits(wrong=0.2)
    _, _, clean, _ = train_test_split(
        *load_digits(return_X_y=True), train_size=900, random_state=0, stratify=load_digits().target
    )
    quick = {"epochs": 10, "learning_rate": 0.03, "random_state": 0}
    classifier = TnlpadClassifier(folds=3, **quick).fit(train, np.array([f"d{label}" for label in given]))
    rows, wrong = [each.index for each in classifier.suspects], given != clean
    assert wrong[rows].mean() > 0.9
    assert wrong[rows].sum() > 0.8 * wrong.sum()
    low, high = classifier.found_.noise_rate_interval
    assert low <= wrong.mean() <= high
    first = classifier.suspects[0]
    assert (first.given_name, first.suggested_name) == (f"d{given[first.index]}", f"d{clean[first.index]}")
    # What ships is the same network.
    alone = TnlpadClassifier(**quick).fit(train, given)
    assert np.array_equal(alone.predict_proba(train), classifier.predict_proba(train))
    assert len(pickle.loads(pickle.dumps(classifier)).suspects) == len(rows)


def test_labels_that_differ_in_spaces_alone_stay_different_classes():
    train, given, _, _ = digits(wrong=0.1)
    names = np.array(["a", "a ", " ", ""])[given[:200] % 4]
    classifier = TnlpadClassifier(epochs=1, folds=2, random_state=0).fit(train[:200], names)
    assert [each.given_name for each in sorted(classifier.found_.ranked(), key=lambda each: each.index)] == list(names)


def test_suspects_of_texts_in_a_pipeline():
    """A sparse matrix; of the same text with different labels, no copy is judged by a network that saw the other."""
    subjects = {"sport": "goal match team coach", "food": "bread soup salt oven"}
    texts = [f"{subjects[name]} {number}" for number in range(60) for name in subjects]
    labels = [name for _ in range(60) for name in subjects]
    texts += [texts[0]] * 3
    labels += ["food", "sport", "sport"]
    pipeline = make_pipeline(TfidfVectorizer(), TnlpadClassifier(epochs=15, folds=4, random_state=0)).fit(texts, labels)
    assert [each.index for each in pipeline[-1].suspects] == [120]


def test_copies_of_a_sample_stay_in_one_fold(monkeypatch):
    folds = []
    monkeypatch.setattr(module, "divide", lambda *words: folds.append(divide(*words)) or folds[-1])
    features, given, _ = blobs(60)
    features[30:] = features[:30]
    for samples in (features, csr_matrix(features)):
        TnlpadClassifier(epochs=1, folds=3, random_state=0).fit(samples, given)
        (fold,) = folds.pop()
        assert (fold[:30] == fold[30:]).all()


def test_suspects_need_folds():
    features, given, _ = blobs()
    classifier = TnlpadClassifier(epochs=1, folds=2, random_state=0).fit(features, given)
    assert hasattr(classifier, "suspects")
    classifier.set_params(folds=0).fit(features, given)
    with pytest.raises(AttributeError, match="folds=0"):
        _ = classifier.suspects
    with pytest.raises(ValueError, match="folds=1"):
        TnlpadClassifier(folds=1).fit(features, given)
    with pytest.raises(ValueError, match="folds=400"):
        TnlpadClassifier(epochs=1, folds=400).fit(features, given)


def small_convolution(shape, num_classes):
    channels, height, width = shape
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * height * width, num_classes),
    )


def test_images_and_a_custom_network():
    train, given, test, clean = digits(wrong=0.2)
    images, unseen = (part.astype(np.uint8).reshape(-1, 1, 8, 8) for part in (train, test))
    # 810 samples to train on: batches of 90 leave no batch of one sample, on which BatchNorm fails.
    classifier = TnlpadClassifier(small_convolution, epochs=8, batch_size=101, random_state=0).fit(images, given)
    assert classifier.score(unseen, clean) > 0.85
    assert not classifier.module_.training
    with pytest.raises(ValueError, match=r"\(1, 8, 7\), .* \(1, 8, 8\)"):
        classifier.predict(unseen[..., :7])


def test_a_constant_column_does_not_explode():
    """Neither a constant, whose spread is a rounding error, nor numbers whose spread underflows."""
    features, given, _ = blobs()
    constant, tiny = np.full((300, 1), 0.1), np.arange(300)[:, None] * 1e-200
    assert constant.std() > 0
    classifier = TnlpadClassifier(epochs=3, random_state=0).fit(np.hstack([features, constant, tiny]), given)
    assert classifier.scale_[2:].tolist() == [1.0, 1.0]
    expected, found = (classifier.predict(np.hstack([features, constant + more, tiny])) for more in (0, 0.1))
    assert (found == expected).mean() > 0.9


def test_numbers_far_from_zero_are_distinguished():
    """Such as times in seconds: a single-precision mean would be off by more than they differ."""
    features, given, _ = blobs()
    near, far = (TnlpadClassifier(epochs=3, random_state=0).fit(features + offset, given) for offset in (0, 2e9))
    np.testing.assert_allclose(far.predict_proba(features + 2e9), near.predict_proba(features), atol=1e-3)


def steep(shape, num_classes):
    """Return a network with finite weights and an infinite loss."""

    class Steep(nn.Linear):
        def forward(self, samples):
            return super().forward(samples) + torch.tensor([3e38, -3e38, -3e38])

    return Steep(*shape, num_classes)


def test_images_for_the_default_network():
    train, given, _, _ = digits()
    classifier = TnlpadClassifier(epochs=1, hidden=(16,), random_state=0).fit(train.reshape(-1, 1, 8, 8), given)
    assert [layer.in_features for layer in classifier.module_ if isinstance(layer, nn.Linear)] == [64, 16]


def test_samples_are_predicted_and_validated_some_at_a_time(monkeypatch):
    features, given, _ = blobs()
    classifier = TnlpadClassifier(epochs=2, random_state=0).fit(features, given)
    data = module._Data(
        classifier._standardised(features), torch.from_numpy(given), *torch.arange(300).split([100, 200])
    )
    probabilities, validated = classifier.predict_proba(features), data.validate(classifier.module_)
    monkeypatch.setattr(module, "PREDICTION_BATCH", 7)
    np.testing.assert_allclose(classifier.predict_proba(features), probabilities, rtol=1e-5)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    assert data.validate(classifier.module_) == pytest.approx(validated)


def test_the_defaults():
    """The defaults chosen by the benchmark."""
    assert TnlpadClassifier().get_params() == {
        "module": None,
        "hidden": (128, 128),
        "optimizer": "sgd",
        "learning_rate": 0.005,
        "weight_decay": 1e-3,
        "c1": 1e-4,
        "c2": 0.3,
        "epochs": 60,
        "batch_size": 64,
        "validation_fraction": 0.1,
        "folds": 0,
        "device": "cpu",
        "random_state": None,
    }


def test_the_optimizer_is_the_one_named(monkeypatch):
    bases = []

    class Spy(module.Decomposition):
        def __init__(self, groups, base, **options):
            super().__init__(groups, base, **options)
            bases.append(base)

    monkeypatch.setattr(module, "Decomposition", Spy)
    features, given, _ = blobs(60)
    for name in ("adamw", "sgd"):
        TnlpadClassifier(optimizer=name, epochs=1).fit(features, given)
    assert bases == [torch.optim.AdamW, torch.optim.SGD]


def test_prediction_is_by_sigma(monkeypatch):
    optimizers = []

    class Spy(module.Decomposition):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            optimizers.append(self)

    monkeypatch.setattr(module, "Decomposition", Spy)
    features, given, _ = blobs(150)
    classifier = TnlpadClassifier(epochs=20, c2=2.0, random_state=0).fit(features, given)
    [parts] = optimizers[0]._parts
    assert classifier.epoch_ == 20  # too few samples to select an epoch: the last is kept
    assert torch.equal(classifier.module_[1].weight, parts.sigma[0])
    assert parts.gamma[0].norm() > 0.01


def test_the_course_of_an_epoch(monkeypatch):
    """Each epoch is started, trained at a cosine rate with fresh gradients, and evaluated with σ."""
    rates, counts, given, judged, modes = [], Counter(), {}, [], set()

    class Spy(module.Decomposition):
        def __init__(self, groups, base, **options):
            super().__init__(groups, base, **options)
            given.update(options, base=base, optimizer=self)

        def start_epoch(self):
            rates.append(self.param_groups[0]["lr"])
            super().start_epoch()

        def step(self, closure=None):
            counts["step"] += 1
            return super().step(closure)

        def zero_grad(self, set_to_none=True):
            counts["zero_grad"] += 1
            super().zero_grad(set_to_none)

    def validate(self, network):
        [parts] = given["optimizer"]._parts
        judged.append(torch.equal(network[0].weight, parts.sigma[0]))
        return checked(self, network)

    def watched(shape, num_classes):
        network = nn.Sequential(nn.Linear(*shape, num_classes), nn.Dropout(0.1))
        network.register_forward_hook(lambda *_: modes.add((network.training, torch.is_grad_enabled())))
        return network

    checked = module._Data.validate
    monkeypatch.setattr(module, "Decomposition", Spy)
    monkeypatch.setattr(module._Data, "validate", validate)
    options = {"learning_rate": 0.04, "weight_decay": 0.02, "c1": 0.003, "c2": 0.7}
    features, labels, _ = blobs(200)
    TnlpadClassifier(watched, epochs=4, batch_size=60, **options, random_state=0).fit(features, labels)
    assert given["base"] is torch.optim.SGD
    assert {name: given[name] for name in ("lr", "weight_decay", "c1", "c2", "momentum")} == {
        "lr": 0.04,
        **{name: options[name] for name in ("weight_decay", "c1", "c2")},
        "momentum": 0.9,
    }
    assert rates == pytest.approx([0.02 * (1 + np.cos(np.pi * epoch / 4)) for epoch in range(4)])
    assert counts == {"step": 12, "zero_grad": 12}  # 180 samples to train on
    assert judged == [True] * 4
    assert modes == {(True, True), (False, False)}


def test_no_batch_has_a_single_sample():
    """Nine samples in batches of at most four, each used once."""
    data = module._Data(torch.zeros(20, 1), torch.zeros(20), torch.arange(5, 14), torch.arange(5))
    batches = data.batches(4)
    assert [len(batch) for batch in batches] == [3, 3, 3]
    assert sorted(torch.cat(batches).tolist()) == list(range(5, 14))


@pytest.mark.parametrize(("samples", "held_back"), [(200, 20), (199, 0)])
def test_the_minimum_number_of_validation_samples(samples, held_back):
    classifier = TnlpadClassifier()
    classifier.classes_ = np.arange(2)
    train, validation = classifier._split(np.arange(samples) % 2, seed=0)
    assert (len(train), len(validation)) == (samples - held_back, held_back)


def test_the_epoch_is_chosen_by_validation_accuracy_and_then_by_loss(monkeypatch):
    scores = [(0.5, -1.0), (0.9, -1.0), (0.9, -0.5), (0.9, -0.5), (0.8, -0.1)]
    seen = iter(scores)
    monkeypatch.setattr(module._Data, "validate", lambda self, network: next(seen))
    features, given, _ = blobs()
    assert TnlpadClassifier(epochs=5, random_state=0).fit(features, given).epoch_ == 3


def test_an_epoch_is_chosen_even_if_all_accuracies_are_zero(monkeypatch):
    seen = iter([(0.0, -3.0), (0.0, -2.0)])
    monkeypatch.setattr(module._Data, "validate", lambda self, network: next(seen))
    features, given, _ = blobs()
    assert TnlpadClassifier(epochs=2, random_state=0).fit(features, given).epoch_ == 2


def test_the_network_is_that_of_the_chosen_epoch(monkeypatch):
    scores, states = iter([(0.1, -1.0), (0.9, -1.0), (0.5, -1.0)]), []

    def validate(self, network):
        states.append(network[1].weight.detach().clone())
        return next(scores)

    monkeypatch.setattr(module._Data, "validate", validate)
    features, given, _ = blobs()
    classifier = TnlpadClassifier(epochs=3, random_state=0).fit(features, given)
    assert classifier.epoch_ == 2
    assert torch.equal(classifier.module_[1].weight, states[1])


def test_validation_returns_accuracy_and_negative_loss():
    samples, labels = torch.eye(3), torch.tensor([0, 1, 1])
    data = module._Data(samples, labels, torch.tensor([0]), torch.tensor([1, 2]))
    accuracy, minus_loss = data.validate(nn.Identity())
    # Logits (0, 1, 0) and (0, 0, 1) for the label 1: right and wrong.
    log_sum = np.log(2 + np.e)
    assert accuracy == 0.5
    assert minus_loss == pytest.approx(-((log_sum - 1) + log_sum) / 2)


def test_held_out_samples_are_stratified_and_not_trained_on():
    classifier = TnlpadClassifier(validation_fraction=0.2)
    classifier.classes_ = np.arange(2)
    labels = np.repeat([0, 1], [200, 50])
    train, validation = classifier._split(labels, seed=0)
    assert sorted([*train.tolist(), *validation.tolist()]) == list(range(250))
    assert np.bincount(labels[validation]).tolist() == [40, 10]
    rare = np.repeat([0, 1], [249, 1])  # one sample of a class cannot be on both sides
    assert [len(part) for part in classifier._split(rare, seed=0)] == [200, 50]
    assert validation.tolist() != classifier._split(labels, seed=1)[1].tolist()


@pytest.mark.parametrize(("fraction", "sizes"), [(0.2, [80, 20]), (0.8, [20, 80])])
def test_there_may_be_more_classes_than_samples_on_one_side(fraction, sizes):
    classifier = TnlpadClassifier(validation_fraction=fraction)
    classifier.classes_ = np.arange(50)
    assert [len(part) for part in classifier._split(np.arange(100) % 50, seed=0)] == sizes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "lion"}, "optimizer='lion': .*sgd, adamw"),
        ({"epochs": 0}, "epochs=0: .*at least 1"),
        ({"epochs": 2.5}, "epochs=2.5: .*whole number"),
        ({"folds": 2.5}, "folds=2.5: .*whole number"),
        ({"hidden": 16}, r"hidden=16: .*such as \(128, 128\)"),
        ({"hidden": None}, "hidden=None: "),
        ({"hidden": (16, 0)}, r"hidden=\(16, 0\): .*at least 1"),
        ({"module": lambda shape, classes: nn.Linear(*shape, classes + 4)}, r"\(60, 7\) where \(60, 3\) is needed"),
        ({"module": lambda shape, classes: nn.Linear(*shape, 1)}, r"\(60, 1\) where \(60, 3\) is needed"),
        ({"batch_size": 0}, "batch_size=0: .*at least 1"),
        ({"validation_fraction": 1.0}, r"validation_fraction=1.0: .*\[0, 1\)"),
        ({"validation_fraction": -0.1}, r"validation_fraction=-0.1: .*\[0, 1\)"),
        ({"learning_rate": 1e20}, "learning_rate=1e[+]20"),
        ({"module": steep}, "inf in epoch 1"),
    ],
)
def test_invalid_parameters_are_refused(options, message):
    features, given, _ = blobs(60)
    with pytest.raises(ValueError, match=message):
        TnlpadClassifier(**{"epochs": 3, **options}).fit(features, given)


def short_texts(wrong=0.2):
    """Return texts of two subjects, given and clean labels."""
    random = np.random.default_rng(0)
    words = [
        ["goal", "team", "match", "player", "score", "ball", "league"],
        ["bread", "soup", "cheese", "oven", "butter", "taste", "salt"],
    ]
    clean = np.arange(300) % 2
    texts = [" ".join(random.choice([*words[label], "the", "and", "new"], 8)) for label in clean]
    flipped = random.random(300) < wrong
    return texts, np.where(flipped, 1 - clean, clean), clean


@pytest.mark.parametrize("convert", [csr_array, csr_matrix, coo_array])
def test_a_pipeline_with_a_vectoriser(convert):
    texts, given, clean = short_texts()
    convert_to = FunctionTransformer(convert, accept_sparse=True)
    pipeline = make_pipeline(TfidfVectorizer(), convert_to, TnlpadClassifier(epochs=10, random_state=0))
    pipeline.fit(texts, given)
    assert pipeline.score(texts, clean) > 0.95
    assert pipeline.predict_proba(texts[:3]).shape == (3, 2)


def test_sparse_samples_are_scaled_by_one_number_and_never_dense_as_a_whole(monkeypatch):
    texts, given, _ = short_texts()
    matrix = csr_matrix(TfidfVectorizer().fit_transform(texts))
    largest = []
    dense = csr_matrix.toarray
    monkeypatch.setattr(csr_matrix, "toarray", lambda self: largest.append(self.shape[0]) or dense(self))
    monkeypatch.setattr(module, "PREDICTION_BATCH", 50)
    classifier = TnlpadClassifier(epochs=2, batch_size=32, random_state=0).fit(matrix, given)
    found = classifier.predict_proba(matrix)
    assert max(largest) == 50
    assert not classifier.mean_.any()
    spread = dense(matrix).std(0)
    np.testing.assert_allclose(classifier.scale_, np.sqrt((spread**2).mean()))
    np.testing.assert_allclose(classifier.predict_proba(dense(matrix)), found, atol=1e-6)


def test_sparse_samples_for_a_classifier_of_dense_ones_and_constant_columns():
    features, given, _ = blobs()
    classifier = TnlpadClassifier(epochs=2, random_state=0).fit(features, given)
    np.testing.assert_array_equal(classifier.predict(csr_array(features)), classifier.predict(features))
    constant = csr_array(np.full((300, 2), 0.1))
    assert TnlpadClassifier(epochs=1, random_state=0).fit(constant, given).scale_.tolist() == [1, 1]
    empty = csr_array((300, 2))
    assert np.isfinite(TnlpadClassifier(epochs=1, random_state=0).fit(empty, given).predict_proba(empty)).all()
