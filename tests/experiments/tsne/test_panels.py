import numpy as np
import pytest
from sklearn.metrics import silhouette_score

from tnlpad.experiments.tsne.panels import neighbours_accuracy, scores


def test_neighbours_vote_without_the_sample_itself():
    places = np.array([[0.0], [0.1], [0.2], [10.0], [10.1], [10.2]])
    assert neighbours_accuracy(places, np.array([0, 0, 0, 1, 1, 1]), count=2) == 1
    # The first and the fourth are outvoted; between equals the lower class wins, which two others lose by.
    assert neighbours_accuracy(places, np.array([1, 0, 0, 0, 1, 1]), count=2) == pytest.approx(2 / 6)


def test_neighbours_accuracy_by_hand():
    generator = np.random.default_rng(0)
    features, labels = generator.normal(size=(80, 5)), generator.integers(0, 3, 80)
    features += 1.5 * labels[:, None]
    right = 0
    for k in range(80):
        distances = np.linalg.norm(features - features[k], axis=1)
        distances[k] = np.inf
        right += np.bincount(labels[distances.argsort()[:10]], minlength=3).argmax() == labels[k]
    assert neighbours_accuracy(features, labels) == pytest.approx(right / 80)
    assert scores(features, labels)["silhouette"] == round(float(silhouette_score(features, labels)), 4)
