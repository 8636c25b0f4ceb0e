from dataclasses import replace

import numpy as np
import pytest

from tests.suspects.made import made, made_run
from tnlpad.records.samples import write_samples
from tnlpad.records.store import RecordError, RunFolder
from tnlpad.suspects.clean import HEADER, clean_samples, cleaned_labels
from tnlpad.suspects.listing import rank_run
from tnlpad.suspects.review import read_review


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
        ("", "is empty: its first line must name the columns"),
        ("id,choice\na,given\n", "has no column label"),
        ("id,label\nz,cat\n", "'z', which is not a sample of this run"),
        ("id,label\na,cat\na,dog\n", "two labels for 'a': 'cat' and 'dog'"),
        ("id,label\na,cat\nb\n", "line 3: 1 fields, but 2 columns"),
        ("label,id\ncat\n", "line 2: 1 fields, but 2 columns"),
        ("label,id\ncat,\n", r"r\.csv, line 2: the id is missing"),
        ("id,label\na,cat, small\n", "line 2: 3 fields, but 2 columns"),
        ("id,label,label\na,cat,dog\n", "two columns of the same name: id, label, label"),
        ('id,label\na,"cat\nb,cat\n', "quotes do not match in the row from line 2 on .* Is a quote not closed"),
    ],
)
def test_a_file_that_is_no_review_of_this_run_is_refused(tmp_path, text, message):
    with pytest.raises(RecordError, match=message):
        review(tmp_path / "r.csv", text)


def test_an_unreadable_review_is_refused(tmp_path):
    (tmp_path / "r.csv").write_bytes(b"id,label\n\xff\xfe\n")
    for path in (tmp_path / "r.csv", tmp_path / "none.csv"):
        with pytest.raises(RecordError, match=r"\.csv (is not a text file|cannot be read: No such file)"):
            read_review(path, [])


@pytest.fixture
def run(tmp_path):
    made_run(tmp_path / "run")
    return rank_run(RunFolder(tmp_path / "run"))


def test_corrected_labels_are_nearer_to_the_truth_and_the_original_stays(run):
    _, wrong, clean = made()
    table, classes = clean_samples(run).kept, run.scores.class_names
    assert len(table) == len(run.scores)
    right = [row.label == classes[true] for row, true in zip(table, clean, strict=True)]
    assert sum(right) / len(right) > 0.93 > 1 - wrong.mean()
    assert [row.original_label for row in table] == [classes[label] for label in run.scores.columns["given"]]
    assert all((row.label != row.original_label) == row.changed for row in table)
    assert {row.fields()[HEADER.index("changed")] for row in table} == {"yes", "no"}


def test_dropped_samples_are_gone_and_the_rest_unchanged(run):
    _, wrong, _ = made()
    cleaning = clean_samples(run, action="drop")
    table = cleaning.kept
    assert (cleaning.dropped, cleaning.corrected) == (len(run.scores) - len(table), 0)
    assert wrong[[int(row.id) for row in table]].mean() < wrong.mean() / 3
    assert not any(row.changed for row in table)
    assert len(table) < len(run.scores)


def test_more_confidence_changes_fewer_labels(tmp_path):
    made_run(tmp_path / "unsure", sharpness=2.0)
    run = rank_run(RunFolder(tmp_path / "unsure"))

    def changed(confidence):
        return clean_samples(run, confidence=confidence).corrected

    assert 0 < changed(0.99) < changed(0.5)
    assert changed(1.0) == 0


def test_a_decision_overrides_the_scores(run):
    before = {row.id: row for row in clean_samples(run).kept}
    doubted = next(row for row in before.values() if row.changed)
    trusted, unfit = (row for row, _ in zip((r for r in before.values() if not r.changed), range(2), strict=False))
    review = {doubted.id: doubted.original_label, trusted.id: "another class", unfit.id: None}
    after = {row.id: row for row in clean_samples(run, review=review).kept}
    assert after.keys() == before.keys() - {unfit.id}
    assert not after[doubted.id].changed
    assert (after[trusted.id].label, after[trusted.id].changed) == ("another class", True)
    others = before.keys() - review.keys()
    assert {name: after[name] for name in others} == {name: before[name] for name in others}


