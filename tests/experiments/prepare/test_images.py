import numpy as np
import pytest
import torch

from tnlpad.data.augment import Augmentation
from tnlpad.experiments.config import configure
from tnlpad.experiments.prepare.images import at_once, augmentation, image_shape
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
    assert at_once(configure("digits"), torch.zeros(shape), torch.device(device)) == expected


def test_of_files_fewer_are_shown_at_once():
    files = ImageFiles(paths=("a.jpg",), labels=np.zeros(1, dtype=np.int64), class_names=("a",))
    config = configure("food101")
    assert at_once(config, files, torch.device("cuda")) == 128
    assert at_once(config, files, torch.device("cpu")) == 20  # of 112 pixels a side
