import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.decomposition import PCA

from tests.review.own_run import own_run
from tests.review.served import served
from tests.review.test_samples import texts
from tests.suspects.made import made_run
from tnlpad.data.own import open_dataset
from tnlpad.features.table import TableEncoder
from tnlpad.features.text import TextEncoder
from tnlpad.records.store import RunFolder
from tnlpad.review import maps
from tnlpad.review.maps import principal_components
from tnlpad.suspects.listing import rank_run


@pytest.mark.parametrize("width", [1, 2, 5])
def test_components_are_those_of_scikit_learn(width, monkeypatch):
    monkeypatch.setattr(maps, "ROWS_AT_ONCE", 7)
    rows = np.random.default_rng(0).normal(size=(50, width)) * np.arange(1, width + 1)
    found = principal_components(lambda at: rows[at], 50, 2)
    expected = PCA(min(2, width)).fit_transform(rows)
    signs = np.sign((found * expected).sum(0))
    np.testing.assert_allclose(found, expected * signs, atol=1e-9)


@pytest.mark.parametrize("limit", ["MAX_COLUMNS", "MAX_FITTED"])
def test_many_columns_are_reduced_and_many_rows_are_fitted_in_part(monkeypatch, limit):
    monkeypatch.setattr(maps, limit, 20)
    generator = np.random.default_rng(0)
    labels = generator.integers(2, size=100)
    rows = generator.normal(size=(100, 50)) + 20 * labels[:, None]
    found = principal_components(lambda at: rows[at], 100, 2)
    assert abs(np.corrcoef(found[:, 0], labels)[0, 1]) > 0.95


def mapped(client):
    points = np.frombuffer(client.get("map?kind=pca"), "<f4").reshape(2, -1)
    assert client.get("map?kind=pca") == points.tobytes()
    assert np.isfinite(points).all()
    assert np.abs(points).max(1).tolist() == [1, 1]
    return points


def separated(points, labels):
    """Share of samples whose class has the nearest centre."""
    centres = np.stack([points[:, labels == label].mean(1) for label in np.unique(labels)])
    return (np.linalg.norm(points.T[:, None] - centres, axis=2).argmin(1) == labels).mean()


@pytest.mark.parametrize("classes", [2, 3])
def test_samples_of_a_class_lie_together(tmp_path, classes):
    made_run(tmp_path / "runs" / "made", rate=0.05, sharpness=8.0, classes=classes)
    run = rank_run(RunFolder(tmp_path / "runs" / "made"))
    with served(tmp_path / "runs" / "made") as client:
        assert client.document("about")["maps"][0] == "pca"
        points = mapped(client)
    assert points.shape == (2, 600)
    assert separated(points, run.ranking.evidence.given[run.ranking.order]) > 0.9


def rows_of_two_groups(path, *, gaps):
    """Write numbers that fall into two groups, whatever the labels are; return the group of each row."""
    generator = np.random.default_rng(1)
    group = generator.integers(2, size=60)
    numbers = generator.normal(size=(60, 4)) + 20 * group[:, None]
    lines = [",".join(f"{each:.3f}" for each in row) + f",{'xy'[k % 2]}" for k, row in enumerate(numbers)]
    if gaps:
        lines[3] = "," + lines[3].split(",", 1)[1]
    path.write_text("\n".join(["a,b,c,d,label", *lines]))
    return group


def spread_by_group(folder, group):
    """Whether one of the two axes tells the groups apart."""
    run = rank_run(RunFolder(folder))
    with served(folder) as client:
        points = mapped(client)
    ordered = np.asarray(group)[run.ranking.order]
    return max(abs(np.corrcoef(axis, ordered)[0, 1]) for axis in points) > 0.7


def test_rows_of_numbers_and_tables_are_mapped_by_their_columns(tmp_path):
    group = rows_of_two_groups(tmp_path / "rows.csv", gaps=False)
    own_run(tmp_path / "runs" / "rows", tmp_path / "rows.csv")
    assert spread_by_group(tmp_path / "runs" / "rows", group)
    group = rows_of_two_groups(tmp_path / "table.csv", gaps=True)
    folder = tmp_path / "runs" / "table"
    own_run(folder, tmp_path / "table.csv")
    TableEncoder.fit(open_dataset(tmp_path / "table.csv").table).to_files(folder / "encoder")
    assert spread_by_group(folder, group)


def test_texts_are_mapped_by_their_encoder(tmp_path):
    texts(tmp_path / "texts.csv")
    folder = tmp_path / "runs" / "texts"
    own = own_run(folder, tmp_path / "texts.csv")
    TextEncoder.fit(own.texts).to_files(folder / "encoder")
    by_words = ["boring" in text for text in own.texts]
    assert spread_by_group(folder, by_words)


def test_umap_is_offered_if_it_is_installed(tmp_path, monkeypatch):
    made_run(tmp_path / "runs" / "made")

    class Fake:
        def __init__(self, **options):
            assert options["n_components"] == 2

        def fit_transform(self, rows):
            assert len(rows) == 600
            return rows[:, :2]

    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=Fake, __spec__=SimpleNamespace()))
    with served(tmp_path / "runs" / "made") as client:
        assert client.document("about")["maps"] == ["pca", "umap"]
        points = np.frombuffer(client.get("map?kind=umap"), "<f4").reshape(2, -1)
    assert np.abs(points).max(1).tolist() == [1, 1]
