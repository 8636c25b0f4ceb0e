import csv
import json
import os
import shlex

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from typer.testing import CliRunner

from tests.cli.trained import asked, document, own_data, trained
from tests.data.own_files import messy_folder
from tests.edited_runs import reseal, without_checksums
from tests.suspects.made import made_run
from tests.time_limit import time_limit
from tnlpad.cli import app
from tnlpad.cli.suspects import FORMATS

runner = CliRunner()


def asked_suspects(*words):
    return runner.invoke(app, ["suspects", *map(str, words)])


@pytest.fixture
def run(tmp_path):
    made_run(tmp_path / "runs" / "somewhere_seed1_0123456789")
    return tmp_path / "runs" / "somewhere_seed1_0123456789"


def test_the_list_goes_to_stdout(run):
    result = asked_suspects(run, "--top", 3)
    assert result.exit_code == 0, result.output
    assert "labels are more likely wrong than right" in result.stdout
    assert "Estimated share of wrong labels" in result.stdout
    assert not (run / "suspects").exists()


@pytest.mark.parametrize("name", ["somewhere_seed1_0123456789", "somewhere"])
def test_a_run_is_found_by_name_or_its_beginning(run, name):
    assert asked_suspects(name, "--runs", run.parent).exit_code == 0


def test_json_is_one_document(run):
    result = asked_suspects(run, "--top", 3, "--json", "--quiet")
    document = json.loads(result.stdout)
    assert [each["rank"] for each in document["listed"]] == [1, 2, 3]
    assert document["noise_rate"]["low"] <= document["noise_rate"]["estimate"] <= document["noise_rate"]["high"]
    assert len(document["transition"]) == 3


def test_every_format_is_written(run, tmp_path):
    out = tmp_path / "out"
    result = asked_suspects(run, "--out", out, "--format", "csv,parquet,label-studio,cleanlab,html", "--json")
    assert result.exit_code == 0, result.output
    names = {"suspects.csv", "suspects.parquet", "label-studio.json", "labels.npy", "pred_probs.npy", "index.html"}
    assert {path.name for path in out.iterdir()} == names
    document = json.loads(result.stdout)
    assert len(document["files"]) == len(names)
    with open(out / "suspects.csv", newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == document["suspects"]


@pytest.mark.parametrize(("limit", "code"), [("1%", 4), ("0.5%", 4), ("1", 4), ("99%", 0)])
def test_a_pipeline_can_fail_on_findings(run, limit, code):
    assert asked_suspects(run, "--fail-on", limit).exit_code == code


@pytest.mark.parametrize("limit", ["1%", "99%"])
def test_a_pipeline_fails_when_the_network_is_too_weak(run, tmp_path, limit):
    """With neither the code of findings nor of success; the list is printed and written all the same."""
    (run / "summary.json").write_text(json.dumps({"run_id": run.name, "chosen": {"validation_accuracy": 0.1}}))
    result = asked_suspects(run, "--fail-on", limit, "--json", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert f"Error: --fail-on {limit} cannot be decided: " in result.stderr
    assert "only 10 %" in result.stderr
    assert json.loads(result.stdout)["caution"] is not None
    assert (tmp_path / "out" / "suspects.csv").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--fail-on", "many"], "percentage"),
        (["--fail-on", "0"], "percentage"),
        (["--fail-on", "0.05"], "is that 0.05% or 5%?"),
        (["--format", "csv"], "add --out"),
        (["--format", "docx", "--out", "x"], "docx: choose from"),
        (["--format", ",", "--out", "x"], "choose from"),
    ],
)
def test_wrong_options_are_usage_errors(run, words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = asked_suspects(run, *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (tmp_path / "x").exists()


def test_an_unknown_run_is_bad_data(tmp_path):
    result = asked_suspects("nothing", "--runs", tmp_path)
    assert result.exit_code == 3
    assert "there is no run nothing" in result.stderr


def test_the_beginning_of_several_names_lists_them(tmp_path):
    for name in ("own-a", "own-b", "own-c", "own-d", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").touch()
    result = asked_suspects("own", "--runs", tmp_path)
    assert result.exit_code == 3
    assert "own matches 4 runs: own-a, own-b, own-c, …" in result.stderr


def test_data_instead_of_a_run_name_their_last_run(tmp_path):
    data = own_data(tmp_path, "features")
    made_run(tmp_path / "runs" / "other")
    first, last = (trained(data, tmp_path / "runs", 1, "--seed", seed) for seed in (2, 1))
    os.utime(first / "summary.json", (0, 0))
    result = asked_suspects(data, "--runs", tmp_path / "runs")
    assert result.exit_code == 3
    assert f"{last}. Give the folder of a run" in result.stderr


def test_an_unfinished_run_is_bad_data(run):
    (run / "summary.json").unlink()
    result = asked_suspects(run)
    assert result.exit_code == 3
    assert "not finished" in result.stderr


def test_the_named_command_resumes_an_unfinished_run_on_own_data(tmp_path):
    rows = [f"{k % 5},A/{k},{'xy'[k % 2]}" for k in range(20)]
    data = tmp_path / "my data.csv"
    data.write_text("\n".join(["a,Ticket,Kind", "1,2,x", *rows]))
    run = trained(data, tmp_path / "runs", 1, "--label", "Kind", "--ignore", "Ticket")
    (run / "summary.json").unlink()
    result = asked_suspects(run)
    assert result.exit_code == 3
    command = result.stderr.split("`")[1]
    assert runner.invoke(app, shlex.split(command)[1:]).exit_code == 0, command
    assert asked_suspects(run).exit_code == 0
    assert [path.name for path in run.parent.iterdir()] == [run.name]


def test_no_command_is_named_if_the_file_of_weights_is_unknown(tmp_path):
    run = trained(own_data(tmp_path, "folder"), tmp_path / "runs")
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "pretrained": "w-8aa59cf0"}))
    (run / "summary.json").unlink()
    assert "with the command that started it." in asked_suspects(run).stderr


