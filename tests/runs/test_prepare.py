import hashlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.data.own_files import class_folders
from tests.runs.file_trees import CLASSES, CLOTHING_LISTS, CPU, small
from tests.runs.test_own_data import blobs
from tests.runs.test_run import content
from tnlpad.core.decomposition import Decomposition
from tnlpad.data import CIFAR100_SUPERCLASS, load
from tnlpad.data.augment import Augmentation
from tnlpad.data.catalogue import find
from tnlpad.data.loader import DeviceLoader
from tnlpad.data.own import open_dataset
from tnlpad.data.split import legacy_split, split
from tnlpad.data.stream import decode
from tnlpad.errors import DataError
from tnlpad.methods import METHODS
from tnlpad.networks import build
from tnlpad.noise import NoiseDataError, corrupt, instance_dependent, legacy_corrupt, symmetric
from tnlpad.noise.files import LabelFile, write_label_file
from tnlpad.rng import global_torch_stream, numpy_stream, torch_stream
from tnlpad.runs import prepare as module
from tnlpad.runs.config import configure
from tnlpad.runs.own_data import prepare_own_data
from tnlpad.runs.prepare import (
    _check_forward,
    build_network,
    prepare_data,
    prepare_loader,
    prepare_method,
    prepare_sets,
    prepare_statistics,
    scored_in_bf16,
)
from tnlpad.runs.run import run
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

    def load_small(name, root, part, resize=None):
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
    with pytest.raises(NoiseDataError, match="has changed since"):
        prepare_data(config, None, CPU)


