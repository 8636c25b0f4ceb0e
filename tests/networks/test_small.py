import pytest
import torch

from tnlpad.networks.small import MLP, SmallCNN, mlp, small_cnn, small_resnet


def test_shapes_and_size():
    network = small_cnn()
    images = torch.rand(5, 1, 8, 8)
    assert network(images).shape == (5, 10)
    assert network.features(images).shape == (5, 128)
    # 144 + 4,608 convolution weights, 2·16 + 2·32 of the normalisation, 128·128 + 128, 128·10 + 10.
    assert sum(p.numel() for p in network.parameters()) == 22_650


def test_an_image_is_evaluated_by_itself():
    network = SmallCNN(width=8, hidden=16)
    images = torch.rand(6, 1, 8, 8)
    torch.testing.assert_close(network.train()(images)[:2], network.eval()(images[:2]))


@pytest.mark.parametrize("size", [(4, 8), (8, 9), (28, 28)])
def test_other_sizes_are_refused(size):
    with pytest.raises(ValueError, match=f"The images are {size[0]}x{size[1]}, but SmallCNN takes 8x8"):
        small_cnn()(torch.zeros(1, 1, *size))


@pytest.mark.parametrize(("size", "last"), [(32, 4), (28, 4), (64, 4), (33, 3)])
def test_large_images_are_halved_once_more(size, last):
    network = small_resnet(image_size=size)
    maps = network.blocks(network.stem(torch.rand(2, 3, size, size)))
    assert maps.shape == (2, 128, last, last)


def test_the_stem_has_the_same_weights_at_every_size():
    small, large = (sum(p.numel() for p in small_resnet(image_size=size).parameters()) for size in (32, 64))
    assert small == large


def test_the_mlp_takes_rows_and_images():
    network = mlp(num_classes=4, in_channels=3, image_size=2)
    images = torch.rand(5, 3, 2, 2)
    assert network(images).shape == (5, 4)
    torch.testing.assert_close(network(images.flatten(1)), network(images))


def test_the_mlp_evaluates_each_sample_by_itself():
    network = MLP(in_channels=6, hidden=16)
    rows = torch.rand(6, 6)
    torch.testing.assert_close(network.train()(rows)[:2], network.eval()(rows[:2]))


def test_the_mlp_refuses_other_sizes():
    with pytest.raises(ValueError, match="Samples have 5 numbers, but this MLP takes 6"):
        mlp(in_channels=6)(torch.rand(1, 5))
