"""`--backbone` from end to end: train, resume, predict, export; and what is said when something is missing."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import tnlpad
from tests.cli.trained import asked, document
from tnlpad.networks import build
from tnlpad.records.store import RunFolder
from tnlpad.runs.shipped import load_shipped

FEW = ["--epochs", "12", "--batch-size", "8", "--folds", "3", "--repeats", "1", "--lr", "0.05"]


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Twelve red and twelve blue pictures of 32 pixels."""
    monkeypatch.setenv("TNLPAD_CACHE", str(tmp_path / "cache"))
    generator = np.random.default_rng(0)
    for number in range(24):
        pixels = generator.integers(0, 60, (32, 32, 3), dtype=np.uint8)
        pixels[:, :, 0 if number % 2 else 2] += 190
        folder = tmp_path / "photos" / ("red" if number % 2 else "blue")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return tmp_path / "photos"


def weights_of(path, name="small_resnet"):
    torch.manual_seed(0)
    torch.save(build(name, num_classes=5).state_dict(), path)
    return path


def predicted(run, data):
    result = asked("predict", run, data)
    assert result.exit_code == 0, result.output
    return [line.split(",")[2] for line in result.stdout.splitlines()[1:]]


def test_a_network_of_ours_with_a_file_of_weights(photos, tmp_path):
    file, runs = weights_of(tmp_path / "mine.pth"), tmp_path / "runs"
    words = ["train", photos, "--backbone", "small_resnet", "--out", runs, *FEW]
    summary = document(*words, "--weights", file)
    assert summary["config"]["backbone"].startswith("small_resnet-")
    assert summary["config"]["pretrained"] is None
    assert "--backbone small_resnet --weights FILE" in summary["command"]
    run = runs / summary["run_id"]
    assert predicted(run, photos) == ["blue"] * 12 + ["red"] * 12
    with torch.no_grad():
        shape = load_shipped(RunFolder(run)).network(torch.rand(2, 3, 32, 32)).shape
    assert shape == (2, 2)

    moved = file.rename(tmp_path / "moved.pth")
    gone = asked("predict", run, photos)
    assert gone.exit_code == 3
    assert f"needs {file}" in " ".join(gone.stderr.split())
    assert asked("export", run, "--safetensors", "--out", tmp_path / "m.safetensors").exit_code == 3
    assert document(*words, "--weights", moved) == summary  # found again, and the new place is remembered
    assert predicted(run, photos) == ["blue"] * 12 + ["red"] * 12
    weights_of(moved, "small_cnn")
    assert asked("predict", run, photos).exit_code == 3


def test_an_interrupted_run_names_the_command_that_resumes_it(photos, tmp_path, monkeypatch):
    file, runs = weights_of(tmp_path / "mine.pth"), tmp_path / "runs"
    words = ["train", photos, "--backbone", "small_resnet", "--weights", file, "--out", runs, *FEW]

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tnlpad.runs.run._write_model", interrupted)
        assert asked(*words).exit_code == 130
    (folder,) = runs.iterdir()
    said = asked("suspects", folder).stderr
    command = said[said.index("`tnlpad ") + 8 : said.rindex("`")].split()
    assert asked(*command).exit_code == 0
    assert RunFolder(folder).finished


def test_weights_that_tnlpad_exported_bring_their_normalisation(photos, tmp_path):
    first = tnlpad.fit(photos, settings={"epochs": 1}, out=tmp_path / "first", network="small_resnet")
    exported = tmp_path / "exported.safetensors"
    assert asked("export", first.folder, "--safetensors", "--out", exported).exit_code == 0
    settings = {"epochs": 2, "batch_size": 8, "folds": 2, "repeats": 1}
    second = tnlpad.fit(photos, backbone="small_resnet", weights=exported, settings=settings, out=tmp_path / "second")
    normalised = second.shipped.network[0]
    np.testing.assert_allclose(normalised.mean.flatten(), first.shipped.normalisation.mean, rtol=1e-6)
    assert tnlpad.load(second.folder).predict(photos).shape == (24,)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--backbone", "small_resnet"], "needs weights"),
        (["--backbone", "small_resnet", "--weights", "nowhere.pth"], "nowhere.pth: there is no such file"),
        (["--backbone", "resnet18", "--weights", "mine.pth"], "belongs to another network"),
        (["--backbone", "small_resnet", "--weights", "damaged.safetensors"], "damaged"),
        (["--backbone", "small_resnet", "--weights", "mine.txt"], "weights come as .pth"),
        (["--backbone", "lite", "--weights", "mine.pth"], "backbone=lite takes no file of weights"),
        (["--backbone", "lenet", "--weights", "mine.pth"], "28 or 32"),
        (["--backbone", "./nowhere"], "there is no such folder"),
        (["--backbone", "pickled"], "pytorch_model.bin, and such files can run code"),
        (["--backbone", "someone/model"], "someone/model is not on disk, and downloads are switched off"),
    ],
)
def test_backbones_that_cannot_be_used(photos, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    weights_of(tmp_path / "mine.pth")
    weights_of(tmp_path / "mine.txt")
    (tmp_path / "damaged.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{}")
    (tmp_path / "pickled").mkdir()
    (tmp_path / "pickled" / "config.json").write_text(json.dumps({"model_type": "vit"}))
    (tmp_path / "pickled" / "pytorch_model.bin").write_bytes(b"\x80\x04")
    size = [] if "lenet" not in words else ["--set", "resize=30"]
    result = asked("train", photos, "--out", "runs", *FEW, *words, *size)
    assert result.exit_code == 3, result.output
    assert said in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    assert not (tmp_path / "runs").exists()
