import json
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tnlpad.data.catalogue
import tnlpad.data.fetch
import tnlpad.data.verify
from tests.data.local_server import serving
from tests.data.own_files import class_folders
from tests.data.small_data import tiny_mnist, write_idx
from tests.runs.file_trees import write_food101
from tnlpad.cli import app


def invoke(*arguments):
    return CliRunner().invoke(app, ["data", *map(str, arguments)])


def unboxed(text):
    """What a box on the screen says, without its frame and line breaks."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


@pytest.fixture
def mnist(monkeypatch):
    """The catalogue's MNIST is a tiny one on a server of this machine."""
    with serving({}) as (base, behaviour):
        info, served = tiny_mnist(base)
        behaviour.files.update(served)
        monkeypatch.setitem(tnlpad.data.catalogue.CATALOGUE, "mnist", info)
        yield behaviour


def test_get_then_list_then_check(mnist, tmp_path):
    result = invoke("get", "mnist", "--root", tmp_path)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"mnist is in {tmp_path / 'MNIST' / 'raw'}, from http://127.0.0.1")
    assert result.stderr.startswith("Trying http://127.0.0.1")
    listed = invoke("list", "--root", tmp_path)
    assert listed.exit_code == 0
    assert "tnlpad data get cifar10" in listed.stdout
    assert "tnlpad data get mnist" not in listed.stdout
    checked = invoke("check", "mnist", "--root", tmp_path)
    assert checked.exit_code == 0
    assert checked.stdout.count("ok: ") == 4
    assert checked.stdout.endswith("mnist: nothing is wrong.\n")
    again = invoke("get", "mnist", "--root", tmp_path)
    assert again.stdout == f"mnist is already in {tmp_path / 'MNIST' / 'raw'}.\n"


def test_json_is_one_document(mnist, tmp_path):
    got = json.loads(invoke("get", "mnist", "--root", tmp_path, "--json").stdout)
    assert got["name"] == "mnist"
    assert Path(got["folder"]) == tmp_path / "MNIST" / "raw"
    assert got["source"].startswith("http://127.0.0.1")
    listed = json.loads(invoke("list", "--root", tmp_path, "--json").stdout)
    states = {each["name"]: each["state"] for each in listed["datasets"]}
    assert states["mnist"] == "present"
    assert states["digits"] == "bundled"
    assert set(states.values()) == {"present", "bundled", "missing"}
    assert len(states) == 9
    checked = json.loads(invoke("check", "mnist", "--root", tmp_path, "--json").stdout)
    assert checked["ok"] is True
    assert len(checked["verified"]) == 4


def test_quiet_says_nothing_but_the_result(mnist, tmp_path):
    assert invoke("get", "mnist", "--root", tmp_path, "--quiet").stderr == ""


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_damaged_files_are_bad_data(mnist, tmp_path, damage):
    folder = write_idx(tmp_path)
    path = folder / "train-images-idx3-ubyte"
    content = bytearray(path.read_bytes())
    content[50] ^= 1
    path.write_bytes(content[:-1] if damage == "truncated" else content)
    result = invoke("check", "mnist", "--root", tmp_path)
    assert result.exit_code == 3
    assert str(path) in result.stderr
    assert {"truncated": "truncated", "flipped": "expected "}[damage] in result.stderr
    assert "tnlpad data get mnist" in result.stderr
    assert "Traceback" not in result.output
    document = invoke("check", "mnist", "--root", tmp_path, "--json")
    assert document.exit_code == 3
    assert json.loads(document.stdout)["ok"] is False
    if damage == "truncated":
        assert "incomplete" in invoke("list", "--root", tmp_path).stdout


def test_a_server_with_wrong_bytes_is_bad_data(mnist, tmp_path):
    name = "train-labels-idx1-ubyte.gz"
    mnist.files[name] = bytes(len(mnist.files[name]))
    result = invoke("get", "mnist", "--root", tmp_path)
    assert result.exit_code == 3
    assert "does not serve the published file" in result.stderr
    assert result.stdout == ""
    assert not (tmp_path / "MNIST").exists()


def test_no_server_is_a_failure_at_run_time(mnist, tmp_path):
    mnist.status = dict.fromkeys(mnist.files, 404)
    result = invoke("get", "mnist", "--root", tmp_path)
    assert result.exit_code == 1
    assert "404" in result.stderr
    assert f"into {tmp_path / 'MNIST' / 'raw'}" in result.stderr


@pytest.mark.parametrize("verb", ["get", "check"])
def test_a_wrong_name_is_wrong_usage(verb, tmp_path):
    result = invoke(verb, "mnst", "--root", tmp_path)
    assert result.exit_code == 2
    assert "Did you mean mnist?" in unboxed(result.stderr)


