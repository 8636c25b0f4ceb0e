import dataclasses

import pytest

from tnlpad import memory
from tnlpad.data.own import DataShape
from tnlpad.features.backbone import Backbone
from tnlpad.runs.choose_backbone import ChosenBackbone
from tnlpad.runs.config import command, configure, departures
from tnlpad.runs.memory import fitting_settings, image_memory, streaming_sentence
from tnlpad.runs.recipes import STREAMED_BYTES

PHOTOS = DataShape(
    fingerprint="0" * 64, kind="files", samples=1000, validation=0, test=0, classes=5, channels=3, height=90, width=90
)
BYTES = 1000 * 3 * 64 * 64
NONE = ChosenBackbone(None, {}, "")
LARGE = dataclasses.replace(PHOTOS, samples=STREAMED_BYTES // (3 * 64 * 64) + 1)


def configured(limit, shape=PHOTOS, **given):
    return configure(shape, settings=fitting_settings(shape, NONE, given, limit) | given)


def images(config):
    return config.resize, config.crop, config.crop_padding


def test_the_limit_decides_and_the_configuration_says_so():
    kept, streamed = configured(BYTES), configured(BYTES - 1)
    assert (images(kept), images(streamed)) == ((64, None, 8), (73, 64, 0))
    assert kept == configure(PHOTOS)  # as ever: its hash stays
    assert kept.hash != streamed.hash
    assert departures(streamed) == {"resize": 73, "crop": 64, "crop_padding": 0}
    assert "--set resize=73 --set crop=64 --set crop_padding=0" in command(streamed)


def test_a_larger_limit_keeps_in_memory_what_is_streamed_by_default():
    assert images(configure(LARGE)) == (73, 64, 0)
    assert configured(STREAMED_BYTES, LARGE) == configure(LARGE)
    assert images(configured(2 * STREAMED_BYTES, LARGE)) == (64, None, 8)


@pytest.mark.parametrize(
    ("given", "limit", "expected"),
    [
        ({"resize": 40, "crop": 30}, 1, (40, 30, 0)),
        ({"crop": "none"}, 1, (64, None, 8)),
        ({"resize": "32"}, 1, (32, 28, 0)),
        ({"resize": 32}, BYTES // 4, (32, None, 8)),
    ],
)
def test_settings_of_the_user_come_first(given, limit, expected):
    assert images(configured(limit, **given)) == expected


def test_a_given_size_may_fit_where_the_default_does_not():
    assert images(configured(STREAMED_BYTES, LARGE, resize=32)) == (32, None, 8)


def test_what_a_network_is_finetuned_on():
    lite = Backbone(name="lite", identity="lite-1", pixels=160, dimensions=4, build=lambda: None)
    chosen = ChosenBackbone(lite, {"resize": 160}, "")
    size = 1000 * 3 * 160**2
    assert fitting_settings(PHOTOS, chosen, {}, size - 1) == {"resize": 160}  # features are computed file by file
    kept, streamed = (fitting_settings(PHOTOS, chosen, {}, limit, finetune=True) for limit in (size, size - 1))
    assert kept == {"resize": 160, "crop": None, "crop_padding": 20}
    assert streamed == {"resize": 183, "crop": 160, "crop_padding": 0}


@pytest.mark.parametrize("kind", ["images", "features", "text", "table"])
def test_other_data_are_in_memory_already(kind):
    shape = dataclasses.replace(PHOTOS, kind=kind)
    assert fitting_settings(shape, NONE, {}, 1) == {}
    assert streaming_sentence(configure(shape), 1) is None


def test_one_sentence_has_the_numbers():
    sentence = streaming_sentence(configured(10**6), 10**6)
    assert all(part in sentence for part in ("1,000 images", "64 × 64 pixels", "12.3 MB", "1.0 MB", "--memory"))
    assert "4.3 GB" in streaming_sentence(configure(LARGE), STREAMED_BYTES)
    assert streaming_sentence(configured(BYTES), BYTES) is None
    assert streaming_sentence(configured(BYTES, resize=73, crop=64), BYTES) is None  # as the user wants it
    assert streaming_sentence(configure("digits"), 1) is None


@pytest.mark.parametrize(
    ("text", "size"),
    [("8GB", 8 * 10**9), ("2 GiB", 2 * 2**30), ("500mb", 500 * 10**6), ("0.5KiB", 512), ("7B", 7), ("1TB", 10**12)],
)
def test_sizes_have_units(text, size, monkeypatch):
    assert image_memory(text) == size
    monkeypatch.setenv("TNLPAD_MEMORY", text)
    assert image_memory() == size
    assert image_memory("3MB") == 3 * 10**6


@pytest.mark.parametrize("text", ["8", "GB", "-1GB", "8 PB", "eight GB", "8GBs"])
def test_other_words_are_refused(text, monkeypatch):
    with pytest.raises(ValueError, match=f"--memory {text}: .*8GB"):
        image_memory(text)
    monkeypatch.setenv("TNLPAD_MEMORY", text)
    with pytest.raises(ValueError, match=rf"\$TNLPAD_MEMORY {text}"):
        image_memory()


def test_by_default_a_quarter_of_the_memory_at_most(monkeypatch):
    monkeypatch.delenv("TNLPAD_MEMORY", raising=False)
    for limits, expected in (([], 2**32), ([2**40], 2**32), ([2**40, 2**33], 2**31)):
        monkeypatch.setattr("tnlpad.runs.memory.memory_limits", lambda limits=limits: iter(limits))
        assert image_memory() == expected


@pytest.mark.parametrize(
    ("groups", "files", "limits"),
    [
        ("0::/job/task\n", {"job/task/memory.max": "max\n", "job/memory.max": "3000\n"}, [3000]),
        ("0::/elsewhere\n", {"memory.max": "2000\n"}, [2000]),  # within a container
        ("4:cpu:/a\n5:memory:/a\n", {"memory/a/memory.limit_in_bytes": "1000\n", "a/memory.max": "7\n"}, [1000]),
        ("", {}, []),
    ],
)
def test_containers_and_jobs_have_limits(tmp_path, monkeypatch, groups, files, limits):
    for name, text in files.items():
        (tmp_path / "fs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "fs" / name).write_text(text)
    (tmp_path / "groups").write_text(groups)
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "fs")
    monkeypatch.setattr(memory, "OWN_CGROUPS", tmp_path / "groups")
    machine, *found = memory.memory_limits()
    assert machine > 2**20
    assert found == limits


def test_a_process_may_have_a_limit_of_its_own(monkeypatch):
    resource = pytest.importorskip("resource", reason="Windows has none")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (5000, resource.RLIM_INFINITY))
    assert min(memory.memory_limits()) == 5000
