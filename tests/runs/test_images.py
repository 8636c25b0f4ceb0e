from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from tnlpad.data.augment import Augmentation, Augmenter
from tnlpad.runs import images as module
from tnlpad.runs.config import configure
from tnlpad.runs.images import TrainingImages, augmentation, image_shape, inference_batch_size, memory_format
from tnlpad.runs.prepare import prepare_data, prepare_loader, prepare_method
from tnlpad.types import ImageFiles


@pytest.mark.parametrize(
    "settings", [{"crop_padding": 2, "flip": False, "cutout": 3}, {"crop_padding": 0, "flip": True, "cutout": 0}]
)
def test_augmentation_is_that_of_the_settings(settings):
    assert augmentation(configure("digits", settings=settings)) == Augmentation(**settings)


def test_the_shape_of_an_input():
    config = configure("digits")
    assert image_shape(config, torch.zeros(2, 3, 5, 7)) == (3, 5, 7)
    assert image_shape(config, torch.zeros(2, 9)) == (9, 1, 1)


@pytest.mark.parametrize(
    ("shape", "device", "expected"),
    [
        ((2, 3, 64, 64), "cpu", 64),
        ((2, 1, 8, 8), "cpu", 1024),
        ((2, 3, 512, 512), "cpu", 16),
        ((2, 9), "cpu", 1024),
        ((2, 3, 64, 64), "cuda", 1024),
    ],
)
def test_how_many_are_shown_at_once(shape, device, expected):
    assert inference_batch_size(configure("digits"), torch.zeros(shape), torch.device(device)) == expected


def test_of_files_fewer_are_shown_at_once():
    files = ImageFiles(paths=("a.jpg",), labels=np.zeros(1, dtype=np.int64), class_names=("a",))
    config = configure("food101")
    assert inference_batch_size(config, files, torch.device("cuda")) == 128
    assert inference_batch_size(config, files, torch.device("cpu")) == 20  # of 112 pixels a side


CPU = torch.device("cpu")


@pytest.mark.parametrize(("device", "last"), [("cpu", False), ("cuda", True)])
def test_the_layout_is_that_of_the_run_or_of_the_device(device, last):
    config = configure("cifar10")
    for setting, expected in ((None, last), (True, True), (False, False)):
        found = memory_format(replace(config, channels_last=setting), torch.device(device))
        assert found == (torch.channels_last if expected else torch.contiguous_format)


@pytest.fixture
def images():
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, (40, 1, 8, 8), generator=generator, dtype=torch.uint8)


def training_images(images, batch_size=7, bf16=False, captured=False, layout=torch.contiguous_format, **augmentation):
    augmenter = Augmenter(images, Augmentation(**augmentation), [0.5] * images.shape[1], [0.25] * images.shape[1])
    return TrainingImages(
        augmenter,
        torch.arange(5, len(images)),
        memory_format=layout,
        batch_size=batch_size,
        bf16=bf16,
        captured=captured,
    )


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))


def plain(images):
    return (images.float() / 255 - 0.5) / 0.25


def test_outputs_of_every_sample_trained_on(images):
    """In order and in evaluation mode, whatever the size of the batches; the network stays as it is."""
    net = network()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    found = [training_images(images, size).outputs(net) for size in (7, 35, 100)]
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    net.eval()
    with torch.no_grad():
        expected = net(plain(images[5:]))
    for each in found:
        assert not each.requires_grad
        torch.testing.assert_close(each, expected)


def test_augmented_as_the_rows_say(images):
    source = training_images(images, flip=True)
    rows = source.draw(6, torch.Generator().manual_seed(1))
    assert rows.shape[0] == 6
    assert torch.equal(rows, source.draw(6, torch.Generator().manual_seed(1)))
    rows[:, 2] = torch.tensor([0, 1, 0, 1, 0, 1])
    index = torch.tensor([9, 9, 3, 3, 20, 20])
    expected = plain(images[index])
    expected[1::2] = expected[1::2].flip(3)
    torch.testing.assert_close(source.augmented(index, rows), expected)