@pytest.mark.parametrize("verb", [["get", "mnist"], ["check", "mnist"], ["list"]])
def test_a_file_as_root_is_wrong_usage(verb, tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    result = invoke(*verb, "--root", path)
    assert result.exit_code == 2
    assert "is a file: name a folder for the datasets" in unboxed(result.stderr)


def test_what_is_missing_is_bad_data_for_check(tmp_path):
    result = invoke("check", "cifar10", "--root", tmp_path)
    assert result.exit_code == 3
    assert "tnlpad data get cifar10" in result.stderr


def test_clothing1m_says_whom_to_ask(tmp_path):
    result = invoke("get", "clothing1m", "--root", tmp_path)
    assert result.exit_code == 1
    assert "give it out on request" in result.stderr
    assert "github.com/Cysu/noisy_label" in invoke("list", "--root", tmp_path).stdout


def test_bundled_digits(tmp_path):
    assert "nothing to get" in invoke("get", "digits", "--root", tmp_path).stdout
    assert invoke("check", "digits", "--root", tmp_path).exit_code == 0


def test_the_root_of_the_environment(mnist, tmp_path, monkeypatch):
    monkeypatch.setenv("TNLPAD_DATA", str(tmp_path / "mine"))
    assert invoke("get", "mnist").exit_code == 0
    assert (tmp_path / "mine" / "MNIST" / "raw").is_dir()
    assert str(tmp_path / "mine") in invoke("list").stdout
    shutil.rmtree(tmp_path / "mine")
    (tmp_path / "mine").write_text("")
    result = invoke("list")
    assert result.exit_code == 2
    assert "TNLPAD_DATA" in result.stderr


@pytest.fixture
def cached(tmp_path):
    import numpy as np

    from tnlpad.features.cache import EntryKey, FeatureCache

    for pixels, samples in ((128, 3), (224, 2)):
        key = EntryKey(identity="lite-57934424", pixels=pixels, dimensions=4, preprocessing=1)
        store = FeatureCache(tmp_path, key)
        store.add([number.to_bytes(32, "big") for number in range(samples)], np.ones((samples, 4), np.float32))
        store.flush()
    return tmp_path


def test_the_cache_is_listed(cached):
    result = invoke("cache", "--cache", cached)
    assert result.exit_code == 0, result.output
    assert re.search(r"lite-57934424-128px-v1 .*lite-57934424 .* 128 .* 3 ", result.stdout)
    assert f"5 samples (0.0 MB) in {cached}" in result.stdout
    document = json.loads(invoke("cache", "lite-57934424-224px-v1", "--cache", cached, "--json").stdout)
    (entry,) = document["entries"]
    assert (entry["backbone"], entry["pixels"], entry["samples"]) == ("lite-57934424", 224, 2)


def test_the_cache_is_cleared(cached):
    result = invoke("cache", "lite-57934424-128px-v1", "--clear", "--cache", cached)
    assert result.stdout.startswith("Removed 3 samples")
    assert [folder.name for folder in cached.iterdir()] == ["lite-57934424-224px-v1"]
    assert invoke("cache", "lite", "--clear", "--cache", cached).stdout.startswith("Removed 2 samples")
    assert list(cached.iterdir()) == []
    assert "0 samples" in invoke("cache", "--cache", cached).stdout


def test_the_cache_of_the_environment(cached, monkeypatch):
    monkeypatch.setenv("TNLPAD_CACHE", str(cached))
    assert json.loads(invoke("cache", "--json").stdout)["cache"] == str(cached)
    assert invoke("cache", "--clear").exit_code == 0
    assert list(cached.iterdir()) == []


def test_an_unknown_entry_of_the_cache(cached):
    result = invoke("cache", "dinov2", "--clear", "--cache", cached)
    assert result.exit_code == 2
    assert "dinov2 is not in the cache" in unboxed(result.stderr)
    assert len(list(cached.iterdir())) == 2


def test_prepare_a_published_dataset_for_training_elsewhere(tmp_path):
    root = write_food101(tmp_path / "data")
    words = ["prepare", "food101", "--root", root, "--out", tmp_path / "ready", "--resize", 9]
    result = invoke(*words)
    assert (result.exit_code, "48 images are in" in result.stdout) == (0, True), result.output
    document = json.loads(invoke(*words, "--json").stdout)
    assert document["folder"] == str(tmp_path / "ready" / "food-101" / "prepared-9")
    assert (document["images"], document["found"], document["resize"]) == (48, 48, 9)
    assert invoke("check", "food101", "--root", tmp_path / "ready").exit_code == 0


def test_images_that_are_left_out_are_counted_and_the_first_is_named(tmp_path):
    class_folders(tmp_path / "photos")
    (tmp_path / "photos" / "cat" / "x.png").write_bytes(b"")
    with suppress(OSError):  # this file system has no such names
        (tmp_path / "photos" / "dog" / os.fsdecode(b"\xff.png")).write_bytes(b"x")
    left_out = len(list((tmp_path / "photos").rglob("*.png"))) - 6
    result = invoke("prepare", tmp_path / "photos", "--resize", 9)
    assert result.exit_code == 0
    assert f"Left out: {left_out} of {left_out + 6} images. " in result.stderr
    assert "Left out" not in invoke("prepare", tmp_path / "photos", "--resize", 8, "-q").stderr


def test_prepare_a_folder_of_images(tmp_path):
    root = write_food101(tmp_path) / "food-101" / "images"
    result = invoke("prepare", root, "--resize", 9)
    assert (result.exit_code, (root.parent / "images.prepared-9" / "manifest.json").is_file()) == (0, True)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["mnist"], 2, "mnist is kept in memory"),
        (["food10"], 2, "Did you mean food101"),
        (["{root}", "--resize", 9], 3, "has one class"),
        (["{root}"], 2, "--resize"),
        (["food101", "--root", "{root}/none"], 3, "is not in"),
        (["food101", "--root", "{root}", "--resize", 0], 2, "--resize"),
        (["food101", "--root", "{root}", "--out", "{root}/food-101/meta/train.txt"], 1, "train.txt"),
    ],
)
def test_what_cannot_be_prepared(tmp_path, words, code, said):
    root = write_food101(tmp_path)
    result = invoke("prepare", *(str(word).format(root=root) for word in words))
    assert (result.exit_code, said in unboxed(result.stderr)) == (code, True), result.output
