import pytest
import torch

from tnlpad.data.augment import Augmentation
from tnlpad.experiments.config import configure
from tnlpad.experiments.prepare.images import augmentation, image_shape


@pytest.mark.parametrize(
    "settings", [{"crop_padding": 2, "flip": False, "cutout": 3}, {"crop_padding": 0, "flip": True, "cutout": 0}]
)
def test_augmentation_is_that_of_the_settings(settings):
    assert augmentation(configure("digits", settings=settings)) == Augmentation(**settings)


def test_the_shape_of_an_input():
    config = configure("digits")
    assert image_shape(config, torch.zeros(2, 3, 5, 7)) == (3, 5, 7)
    assert image_shape(config, torch.zeros(2, 9)) == (9, 1, 1)
