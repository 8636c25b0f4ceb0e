import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.data.own_files import class_folders, picture, save
from tests.runs.test_own_data import blobs
from tnlpad.data import load
from tnlpad.data.own import open_dataset
from tnlpad.data.stream import decode
from tnlpad.records.samples import read_samples
from tnlpad.runs.config import configure
from tnlpad.runs.predict import class_probabilities, inputs_of_catalogue, inputs_of_own, predictions
from tnlpad.runs.run import run
from tnlpad.runs.shipped import load_shipped


def pictures(path, channels):
    """An archive of small images, higher than wide."""
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (200, channels, 9, 8), dtype=np.uint8)
    np.savez(path, images=images, labels=np.arange(200) % 3)
    return path


def gray_folders(root):
    for number in range(40):
        save(root / ("cat" if number % 2 else "dog") / f"{number}.png", picture(number, mode="L"))
    return root


STREAMED = {"resize": 12, "crop": 9, "crop_padding": 0}
KINDS = {
    "features": (lambda folder: blobs(folder / "rows.npz", samples=200), {"folds": None, "repeats": None}),
    "gray images": (lambda folder: pictures(folder / "gray.npz", 1), {}),
    "images in colour": (lambda folder: pictures(folder / "colour.npz", 3), {}),
    "files": (lambda folder: class_folders(folder / "data", count=20), {"resize": 10}),
    "gray files": (lambda folder: gray_folders(folder / "data"), {"resize": 10}),
    "streamed files": (lambda folder: class_folders(folder / "data", count=20), STREAMED),
    "gray streamed files": (lambda folder: gray_folders(folder / "data"), STREAMED),
}


def loss(probabilities, labels):
    return -probabilities.double()[torch.arange(len(labels)), torch.as_tensor(labels)].log().mean().item()


@pytest.mark.parametrize("kind", KINDS)
def test_own_samples_are_prepared_as_those_that_chose_the_epoch(kind, tmp_path):
    """So the shipped network has the loss on them that the record says."""
    make, settings = KINDS[kind]
    own = open_dataset(make(tmp_path))
    settings = {"epochs": 3, "batch_size": 8, "validation_fraction": 0.3, **settings}
    folder = run(configure(own.shape, settings=settings), tmp_path / "runs", own=own)
    shipped = load_shipped(folder)
    probabilities = torch.cat(list(class_probabilities(shipped, inputs_of_own(own, shipped))))
    samples = read_samples(folder.path)
    held_out = [row for row, part in enumerate(samples["part"]) if part == "validation"]
    assert len(held_out) > 10
    expected = folder.summary()["chosen"]["judged"]["sigma"]["validation_loss"]
    labels = np.array(samples["label"])[held_out]
    assert loss(probabilities[held_out], labels) == pytest.approx(expected, rel=1e-4)


def test_the_test_images_of_a_dataset_are_prepared_as_in_the_run(tmp_path):
    config = configure("digits", noise="symmetric:0.4", settings={"epochs": 2, "batch_size": 256})
    folder = run(config, tmp_path)
    shipped = load_shipped(folder)
    inputs = inputs_of_catalogue("digits", shipped, None)
    probabilities = torch.cat(list(class_probabilities(shipped, inputs)))
    expected = folder.summary()["chosen"]["judged"]["sigma"]["test_loss"]
    assert loss(probabilities, load("digits", split="test").labels) == pytest.approx(expected, rel=1e-4)


def test_image_files_are_decoded_in_threads_and_progress_is_told(tmp_path, monkeypatch):
    own = open_dataset(class_folders(tmp_path / "data", count=100))
    folder = run(configure(own.shape, settings={"epochs": 1, "resize": 8}), tmp_path / "runs", own=own)
    inputs = inputs_of_own(own, shipped := load_shipped(folder))
    threads, told = set(), []

    def noted(*arguments, **options):
        threads.add(threading.current_thread())
        return decode(*arguments, **options)

    reporter = SimpleNamespace(progress=lambda *words: told.append(words))
    monkeypatch.setattr("tnlpad.runs.predict.decode", noted)
    assert [each.id for each in predictions(shipped, inputs, reporter)] == list(own.ids)
    assert threads
    assert threading.main_thread() not in threads
    assert told == [("Predicting", 128, 200), ("Predicting", 200, 200)]