def test_a_run_without_scores_is_bad_data(run):
    (run / "scores.parquet").unlink()
    result = asked_suspects(run)
    assert (result.exit_code, "scores.parquet is missing" in result.stderr) == (3, True)
    reseal(run)
    result = asked_suspects(run)
    assert (result.exit_code, "no per-sample scores" in result.stderr) == (3, True)


def test_a_real_run_is_judged_with_pictures(tmp_path):
    run = trained("digits", tmp_path, 3, "--noise", "symmetric:0.4", "--scores")
    out = tmp_path / "list"
    result = asked_suspects(run, "--top", 5, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    assert (out / "index.html").read_text().count("data:image/jpeg") == 5


@pytest.mark.parametrize(
    ("kind", "pictures"), [("folder", 4), ("parts", 4), ("images", 4), ("features", 0), ("hugging face", 4)]
)
def test_own_data_of_every_kind_have_a_page(tmp_path, kind, pictures):
    data = own_data(tmp_path, kind)
    run = trained(data, tmp_path / "runs")
    found = document("suspects", run, "--top", 4, "--out", tmp_path / "list")
    assert len(found["listed"]) == 4
    page = (tmp_path / "list" / "index.html").read_text()
    assert page.count("data:image/jpeg") == pictures
    assert page.count('<table class="numbers"') == (4 if kind == "features" else 0)
    assert f"<title>Suspect labels: {data.name}</title>" in page


def test_thousands_of_classes_are_listed(tmp_path):
    made_run(tmp_path / "run", samples=3000, classes=3000, names=tuple(f"{'ß' * 300} {k}" for k in range(3000)))
    result = asked_suspects(tmp_path / "run", "--out", tmp_path / "list", "--json", "--quiet")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["transition"] is None
    assert "the first 30" in (tmp_path / "list" / "index.html").read_text()


def test_a_messy_folder_goes_all_the_way(tmp_path, monkeypatch):
    data, out = messy_folder(tmp_path / "data"), tmp_path / "out"
    out.mkdir()
    monkeypatch.chdir(out)
    before = sorted(tmp_path.rglob("*"))
    left_out = document("check", data)["left_out"]
    assert len(left_out) == 7, left_out
    run = trained(data, out / "runs")
    found = document("suspects", run, "--top", 20, "--out", "list", "--format", ",".join(FORMATS))
    assert len(found["listed"]) == 20
    assert (out / "list" / "index.html").read_text().count("data:image/jpeg") == 20
    assert len(document("predict", run, data, "--out", "p.csv")["predictions"]) == 20
    assert document("clean", run, "--out", "clean.csv", "--confidence", 1)["kept"] == 20
    assert document("check", "clean.csv", "--images", data)["samples"] == 20
    assert [path for path in sorted(tmp_path.rglob("*")) if out not in path.parents] == before


@pytest.mark.parametrize("kind", ["folder", "images", "features"])
def test_a_page_is_written_when_the_data_are_gone(tmp_path, kind):
    data = own_data(tmp_path, kind)
    run = trained(data, tmp_path / "runs")
    data.rename(tmp_path / "moved")
    result = asked_suspects(run, "--top", 4, "--out", tmp_path / "list")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "list" / "index.html").read_text().count("data:image/jpeg") == 0
    assert result.stderr.count(" is gone, ") == 1


def test_a_weak_network_is_cautioned_of(run, tmp_path):
    (run / "summary.json").write_text(json.dumps({"run_id": run.name, "chosen": {"validation_accuracy": 0.1}}))
    result = asked_suspects(run, "--out", tmp_path / "list")
    assert "Caution: The network" in result.stdout
    assert "<strong>Caution.</strong> The network" in (tmp_path / "list" / "index.html").read_text()


