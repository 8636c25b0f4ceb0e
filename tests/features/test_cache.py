import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from tnlpad.atomic_files import replacing
from tnlpad.data.own.digests import Digests
from tnlpad.features import cache as cache_module
from tnlpad.features.cache import EntryKey, FeatureCache, cached_entries, clear_entry, default_cache

KEY = EntryKey(identity="lite-12345678", pixels=64, dimensions=3, preprocessing=1)


def digest(number):
    return number.to_bytes(32, "big")


def rows(*numbers):
    return np.array([[number, number / 2, -number] for number in numbers], dtype=np.float32)


def stored(root, *numbers, key=KEY):
    cache = FeatureCache(root, key)
    cache.add(map(digest, numbers), rows(*numbers))
    cache.flush()
    return cache


def read(root, *numbers, key=KEY):
    found = FeatureCache(root, key).read(Digests.of([digest(number) for number in numbers]))
    return {numbers[place]: row.tolist() for places, rows in found for place, row in zip(places, rows, strict=True)}


def shards(root):
    return sorted((root / KEY.folder_name).glob("*.safetensors"))


def test_rows_come_back_by_content(tmp_path):
    stored(tmp_path, 1, 2, 3)
    stored(tmp_path, 4)
    assert read(tmp_path, 4, 2, 9) == {2: [2, 1, -2], 4: [4, 2, -4]}


def test_other_backbones_sizes_and_versions_do_not_mix(tmp_path):
    stored(tmp_path, 1)
    for change in ({"identity": "lite-87654321"}, {"pixels": 96}, {"preprocessing": 2}):
        key = EntryKey(**{**vars_of(KEY), **change})
        assert read(tmp_path, 1, key=key) == {}


def vars_of(key):
    return {name: getattr(key, name) for name in ("identity", "pixels", "dimensions", "preprocessing")}


def test_full_shards_are_written_without_a_flush(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_module, "ROWS_PER_SHARD", 4)
    cache = FeatureCache(tmp_path, KEY)
    cache.add(map(digest, (1, 2)), rows(1, 2))
    assert read(tmp_path, 1, 2) == {}
    cache.add(map(digest, (3, 4)), rows(3, 4))
    assert set(read(tmp_path, 1, 2, 3, 4)) == {1, 2, 3, 4}


def test_waiting_rows_are_written_after_some_time(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_module, "SECONDS_PER_SHARD", 0.0)
    FeatureCache(tmp_path, KEY).add([digest(1)], rows(1))
    assert set(read(tmp_path, 1)) == {1}


@pytest.mark.parametrize("damage", ["cut", "empty", "header"])
def test_a_damaged_shard_is_removed(tmp_path, damage):
    stored(tmp_path, 1)
    (shard,) = shards(tmp_path)
    content = shard.read_bytes()
    shard.write_bytes({"cut": content[:-5], "empty": b"", "header": b"\xff" * 8 + content[8:]}[damage])
    stored(tmp_path, 2)
    assert set(read(tmp_path, 1, 2)) == {2}
    assert shard not in shards(tmp_path)


def test_a_damaged_row_is_noticed_and_the_others_are_used(tmp_path):
    stored(tmp_path, 1, 2)
    (shard,) = shards(tmp_path)
    content = shard.read_bytes()
    place = content.index(rows(2).tobytes())
    shard.write_bytes(content[:place] + b"\x01" + content[place + 1 :])
    assert read(tmp_path, 1, 2) == {1: [1, 0.5, -1]}
    stored(tmp_path, 2)
    assert set(read(tmp_path, 1, 2)) == {1, 2}


def test_a_shard_of_another_width_is_not_used(tmp_path):
    wide = EntryKey(**{**vars_of(KEY), "dimensions": 6})
    cache = FeatureCache(tmp_path, wide)
    cache.add([digest(1)], np.ones((1, 6), np.float32))
    cache.flush()
    assert read(tmp_path, 1) == {}


def test_many_small_shards_are_merged(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_module, "MAX_SMALL_SHARDS", 4)
    for number in range(6):
        stored(tmp_path, number)
    assert len(shards(tmp_path)) == 6
    assert set(read(tmp_path, 0)) == {0}
    assert len(shards(tmp_path)) == 1
    assert set(read(tmp_path, *range(6))) == set(range(6))


def test_a_shard_that_vanishes_meanwhile_is_skipped(tmp_path, monkeypatch):
    stored(tmp_path, 1)
    ghost = tmp_path / KEY.folder_name / f"{'0' * 32}.safetensors"
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: [ghost.name, *listdir(path)])
    assert set(read(tmp_path, 1)) == {1}


def test_a_cache_that_cannot_be_written_says_so_once(tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_module, "write_by_rename", full)
    cache = stored(tmp_path, 1)
    assert "No space left on device" in cache.problem
    assert not cache.writable
    cache.add([digest(2)], rows(2))
    cache.flush()
    assert read(tmp_path, 1, 2) == {}


def test_a_file_in_the_place_of_the_folder_is_no_error(tmp_path):
    place = tmp_path / "file"
    place.write_text("x")
    cache = stored(place, 1)
    assert list(cache.read(Digests.of([digest(1)]))) == []
    assert cache.problem is not None


def test_without_a_folder_nothing_is_kept():
    cache = stored(None, 1)
    assert (list(cache.read(Digests.of([digest(1)]))), cache.problem) == ([], None)


@pytest.mark.parametrize("clear", [False, True])
def test_temporary_files_of_dead_processes_are_removed_and_no_others(tmp_path, clear):
    stored(tmp_path, 1)
    folder = tmp_path / KEY.folder_name
    mine = folder / ".x.tmp"
    mine.write_text("mine")
    os.utime(mine, (0, time.time() - 10_000))
    with replacing(folder / "y"):
        (used,) = folder.glob(".y.*")
        (folder / ".x.12.tnlpad.tmp").write_text("half")
        clear_entry(cached_entries(tmp_path)[0]) if clear else read(tmp_path, 1)
        assert {each.name for each in folder.glob(".*")} == {mine.name, used.name}


def test_entries_are_listed_and_cleared(tmp_path):
    stored(tmp_path, 1, 2)
    other = EntryKey(identity="m-1", pixels=0, dimensions=3, preprocessing=1)
    stored(tmp_path, 3, key=other)
    os.utime(tmp_path / KEY.folder_name / "info.json", (0, 1000))
    (tmp_path / "photographs").mkdir()
    (tmp_path / "photographs" / "info.json").write_text(json.dumps({"mine": True}))
    newest, oldest = cached_entries(tmp_path)
    assert (newest.name, newest.samples) == ("m-1-v1", 1)
    assert (oldest.name, oldest.identity, oldest.pixels, oldest.samples, oldest.last_used) == (
        "lite-12345678-64px-v1",
        "lite-12345678",
        64,
        2,
        1000,
    )
    assert oldest.size_bytes == sum(file.stat().st_size for file in oldest.folder.iterdir())
    foreign = oldest.folder / "notes.txt"
    foreign.write_text("mine")
    clear_entry(oldest)
    clear_entry(newest)
    assert cached_entries(tmp_path) == []
    assert foreign.exists()
    assert not newest.folder.exists()


def test_no_folder_has_no_entries(tmp_path):
    assert cached_entries(tmp_path / "missing") == []


def test_the_place_of_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TNLPAD_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.delenv("TNLPAD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert default_cache() == tmp_path / "tnlpad" / "features"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache() == Path.home() / ".cache" / "tnlpad" / "features"
