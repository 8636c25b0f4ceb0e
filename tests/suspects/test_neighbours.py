"""Votes of the nearest samples, and their combination with probabilities."""

import numpy as np
import pytest

from tnlpad.suspects import neighbours as module
from tnlpad.suspects.neighbours import Neighbours, combined, nearest


def clusters(samples=120, classes=3, wrong=0.2, seed=0):
    """Return points around the centres of their classes, given labels and clean ones."""
    generator = np.random.default_rng(seed)
    clean = generator.integers(classes, size=samples)
    given = np.where(generator.random(samples) < wrong, (clean + 1) % classes, clean)
    points = 10 * np.eye(classes)[clean] + generator.normal(size=(samples, classes))
    return points, given, clean


def test_a_sample_is_never_its_own_neighbour():
    points, given, clean = clusters()
    points[:40] = points[0]  # more equal samples than neighbours
    rows = nearest(points, given).rows
    assert not (rows == np.arange(len(given))[:, None]).any()
    assert (clean[rows[40:]] == clean[40:, None]).mean() > 0.9


def test_votes_are_shares_of_labels_with_one_vote_for_the_classes():
    found = Neighbours(rows=np.array([[1, 2], [0, 2], [0, 1], [0, 1]]))
    votes = found.votes(np.array([0, 1, 1, 0]), 3)
    np.testing.assert_allclose(votes[0], [0.5 / 3, 2.5 / 3, 0], atol=1e-6)
    np.testing.assert_allclose(votes.sum(1), 1, atol=1e-6)


def test_the_distance_that_fits_the_labels_is_chosen():
    """A column on a large scale that says nothing hides the others, unless columns are standardised."""
    points, given, clean = clusters()
    noise = np.random.default_rng(1).normal(size=(len(given), 1)) * 1e4
    rows = nearest(np.hstack([points, noise]), given).rows
    assert (clean[rows] == clean[:, None]).mean() > 0.6
    # Lengths that say nothing hide directions, unless rows have the same length.
    lengths = np.exp(np.random.default_rng(1).normal(size=(len(given), 1)) * 2)
    rows = nearest((points - points.mean(0)) * lengths, given).rows
    assert (clean[rows] == clean[:, None]).mean() > 0.9


def test_weights_follow_what_predicts_the_labels():
    points, given, clean = clusters(samples=400)
    votes = nearest(points, given).votes(given, 3)
    blind = np.full((400, 3), 1 / 3, dtype=np.float32)
    rows, (_, of_votes) = combined(blind, votes, given)
    assert of_votes > 0.5
    assert (rows.argmax(1) == clean).mean() > 0.95
    good = (0.7 * np.eye(3)[clean] + 0.1).astype(np.float32)
    rows, (of_good, _) = combined(good, blind, given)
    assert of_good > 0.5
    assert (rows.argmax(1) == clean).all()
    np.testing.assert_allclose(rows.sum(1), 1, atol=1e-5)


def test_of_many_samples_a_part_votes_and_a_part_is_fitted(monkeypatch):
    monkeypatch.setattr(module, "MAX_VOTERS", 60)
    monkeypatch.setattr(module, "MAX_FITTED", 50)
    monkeypatch.setattr("tnlpad.memory.MAX_ROWS_AT_ONCE", 32)
    points, given, clean = clusters()
    found = nearest(points, given)
    assert len(np.unique(found.rows)) <= 60
    assert not (found.rows == np.arange(len(given))[:, None]).any()
    rows, _ = combined(np.full((120, 3), 1 / 3, dtype=np.float32), found.votes(given, 3), given)
    assert (rows.argmax(1) == clean).mean() > 0.9


@pytest.mark.parametrize("samples", [2, 3, 5])
def test_few_samples_have_few_neighbours(samples):
    rows = nearest(np.arange(2.0 * samples).reshape(samples, 2), np.arange(samples) % 2).rows
    assert rows.shape == (samples, 1)
