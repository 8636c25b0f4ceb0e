import pytest
import torch

from tnlpad.networks import small_resnet


@pytest.mark.parametrize(("size", "last"), [(32, 4), (28, 4), (64, 4), (33, 3)])
def test_large_images_are_halved_once_more(size, last):
    network = small_resnet(image_size=size)
    maps = network.blocks(network.stem(torch.rand(2, 3, size, size)))
    assert maps.shape == (2, 128, last, last)


def test_the_stem_has_the_same_weights_at_every_size():
    small, large = (sum(p.numel() for p in small_resnet(image_size=size).parameters()) for size in (32, 64))
    assert small == large