def test_a_run_may_go_without_scores(tmp_path):
    words = ["train", "digits", "--set", "epochs=1", "--out", str(tmp_path), "-q", "--json"]
    run_id = json.loads(runner.invoke(app, words).stdout)["run_id"]
    assert not (tmp_path / run_id / "scores.parquet").exists()


@pytest.mark.parametrize("name", ["config.json", "summary.json"])
def test_a_damaged_record_is_bad_data(run, tmp_path, name):
    (run / name).write_text("{")
    result = asked_suspects(run, "--out", tmp_path / "out")
    assert result.exit_code == 3
    assert f"{name} is damaged" in result.stderr
    assert not (tmp_path / "out").exists()


def words(data, out):
    return "train", data, "--set", "epochs=1", "--out", out


@pytest.mark.parametrize("kind", ["folder", "features", "images", "hugging face"])
def test_training_on_own_data_ends_with_a_list_and_a_page(tmp_path, kind):
    result = asked(*words(own_data(tmp_path, kind), tmp_path / "runs"))
    assert result.exit_code == 0, result.output
    (page,) = (tmp_path / "runs").glob("*/suspects/index.html")
    assert f"Suspect labels: {page}" in result.stdout
    assert f"Next: tnlpad review {page.parents[1]}" in result.stderr
    assert "Caution: " in result.stdout or "more likely wrong than right" in result.stdout
    found = document("suspects", page.parents[1])
    with open(page.with_name("suspects.csv"), newline="", encoding="utf-8") as file:
        assert [row["id"] for row in csv.DictReader(file)] == [each["id"] for each in found["listed"]]


def test_a_lost_page_comes_back_with_the_same_command(tmp_path):
    data = own_data(tmp_path, "folder")
    page = trained(data, tmp_path / "runs") / "suspects" / "index.html"
    before = page.read_bytes()
    page.unlink()
    trained(data, tmp_path / "runs")
    assert page.read_bytes() == before


def test_without_scores_there_is_no_list(tmp_path):
    data = own_data(tmp_path, "folder")
    run = trained(data, tmp_path / "runs", 1, "--no-scores")
    assert not (run / "suspects").exists()

    again = asked(*words(data, tmp_path / "runs"))  # finished: not trained again for the scores' sake
    assert again.exit_code == 0, again.output
    assert "No list of suspects: " in again.stderr
    assert "no per-sample scores" in again.stderr
    assert not (run / "suspects").exists()


def test_published_data_have_a_list_with_scores(tmp_path):
    assert not (trained("digits", tmp_path / "plain") / "suspects").exists()
    scored = trained("digits", tmp_path / "scored", 1, "--noise", "symmetric:0.4", "--scores")
    assert (scored / "suspects" / "index.html").is_file()


@pytest.mark.parametrize("form", [[], ["--json", "-q"]])
def test_a_list_that_cannot_be_written_leaves_the_run_finished_and_shown(tmp_path, form):
    data = own_data(tmp_path, "folder")
    run = tmp_path / "runs" / trained(data, tmp_path / "elsewhere").name
    run.mkdir(parents=True)
    (run / "suspects").write_text("in the way")
    result = asked(*words(data, tmp_path / "runs"), *form)
    assert result.exit_code == 1
    assert f"File exists: '{run / 'suspects'}'. The finished run is kept" in result.stderr
    assert run.name in result.stdout
    assert (run / "summary.json").is_file()


def test_existing_files_stay_when_the_run_is_shown_again(tmp_path):
    data = own_data(tmp_path, "folder")
    listed = trained(data, tmp_path / "runs") / "suspects" / "suspects.csv"
    listed.write_text("mine")
    for _ in range(2):
        trained(data, tmp_path / "runs")
        assert listed.read_text() == "mine"


def test_a_damaged_run_is_not_a_success(tmp_path):
    data = own_data(tmp_path, "folder")
    run = trained(data, tmp_path / "runs")
    for name in ("model.safetensors", "scores.parquet", "pred_probs.npy", "samples.parquet"):
        before = (run / name).read_bytes()
        (run / name).write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        result = asked(*words(data, tmp_path / "runs"), "-q")
        assert (result.exit_code, result.stdout) == (3, "")
        assert f"{name} is damaged" in result.stderr
        (run / name).write_bytes(before)
    assert asked(*words(data, tmp_path / "runs")).exit_code == 0


