import pytest

from tests.suspects.made import made
from tests.suspects.test_listing import names
from tnlpad.records.store import RecordError
from tnlpad.suspects.clean import HEADER, Change, cleaned, read_review, untouched
from tnlpad.suspects.ranking import rank


def review(path, text, ids=("a", "b", "c,d")):
    path.write_text(text, encoding="utf-8")
    return read_review(path, ids)


def test_a_decision_is_a_label_or_none(tmp_path):
    text = 'id,path,label,given,suggested,choice\r\na,,cät,cät,dog,given\r\n"c,d",,,cat,dog,neither\r\n'
    assert review(tmp_path / "r.csv", text) == {"a": "cät", "c,d": None}
    assert review(tmp_path / "r.csv", "\ufefflabel,id\ncat,b\n") == {"b": "cat"}
    assert review(tmp_path / "r.csv", "id;label\nc,d;cat\nc,d;cat\n") == {"c,d": "cat"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column id"),
        ("id,choice\na,given\n", "has no column label"),
        ("id,label\nz,cat\n", "'z', which is no sample of this run"),
        ("id,label\na,cat\na,dog\n", "two labels for 'a': 'cat' and 'dog'"),
        ("id,label\na,cat\nb\n", "line 3: the row ends before its label"),
    ],
)
def test_what_is_no_review_of_this_run_is_refused(tmp_path, text, message):
    with pytest.raises(RecordError, match=message):
        review(tmp_path / "r.csv", text)


def test_what_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "r.csv").write_bytes(b"id,label\n\xff\xfe\n")
    for path in (tmp_path / "r.csv", tmp_path / "none.csv"):
        with pytest.raises(RecordError, match="cannot be read as a table"):
            read_review(path, [])


def kept(action, least_confidence=0.9, review=None, **options):
    scores, wrong, clean = made(**options)
    change = Change(action=action, least_confidence=least_confidence)
    return list(cleaned(rank(scores), scores, names(len(scores)), change, review)), scores, wrong, clean


def test_corrected_labels_are_nearer_to_the_truth_and_the_original_stays():
    table, scores, wrong, clean = kept("correct")
    assert len(table) == len(scores)
    right = [row.label == scores.class_names[true] for row, true in zip(table, clean, strict=True)]
    assert sum(right) / len(right) > 0.93 > 1 - wrong.mean()
    given = scores.columns["given"]
    assert [row.original_label for row in table] == [scores.class_names[label] for label in given]
    assert all((row.label != row.original_label) == row.changed for row in table)
    assert {row.row()[HEADER.index("changed")] for row in table} == {"yes", "no"}


def test_dropped_samples_are_gone_and_the_rest_unchanged():
    table, scores, wrong, _ = kept("drop")
    places = {int(row.id.removeprefix("id")) for row in table}
    assert wrong[list(places)].mean() < wrong.mean() / 3
    assert not any(row.changed for row in table)
    assert len(table) < len(scores)


def test_more_confidence_changes_fewer_labels():
    def changed(confidence):
        return sum(row.changed for row in kept("correct", confidence, sharpness=2.0)[0])

    assert 0 < changed(0.99) < changed(0.5)
    assert changed(1.0) == 0


def test_a_decision_counts_before_any_score():
    before = {row.id: row for row in kept("correct")[0]}
    doubted = next(row for row in before.values() if row.changed)
    trusted, unfit = (row for row, _ in zip((r for r in before.values() if not r.changed), range(2), strict=False))
    review = {doubted.id: doubted.original_label, trusted.id: "another class", unfit.id: None}
    after = {row.id: row for row in kept("correct", review=review)[0]}
    assert after.keys() == before.keys() - {unfit.id}
    assert not after[doubted.id].changed
    assert (after[trusted.id].label, after[trusted.id].changed) == ("another class", True)
    others = before.keys() - review.keys()
    assert {name: after[name] for name in others} == {name: before[name] for name in others}


def test_the_test_part_stays_as_it_is():
    samples = {"id": ["a", "b"], "path": ["a.png", None], "label_name": ["x", "y"], "part": ["train", "test"]}
    (row,) = untouched(samples)
    assert row.row() == ("b", None, "y", "test", "y", "no", "")
