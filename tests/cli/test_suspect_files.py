"""The list of suspects that `tnlpad train` leaves in a run's folder."""

import csv

import pytest

from tests.cli.trained import asked, document, own_data, trained


def words(data, out):
    return "train", data, "--set", "epochs=1", "--out", out


@pytest.mark.parametrize("kind", ["folder", "features", "images", "hugging face"])
def test_training_on_own_data_ends_with_a_list_and_a_page(tmp_path, kind):
    result = asked(*words(own_data(tmp_path, kind), tmp_path / "runs"))
    assert result.exit_code == 0, result.output
    (page,) = (tmp_path / "runs").glob("*/suspects/index.html")
    assert f"Suspect labels: {page}" in result.stdout
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
    assert "kept no scores" in again.stderr
    assert not (run / "suspects").exists()


def test_published_data_have_one_where_scores_are_asked_for(tmp_path):
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


def test_what_lies_there_stays_when_the_run_is_shown_again(tmp_path):
    data = own_data(tmp_path, "folder")
    listed = trained(data, tmp_path / "runs") / "suspects" / "suspects.csv"
    listed.write_text("mine")
    trained(data, tmp_path / "runs")
    assert listed.read_text() == "mine"


def test_damaged_scores_are_told_of_however_quiet(tmp_path):
    data = own_data(tmp_path, "folder")
    scores = trained(data, tmp_path / "runs") / "scores.parquet"
    scores.write_bytes(scores.read_bytes()[:100])
    result = asked(*words(data, tmp_path / "runs"), "-q")
    assert result.exit_code == 0
    assert "No list of suspects: " in result.stderr


@pytest.mark.parametrize("kind", ["features", "images", "hugging face"])
def test_data_are_not_opened_again_for_the_page(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("tnlpad.cli.shown_samples.reopened", lambda *_: pytest.fail("opened twice"))
    run = trained(own_data(tmp_path, kind), tmp_path / "runs")
    assert document("suspects", run)["suspects"], "or nothing would have to be shown"
    assert (run / "suspects" / "index.html").is_file()