def test_a_part_of_the_data_is_another_run(root, tmp_path):
    for settings, message in (
        ({"subset": None}, r"has 36 training images here, but this run needs 75,750 .* --set subset=36"),
        ({"subset": 35}, "this run needs 35 "),
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
        ("asymmetric:0.4", "asymmetric"),
        ("human:worse", "human labels exist for"),
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


def test_batches_in_memory_are_those_of_the_settings_and_of_the_seed():
    settings = {"batch_size": 200, "crop_padding": 2, "flip": True, "cutout": 3}
    config = configure("digits", noise="symmetric:0.4", seed=3, settings=settings)
    data = prepare_data(config, None, CPU)
    loader, streams = prepare_loader(config, data, CPU)
    by_hand = DeviceLoader(
        data.train,
        data.given,
        batch_size=200,
        mean=data.normalisation.mean,
        std=data.normalisation.std,
        indices=torch.from_numpy(data.parts.train),
        augmentation=Augmentation(crop_padding=2, flip=True, cutout=3),
        order=torch_stream(3, "order"),
        augment=torch_stream(3, "augment"),
    )
    for ours, expected in zip(loader, by_hand, strict=True):
        assert torch.equal(ours.index, expected.index)
        assert torch.equal(ours.labels, expected.labels)
        assert torch.equal(ours.images, expected.images)
    assert streams["method"].get_state().equal(torch_stream(3, "method").get_state())
    assert (loader.order, loader.augment) == (streams["order"], streams["augment"])  # which a checkpoint saves


def test_rows_that_are_held_out_are_not_trained_on(tmp_path):
    own = open_dataset(blobs(tmp_path / "rows.npz"))
    config = configure(own.shape, seed=3, settings={"batch_size": 7})
    data = prepare_own_data(config, own, CPU)
    loader, streams = prepare_loader(config, data, CPU)
    index = torch.cat([batch.index for batch in loader])
    assert sorted(index.tolist()) == sorted(data.parts.train.tolist())
    assert loader.order is streams["order"]


@pytest.mark.parametrize("flip", [True, False])
def test_images_in_files_are_drawn_from_the_streams_that_are_saved(root, flip):
    config = small(flip=flip)
    loader, streams = prepare_loader(config, prepare_data(config, root, CPU), CPU)
    assert loader.flip is flip
    assert (loader.order, loader.augment) == (streams["order"], streams["augment"])


def test_the_number_of_threads_changes_nothing(root, tmp_path, monkeypatch):
    folders = []
    for threads in (1, 3):
        for place in ("images", "prepare"):
            monkeypatch.setattr(f"tnlpad.runs.{place}.available_cores", lambda threads=threads: threads)
        folders.append(run(small(), tmp_path / str(threads), root=root))
    assert content(folders[0]) == content(folders[1])


def test_epochs_of_so_many_batches(root):
    config = small(batches_per_epoch=2, batch_size=3)
    data = prepare_data(config, root, CPU)
    loader, _ = prepare_loader(config, data, CPU)
    assert [torch.cat([b.labels for b in loader]).bincount().tolist() for _ in range(2)] == [[2, 2, 2]] * 2


def digits(**settings):
    config = configure("digits", noise="symmetric:0.4", seed=3, settings=settings)
    return config, prepare_data(config, None, CPU)


def test_what_is_measured_on_in_memory():
    config, data = digits(crop_padding=2, flip=True)
    sets = prepare_sets(config, data, CPU)
    train, test = load("digits"), load("digits", split="test")
    assert sets.validation.index.tolist() == data.parts.validation.tolist()
    assert sets.validation.labels.tolist() == data.noisy.given[data.parts.validation].tolist()
    assert (sets.validation.labels.numpy() != train.labels[data.parts.validation]).any()  # noisy, as they are given
    assert sets.test.index.tolist() == list(range(len(test.labels)))
    assert sets.test.labels.tolist() == test.labels.tolist()
    mean, std = find("digits").normalisation.mean[0], find("digits").normalisation.std[0]
    for samples, images in ((sets.validation, train.images), (sets.test, test.images), (sets.wrong, train.images)):
        expected = (torch.from_numpy(images)[samples.index].double() / 255 - mean) / std
        torch.testing.assert_close(samples.images_at(samples.index).double(), expected, atol=1e-6, rtol=1e-5)


def test_memorisation_is_measured_on_wrong_labels_trained_on():
    config, data = digits()
    wrong = prepare_sets(config, data, CPU).wrong
    trained_on, given, clean = data.parts.train, data.noisy.given, data.noisy.clean
    assert wrong.index.tolist() == [i for i in trained_on.tolist() if given[i] != clean[i]]
    assert wrong.labels.tolist() == given[wrong.index].tolist()


def test_of_many_wrong_labels_some_are_drawn_by_the_seed(monkeypatch):
    config, data = digits()
    every = prepare_sets(config, data, CPU).wrong.index.numpy()
    monkeypatch.setattr(module, "MEMORISATION_SAMPLES", 20)
    expected = np.sort(numpy_stream(3, "memorisation").choice(every, 20, replace=False))
    assert prepare_sets(config, data, CPU).wrong.index.tolist() == expected.tolist()


@pytest.mark.parametrize(("precision", "bf16"), [("float32", False), ("bfloat16", True)])
def test_statistics_are_of_all_samples_trained_on_or_held_out(precision, bf16):
    config, data = digits(precision=precision)
    statistics = prepare_statistics(config, data, CPU, 4)
    assert statistics.samples.index.tolist() == list(range(len(data.given)))
    assert statistics.samples.labels.tolist() == data.given.tolist()
    assert (statistics.num_classes, statistics.every, statistics.bf16) == (10, 4, bf16)


@pytest.mark.parametrize("supported", [True, False])
def test_images_of_users_are_scored_in_bfloat16_where_the_processor_multiplies_it(supported, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: supported)
    own = open_dataset(class_folders(tmp_path / "data", count=10))
    config = configure(own.shape, device="cpu")
    data = prepare_own_data(config, own, CPU)
    assert prepare_statistics(config, data, CPU, 1).bf16 is supported
    assert not scored_in_bf16(replace(config, channels_last=None), CPU)  # begun by an earlier version
    assert not scored_in_bf16(config, torch.device("cuda"))
    assert scored_in_bf16(replace(config, channels_last=None, precision="bfloat16"), CPU)
    published = configure("cifar10", noise="symmetric:0.4", settings={"channels_last": True})
    assert not scored_in_bf16(published, CPU)


def test_what_is_measured_on(root):
    config = small(noise="symmetric:0.5")
    data = prepare_data(config, root, CPU)
    sets = prepare_sets(config, data, CPU)
    train, test = (load("food101", root, split) for split in ("train", "test"))
    assert sets.wrong is sets.correct is None
    assert (data.noisy.given != train.labels).any()
    assert sets.validation.labels.tolist() == data.noisy.given[data.parts.validation].tolist()
    assert sets.test.labels.tolist() == test.labels.tolist()
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    for samples, paths in ((sets.validation, train.paths), (sets.test, test.paths)):
        centre = torch.tensor(decode(paths[samples.index[2]], 9, 8))
        torch.testing.assert_close(samples.images_at(samples.index)[2], (centre / 255 - mean) / std)
    loader, _ = prepare_loader(config, data, CPU)
    batches = list(loader)
    seen = torch.cat([batch.index for batch in batches])
    assert torch.equal(torch.cat([batch.labels for batch in batches]), data.given[seen])
    assert sorted(seen.tolist()) == data.parts.train.tolist()
    assert not set(seen.tolist()) & set(sets.validation.index.tolist())


def test_clothing1m_can_be_validated_on_the_clean_set_published_for_it(clothing, tmp_path):
    config = small(dataset="clothing1m", validation="clean")
    data = prepare_data(config, clothing, CPU)
    assert data.sizes == {"train": 40, "validation": 5, "test": 1}
    validation = prepare_sets(config, data, CPU).validation
    assert validation.labels.tolist() == [number % 14 for number in CLOTHING_LISTS["clean_val"]]
    published = load("clothing1m", clothing, "validation")
    other = prepare_sets(small(dataset="clothing1m"), prepare_data(small(dataset="clothing1m"), clothing, CPU), CPU)
    assert list(validation.images_at.images.store.paths) == list(published.paths)
    assert list(other.validation.images_at.images.store.paths) == list(data.train.paths)
    summary = run(config, tmp_path / "runs", root=clothing).summary()
    assert summary["selection"] == "first epoch of the highest clean validation accuracy"


def write_weights(root, network):
    folder = root / "weights"
    folder.mkdir(exist_ok=True)
    torch.save(network.state_dict(), folder / "some.pth")
    digest = hashlib.sha256((folder / "some.pth").read_bytes()).hexdigest()
    return (folder / "some.pth").rename(folder / f"some-{digest[:8]}.pth")


def other_network(num_classes=5):
    with torch.random.fork_rng():
        return build("small_cnn", num_classes=num_classes, in_channels=3)


def prepared(config, root):
    data = prepare_data(config, root, CPU)
    return prepare_method(config, data, torch.Generator(), CPU, root)


def test_a_run_begins_with_the_weights_of_the_file(root, tmp_path):
    source = other_network()
    file = write_weights(root, source)
    method = prepared(small(pretrained=file.name), root)
    state = method.network.state_dict()
    for key, value in source.state_dict().items():
        if key.startswith("classifier."):
            assert len(state[key]) == len(CLASSES)
        else:
            assert torch.equal(state[key], value)
    (optimizer,) = method.optimizers
    assert isinstance(optimizer, Decomposition)
    assert optimizer.norms()["gamma"] == 0
    assert run(small(pretrained=file.name), tmp_path / "runs", root=root).finished


def test_two_networks_begin_alike_but_for_their_last_layers(root):
    method = prepared(small("coteaching", pretrained=write_weights(root, other_network()).name), root)
    first, second = (network.state_dict() for network in method.networks)
    different = {key for key in first if not torch.equal(first[key], second[key])}
    assert different == {"classifier.weight", "classifier.bias"}


def test_a_file_for_the_same_classes_is_taken_whole(root):
    source = other_network(num_classes=3)
    method = prepared(small("standard", pretrained=write_weights(root, source).name), root)
    assert all(torch.equal(value, source.state_dict()[key]) for key, value in method.network.state_dict().items())


def wrong_digest(file):
    return file.rename(file.with_name("some-00000000.pth"))


def garbage(file):
    content = b"no weights"
    file.write_bytes(content)
    return file.rename(file.with_name(f"some-{hashlib.sha256(content).hexdigest()[:8]}.pth"))


def of_another_network(file):
    with torch.random.fork_rng():
        return write_weights(file.parent.parent, build("lenet"))


def missing(file):
    file.unlink()
    return file


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (wrong_digest, "does not begin with the 00000000 of its name"),
        (garbage, "is damaged, or holds more than tensors"),
        (of_another_network, "belongs to another network"),
        (missing, r"weights.some-\w+\.pth is missing.* --set pretrained=none"),
    ],
)
def test_a_file_that_is_not_the_one_leaves_no_trace(root, tmp_path, change, message):
    name = change(write_weights(root, other_network())).name
    with pytest.raises(DataError, match=message):
        run(small(pretrained=name), tmp_path / "runs", root=root)
    assert not (tmp_path / "runs").exists()


