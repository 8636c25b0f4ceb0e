"""Runs on images that stay in files, by the ordinary path."""

import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.data.small_data import real_root
from tests.data.storages import shards_of
from tests.methods.problems import EARLY
from tests.runs.file_trees import CLASSES, CPU, TEST, small, write_food101
from tests.runs.test_run import Stop, content, how_it_ended, stop_after
from tnlpad.cli import app
from tnlpad.data import load
from tnlpad.data.photographs import list_files
from tnlpad.data.prepare_dataset import prepare_published
from tnlpad.data.stream import decode
from tnlpad.errors import DataError
from tnlpad.records.store import RunFolder
from tnlpad.runs.config import configure
from tnlpad.runs.prepare import prepare_data
from tnlpad.runs.run import run
from tnlpad.types import RawDataset


@pytest.mark.parametrize("method", ["tnlpad", "cnlcu", "adacorr"])
def test_a_run_leaves_a_complete_record_and_goes_on_after_a_stop(root, tmp_path, method):
    config = small(method, **EARLY.get(method, {}))
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

    def in_memory(name, root, split, resize=None):
        files = load(name, root, split)
        images = np.ascontiguousarray([decode(path, 8, 8) for path in files.paths])
        return RawDataset(images=images, labels=files.labels, class_names=files.class_names)

    monkeypatch.setattr("tnlpad.runs.prepare.load", in_memory)
    held = run(config, tmp_path / "held", root=root)
    (*records, summary), *weights = content(streamed)
    (*other_records, other), *other_weights = content(held)
    assert (summary.pop("wrong_labels"), other.pop("wrong_labels")) == (None, 0.0)
    assert (other_records, other, other_weights) == (records, summary, weights)


@pytest.mark.parametrize("dataset", ["food101", "clothing1m"])
def test_shards_and_prepared_pixels_give_the_same_run(root, clothing, tmp_path, dataset):
    """The images are nowhere else, and no configuration knows where they are."""
    place, folder = (root, "food-101") if dataset == "food101" else (clothing, "clothing1m")
    config = small(dataset=dataset, validation="clean" if dataset == "clothing1m" else "noisy")
    expected = content(run(config, tmp_path / "files", root=place))
    shards_of(place / folder, tmp_path / "tar" / folder / "shards")
    for path in list_files(place / folder):
        copy = tmp_path / "tar" / path.relative_to(place)
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(path, copy)
    assert content(run(config, tmp_path / "sharded", root=tmp_path / "tar")) == expected
    prepared = prepare_published(dataset, tmp_path / "tar", tmp_path / "ready", resize=9)
    assert prepared.folder == tmp_path / "ready" / folder / "prepared-9"
    assert not list((tmp_path / "ready").rglob("*.jpg"))
    assert content(run(config, tmp_path / "prepared", root=tmp_path / "ready")) == expected
    with pytest.raises(DataError, match=r"only images for another size \(prepared-9\), and resize=10 is needed"):
        run(small(dataset=dataset, resize=10), tmp_path / "larger", root=tmp_path / "ready")
    (tmp_path / "ready" / folder / "prepared-9" / "manifest.json").unlink()
    with pytest.raises(DataError, match=r"is missing|no such file"):
        run(config, tmp_path / "unfinished", root=tmp_path / "ready")


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
