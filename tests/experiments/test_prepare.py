"""Runs on images that stay in files, by the ordinary path: small trees in the published layouts of both datasets."""

import hashlib
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import tnlpad.experiments.prepare as preparing
from tests.data.small_data import real_root
from tests.experiments.test_run import Stop, content, how_it_ended, stop_after
from tnlpad.cli import app
from tnlpad.core.decomposition import Decomposition
from tnlpad.data import load
from tnlpad.data.errors import DataError
from tnlpad.data.stream import decode
from tnlpad.experiments.config import configure
from tnlpad.experiments.prepare import prepare_data, prepare_loader, prepare_method, prepare_sets
from tnlpad.experiments.run import run
from tnlpad.networks import build
from tnlpad.noise.label_file import LabelFile, write_label_file
from tnlpad.records.store import RunFolder
from tnlpad.types import NoisyLabels, RawDataset

CPU = torch.device("cpu")
CLASSES = ("apple_pie", "sushi", "waffles")
TRAIN, TEST = 12, 4  # of each class
IMAGES = TRAIN * len(CLASSES)


def write_image(path, generator, size):
    """Without loss, whatever the name says: readers go by the content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(generator.integers(0, 256, (*size, 3), dtype=np.uint8)).save(path, format="PNG")


def write_food101(root, size=(11, 14)):
    folder, generator = root / "food-101", np.random.default_rng(0)
    lists = {"train": [], "test": []}
    for name in CLASSES:
        for number in range(TRAIN + TEST):
            write_image(folder / "images" / name / f"{number}.jpg", generator, size)
            lists["train" if number < TRAIN else "test"].append(f"{name}/{number}")
    (folder / "meta").mkdir()
    (folder / "meta" / "classes.txt").write_text("\n".join(CLASSES))
    for split, entries in lists.items():
        (folder / "meta" / f"{split}.txt").write_text("\n".join(entries))
    return root


CLOTHING_LISTS = {
    "noisy_train": range(40),
    "clean_train": range(40, 42),
    "clean_val": range(42, 47),
    "clean_test": (50,),
}


@pytest.fixture
def clothing(tmp_path):
    folder, generator = tmp_path / "data" / "clothing1m", np.random.default_rng(1)
    labels = {"noisy": "", "clean": ""}
    for name, numbers in CLOTHING_LISTS.items():
        keys = [f"images/{number % 10}/{number}.jpg" for number in numbers]
        for number, key in zip(numbers, keys, strict=True):
            write_image(folder / key, generator, (12, 10))
            labels["noisy" if name == "noisy_train" else "clean"] += f"{key} {number % 14}\n"
        (folder / f"{name}_key_list.txt").write_text("\n".join(keys))
    for name, lines in labels.items():
        (folder / f"{name}_label_kv.txt").write_text(lines)
    return tmp_path / "data"


@pytest.fixture
def root(tmp_path):
    return write_food101(tmp_path / "data")


def small(method="tnlpad", dataset="food101", noise="none", **settings):
    """Two epochs of small images: some hundredths of a second."""
    images = {"food101": IMAGES, "clothing1m": len(CLOTHING_LISTS["noisy_train"])}
    common = {"epochs": 2, "batch_size": 8, "resize": 9, "crop": 8, "learning_rate": 0.01, "subset": images[dataset]}
    return configure(dataset, noise=noise, method=method, network="small_cnn", settings=common | settings)


@pytest.mark.parametrize("method", ["tnlpad", "cnlcu", "adacorr"])
def test_a_run_leaves_a_complete_record_and_goes_on_after_a_stop(root, tmp_path, method):
    config = small(method)
    whole = run(config, tmp_path / "whole", root=root)
    summary, epochs = whole.summary(), whole.epochs()
    assert summary["samples"] == {"train": 32, "validation": 4, "test": TEST * len(CLASSES)}
    assert summary["wrong_labels"] is None  # nobody knows
    assert summary["selection"] == "first epoch of the highest noisy validation accuracy"
    for judged in epochs[0]["judged"].values():
        assert judged.keys() == {"validation_accuracy", "validation_loss", "test_accuracy", "test_loss"}
    assert epochs[0]["selection"] == {}
    with pytest.raises(Stop):
        run(config, tmp_path / "stopped", root=root, on_epoch=stop_after(1))
    assert content(run(config, tmp_path / "stopped", root=root)) == content(whole)


@pytest.mark.parametrize("method", ["tnlpad", "cnlcu"])
def test_killed_in_the_middle_of_an_epoch_it_ends_the_same(root, tmp_path, method):
    config = small(method, epochs=3)
    whole = run(config, tmp_path / "whole", root=root)
    for epoch, step in ((1, 2), (2, 3), (3, 1)):

        def on_step(*now, kill_at=(epoch, step)):
            if now[:2] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        child = os.fork()
        if not child:
            try:
                run(config, tmp_path / "killed", root=root, on_step=on_step)
            finally:
                os._exit(1)
        assert how_it_ended(child) == -signal.SIGKILL
        assert len(RunFolder(tmp_path / "killed" / config.run_id).epochs()) == epoch - 1
    assert content(run(config, tmp_path / "killed", root=root)) == content(whole)


def test_files_and_memory_give_the_same_numbers(tmp_path, monkeypatch):
    """The same pixels as one tensor: order, batches, training and measuring must not know the difference."""
    root = write_food101(tmp_path / "data", size=(8, 8))
    config = small(resize=8, flip=False)
    streamed = run(config, tmp_path / "streamed", root=root)

    def in_memory(name, root, split):
        files = load(name, root, split)
        images = np.ascontiguousarray([decode(path, 8, 8) for path in files.paths])
        return RawDataset(images=images, labels=files.labels, class_names=files.class_names)

    monkeypatch.setattr(preparing, "load", in_memory)
    held = run(config, tmp_path / "held", root=root)
    (*records, summary), *weights = content(streamed)
    (*other_records, other), *other_weights = content(held)
    assert (summary.pop("wrong_labels"), other.pop("wrong_labels")) == (None, 0.0)
    assert (other_records, other, other_weights) == (records, summary, weights)


def test_the_number_of_threads_changes_nothing(root, tmp_path, monkeypatch):
    folders = []
    for threads in (1, 3):
        monkeypatch.setattr(preparing, "_decoding_threads", lambda threads=threads: threads)
        folders.append(run(small(), tmp_path / str(threads), root=root))
    assert content(folders[0]) == content(folders[1])


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


def test_epochs_of_so_many_batches(root):
    config = small(batches_per_epoch=2, batch_size=3)
    data = prepare_data(config, root, CPU)
    loader, _ = prepare_loader(config, data, CPU)
    assert [torch.cat([b.labels for b in loader]).bincount().tolist() for _ in range(2)] == [[2, 2, 2]] * 2


# Which data


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


def test_clothing1m_can_be_validated_on_the_clean_set_published_for_it(clothing, tmp_path):
    config = small(dataset="clothing1m", validation="clean")
    data = prepare_data(config, clothing, CPU)
    assert data.sizes == {"train": 40, "validation": 5, "test": 1}
    validation = prepare_sets(config, data, CPU).validation
    assert validation.labels.tolist() == [number % 14 for number in CLOTHING_LISTS["clean_val"]]
    published = load("clothing1m", clothing, "validation")
    other = prepare_sets(small(dataset="clothing1m"), prepare_data(small(dataset="clothing1m"), clothing, CPU), CPU)
    assert [validation.images_at.paths, other.validation.images_at.paths] == [published.paths, data.train.paths]
    summary = run(config, tmp_path / "runs", root=clothing).summary()
    assert summary["selection"] == "first epoch of the highest clean validation accuracy"


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


# Files that go missing or bad on the way


def first_of(config, root, part):
    """An image of this part of the run's data."""
    data = prepare_data(config, root, CPU)
    if part == "test":
        return data.test.paths[0]
    return data.train.paths[getattr(data.parts, part)[0]]


