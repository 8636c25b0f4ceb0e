import json

import numpy as np
import pytest

from tests.suspects.made import made, made_run
from tnlpad.records.scores import SampleNames
from tnlpad.records.store import RecordError, RunFolder
from tnlpad.suspects.listing import FEWEST_HELD_OUT, absorbed, caution, caution_of_run, judged, suspects
from tnlpad.suspects.ranking import rank


def names(size):
    return SampleNames(ids=[f"id{k}" for k in range(size)], paths=[f"{k}.png" for k in range(size)])


def listed(top=None, **options):
    scores, _, _ = made(**options)
    ranking = rank(scores)
    return suspects(ranking, scores, names(len(scores)), top), ranking, scores


def test_a_row_names_the_sample_and_both_labels():
    rows, ranking, scores = listed(top=5)
    assert [row.rank for row in rows] == [1, 2, 3, 4, 5]
    for row, place in zip(rows, ranking.order, strict=False):
        assert (row.id, row.path, row.index) == (f"id{place}", f"{place}.png", place)
        assert row.given_name == scores.class_names[scores.columns["given"][place]]
        assert row.suggested_name == scores.class_names[ranking.evidence.suggested[place]] != row.given_name
        assert row.part == scores.columns["part"][place]


def test_by_default_all_suspects_are_listed():
    rows, ranking, _ = listed()
    assert len(rows) == ranking.suspects > 0
    assert len(listed(top=10_000)[0]) == 600  # no more than there are


def test_the_reason_has_the_numbers():
    rows, _, _ = listed(top=600)
    first = rows[0]
    assert f"sees “{first.suggested_name}”" in first.why
    assert f"not “{first.given_name}”" in first.why
    assert "in 0 of 10 epochs" in first.why
    assert any("never trained on" in row.why for row in rows if row.part == "validation")
    assert not any("never trained on" in row.why for row in rows if row.part == "train")
    assert any("by heart" in row.why for row in rows if row.part == "train")
    assert "agrees with" in rows[-1].why


def test_what_gamma_absorbs_needs_a_decomposition():
    columns = {"margin_w_to_end": np.array([3.0, 1.0]), "margin_sigma_to_end": np.array([1.0, 1.0])}
    assert absorbed(columns, ("sigma", "w")).tolist() == [2.0, 0.0]
    assert absorbed(columns, ("sigma", "w"), 0) == 2.0
    assert absorbed({}, ("w",)) is None


def test_a_suspect_whose_label_leads_says_what_it_is_taken_for():
    rows, _, _ = listed(top=600, sharpness=1.0, rate=0.45)
    leading = [row for row in rows if "but also" in row.why]
    assert leading
    for row in leading:
        assert f"sees “{row.given_name}”" in row.why
        assert f"also “{row.suggested_name}”" in row.why
        assert row.confidence >= 0.5


@pytest.mark.parametrize(("agreement", "usual"), [(None, 0.1), (0.38, 0.1), (0.93, 0.1), (0.95, 0.9)])
def test_a_network_that_knows_its_data_needs_no_caution(agreement, usual):
    assert caution(agreement, usual) is None


@pytest.mark.parametrize(("agreement", "usual"), [(0.155, 0.1), (0.6, 0.5), (0.9, 0.9), (0.3, 0.4)])
def test_a_network_that_hardly_knows_more_than_the_most_frequent_label_is_not_to_be_believed(agreement, usual):
    words = caution(agreement, usual)
    assert f"only {100 * agreement:.0f} %" in words
    assert f"right for {100 * usual:.0f} %" in words


@pytest.mark.parametrize(("rate", "agreement"), [(0.2, 0.8), (0.2, 0.4)])
def test_the_most_frequent_label_is_that_of_the_held_out_samples(tmp_path, rate, agreement):
    scores, _, _ = made(rate=rate)
    (tmp_path / "summary.json").write_text(json.dumps({"chosen": {"validation_accuracy": agreement}}))
    words = caution_of_run(RunFolder(tmp_path), scores)
    assert (words is None) == (agreement > 0.5)
    if words:
        labels = scores.columns["given"][scores.columns["part"] == "validation"].tolist()
        assert f"right for {100 * max(map(labels.count, range(3))) / len(labels):.0f} %" in words


@pytest.mark.parametrize("held_out", [1, FEWEST_HELD_OUT - 1, FEWEST_HELD_OUT])
def test_a_few_held_out_samples_do_not_tell_what_a_network_knows(tmp_path, held_out):
    scores, _, _ = made(held_out=0.0)
    scores.columns["part"][:held_out] = "validation"
    (tmp_path / "summary.json").write_text(json.dumps({"chosen": {"validation_accuracy": 1.0}}))
    words = caution_of_run(RunFolder(tmp_path), scores)
    assert (words is None) == (held_out == FEWEST_HELD_OUT)
    assert words is None or f"Only {held_out} samples were held out, and it takes {FEWEST_HELD_OUT}" in words


def test_a_run_without_samples_held_out_is_judged_by_what_chose_its_epoch(tmp_path):
    scores, _, _ = made(held_out=0.0)
    for agreement, cautioned in ((0.9, False), (0.1, True)):
        (tmp_path / "summary.json").write_text(json.dumps({"chosen": {"validation_accuracy": agreement}}))
        assert (caution_of_run(RunFolder(tmp_path), scores) is not None) == cautioned


def test_a_folder_is_read_and_ranked(tmp_path):
    scores, _ = made_run(tmp_path / "run")
    found = judged(RunFolder(tmp_path / "run"))
    assert found.ranking.order.tolist() == rank(scores).order.tolist()
    assert [each.id for each in found.suspects(3)] == [str(place) for place in found.ranking.order[:3]]
    assert len(found.suspects()) == found.ranking.suspects
    assert len(found.suspects(len(found.scores))) == len(scores)


def test_a_folder_without_scores_is_told(tmp_path):
    with pytest.raises(RecordError, match="kept no scores"):
        judged(RunFolder(tmp_path))
