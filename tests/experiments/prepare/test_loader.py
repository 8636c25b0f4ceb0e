import pytest
import torch

from tests.experiments.prepare.file_trees import CPU, small
from tests.experiments.test_own_data import blobs
from tests.experiments.test_run import content
from tnlpad.data.augment import Augmentation
from tnlpad.data.loader import DeviceLoader
from tnlpad.data.own import open_dataset
from tnlpad.experiments.config import configure
from tnlpad.experiments.own_data import prepare_own_data
from tnlpad.experiments.prepare import prepare_data, prepare_loader
from tnlpad.experiments.run import run
from tnlpad.rng import torch_stream


def test_batches_in_memory_are_those_of_the_settings_and_of_the_seed():
    settings = {"batch_size": 200, "crop_padding": 2, "flip": True, "cutout": 3}
    config = configure("digits", noise="symmetric:0.4", seed=3, settings=settings)
    data = prepare_data(config, None, CPU)
    loader, streams = prepare_loader(config, data, CPU)
    by_hand = DeviceLoader(
        data.train,
        data.given,
        batch_size=200,
        mean=data.normalisation.mean,
        std=data.normalisation.std,
        indices=torch.from_numpy(data.parts.train),
        augmentation=Augmentation(crop_padding=2, flip=True, cutout=3),
        order=torch_stream(3, "order"),
        augment=torch_stream(3, "augment"),
    )
    for ours, expected in zip(loader, by_hand, strict=True):
        assert torch.equal(ours.index, expected.index)
        assert torch.equal(ours.labels, expected.labels)
        assert torch.equal(ours.images, expected.images)
    assert streams["method"].get_state().equal(torch_stream(3, "method").get_state())
    assert (loader.order, loader.augment) == (streams["order"], streams["augment"])  # which a checkpoint saves


def test_rows_that_are_held_out_are_not_trained_on(tmp_path):
    own = open_dataset(blobs(tmp_path / "rows.npz"))
    config = configure(own.shape, seed=3, settings={"batch_size": 7})
    data = prepare_own_data(config, own, CPU)
    loader, streams = prepare_loader(config, data, CPU)
    index = torch.cat([batch.index for batch in loader])
    assert sorted(index.tolist()) == sorted(data.parts.train.tolist())
    assert loader.order is streams["order"]


@pytest.mark.parametrize("flip", [True, False])
def test_images_in_files_are_drawn_from_the_streams_that_are_saved(root, flip):
    config = small(flip=flip)
    loader, streams = prepare_loader(config, prepare_data(config, root, CPU), CPU)
    assert loader.flip is flip
    assert (loader.order, loader.augment) == (streams["order"], streams["augment"])


def test_the_number_of_threads_changes_nothing(root, tmp_path, monkeypatch):
    folders = []
    for threads in (1, 3):
        for module in ("images", "loader"):
            monkeypatch.setattr(f"tnlpad.experiments.prepare.{module}.available_cores", lambda threads=threads: threads)
        folders.append(run(small(), tmp_path / str(threads), root=root))
    assert content(folders[0]) == content(folders[1])


def test_epochs_of_so_many_batches(root):
    config = small(batches_per_epoch=2, batch_size=3)
    data = prepare_data(config, root, CPU)
    loader, _ = prepare_loader(config, data, CPU)
    assert [torch.cat([b.labels for b in loader]).bincount().tolist() for _ in range(2)] == [[2, 2, 2]] * 2
