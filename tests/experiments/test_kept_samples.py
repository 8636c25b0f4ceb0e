import pytest

from tests.experiments.test_own_fit import CONTENT, LABELS, trained
from tnlpad.data.own import open_dataset
from tnlpad.records.samples import read_data_file


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


def test_the_names_of_columns_are_kept(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pip install pandas")
    table = pandas.DataFrame(CONTENT["features"]).add_prefix("column of ")
    folder = trained(table, LABELS, tmp_path)
    remembered = read_data_file(folder.path)
    assert open_dataset(remembered["path"]).columns == tuple(remembered["columns"]) == tuple(table.columns)
