import pytest
import torch

from tnlpad.networks import MLP, mlp


def test_rows_and_images_alike():
    network = mlp(num_classes=4, in_channels=3, image_size=2)
    images = torch.rand(5, 3, 2, 2)
    assert network(images).shape == (5, 4)
    torch.testing.assert_close(network(images.flatten(1)), network(images))


def test_a_sample_is_judged_by_itself():
    network = MLP(in_channels=6, hidden=16)
    rows = torch.rand(6, 6)
    torch.testing.assert_close(network.train()(rows)[:2], network.eval()(rows[:2]))


def test_other_sizes_are_refused():
    with pytest.raises(ValueError, match="Samples have 5 numbers, but this MLP takes 6"):
        mlp(in_channels=6)(torch.rand(1, 5))