def test_a_second_random_draw_does_not_go_with_weights(root, tmp_path):
    name = write_weights(root, other_network()).name
    with pytest.raises(ValueError, match="standard_2x adds a second random draw"):
        run(small("standard_2x", pretrained=name), tmp_path, root=root)


def test_every_network_is_tried_on_an_image(monkeypatch):
    monkeypatch.setattr(module, "build_network", lambda *_: torch.nn.Conv2d(1, 1, 9))
    config = configure("digits")
    with pytest.raises(ValueError, match=r"small_cnn cannot take images of 1 × 8 × 8 .*another network"):
        module.prepare_network(config, prepare_data(config, None, CPU), 0, CPU, None, None)


def test_a_trial_leaves_no_trace_in_the_network():
    network = torch.nn.BatchNorm2d(1)
    _check_forward("norm", network, torch.ones(1, 1, 8, 8))
    assert network.training
    assert (network.running_mean.item(), network.num_batches_tracked.item()) == (0.0, 0)


def test_weights_that_lie_elsewhere_must_be_those_that_were_meant(root, tmp_path):
    """Whatever the file is called there."""
    source, elsewhere = other_network(num_classes=3), tmp_path / "mine.pth"
    file = write_weights(root, source)
    file.rename(elsewhere)
    config = small("standard", pretrained=file.name)
    data = prepare_data(config, root, CPU)
    state = prepare_method(config, data, torch.Generator(), CPU, root, elsewhere).network.state_dict()
    assert all(torch.equal(state[key], value) for key, value in source.state_dict().items())
    torch.save(other_network(num_classes=3).state_dict() | {"classifier.bias": torch.ones(3)}, elsewhere)
    with pytest.raises(DataError, match=r"cannot start from .*mine\.pth"):
        prepare_method(config, data, torch.Generator(), CPU, root, elsewhere)


