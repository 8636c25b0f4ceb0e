from dataclasses import replace

import numpy as np
import pytest
import torch

from tnlpad.experiments.demo.config import DemoConfig
from tnlpad.experiments.demo.task import DIGITS, digits


def rows(images):
    return {image.numpy().tobytes() for image in images}


def test_the_parts_of_a_seed_are_disjoint_and_complete(raw):
    data = digits(raw, DemoConfig(), 1)
    parts = [data.train_images, data.validation_images, data.test_images]
    assert [len(part) for part in parts] == [1000, 300, 497]
    # Every image of the bundled digits differs from all others, so that its pixels name it.
    assert len(set.union(*map(rows, parts))) == DIGITS == len(raw.labels)
    assert data.train_images.shape[1:] == (1, 8, 8)
    assert data.train_images.min() == 0
    assert data.train_images.max() == 1


def test_test_labels_are_clean_and_the_others_are_wrong_as_often_as_asked(raw):
    data = digits(raw, DemoConfig(), 1)
    truth = {(image / np.float32(16)).tobytes(): label for image, label in zip(raw.images, raw.labels, strict=True)}

    def share_wrong(images, labels):
        return np.mean([truth[i.numpy().tobytes()] != y for i, y in zip(images, labels.tolist(), strict=True)])

    assert share_wrong(data.test_images, data.test_labels) == 0
    assert share_wrong(data.train_images, data.train_labels) == pytest.approx(0.4, abs=4 * np.sqrt(0.24 / 1000))
    assert share_wrong(data.validation_images, data.validation_labels) == pytest.approx(
        0.4, abs=4 * np.sqrt(0.24 / 300)
    )
    assert share_wrong(data.wrong_images, data.wrong_labels) == 1
    assert len(data.wrong_labels) == round(1000 * share_wrong(data.train_images, data.train_labels))
    assert rows(data.wrong_images) <= rows(data.train_images)


def test_seeds_change_split_and_noise(raw, tiny_config):
    first, again, other = (digits(raw, tiny_config, seed) for seed in (1, 1, 2))
    assert torch.equal(first.train_labels, again.train_labels)
    assert torch.equal(first.train_images, again.train_images)
    assert not torch.equal(first.train_images, other.train_images)
    assert not torch.equal(first.train_labels, other.train_labels)


def test_some_digits_must_be_left_for_testing(raw):
    with pytest.raises(ValueError, match="leave none for testing"):
        digits(raw, replace(DemoConfig(), train_size=1797), 1)
