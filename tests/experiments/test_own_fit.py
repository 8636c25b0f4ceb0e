import numpy as np
import pytest

from tests.data.own_files import picture
from tnlpad.data.own import open_dataset
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
    defaults |= {"settings": {"epochs": 1}, "device": "cpu", "keep_data": True, "on_epoch": None}
    return train_on(data, labels, out, **defaults | changes)


@pytest.mark.parametrize("kind", list(CONTENT))
def test_data_are_kept_as_they_can_be_opened_again(kind, tmp_path):
    names = {"ids": [f"sample {row}" for row in range(40)], "class_names": ["zebra", "ant"]}
    folder = trained(CONTENT[kind], LABELS, tmp_path, **names)
    remembered = read_data_file(folder.path)
    own = open_dataset(remembered["path"])
    assert own.shape.fingerprint == remembered["fingerprint"]
    assert own.class_names == ("zebra", "ant")
    assert own.ids[7] == "sample 7"


def test_parts_are_kept(tmp_path):
    datasets = pytest.importorskip("datasets", reason="pip install 'tnlpad[integrations]'")
    columns = {"image": CONTENT["pictures"], "label": LABELS.tolist()}
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["no", "yes"])})
    whole = datasets.Dataset.from_dict(columns, features=features)
    parts = datasets.DatasetDict(
        {"test": whole.select(range(30, 40)), "train": whole.select(range(20)), "val": whole.select(range(20, 30))}
    )
    folder = trained(parts, None, tmp_path)
    assert folder.summary()["samples"] == {"train": 20, "validation": 10, "test": 10}
    remembered = read_data_file(folder.path)
    assert open_dataset(remembered["path"]).shape.fingerprint == remembered["fingerprint"]


def test_nothing_is_kept_unless_asked_for(tmp_path):
    folder = trained(CONTENT["features"], LABELS, tmp_path, keep_data=False)
    assert list(tmp_path.iterdir()) == [folder.path]
    assert (folder.path / "scores.parquet").exists()
