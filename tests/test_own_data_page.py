"""docs/own_data.md: commands and Python run as they stand, links lead somewhere, numbers are those of the record."""

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits, load_wine

from benchmarks import head_settings
from benchmarks.own_defaults import MIDDLE_C2, Candidate, Cell, best_rate, c2_curves
from benchmarks.own_defaults import chosen as choose
from tests.cli.trained import asked
from tests.data.own_files import picture, save
from tnlpad.data.own import DataShape, open_dataset
from tnlpad.integrations.sklearn import TnlpadClassifier
from tnlpad.networks.head import DROPOUT, HIDDEN
from tnlpad.runs.config import configure
from tnlpad.runs.recipes import LEARNING_RATES, OWN_C2

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "own_data.md"
RECORD = json.loads((ROOT / "benchmarks" / "records" / "own_defaults-cpu.json").read_text())
HEADS_RECORD = json.loads((ROOT / "benchmarks" / "records" / "head_settings-cpu.json").read_text())


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def photos(folder, count=100, start=0):
    """Bright and dark ones."""
    for number in range(count):
        bright = number % 2
        pixels = np.asarray(picture(start + number)) // 2 + 120 * bright
        save(folder / ("bright" if bright else "dark") / f"{number}.png", Image.fromarray(pixels.astype(np.uint8)))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    photos(tmp_path / "photos")
    photos(tmp_path / "more_photos", count=4, start=200)
    labels = np.arange(60) % 3
    for name, array in {"p.npy": np.eye(3)[labels] * 0.7 + 0.1, "y.npy": labels, "f.npy": labels[:, None]}.items():
        np.save(tmp_path / name, array)
    return tmp_path


def test_the_commands_run(folder):
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(lines) >= 8
    run = None
    for line in lines:
        words = line.split()
        assert words[0] == "tnlpad"
        first = run is None and words[1] == "train"
        result = asked(*(str(run) if word == "RUN" else word for word in words[1:]))
        assert result.exit_code == 0, f"{line}: {result.output}"
        if first:
            run = next((folder / "runs").iterdir())
    made = ("suspects/index.html", "cleaned.changes.csv", "predictions.csv", "model.safetensors", "lists/labels.npy")
    for name in (*made, "found/suspects.csv"):
        assert (folder / name).exists(), name


def test_the_python_runs(folder):
    pytest.importorskip("pandas", reason="pip install pandas")
    names = {}
    for block in blocks("python"):
        if "cleanlab" in block:
            pytest.importorskip("cleanlab", reason="pip install 'tnlpad[compare]'")
        exec(compile(block, "own_data.md", "exec"), names)
    assert set(names["labels"]) <= {0, 1, 2}
    assert names["page"] == Path("suspects/index.html")
    assert names["page"].exists()
    given, right = load_digits().target, load_digits().target
    given[:200] = (given[:200] + 1) % 10
    wrong = names["given"] != right
    for found, least in ((names["found"].suspects, 0.95), (names["classifier"].suspects, 0.8)):
        assert np.mean([wrong[each.index] for each in found]) > least
    kept, cleaned = names["result"].clean()
    assert (names["result"].caution, kept.tolist()) == (None, list(range(1797)))
    assert (cleaned == right).mean() > (given == right).mean() + 0.03
    corrected, features = names["corrected"], load_wine(as_frame=True)
    assert list(corrected.columns) == [*features.frame.columns, "original_label"]
    assert (corrected["original_label"] == names["table"]["target"]).all()
    assert (corrected["target"] == features.target).mean() > (corrected["original_label"] == features.target).mean()
    assert "is_label_issue" in names["issues"]
    written = open_dataset("photos.parquet")
    assert (len(written.ids), written.class_names) == (100, ("bright", "dark"))


def test_the_defaults_are_what_validation_chose():
    chosen = RECORD["chosen_by_validation"]
    assert chosen["c2"] == OWN_C2
    assert {network: chosen["learning_rates"][network] for network in LEARNING_RATES} == LEARNING_RATES
    classifier = TnlpadClassifier()
    found = {"c2": classifier.c2, "learning_rate": classifier.learning_rate}
    assert chosen["classifier"] == found