@pytest.mark.parametrize("protocol", ["paper", "authors"])
def test_the_stem_is_that_of_the_protocol(protocol):
    config = configure("cifar10", protocol=protocol)
    with torch.random.fork_rng(), torch.device("meta"):
        network = build_network(config, (3, 32, 32), 10)
    first = next(module for module in network.modules() if isinstance(module, torch.nn.Conv2d))
    assert first.padding == (config.stem_padding,) * 2 == {"paper": (1, 1), "authors": (0, 0)}[protocol]


METHOD_CPU = torch.device("cpu")
SETTINGS = {
    "c2": 0.123,
    "epochs": 7,
    "learning_rate": 0.02,
    "momentum": 0.3,
    "weight_decay": 0.04,
    "noise_rate": 0.35,
    "crop_padding": 2,
    "precision": "bfloat16",
}


@pytest.fixture
def given(monkeypatch):
    """Data, a generator, and what a method is given of them."""
    entry = SimpleNamespace(build=lambda options, setup: (options, setup), config=METHODS["tnlpad"].config)
    monkeypatch.setitem(module.METHODS, "tnlpad", entry)
    config = configure("digits", noise="symmetric:0.4", seed=3, settings=SETTINGS)
    data, generator = prepare_data(config, None, METHOD_CPU), torch.Generator()
    options, setup = prepare_method(config, data, generator, METHOD_CPU)
    return SimpleNamespace(config=config, data=data, generator=generator, options=options, setup=setup)


def test_a_method_is_given_what_the_settings_say(given):
    assert given.options.c2 == 0.123
    assert given.setup.sgd == {"lr": 0.02, "momentum": 0.3, "weight_decay": 0.04, "fused": True}
    assert (given.setup.epochs, given.setup.num_classes) == (7, 10)
    assert given.setup.generator is given.generator


def test_a_method_knows_nothing_of_the_truth(given):
    assert given.setup.labels.tolist() == given.data.noisy.given.tolist()
    assert given.setup.noise_rate == 0.35  # as it was told, not as it is


def test_it_may_draw_from_the_images_trained_on_and_no_others(given):
    source = given.setup.source()
    assert source.index.tolist() == given.data.parts.train.tolist()
    assert source.augmenter.augmentation == Augmentation(crop_padding=2)
    assert source.bf16


@pytest.mark.parametrize("number", [0, 1])
def test_each_network_has_weights_of_its_own(given, number):
    with global_torch_stream(3, f"network-{number}"):
        expected = build_network(given.config, (1, 8, 8), 10).state_dict()
    found = given.setup.network(number).state_dict()
    assert all(torch.equal(found[name], value) for name, value in expected.items())
