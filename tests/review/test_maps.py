import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.decomposition import PCA

from tests.review.served import served
from tests.suspects.made import made_run
from tnlpad.records.store import RunFolder
from tnlpad.review import maps
from tnlpad.review.maps import make_map, principal_components
from tnlpad.suspects.listing import rank_run


@pytest.mark.parametrize("width", [1, 2, 5])
def test_components_are_those_of_scikit_learn(width, monkeypatch):
    monkeypatch.setattr(maps, "ROWS_AT_ONCE", 7)
    rows = np.random.default_rng(0).normal(size=(50, width)) * np.arange(1, width + 1)
    found = principal_components(lambda start, end: rows[start:end], 50, 2)
    expected = PCA(min(2, width)).fit_transform(rows)
    signs = np.sign((found * expected).sum(0))
    np.testing.assert_allclose(found, expected * signs, atol=1e-9)


def test_many_columns_are_reduced_first(monkeypatch):
    monkeypatch.setattr(maps, "MAX_COLUMNS", 8)
    generator = np.random.default_rng(0)
    labels = generator.integers(2, size=100)
    rows = generator.normal(size=(100, 50)) + 20 * labels[:, None]
    found = principal_components(lambda start, end: rows[start:end], 100, 2)
    assert abs(np.corrcoef(found[:, 0], labels)[0, 1]) > 0.95


def test_samples_of_a_class_lie_together(tmp_path):
    _, _ = made_run(tmp_path / "runs" / "made", rate=0.0, sharpness=8.0)
    run = rank_run(RunFolder(tmp_path / "runs" / "made"))
    given = run.ranking.evidence.given[run.ranking.order]
    with served(tmp_path / "runs" / "made") as client:
        assert client.document("about")["maps"][0] == "pca"
        points = np.frombuffer(client.get("map?kind=pca"), "<f4").reshape(2, -1)
        assert client.get("map?kind=pca") == points.tobytes()
    assert points.shape == (2, 600)
    assert np.abs(points).max() == 1
    centres = np.stack([points[:, given == label].mean(1) for label in range(3)])
    nearest = np.linalg.norm(points.T[:, None] - centres, axis=2).argmin(1)
    assert (nearest == given).mean() > 0.95
    np.testing.assert_array_equal(points, make_map(run, None, "pca"))


def test_umap_is_offered_if_it_is_installed(tmp_path, monkeypatch):
    made_run(tmp_path / "runs" / "made")

    class Fake:
        def __init__(self, **options):
            assert options["n_components"] == 2

        def fit_transform(self, rows):
            assert rows.shape == (600, 3)
            return rows[:, :2]

    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=Fake, __spec__=SimpleNamespace()))
    with served(tmp_path / "runs" / "made") as client:
        assert client.document("about")["maps"] == ["pca", "umap"]
        near, by_pca = (np.frombuffer(client.get(f"map?kind={kind}"), "<f4") for kind in ("umap", "pca"))
        np.testing.assert_allclose(near, by_pca, atol=1e-5)  # the components in single precision
