import gzip
import os

import numpy as np
import pytest
import torch

from tests.data.storages import write_shard
from tests.data.test_stream import MEAN, STD
from tnlpad.data import shards
from tnlpad.data.files import user_cache
from tnlpad.data.shards import INDEX_FILE, open_shards
from tnlpad.data.storage import ChosenImages
from tnlpad.data.stream import StreamImages
from tnlpad.errors import DataError
from tnlpad.types import ImageFiles

SECOND = {"b/1.jpg": b"three", "./b/2.PNG": b"x" * 3000, "b/2.json": b'{"label": "dog"}', "b/1.txt": b"ignored"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shards._OPENED.clear()
    write_shard(tmp_path / "shards" / "000000.tar", {"a.jpg": b"one", "a.cls": b"7\n", "b.cls": b"3", "b.jpg": b"two"})
    write_shard(tmp_path / "shards" / "000001.tar", SECOND | {"c" * 150 + ".jpg": b"long name"})
    return tmp_path / "shards"


def reopened(folder):
    shards._OPENED.clear()
    return open_shards(folder)


def test_images_are_read_by_position_in_any_order(folder):
    images = open_shards(folder)
    assert list(images.names()) == [b"a.jpg", b"b.jpg", b"b/1.jpg", b"b/2.PNG", b"c" * 150 + b".jpg"]
    assert list(images.index().labels) == ["7", "3", "", "dog", ""]
    assert [images.read(place) for place in (4, 0, 3, 1, 2)] == [b"long name", b"one", b"x" * 3000, b"two", b"three"]
    assert images.where(3) == f"{folder / '000001.tar'}, member b/2.PNG"


def test_more_shards_than_may_be_open(folder, monkeypatch):
    monkeypatch.setattr(shards, "MAX_OPEN", 1)
    before = len(os.listdir("/proc/self/fd"))
    images = open_shards(folder)
    assert [images.read(place) for place in (2, 0, 2, 0)] == [b"three", b"one", b"three", b"one"]
    assert len(os.listdir("/proc/self/fd")) == before + 1


@pytest.mark.parametrize("place", ["beside", "cache"])
def test_headers_are_read_once_until_a_shard_changes(folder, monkeypatch, place):
    if place == "cache":
        (folder / INDEX_FILE).mkdir()  # nothing can be written there
    first = open_shards(folder)
    assert (folder / INDEX_FILE).is_file() == (place == "beside")
    assert len(list((user_cache() / "tnlpad").rglob("*.npz"))) == (place == "cache")
    with monkeypatch.context() as patched:
        patched.setattr("tarfile.open", lambda *_: pytest.fail("read again"))
        again = reopened(folder)
    assert (list(again.names()), again.read(3)) == (list(first.names()), first.read(3))
    assert open_shards(folder) is again
    write_shard(folder / "000002.tar", {"new.jpg": b"four"})
    assert open_shards(folder).read(5) == b"four"


def test_the_index_stays_in_memory_if_it_can_be_written_nowhere(folder, monkeypatch):
    monkeypatch.setattr(shards, "_places", lambda _: ())
    images = open_shards(folder)
    assert (next(images.names()), images.read(0)) == (b"a.jpg", b"one")


def test_a_damaged_index_is_built_again(folder):
    open_shards(folder)
    os.truncate(folder / INDEX_FILE, 300)
    assert reopened(folder).read(0) == b"one"


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: {"names_bounds": arrays["names_bounds"].astype(float)},
        lambda arrays: {"labels_bounds": arrays["labels_bounds"][:, None]},
        lambda arrays: {"names_bounds": arrays["names_bounds"][::-1]},
        lambda arrays: {"offset": arrays["offset"][1:]},
        lambda arrays: {"size": arrays["size"].astype(str)},
    ],
)
def test_an_index_of_other_shapes_is_built_again(folder, change):
    before = list(open_shards(folder).names())
    with np.load(folder / INDEX_FILE) as file:
        arrays = dict(file)
    np.savez(folder / INDEX_FILE, **arrays | change(arrays))
    assert list(reopened(folder).names()) == before


@pytest.mark.parametrize("change", [{"shard": 9}, {"offset": 10**6}, {"size": 10**6}])
def test_an_index_of_images_outside_the_shards_is_built_again(folder, monkeypatch, change):
    before = open_shards(folder).read(0)
    with np.load(folder / INDEX_FILE) as file:
        arrays = dict(file)
    ((name, value),) = change.items()
    changed = arrays[name].astype(np.int64)
    changed[0] = value
    monkeypatch.setattr(shards, "_seal", lambda digest, index: arrays["digest"].tobytes())
    np.savez(folder / INDEX_FILE, **arrays | {name: changed})
    assert reopened(folder).read(0) == before


@pytest.mark.parametrize(("name", "byte"), [("names", 0x86), ("names", ord("z")), ("labels", ord("9"))])
def test_an_index_of_other_names_or_labels_is_built_again(folder, name, byte):
    before = list(open_shards(folder).names()), list(open_shards(folder).index().labels)
    with np.load(folder / INDEX_FILE) as file:
        arrays = dict(file)
    arrays[name][0] = byte
    np.savez(folder / INDEX_FILE, **arrays)
    images = reopened(folder)
    assert (list(images.names()), list(images.index().labels)) == before


def test_names_that_are_not_in_utf_8_are_refused(folder):
    write_shard(folder / "000002.tar", {"\udcff.jpg": b"x"})
    with pytest.raises(DataError, match=r"000002\.tar: the name of member .* is not in UTF-8"):
        open_shards(folder)


def test_a_folder_without_shards(tmp_path):
    assert open_shards(tmp_path) is None
    assert open_shards(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: os.truncate(path, 2500), r"000001\.tar .*unexpected end"),
        (lambda path: path.write_bytes(gzip.compress(path.read_bytes())), r"000001\.tar .*uncompressed tar"),
        (lambda path: write_shard(path, {"a.jpg": b"again"}), "two images 'a.jpg'"),
        (lambda path: write_shard(path, {"d.json": b"{"}), r"000001\.tar, member 'd\.json' is no label"),
    ],
)
def test_damaged_shards_are_named(folder, damage, words):
    damage(folder / "000001.tar")
    with pytest.raises(DataError, match=words):
        open_shards(folder)


@pytest.mark.parametrize("damage", [os.remove, lambda path: os.truncate(path, 600)])
def test_a_shard_that_went_missing_or_became_shorter(folder, damage):
    images = open_shards(folder)
    damage(folder / "000001.tar")
    with pytest.raises(DataError, match=r"000001\.tar, member b/2\.PNG cannot be read"):
        images.read(3)


def test_an_image_that_cannot_be_decoded_is_named_by_shard_and_member(folder):
    store = ChosenImages(open_shards(folder), np.array([2, 0]))
    files = ImageFiles(paths=("b/1.jpg", "a.jpg"), labels=np.zeros(2, dtype=np.int64), class_names=("a",), store=store)
    images = StreamImages(files, resize=8, crop=8, mean=MEAN, std=STD)
    with pytest.raises(
        DataError, match=r"000001\.tar, member b/1\.jpg: cannot be read as an image .*tnlpad data check"
    ):
        images(torch.tensor([0]))
