import torch

from tests.experiments.prepare.file_trees import CLOTHING_LISTS, CPU, small
from tnlpad.data import load
from tnlpad.data.stream import decode
from tnlpad.experiments.prepare import prepare_data, prepare_loader, prepare_sets
from tnlpad.experiments.run import run


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
