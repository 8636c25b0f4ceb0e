import os
import shutil
import signal
from collections import namedtuple

import numpy as np
import pytest
import torch
from PIL import Image

from tests.data.small_data import Recorder
from tests.data.storages import write_shard
from tests.data.test_stream import MEAN, STD, images_of, trained
from tests.edited_runs import edit
from tnlpad.data.prepare import prepare_images
from tnlpad.data.prepared import MANIFEST, NAMES, open_prepared
from tnlpad.data.shards import open_shards
from tnlpad.data.storage import ChosenImages, FileImages, places_of
from tnlpad.data.stream import StreamImages
from tnlpad.errors import DataError
from tnlpad.types import ImageFiles

IMAGES, RESIZE, PER_PART = 20, 24, 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    generator, turned = np.random.default_rng(0), Image.Exif()
    turned[0x0112] = 6  # orientation: to be rotated
    for number, (width, height) in enumerate(generator.integers(20, 60, (IMAGES, 2)).tolist()):
        pixels = generator.integers(0, 256, (height, width, 3), dtype=np.uint8)
        image = Image.fromarray(pixels).convert("L" if number == 3 else "RGB")
        image.save(folder / f"{number:02}.jpg", exif=turned)
    return folder


@pytest.fixture(scope="module")
def names(folder):
    return sorted(name.encode() for name in os.listdir(folder))


class Files(FileImages):
    """Keeps which images were read; with `kill_at`, the process dies at that image."""

    def __init__(self, folder, names, kill_at=None):
        super().__init__([str(folder / name.decode()) for name in names])
        self.seen, self.kill_at = [], kill_at

    def read(self, place):
        self.seen.append(place)
        if place == self.kill_at and len(self.seen) > IMAGES:  # the first reads estimate the size
            os.kill(os.getpid(), signal.SIGKILL)
        return super().read(place)


def prepare(names, store, target, **options):
    settings = {"resize": RESIZE, "source": "tests", "images_per_part": PER_PART, **options}
    return prepare_images(names, store, target, **settings)


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


def test_files_shards_and_prepared_pixels_give_the_same_batches(folder, names, tmp_path):
    paths, labels = [str(folder / name.decode()) for name in names], np.arange(IMAGES) % 4
    write_shard(tmp_path / "shards" / "0.tar", {name.decode(): (folder / name.decode()).read_bytes() for name in names})
    prepare(names[::-1], Files(folder, names[::-1]), tmp_path / "prepared")
    in_shards, prepared = open_shards(tmp_path / "shards"), open_prepared(tmp_path / "prepared")
    stores = [None, *(ChosenImages(each, places_of(each.names(), names)) for each in (in_shards, prepared))]
    every = [ImageFiles(paths=paths, labels=labels, class_names=tuple("abcd"), store=store) for store in stores]
    epochs = [[(batch.index, batch.images) for _ in range(2) for batch in trained(files)] for files in every]
    for batches in zip(*epochs, strict=True):
        assert all(torch.equal(index, batches[0][0]) and torch.equal(x, batches[0][1]) for index, x in batches)
    centre = [images_of(files)(torch.arange(IMAGES)) for files in every]
    assert all(torch.equal(each, centre[0]) for each in centre)


def test_a_kill_leaves_complete_parts_and_the_same_call_continues(folder, names, tmp_path):
    whole = prepare(names, Files(folder, names), tmp_path / "whole")
    assert (whole.found, whole.manifest.images, len(whole.manifest.parts)) == (0, IMAGES, 4)
    child = os.fork()
    if not child:
        try:
            prepare(names, Files(folder, names, kill_at=13), tmp_path / "killed")
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert {name for name in content(tmp_path / "killed") if name.endswith(".bin")} == {
        "part-00000.bin",
        "part-00001.bin",
    }
    assert open_prepared(tmp_path / "killed") is None
    store, reporter = Files(folder, names), Recorder()
    assert prepare(names, store, tmp_path / "killed", reporter=reporter).found == 2 * PER_PART
    assert sorted(store.seen[IMAGES:]) == list(range(2 * PER_PART, IMAGES))
    assert content(tmp_path / "killed") == content(tmp_path / "whole")
    assert not list((tmp_path / "killed").glob("*.tmp"))
    assert [(done, total) for _, done, total in reporter.steps] == [(18, 20), (20, 20)]
    (tmp_path / "killed" / "begun.json").write_text("{}")  # as if killed just before it is removed
    assert prepare(names, Files(folder, names), tmp_path / "killed").found == IMAGES
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


def test_hidden_files_of_others_stay(folder, names, tmp_path):
    (tmp_path / ".x.tmp").write_text("mine")
    (tmp_path / ".x.12.tnlpad.tmp").write_text("half")
    prepare(names, Files(folder, names), tmp_path)
    assert [each.name for each in tmp_path.glob(".*.tmp")] == [".x.tmp"]


def test_the_disk_is_looked_at_before_anything_is_decoded(folder, names, tmp_path, monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(40_000))
    with pytest.raises(DataError, match=r"needs about 0\.0 GB for 20 images at 24 pixels, and 0\.0 GB are free.*--out"):
        prepare(names, Files(folder, names), tmp_path)
    assert not list(tmp_path.glob("part-*"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1_000_000))
    prepare(names, Files(folder, names), tmp_path)
    assert sum(part.bytes for part in open_prepared(tmp_path).manifest.parts) < 1_000_000


