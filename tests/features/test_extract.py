import hashlib
import io
import multiprocessing
import os
import signal
import socket
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from tnlpad.data.own.open import open_dataset
from tnlpad.data.stream import decode
from tnlpad.errors import DataError
from tnlpad.features import extract as extract_module
from tnlpad.features.backbone import Backbone
from tnlpad.features.extract import extract, extract_dataset
from tnlpad.memory import zeros
from tnlpad.ranks import group

SIDE = 8


class Means(nn.Module):
    """Mean of each channel, and the upper left pixel: easy to compute by hand."""

    def __init__(self, seen=None, seconds=0.0):
        super().__init__()
        self.seen, self.seconds = seen, seconds

    def forward(self, images):
        if self.seen is not None:
            self.seen.append(len(images))
        time.sleep(self.seconds)
        return torch.cat([images.mean((2, 3)), images[:, :1, 0, 0]], 1)


def backbone(seen=None, seconds=0.0, identity="means-1"):
    return Backbone(name="means", identity=identity, pixels=SIDE, dimensions=4, build=lambda: Means(seen, seconds))


def photograph(number, width=12, height=9):
    generator = np.random.default_rng(number)
    file = io.BytesIO()
    Image.fromarray(generator.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


def by_hand(file):
    pixels = decode(file, SIDE, SIDE) / 255
    return [*pixels.mean((1, 2)), pixels[0, 0, 0]]


class Notes:
    def __init__(self):
        self.said, self.steps = [], []

    def say(self, message):
        self.said.append(message)

    def progress(self, task, done, total):
        self.steps.append((done, total))


def test_features_of_files_and_contents(tmp_path):
    contents = [photograph(number) for number in range(37)]
    paths = []
    for number, content in enumerate(contents):
        paths.append(str(tmp_path / f"{number}.png"))
        Path(paths[-1]).write_bytes(content)
    wanted = np.array([by_hand(content) for content in contents])
    notes = Notes()
    for pictures in (contents, paths):
        found = extract(pictures, backbone(), reporter=notes)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert notes.steps[-1] == (37, 37)


def test_features_of_arrays(tmp_path):
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (5, 3, 9, 12), dtype=np.uint8)
    files = []
    for image in images:
        file = io.BytesIO()
        Image.fromarray(image.transpose(1, 2, 0).copy()).save(file, "PNG")
        files.append(file.getvalue())
    np.testing.assert_allclose(extract(images, backbone()), extract(files, backbone()), atol=1e-6)
    gray = extract(images[:, :1], backbone())
    np.testing.assert_allclose(gray[:, 0], gray[:, 2])
    with pytest.raises(DataError, match="2 channels"):
        extract(images[:, :2], backbone())


def test_arrays_of_the_same_bytes_and_another_shape_differ(tmp_path):
    image = np.arange(3 * 8 * 16, dtype=np.uint8).reshape(1, 3, 8, 16)
    one = extract(image, backbone(), cache=tmp_path)
    other = extract(image.reshape(1, 3, 16, 8), backbone(), cache=tmp_path)
    assert not np.array_equal(one, other)


def test_no_pictures_give_no_rows(tmp_path):
    assert extract([], backbone(), cache=tmp_path).shape == (0, 4)


def test_only_new_pictures_are_computed(tmp_path):
    pictures, seen = [photograph(number) for number in range(50)], []
    extract(pictures, backbone(seen), cache=tmp_path)
    assert sum(seen) == 50
    more = [*pictures[::-1], photograph(100), photograph(101), photograph(100)]
    found = extract(more, backbone(seen), cache=tmp_path)
    assert sum(seen) == 52  # two are new; the third has the content of the first
    np.testing.assert_allclose(found, [by_hand(picture) for picture in more], atol=1e-6)
    extract(pictures, backbone(seen, identity="means-2"), cache=tmp_path)
    assert sum(seen) == 102


def test_a_changed_file_is_computed_again(tmp_path):
    path, seen = tmp_path / "a.png", []
    for number in (1, 2):
        path.write_bytes(photograph(number))
        found = extract([str(path)], backbone(seen), cache=tmp_path / "cache")
        np.testing.assert_allclose(found[0], by_hand(photograph(number)), atol=1e-6)
    assert sum(seen) == 2


def test_a_pass_that_fails_keeps_what_it_has(tmp_path):
    pictures, seen = [photograph(number) for number in range(40)], []
    with pytest.raises(DataError, match="cannot be read as an image"):
        extract([*pictures, b"not an image"], backbone(), cache=tmp_path)
    extract(pictures, backbone(seen), cache=tmp_path)
    assert sum(seen) < 40


def slow_pass(root, pictures):
    extract_module.torch.set_num_threads(1)
    from tnlpad.features import cache

    cache.SECONDS_PER_SHARD = 0.0
    extract(pictures, backbone(seconds=0.05), cache=root)


