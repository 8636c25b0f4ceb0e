import numpy as np

from tests.suspects.made import made
from tnlpad.records.scores import SampleNames
from tnlpad.suspects.listing import absorbed, suspects
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
