import numpy as np

from tests.data.own_files import picture
from tnlpad.experiments.own_fit import train_on
from tnlpad.records.samples import read_data_file

LABELS = np.arange(40) % 2
CONTENT = {
    "images": np.random.default_rng(0).integers(0, 255, (40, 8, 8, 3), dtype=np.uint8),
    "features": np.random.default_rng(0).normal(size=(40, 3)),
    "pictures": [picture(row, size=(12 + row % 3, 10)) for row in range(40)],
}


def trained(data, labels, out, **changes):
    defaults = {"ids": None, "class_names": None, "method": "tnlpad", "network": None, "seed": 1, "weights": None}
    defaults |= {"label": None, "ignore": ()}
    defaults |= {"settings": {"epochs": 1}, "device": "cpu", "keep_data": True, "on_epoch": None}
    return train_on(data, labels, out, **defaults | changes)


def test_nothing_is_kept_unless_asked_for(tmp_path):
    folder = trained(CONTENT["features"], LABELS, tmp_path, keep_data=False)
    assert list(tmp_path.iterdir()) == [folder.path]
    assert (folder.path / "scores.parquet").exists()


def test_data_that_were_moved_are_remembered_where_they_are(tmp_path):
    np.savez(tmp_path / "x.npz", features=CONTENT["features"], labels=LABELS)
    folder = trained(tmp_path / "x.npz", None, tmp_path / "runs")
    (tmp_path / "x.npz").rename(tmp_path / "y.npz")
    assert trained(tmp_path / "y.npz", None, tmp_path / "runs").path == folder.path
    assert read_data_file(folder.path)["path"] == str(tmp_path / "y.npz")