DAMAGES = [os.remove, lambda path: os.truncate(path, 100), lambda path: os.truncate(path, 0)]


@pytest.mark.parametrize("damage", DAMAGES, ids=["missing", "cut off", "empty"])
@pytest.mark.parametrize(
    ("part", "when", "epochs"), [("train", (2, 4), 2), ("validation", (1, 1), 0), ("test", (1, 1), 0)]
)
def test_an_image_that_cannot_be_read_stops_the_run_until_it_is_restored(root, tmp_path, damage, part, when, epochs):
    config = small(epochs=3)
    path = first_of(config, root, part)
    image = Path(path).read_bytes()
    whole = run(config, tmp_path / "whole", root=root)

    def on_step(*now):
        if now[:2] == when:
            damage(path)

    with pytest.raises(DataError, match=f"{os.path.basename(path)}: cannot be read as an image .* Restore the file"):
        run(config, tmp_path / "hurt", root=root, on_step=on_step)
    folder = RunFolder(tmp_path / "hurt" / config.run_id)
    assert (len(folder.epochs()), folder.finished) == (epochs, False)
    Path(path).write_bytes(image)
    assert content(run(config, tmp_path / "hurt", root=root)) == content(whole)


# Weights to begin with


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
    first, second = (network.state_dict() for network in method.peers.networks)
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
        (missing, r"weights.some-\w+\.pth is missing, .* or train from scratch with --set pretrained=none"),
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


# By the command line


def tnlpad(*words):
    return CliRunner().invoke(app, [*map(str, words)])


def test_the_command_line_says_what_is_wrong_with_the_data(root, clothing, tmp_path):
    words = [
        "train",
        "food101",
        "--root",
        root,
        "--out",
        tmp_path / "runs",
        "--network",
        "small_cnn",
        "--device",
        "cpu",
    ]
    for setting in ("epochs=1", "resize=9", "crop=8", "subset=36"):
        words += ["--set", setting]
    assert tnlpad(*words, "--set", "subset=none").exit_code == 3
    result = tnlpad(*words, "--set", "pretrained=resnet50-0676ba61.pth")
    assert (result.exit_code, "download.pytorch.org/models" in result.stderr.replace("\n", "")) == (3, True)
    assert tnlpad(*words, "--set", "pretrained=/tmp/resnet50.pth").exit_code == 2
    result = tnlpad(*words)
    assert (result.exit_code, "noisy validation" in result.stdout) == (0, True)
    image = first_of(small(), root, "train")
    os.truncate(image, 60)
    result = tnlpad(*words, "--seed", 2)
    assert (result.exit_code, os.path.basename(image) in result.stderr) == (3, True)


def test_real_photographs(tmp_path):
    root = real_root("food-101")
    images = len(load("food101", root).labels)
    if images > 5000:
        pytest.skip("the whole of Food-101 takes too long: meant for a sample")
    settings = {"epochs": 2, "resize": 32, "crop": 28, "learning_rate": 0.01, "subset": images}
    summary = run(configure("food101", network="lenet", settings=settings), tmp_path, root=root).summary()
    assert sum(summary["samples"].values()) == images + len(load("food101", root, "test").labels)
    assert summary["last"]["judged"]["sigma"]["test_loss"] < np.log(len(load("food101", root).class_names))
