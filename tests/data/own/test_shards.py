import io

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.data.own_files import class_folders, picture
from tests.data.storages import write_shard
from tnlpad.cli import app
from tnlpad.data.own import open_dataset
from tnlpad.errors import DataError


def encoded(number):
    content = io.BytesIO()
    picture(number, size=(12, 10)).save(content, format="PNG")
    return content.getvalue()


def write_shards(folder, labels):
    for number in range(2):
        members = {}
        for row in range(number * len(labels) // 2, (number + 1) * len(labels) // 2):
            members |= {f"{row:04}.png": encoded(row), f"{row:04}.cls": labels[row].encode()}
        write_shard(folder / f"{number:06}.tar", members)
    return folder


def tnlpad(*words):
    result = CliRunner().invoke(app, [*map(str, words)])
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        (("3", "12"), ("3", "12")),
        (("dog", "7"), ("7", "dog")),
        (("9" * 5000, "7"), ("7", "9" * 5000)),
        (("07", "7"), ("07", "7")),
    ],
)
def test_labels_come_from_the_shards(tmp_path, names, classes):
    own = open_dataset(write_shards(tmp_path, [names[row % 2] for row in range(6)]))
    assert (own.kind, own.class_names, list(own.ids)[:2]) == ("files", classes, ["0000.png", "0001.png"])
    assert [own.class_names[label] for label in own.labels] == [names[row % 2] for row in range(6)]
    assert own.files[4] == encoded(4)
    assert list(own.paths) == [None] * 6


def test_images_without_a_label_or_that_cannot_be_read_are_left_out(tmp_path):
    write_shards(tmp_path, ["a", "b", "a", "b"])
    write_shard(tmp_path / "000002.tar", {"x.png": encoded(7), "y.png": b"none", "y.cls": b"a"})
    own = open_dataset(tmp_path)
    assert (len(own.ids), [each.id for each in own.problems]) == (4, ["x.png", "y.png"])


@pytest.mark.parametrize("suffix", ["pgm", "jfif", "JP2", "JPEG"])
def test_members_are_images_as_files_are(tmp_path, suffix):
    write_shard(tmp_path / "0.tar", {f"x.{suffix}": encoded(7), "x.cls": b"a", "y.png": encoded(8), "y.cls": b"b"})
    assert list(open_dataset(tmp_path).ids) == [f"x.{suffix}", "y.png"]


def test_a_label_that_is_null_is_missing(tmp_path):
    labels = {"a": b'{"label": null}', "b": b'{"label": " cat "}', "c": b'{"label": 3}'}
    pictures = {f"{name}.png": encoded(place) for place, name in enumerate(labels)}
    write_shard(tmp_path / "0.tar", pictures | {f"{name}.json": label for name, label in labels.items()})
    own = open_dataset(tmp_path)
    assert (own.class_names, [each.id for each in own.problems]) == (("3", "cat"), ["a.png"])


def test_shards_without_any_label(tmp_path):
    write_shard(tmp_path / "0.tar", {"x.png": encoded(7)})
    with pytest.raises(DataError, match="no image has a label"):
        open_dataset(tmp_path)
    assert len(open_dataset(tmp_path, labelled=False).ids) == 1


def test_an_archive_beside_class_folders_is_none_of_the_data(tmp_path):
    class_folders(tmp_path)
    write_shard(tmp_path / "old.tar", {"x.png": encoded(7), "x.cls": b"a"})
    assert open_dataset(tmp_path).class_names == ("cat", "dog")


def test_train_suspects_and_clean(tmp_path):
    """In memory and streamed; the cleaned labels are a table of members."""
    data = write_shards(tmp_path / "data", ["ab"[row % 2] for row in range(40)])
    words = ["train", data, "--epochs", 1, "--backbone", "none", "--device", "cpu", "--out", tmp_path / "runs"]
    tnlpad(*words)
    tnlpad(*words, "--set", "resize=10", "--set", "crop=8", "--seed", 2)
    tnlpad("suspects", "latest", "--runs", tmp_path / "runs", "--top", 3)
    tnlpad("clean", "latest", "--runs", tmp_path / "runs", "--out", tmp_path / "clean.csv", "--top", 1)
    rows = np.loadtxt(tmp_path / "clean.csv", delimiter=",", dtype=str)
    assert (len(rows), rows[1, 0]) == (41, "0000.png")
