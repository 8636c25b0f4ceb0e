import numpy as np
import pytest

from tests.experiments.prepare.file_trees import CPU, small
from tnlpad.data import CIFAR100_SUPERCLASS, load
from tnlpad.data.errors import DataError
from tnlpad.data.split import legacy_split, split
from tnlpad.experiments.config import configure
from tnlpad.experiments.prepare import data as module
from tnlpad.experiments.prepare import prepare_data
from tnlpad.experiments.run import run
from tnlpad.noise import NoiseDataError, corrupt, instance_dependent, legacy_corrupt, symmetric
from tnlpad.noise.label_file import LabelFile, write_label_file
from tnlpad.rng import numpy_stream
from tnlpad.types import NoisyLabels, RawDataset


def test_labels_and_split_come_from_streams_of_their_own():
    data = prepare_data(configure("digits", noise="symmetric:0.4", seed=3), None, CPU)
    train, test = load("digits"), load("digits", split="test")
    expected = corrupt(train.labels, symmetric(0.4, 10), numpy_stream(3, "noise")).given
    assert data.given.tolist() == data.noisy.given.tolist() == expected.tolist()
    assert data.noisy.clean.tolist() == train.labels.tolist()
    assert data.correct.tolist() == (expected == train.labels).tolist()
    parts = split(len(train.labels), 0.1, numpy_stream(3, "split"))
    assert data.parts.train.tolist() == parts.train.tolist()
    assert data.parts.validation.tolist() == parts.validation.tolist()
    assert data.train.numpy().tobytes() == train.images.tobytes()
    assert data.test.numpy().tobytes() == test.images.tobytes()
    assert data.test_labels.tolist() == test.labels.tolist()


def test_the_authors_streams():
    config = configure("digits", noise="symmetric:0.4", seed=3, settings={"legacy_streams": True})
    data = prepare_data(config, None, CPU)
    clean = load("digits").labels
    assert data.given.tolist() == legacy_corrupt(clean, symmetric(0.4, 10), 3).given.tolist()
    assert data.parts.train.tolist() == legacy_split(len(clean), 0.1, 3).train.tolist()


@pytest.mark.parametrize("inputs", ["raw", "unit"])
def test_what_instance_noise_sees(inputs):
    config = configure("digits", noise="instance:0.4", settings={"instance_inputs": inputs})
    digits = load("digits")
    expected = instance_dependent(digits.labels, digits.images, 0.4, 10, numpy_stream(1, "noise"), inputs)
    assert prepare_data(config, None, CPU).given.tolist() == expected.given.tolist()


@pytest.fixture
def cifar(monkeypatch):
    """All of CIFAR's labels, with images of a pixel."""

    def load_small(name, root, part):
        classes, size = {"cifar10": 10, "cifar100": 100}[name], 50_000 if part == "train" else 10_000
        images = np.zeros((size, 3, 1, 1), dtype=np.uint8)
        return RawDataset(images=images, labels=np.arange(size) % classes, class_names=tuple(map(str, range(classes))))

    monkeypatch.setattr(module, "load", load_small)


def test_cifar100_flips_within_superclasses(cifar):
    data = prepare_data(configure("cifar100", noise="asymmetric:0.4"), None, CPU)
    groups = np.asarray(CIFAR100_SUPERCLASS)
    assert data.correct.double().mean() == pytest.approx(0.6, abs=0.01)
    assert np.array_equal(groups[data.noisy.given], groups[data.noisy.clean])


def test_the_authors_flip_in_sequence(cifar):
    paper, authors = (
        prepare_data(configure("cifar10", noise="asymmetric:0.4", protocol=protocol), None, CPU).noisy
        for protocol in ("paper", "authors")
    )
    assert not np.array_equal(paper.transition, authors.transition)


def test_labels_that_people_gave_belong_to_cifars_images(cifar, monkeypatch):
    people = (np.arange(50_000) + (np.arange(50_000) % 3 == 0)) % 10

    def human_labels(name, kind, root):
        assert (name, kind) == ("cifar10n", "worse")
        return NoisyLabels(given=people, clean=np.arange(50_000) % 10, transition=np.eye(10))

    monkeypatch.setattr(module, "human_labels", human_labels)
    data = prepare_data(configure("cifar10n", noise="human:worse"), None, CPU)
    assert data.given.tolist() == people.tolist()


def test_a_file_of_noise_that_was_changed_is_refused(tmp_path):
    path = tmp_path / "matrix.csv"
    np.savetxt(path, symmetric(0.4, 10), delimiter=",")
    config = configure("digits", noise=f"matrix:{path}")
    prepare_data(config, None, CPU)
    np.savetxt(path, symmetric(0.2, 10), delimiter=",")
    with pytest.raises(NoiseDataError, match="not the file that this run was configured with"):
        prepare_data(config, None, CPU)


def test_a_part_of_the_data_is_another_run(root, tmp_path):
    for settings, message in (
        ({"subset": None}, "has 36 training images here, and this run is one on 75,750, all .* --set subset=36"),
        ({"subset": 35}, "this run is one on 35, as subset says"),
    ):
        with pytest.raises(DataError, match=message):
            run(small(**settings), tmp_path / "runs", root=root)
    assert not (tmp_path / "runs").exists()


def test_clothing1m_is_validated_on_noisy_labels_held_out(clothing, tmp_path):
    config = small(dataset="clothing1m")
    data = prepare_data(config, clothing, CPU)
    assert data.sizes == {"train": 36, "validation": 4, "test": 1}
    assert data.num_classes == 14
    assert run(config, tmp_path / "runs", root=clothing).finished


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ("asymmetric:0.4", "asymmetric noise needs to know which classes are similar"),
        ("human:worse", "have labels given by people"),
    ],
)
def test_noise_that_the_dataset_cannot_have(root, tmp_path, noise, message):
    with pytest.raises(ValueError, match=message):
        run(small(noise=noise), tmp_path, root=root)


def test_labels_from_a_file(root, tmp_path):
    clean = load("food101", root).labels
    given = (clean + 1) % 3
    noisy = NoisyLabels(given=given, clean=clean, transition=np.roll(np.eye(3), 1, axis=1))
    path = tmp_path / "labels.npz"
    write_label_file(path, LabelFile(noisy=noisy, dataset="food101", noise="matrix", seed=1, protocol="paper"))
    data = prepare_data(small(noise=str(path)), root, CPU)
    assert data.given.tolist() == given.tolist()
    assert data.correct is None