def test_images_that_cannot_be_read_are_all_named_and_other_parts_are_kept(folder, names, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "07.jpg").unlink()
    (copy / "19.jpg").write_bytes(b"none")
    with pytest.raises(DataError, match=r": 2\. .*07\.jpg cannot be read: there is no .*19\.jpg: cannot be read as an"):
        prepare(names, Files(copy, names), tmp_path / "out")
    assert sorted(each.name for each in (tmp_path / "out").glob("part-*")) == ["part-00000.bin", "part-00002.bin"]
    for name in ("07.jpg", "19.jpg"):
        shutil.copy(folder / name, copy / name)
    assert prepare(names, Files(copy, names), tmp_path / "out").found == 2 * PER_PART


@pytest.mark.parametrize("damage", ["a bit", "an end", "of another version"])
def test_parts_that_changed_during_an_interruption_are_prepared_again(folder, names, tmp_path, damage):
    prepare(names, Files(folder, names), tmp_path / "whole")
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "19.jpg").unlink()
    with pytest.raises(DataError):
        prepare(names, Files(copy, names), tmp_path / "out")
    part = tmp_path / "out" / "part-00001.bin"
    pixels = part.read_bytes()
    if damage == "of another version":
        edit(tmp_path / "out" / "begun.json", lambda begun: begun["parts"].pop(part.name))
    else:
        part.write_bytes(pixels[:-1] if damage == "an end" else bytes([pixels[0] ^ 1]) + pixels[1:])
    reporter = Recorder()
    prepared = prepare(names, Files(folder, names), tmp_path / "out", reporter=reporter)
    assert prepared.found == 2 * PER_PART
    assert [f"{part} is not as it was written" in said for said in reporter.said] == [True]
    assert content(tmp_path / "out") == content(tmp_path / "whole")


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("change", [{"resize": 25}, {"images_per_part": 7}, {"names": True}])
def test_a_folder_of_other_images_is_refused(folder, names, tmp_path, change, finished):
    prepare(names, Files(folder, names), tmp_path)
    if not finished:
        (tmp_path / MANIFEST).unlink()
        with pytest.raises(DataError, match="parts of unknown images"):
            prepare(names, Files(folder, names), tmp_path)
        (tmp_path / "begun.json").write_text('{"resize": 24}')
    chosen = names[1:] if change.pop("names", False) else names
    with pytest.raises(DataError, match="has other images"):
        prepare(chosen, Files(folder, chosen), tmp_path, **change)


@pytest.mark.parametrize("name", [b" 1.jpg", b"1\n.jpg"])
def test_names_that_a_list_cannot_hold(folder, names, tmp_path, name):
    with pytest.raises(DataError, match="line break"):
        prepare([name], Files(folder, names), tmp_path)


def change(name, value):
    return lambda folder: edit(folder / MANIFEST, lambda manifest: manifest.update({name: value}))


def rename_part(name):
    return lambda folder: edit(folder / MANIFEST, lambda manifest: manifest["parts"][1].update(file=name))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: os.truncate(folder / "part-00001.bin", 5000), r"part-00001\.bin has 5,000 bytes instead of"),
        (lambda folder: (folder / "part-00001.bin").unlink(), r"part-00001\.bin cannot be read"),
        (lambda folder: (folder / MANIFEST).write_text("{}"), r"manifest\.json is damaged"),
        (lambda folder: (folder / MANIFEST).write_text("no"), r"manifest\.json is damaged"),
        (change("images_per_part", "2"), "images_per_part is '2', not a whole number"),
        (change("images_per_part", 0), r"manifest\.json is damaged"),
        (change("images_per_part", 7), "parts of other numbers of images than 7"),
        (change("parts", [{"file": 1}]), "in a part, file is 1"),
        (change("parts", [1]), "parts is a list"),
        (rename_part("part\0"), r"a part is called 'part\\x00'"),
        (rename_part("../names.txt"), r"a part is called '\.\./names\.txt'"),
    ],
)
def test_damage_is_named_when_the_folder_is_opened(folder, names, tmp_path, damage, words):
    prepare(names, Files(folder, names), tmp_path)
    damage(tmp_path)
    with pytest.raises(DataError, match=words):
        open_prepared(tmp_path)


@pytest.mark.parametrize("change", [lambda lines: lines[:-1], lambda lines: [*lines, b"more.png\n"]])
def test_more_or_fewer_names_than_images_are_refused(folder, names, tmp_path, change):
    prepare(names, Files(folder, names), tmp_path)
    lines = (tmp_path / NAMES).read_bytes().splitlines(keepends=True)
    (tmp_path / NAMES).write_bytes(b"".join(change(lines)))
    with pytest.raises(DataError, match=rf"{NAMES} does not name {len(names)} images"):
        list(open_prepared(tmp_path).names())


def test_checksums_find_changed_pixels(folder, names, tmp_path):
    prepare(names, Files(folder, names), tmp_path)
    assert list(open_prepared(tmp_path).problems()) == []
    with (tmp_path / "part-00002.bin").open("r+b") as file:
        first = file.read(1)[0]
        file.seek(0)
        file.write(bytes([255 - first]))
    (problem,) = open_prepared(tmp_path).problems()
    assert "part-00002.bin has sha256" in problem


def test_pixels_of_another_size_are_refused(folder, names, tmp_path):
    prepare(names, Files(folder, names), tmp_path)
    files = ImageFiles(
        paths=[name.decode() for name in names],
        labels=np.zeros(IMAGES, dtype=np.int64),
        class_names=("a",),
        store=open_prepared(tmp_path),
    )
    images = StreamImages(files, resize=16, crop=16, mean=MEAN, std=STD)
    with pytest.raises(DataError, match=r"part-00000\.bin, image 1 was prepared at 24 pixels, and this run needs 16"):
        images(torch.tensor([1]))