def test_what_nobody_could_decide_keeps_its_label_and_is_asked_about_again(run):
    sure = clean_samples(run).changes
    first, second = sure[0].id, sure[1].id
    checked = replace(run, ranking=run.ranking.checked({int(first): sure[0].before}, run.scores.class_names))
    cleaning = clean_samples(checked, undecided={first, second})
    assert {each.id for each in cleaning.changes} == {each.id for each in sure[2:]}
    assert first not in cleaning.decided


def test_the_test_part_stays_as_it_is(run):
    names = [*map(str, range(600)), "b"]
    columns = {"id": names, "path": [None] * 601, "label": [0] * 601, "label_name": ["y"] * 601}
    write_samples(run.folder.path, columns | {"part": ["train"] * 600 + ["test"]}, {"kind": "features"})
    *scored, last = clean_samples(run).kept
    assert len(scored) == 600
    assert last.fields() == ("b", None, "y", "test", "y", "no", "")


def test_a_weak_network_changes_the_first_of_the_order_and_nothing_else(run):
    weak = replace(run, ranking=run.ranking.without_estimates("too weak"))
    assert not clean_samples(weak).changed
    assert not clean_samples(weak, confidence=0.5).changed
    changed = [int(row.id) for row in clean_samples(weak, top=20).kept if row.changed]
    assert sorted(changed) == sorted(run.ranking.order[:20])


def test_a_class_that_is_too_rare_to_judge_is_left_alone(run):
    given = run.ranking.evidence.given
    ranking = replace(run.ranking, rare=(0,), confidence=np.ones(len(given)))
    kept = clean_samples(replace(run, ranking=ranking)).kept
    assert [row.changed for row in kept] == (given != 0).tolist()
    name = run.names.ids[int(np.flatnonzero(given == 0)[0])]
    decided = clean_samples(replace(run, ranking=ranking), review={name: run.scores.class_names[1]}).kept
    assert next(row for row in decided if row.id == name).changed


@pytest.mark.parametrize("action", ["correct", "drop"])
def test_no_class_loses_all_its_samples_unless_a_person_says_so(run, action):
    evidence = run.ranking.evidence
    confidence = np.where(evidence.given == 0, 0.99, 0.0)
    evidence = replace(evidence, suggested=np.where(evidence.given == 0, 1, evidence.suggested))
    doubted = replace(run, ranking=replace(run.ranking, evidence=evidence, confidence=confidence))
    cleaning = clean_samples(doubted, action=action)
    assert cleaning.spared == (run.scores.class_names[0],)
    assert not cleaning.changed
    members = [run.names.ids[row] for row in np.flatnonzero(evidence.given == 0)]
    decided = clean_samples(doubted, action=action, review=dict.fromkeys(members))
    assert (decided.spared, decided.dropped) == ((), len(members))
    half = clean_samples(doubted, action=action, review=dict.fromkeys(members[::2]))
    assert half.spared == cleaning.spared
    assert {row.id for row in half.kept if row.original_label == cleaning.spared[0]} == set(members[1::2])


def test_decisions_of_an_audit_are_used_and_overridden_by_a_review(run):
    decisions = {0: None, 1: "wasp"}
    audited = replace(run, ranking=replace(run.ranking, decisions=decisions))
    kept = {row.id: row.label for row in clean_samples(audited, review={"1": "fly"}).kept}
    assert "0" not in kept
    assert kept["1"] == "fly"


def test_labels_come_back_in_the_values_and_the_order_of_the_data(run):
    codes = {"ant": 7, "bee": True, "<cat>": None}
    given = [codes[run.scores.class_names[label]] for label in run.scores.columns["given"]]
    run = replace(run, names=replace(run.names, rows=np.arange(600)[::-1] + 5))  # after five rows that were not used
    kept = clean_samples(run, review={"0": None, "1": "wasp"}).kept
    rows, labels = cleaned_labels(run, kept, [None] * 5 + given[::-1])
    assert rows == [*range(5, 604)]
    assert labels[-1] == "wasp"
    expected = {row.row: codes.get(row.label, row.label) for row in kept}
    assert labels == [expected[row] for row in rows]
    assert np.mean([one != two for one, two in zip(labels, given[::-1], strict=False)]) > 0.1
