import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from tests.data.own_files import picture
from tnlpad.data.errors import DataError
from tnlpad.data.own.in_memory import holds_labels, open_samples

IMAGES = np.random.default_rng(0).integers(0, 255, (20, 8, 8), dtype=np.uint8)
LABELS = np.arange(20) % 2


class Pairs(Dataset):
    """As torchvision's are: images of Pillow and numbers, with the names of the classes."""

    classes = ["cat", "dog"]  # noqa: RUF012

    def __init__(self, samples=24):
        self.samples = samples

    def __len__(self):
        return self.samples

    def __getitem__(self, row):
        return picture(row), row % 2


def test_bad_datasets_are_told():
    class Alone(Pairs):
        def __getitem__(self, row):
            return picture(row)

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(())

    with pytest.raises(DataError, match=r"data\[0\] is a Image: a dataset gives a pair"):
        open_samples(Alone())
    with pytest.raises(DataError, match="Stream without a length"):
        open_samples(Stream())
    with pytest.raises(DataError, match="class_names are given, and a Pairs has its own"):
        open_samples(Pairs(), class_names=["a", "b"])
    with pytest.raises(DataError, match="data holds no sample"):
        open_samples(Pairs(samples=0))


def test_a_dataset_of_pictures_has_names_and_sizes():
    own = open_samples(Pairs())
    assert own.class_names == ("cat", "dog")
    assert own.labels.tolist() == [0, 1] * 12
    assert (own.shape.kind, own.shape.height) == ("files", 10)
    assert holds_labels(Pairs())


def test_a_dataset_of_tensors_is_arrays():
    own = open_samples(TensorDataset(torch.from_numpy(IMAGES)[:, None], torch.from_numpy(LABELS)))
    assert own.shape == open_samples(IMAGES, LABELS).shape


def test_parts_of_one_name_go_together_and_none_at_all_are_told_of():
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"a": [1.0, 2.0], "label": [0, 1]})
    own = open_samples(datasets.DatasetDict(train=rows, val=rows, valid=rows))
    assert (own.shape.samples, own.shape.validation) == (6, 4)
    with pytest.raises(DataError, match="data holds no sample"):
        open_samples(datasets.DatasetDict())


def test_datasets_that_are_read_once_or_empty_are_told_of():
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"a": [1.0, 2.0], "label": [0, 1]})
    with pytest.raises(DataError, match="data is a IterableDataset, which is read once: load it without streaming"):
        open_samples(rows.to_iterable_dataset())
    with pytest.raises(DataError, match="data holds no sample in test: give a dataset that has some"):
        open_samples(datasets.DatasetDict(train=rows, test=rows.select([])))


def test_a_dataset_to_predict_on_needs_no_labels():
    class Alone(Pairs):
        def __getitem__(self, row):
            return picture(row)

    for dataset in (Pairs(), Alone()):
        assert open_samples(dataset, labelled=False).labels.tolist() == [-1] * 24


def test_the_wanted_columns_of_a_hugging_face_dataset():
    datasets = pytest.importorskip("datasets", reason="pip install 'tnlpad[integrations]'")
    data = datasets.Dataset.from_dict({"text": ["p", "q"], "b": [3, 4], "a": [1, 2]})
    own = open_samples(data, labelled=False, columns=("a", "b"))
    assert (own.columns, own.features.tolist()) == (("a", "b"), [[1, 3], [2, 4]])
