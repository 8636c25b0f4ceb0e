import json

import pytest

from tests.suspects.made import made
from tnlpad.records.store import RunFolder
from tnlpad.suspects.caution import FEWEST_HELD_OUT, caution, caution_of_run


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
