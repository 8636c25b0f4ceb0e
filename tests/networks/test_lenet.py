import pytest
import torch

from tnlpad.networks import lenet


@pytest.mark.parametrize("size", [28, 32])
def test_maps(size):
    network = lenet(image_size=size).eval()
    maps, seen = torch.zeros(1, 1, size, size), []
    for layer in network.body:
        maps = layer(maps)
        seen.append(tuple(maps.shape[1:]))
    assert list(dict.fromkeys(seen)) == [(6, 28, 28), (6, 14, 14), (16, 10, 10), (16, 5, 5), (400,), (120,), (84,)]


def test_a_28_image_is_a_32_image_with_a_border():
    small, large = lenet(), lenet(image_size=32)
    large.load_state_dict(small.state_dict())
    images = torch.rand(2, 1, 28, 28)
    torch.testing.assert_close(small(images), large(torch.nn.functional.pad(images, (2, 2, 2, 2))))


def test_other_sizes_are_refused():
    with pytest.raises(ValueError, match=r"image_size=64.* 28 or 32"):
        lenet(image_size=64)
    with pytest.raises(ValueError, match="The images are 32x32, but this LeNet takes 28x28"):
        lenet()(torch.zeros(1, 1, 32, 32))