def test_damaged_scores_of_an_earlier_version_are_not_a_success(tmp_path):
    data = own_data(tmp_path, "folder")
    run = trained(data, tmp_path / "runs")
    without_checksums(run)
    intact = asked(*words(data, tmp_path / "runs"))
    assert (intact.exit_code, "Suspect labels: " in intact.stdout) == (0, True)
    scores = run / "scores.parquet"
    scores.write_bytes(scores.read_bytes()[:100])
    result = asked(*words(data, tmp_path / "runs"), "-q")
    assert result.exit_code == 3
    assert "No list of suspects: " in result.stderr
    assert "scores.parquet is damaged" in result.stderr
    (run / "samples.parquet").unlink()
    os.mkfifo(run / "samples.parquet")
    with time_limit(60):
        result = asked(*words(data, tmp_path / "runs"), "-q")
    assert (result.exit_code, "samples.parquet is damaged (it is not a regular" in result.stderr) == (3, True)


@pytest.mark.parametrize("kind", ["features", "images", "hugging face"])
def test_data_are_not_opened_again_for_the_page(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("tnlpad.suspects.listing.RankedRun.open_data", lambda *_: pytest.fail("opened twice"))
    run = trained(own_data(tmp_path, kind), tmp_path / "runs")
    assert document("suspects", run)["listed"], "or nothing would have to be shown"
    assert (run / "suspects" / "index.html").is_file()


@pytest.fixture
def predictions(tmp_path):
    """Write predictions for digits, a tenth of which have a wrong label; return the words that name the files."""
    pixels, clean = load_digits(return_X_y=True)
    generator = np.random.default_rng(0)
    given = np.where(generator.random(len(clean)) < 0.1, (clean + generator.integers(1, 10, len(clean))) % 10, clean)
    rows = cross_val_predict(LogisticRegression(C=0.003, max_iter=50), pixels / 16, given, cv=2, method="predict_proba")
    np.save(tmp_path / "p.npy", rows)
    np.save(tmp_path / "f.npy", pixels)
    lines = ["id,label", *(f"scan {row},{label}" for row, label in enumerate(given))]
    (tmp_path / "y.csv").write_text("\n".join(lines))
    return "--probabilities", tmp_path / "p.npy", "--labels", tmp_path / "y.csv"


def test_predictions_of_any_model_give_a_list(predictions, tmp_path):
    out = tmp_path / "list"
    result = asked_suspects(*predictions, "--features", tmp_path / "f.npy", "--out", out)
    assert result.exit_code == 0, result.output
    assert "of the labels are wrong at random." in result.stdout
    assert "tnlpad audit" not in result.stdout
    assert [path.name for path in out.iterdir()] == ["suspects.csv"]
    with open(out / "suspects.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert 100 < len(rows) < 250
    assert rows[0]["id"] == f"scan {rows[0]['index']}"
    assert "nearest samples" in rows[0]["why"]


def test_predictions_of_any_model_as_a_document(predictions, tmp_path):
    words = ("--top", 3, "--json", "--out", tmp_path / "list", "--format", "parquet,label-studio,cleanlab")
    found = json.loads(asked_suspects(*predictions, *words).stdout)
    assert found["run"] is None
    assert [each["rank"] for each in found["listed"]] == [1, 2, 3]
    assert found["noise_rate"]["low"] < 0.1 < found["noise_rate"]["high"]
    assert "tnlpad audit" not in found["noise_rate"]["text"]
    assert len(found["files"]) == 4
    assert asked_suspects(*predictions, "--fail-on", "5%").exit_code == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["RUN", "--probabilities", "p.npy", "--labels", "y.csv"], "RUN RUN and --probabilities p.npy"),
        (["--probabilities", "p.npy"], "--probabilities p.npy needs the given labels: add --labels"),
        (["--labels", "y.csv"], "--labels y.csv needs the predictions"),
        (["RUN", "--features", "f.npy"], "--features f.npy needs the predictions"),
        (["RUN", "--label", "kind"], "--label kind needs the predictions"),
        ([], "Give a RUN, or --probabilities FILE and --labels FILE"),
        (["--probabilities", "p.npy", "--labels", "y.csv", "--out", "list", "--format", "html"], "only a RUN has"),
    ],
)
def test_a_run_and_predictions_exclude_each_other(predictions, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    result = asked_suspects(*words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (tmp_path / "list").exists()


def test_bad_predictions_are_bad_data_and_nothing_is_written(predictions, tmp_path):
    np.save(tmp_path / "p.npy", 2 * np.load(tmp_path / "p.npy"))
    result = asked_suspects(*predictions, "--out", tmp_path / "list")
    assert result.exit_code == 3
    assert "which sum to 2. 1,797 samples are like that." in result.stderr
    assert not (tmp_path / "list").exists()


def test_the_help_says_that_predictions_must_be_out_of_sample():
    text = runner.invoke(app, ["suspects", "--help"], env={"COLUMNS": "80"}).output
    assert "must be out of sample" in " ".join(text.replace("│", " ").split())
    assert max(map(len, text.splitlines())) <= 80