def test_a_killed_pass_goes_on(tmp_path):
    pictures, seen = [photograph(number) for number in range(800)], []
    process = multiprocessing.get_context("spawn").Process(target=slow_pass, args=(tmp_path, pictures))
    process.start()
    deadline = time.monotonic() + 60
    while len(list(tmp_path.rglob("*.safetensors"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    found = extract(pictures, backbone(seen), cache=tmp_path)
    assert 0 < sum(seen) <= 800 - 3 * 16
    np.testing.assert_allclose(found, extract(pictures, backbone()), atol=1e-6)


def test_two_passes_at_once_leave_a_good_cache(tmp_path):
    pictures = [photograph(number) for number in range(100)]
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=slow_pass, args=(tmp_path, pictures)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    seen = []
    found = extract(pictures, backbone(seen), cache=tmp_path)
    assert seen == []
    np.testing.assert_allclose(found, [by_hand(picture) for picture in pictures], atol=1e-6)


def test_a_damaged_cache_is_computed_again(tmp_path):
    pictures, seen = [photograph(number) for number in range(20)], []
    extract(pictures, backbone(), cache=tmp_path)
    (shard,) = tmp_path.rglob("*.safetensors")
    shard.write_bytes(shard.read_bytes()[:-100])
    found = extract(pictures, backbone(seen), cache=tmp_path)
    assert sum(seen) == 20
    np.testing.assert_allclose(found, [by_hand(picture) for picture in pictures], atol=1e-6)


def test_a_cache_that_cannot_be_used_is_one_note(tmp_path):
    place = tmp_path / "file"
    place.write_text("x")
    notes = Notes()
    pictures = [photograph(number) for number in range(20)]
    found = extract(pictures, backbone(), cache=place, reporter=notes)
    np.testing.assert_allclose(found, [by_hand(picture) for picture in pictures], atol=1e-6)
    assert len(notes.said) == 1
    assert str(place) in notes.said[0]


def test_main_thread_keeps_its_threads(tmp_path):
    before = torch.get_num_threads()
    extract([photograph(1)], backbone())
    assert torch.get_num_threads() == before


def test_batches_reach_every_worker():
    assert [len(batch) for batch in extract_module._batches(range(10), 16, 4)] == [3, 3, 3, 1]
    assert [len(batch) for batch in extract_module._batches(range(40), 16, 2)] == [16, 16, 8]


def test_own_data_use_their_digests(tmp_path):
    for name in "ab":
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(3):
            (tmp_path / "data" / name / f"{number}.png").write_bytes(photograph(ord(name) + number))
    own = open_dataset(tmp_path / "data")
    seen = []
    extract_dataset(own, backbone(seen), cache=tmp_path / "cache")
    content = (tmp_path / "data" / "a" / "0.png").read_bytes()
    assert hashlib.sha256(content).digest() in own.digests
    extract([content], backbone(seen), cache=tmp_path / "cache")
    assert sum(seen) == len(set(own.digests))


def test_own_data_without_pictures(tmp_path):
    np.savez(tmp_path / "x.npz", features=np.eye(6, dtype=np.float32), labels=np.array([0, 1] * 3))
    with pytest.raises(DataError, match="no pictures"):
        extract_dataset(open_dataset(tmp_path / "x.npz"), backbone())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_same_features(tmp_path):
    pictures = [photograph(number) for number in range(300)]
    np.testing.assert_allclose(extract(pictures, backbone(), device="cuda"), extract(pictures, backbone()), atol=1e-5)


def test_features_that_do_not_fit_lie_in_a_file(tmp_path, monkeypatch):
    pictures = [photograph(number % 30) for number in range(70)]  # some of them twice
    expected = extract(pictures, backbone())
    monkeypatch.setattr(extract_module, "MAX_BYTES_IN_MEMORY", 100)
    mapped, first, again = (extract(pictures, backbone(), cache=cache) for cache in (None, tmp_path, tmp_path))
    assert isinstance(mapped.base, np.memmap)
    assert not isinstance(expected.base, np.memmap)
    for found in (mapped, first, again):
        np.testing.assert_array_equal(found, expected)


def test_features_stay_in_memory_where_the_disk_is_full(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert not isinstance(zeros(40, 3, most_bytes=100).base, np.memmap)


def on_a_rank(rank, port, folder, pictures):
    """Compute features as one of two ranks, with a cache that only rank 0 has filled in part."""
    place = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in place.items()}
    torch.set_num_threads(1)
    extract_module.ROWS_PER_EXCHANGE = 8
    seen = []
    with group.joined(torch.device("cpu")):
        found = extract(pictures, backbone(seen), cache=folder / f"cache{rank}")
        try:
            extract([*pictures[:10], b"not an image"], backbone(identity="means-2"))
        except DataError as error:
            message = str(error)
    np.savez(folder / f"{rank}.npz", found=found, seen=sum(seen), message=message)


def test_ranks_compute_a_share_each(tmp_path):
    pictures = [photograph(number % 45) for number in range(50)]
    extract(pictures[:5], backbone(), cache=tmp_path / "cache0")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    ranks = [context.Process(target=on_a_rank, args=(rank, port, tmp_path, pictures)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(120)
    assert [rank.exitcode for rank in ranks] == [0, 0]
    first, second = (np.load(tmp_path / f"{rank}.npz") for rank in range(2))
    np.testing.assert_array_equal(first["found"], second["found"])
    np.testing.assert_allclose(first["found"], [by_hand(picture) for picture in pictures], atol=1e-6)
    assert sorted([int(first["seen"]), int(second["seen"])]) == [22, 23]  # of the 45 that a rank lacks
    for found in (first, second):
        assert "cannot be read as an image" in str(found["message"])
    seen = []
    extract(pictures, backbone(seen), cache=tmp_path / "cache0")
    assert seen == []  # rank 0 has stored all of them
    assert not (tmp_path / "cache1").exists()