def test_batchnorm_statistics_come_and_go(images):
    """Estimated from augmented training images, always the same ones, without a draw from a global stream."""
    net, source = network(), training_images(images)
    before, stream = net[2].running_mean.clone(), torch.get_rng_state()
    seen = []
    for _ in range(2):
        with source.reestimated(net):
            seen.append(net[2].running_mean.clone())
    assert torch.equal(seen[0], seen[1])
    torch.testing.assert_close(seen[0], net[1](net[0](plain(images[5:]))).mean(0))
    assert torch.equal(net[2].running_mean, before)
    assert torch.equal(stream, torch.get_rng_state())


@pytest.mark.parametrize("bf16", [False, True])
def test_passes_over_all_have_the_precision_of_training(images, bf16):
    net, source, seen = network(), training_images(images, bf16=bf16), []
    net[1].register_forward_hook(lambda *found: seen.append(found[-1].dtype))
    source.outputs(net)
    with source.reestimated(net):
        pass
    assert set(seen) == {torch.bfloat16 if bf16 else torch.float32}
    assert len(seen) == 5 + 1  # outputs in batches of 7, and an estimation


@pytest.mark.parametrize(("count", "sizes"), [(128 + 1, [128]), (128 + 2, [128, 2]), (1300, [128] * 10)])
def test_how_many_images_batchnorm_is_estimated_from(count, sizes):
    """One image alone has no variance, and BatchNorm would refuse it; more than some say nothing new."""
    source = training_images(torch.zeros(5 + count, 1, 8, 8, dtype=torch.uint8))
    assert [len(batch) for batch in source._estimation()] == sizes


def test_images_have_the_layout_asked_for():
    images = torch.zeros(8, 3, 4, 4, dtype=torch.uint8)
    source = training_images(images, layout=torch.channels_last)
    rows = source.draw(2, torch.Generator())
    assert source.augmented(torch.tensor([6, 7]), rows).is_contiguous(memory_format=torch.channels_last)


def test_an_estimation_is_not_compiled_for(images, monkeypatch):
    """Its batches are of another size than those of training."""
    entered = []

    @contextmanager
    def compiled_if(wanted):
        entered.append(wanted)
        yield
        entered.append("left")

    monkeypatch.setattr(module, "compiled_if", compiled_if)
    with training_images(images).reestimated(network()):
        assert entered == [False, "left"]  # within the block training may be


def test_a_replayed_pass_is_each_network_s_own_and_its_result_stays(images, monkeypatch):
    class Replayed:
        """Writes every result into the same memory, as a graph does."""

        def __init__(self, function, *, eager_runs):
            self.function, self.memory = function, function()
            assert eager_runs == 1

        def __call__(self):
            return self.memory.copy_(self.function())

    monkeypatch.setattr(module, "Captured", Replayed)
    plain, source = training_images(images), training_images(images, captured=True)
    net, other = network(), network()
    with torch.no_grad():
        other[1].weight.mul_(2)
    expected, found = [], []
    for each in (net, other, net):
        expected.append(plain.outputs(each))
        found.append(source.outputs(each))
        with torch.no_grad():
            each[3].bias.add_(1)  # its weights change between two passes
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert len(source.passes) == 2


def test_of_a_run():
    """The training part of the split, with the run's augmentation, on the images that the loader has."""
    config = configure("digits", noise="symmetric:0.4", method="self", settings={"crop_padding": 1})
    data = prepare_data(config, None, CPU)
    loader, streams = prepare_loader(config, data, CPU)
    source = prepare_method(config, data, streams["method"], CPU).source
    assert torch.equal(source.index, torch.from_numpy(data.parts.train))
    plan = loader.plan()[:10]
    assert torch.equal(source.augmented(plan[:, 0], plan[:, 1:]), loader.batch(plan).images)
