import numpy as np
import pytest
import torch

from tests.experiments.prepare.file_trees import CLOTHING_LISTS, CPU, small
from tnlpad.data import load
from tnlpad.data.catalogue import find
from tnlpad.data.stream import decode
from tnlpad.experiments.config import configure
from tnlpad.experiments.prepare import prepare_census, prepare_data, prepare_loader, prepare_sets
from tnlpad.experiments.prepare import sets as module
from tnlpad.experiments.run import run
from tnlpad.rng import numpy_stream


def digits(**settings):
    config = configure("digits", noise="symmetric:0.4", seed=3, settings=settings)
    return config, prepare_data(config, None, CPU)


def test_what_is_measured_on_in_memory():
    config, data = digits(crop_padding=2, flip=True)
    sets = prepare_sets(config, data, CPU)
    train, test = load("digits"), load("digits", split="test")
    assert sets.validation.index.tolist() == data.parts.validation.tolist()
    assert sets.validation.labels.tolist() == data.noisy.given[data.parts.validation].tolist()
    assert (sets.validation.labels.numpy() != train.labels[data.parts.validation]).any()  # noisy, as they are given
    assert sets.test.index.tolist() == list(range(len(test.labels)))
    assert sets.test.labels.tolist() == test.labels.tolist()
    mean, std = find("digits").normalisation.mean[0], find("digits").normalisation.std[0]
    for samples, images in ((sets.validation, train.images), (sets.test, test.images), (sets.wrong, train.images)):
        expected = (torch.from_numpy(images)[samples.index].double() / 255 - mean) / std
        torch.testing.assert_close(samples.images_at(samples.index).double(), expected, atol=1e-6, rtol=1e-5)


def test_memorisation_is_measured_on_wrong_labels_trained_on():
    config, data = digits()
    wrong = prepare_sets(config, data, CPU).wrong
    trained_on, given, clean = data.parts.train, data.noisy.given, data.noisy.clean
    assert wrong.index.tolist() == [i for i in trained_on.tolist() if given[i] != clean[i]]
    assert wrong.labels.tolist() == given[wrong.index].tolist()


def test_of_many_wrong_labels_some_are_drawn_by_the_seed(monkeypatch):
    config, data = digits()
    every = prepare_sets(config, data, CPU).wrong.index.numpy()
    monkeypatch.setattr(module, "MEMORISATION_SAMPLES", 20)
    expected = np.sort(numpy_stream(3, "memorisation").choice(every, 20, replace=False))
    assert prepare_sets(config, data, CPU).wrong.index.tolist() == expected.tolist()


@pytest.mark.parametrize(("precision", "bf16"), [("float32", False), ("bfloat16", True)])
def test_a_census_counts_whatever_was_trained_on_or_held_out(precision, bf16):
    config, data = digits(precision=precision)
    census = prepare_census(config, data, CPU, 4)
    assert census.samples.index.tolist() == list(range(len(data.given)))
    assert census.samples.labels.tolist() == data.given.tolist()
    assert (census.num_classes, census.every, census.bf16) == (10, 4, bf16)


def test_what_is_measured_on(root):
    config = small(noise="symmetric:0.5")
    data = prepare_data(config, root, CPU)
    sets = prepare_sets(config, data, CPU)
    train, test = (load("food101", root, split) for split in ("train", "test"))
    assert sets.wrong is sets.correct is None
    assert (data.noisy.given != train.labels).any()
    assert sets.validation.labels.tolist() == data.noisy.given[data.parts.validation].tolist()
    assert sets.test.labels.tolist() == test.labels.tolist()
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    for samples, paths in ((sets.validation, train.paths), (sets.test, test.paths)):
        centre = torch.tensor(decode(paths[samples.index[2]], 9, 8))
        torch.testing.assert_close(samples.images_at(samples.index)[2], (centre / 255 - mean) / std)
    loader, _ = prepare_loader(config, data, CPU)
    batches = list(loader)
    seen = torch.cat([batch.index for batch in batches])
    assert torch.equal(torch.cat([batch.labels for batch in batches]), data.given[seen])
    assert sorted(seen.tolist()) == data.parts.train.tolist()
    assert not set(seen.tolist()) & set(sets.validation.index.tolist())


def test_clothing1m_can_be_validated_on_the_clean_set_published_for_it(clothing, tmp_path):
    config = small(dataset="clothing1m", validation="clean")
    data = prepare_data(config, clothing, CPU)
    assert data.sizes == {"train": 40, "validation": 5, "test": 1}
    validation = prepare_sets(config, data, CPU).validation
    assert validation.labels.tolist() == [number % 14 for number in CLOTHING_LISTS["clean_val"]]
    published = load("clothing1m", clothing, "validation")
    other = prepare_sets(small(dataset="clothing1m"), prepare_data(small(dataset="clothing1m"), clothing, CPU), CPU)
    assert [validation.images_at.paths, other.validation.images_at.paths] == [published.paths, data.train.paths]
    summary = run(config, tmp_path / "runs", root=clothing).summary()
    assert summary["selection"] == "first epoch of the highest clean validation accuracy"