def test_the_choice_follows_from_the_candidates():
    """Made again from the validation accuracies alone: without the test accuracies it is the same."""
    candidates = [
        Candidate(**each | {"cell": Cell(**each["cell"]), "test": float("nan")}) for each in RECORD["candidates"]
    ]
    chosen = RECORD["chosen_by_validation"]
    for model, rate in chosen["learning_rates"].items():
        assert best_rate([each for each in candidates if each.model == model and each.c2 == MIDDLE_C2]) == rate
    of_classifier = [each for each in candidates if each.model == "classifier"]
    of_networks = [each for each in candidates if each.model != "classifier"]
    again = choose(c2_curves(of_networks, chosen["learning_rates"]), chosen["learning_rates"], of_classifier)
    for name in ("c2", "learning_rates", "classifier"):
        assert again[name] == chosen[name]


def test_the_recipe_uses_them():
    shape = DataShape(
        fingerprint="0" * 64, kind="images", samples=9, validation=0, test=0, classes=2, channels=1, height=8, width=8
    )
    config = configure(shape)
    assert (config.options["c2"], config.learning_rate) == (OWN_C2, LEARNING_RATES["small_cnn"])


def test_the_settings_of_the_heads_follow_from_their_accuracies(monkeypatch):
    """Made again from the out-of-fold accuracies on noisy labels, which are all that the record has."""
    trainings = head_settings.Trainings(head_settings.Places(), log=None)
    trainings.cells = [head_settings.Cell(**cell) for cell in HEADS_RECORD["cells"]]
    trainings.small = HEADS_RECORD["steps"][0]["cells"]
    trainings.candidates = json.loads(json.dumps(HEADS_RECORD["candidates"]))
    monkeypatch.setattr(head_settings, "trained", None)
    assert head_settings.searched(trainings) == HEADS_RECORD["chosen"]
    assert trainings.steps == HEADS_RECORD["steps"]


def test_the_heads_use_them():
    chosen = HEADS_RECORD["chosen"]
    shape = DataShape(
        fingerprint="0" * 64, kind="text", samples=999, validation=0, test=0, classes=2, channels=1, height=1, width=1
    )
    config = configure(shape)
    for name in ("learning_rate", "weight_decay", "epochs", "batch_size"):
        assert getattr(config, name) == chosen[name]
    assert (chosen["hidden"], chosen["dropout"], chosen["mixed"]) == (HIDDEN, DROPOUT, 0)


def test_the_numbers_are_those_of_the_record():
    spec = importlib.util.spec_from_file_location("own_data", ROOT / "docs" / "own_data.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    records = [json.loads(path.read_text()) for path in module.RECORDS]
    assert module.page(PAGE.read_text(), *records) == PAGE.read_text(), "python docs/own_data.py writes it again"
    gains = {"+2.5 ± 0.3": (0.62, 0.63, 0.625), "+1.0 ± 0.6": (0.62, 0.61, 0.6), "-2.5 ± 0.3": (0.58, 0.57, 0.575)}
    said = {}
    for text, accuracies in gains.items():
        cells = [{"rounds": {"as given": {"accuracy": 0.6}, "cleaned": {"accuracy": each}}} for each in accuracies]
        said[text] = module.gain(cells).replace("\n", " ")
        assert f" the accuracy by {text} points (standard error over seeds)" in said[text]
    better, undecided, worse = said.values()
    assert better.endswith("seeds).")
    assert "the model is no better" in undecided
    assert "the model is worse" in worse
    none = {"validation": 0.5, "gain": 0.0, "gain_error": 0.01}
    rules = {"constant": none, "release time": none, module.UPPER_BOUND: none}
    assert module.verdict(rules) == "No rule beats the constant, so c2 is a constant."
    rules["release time"] = none | {"gain": 0.015}
    assert "1.50 points above the constant with a standard error of 1.00" in module.verdict(rules)
    rules["release time"] = none | {"gain": 0.05}
    assert "5.00 ± 1.00 points above" in module.verdict(rules)
