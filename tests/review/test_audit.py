import pytest

from tests.review.served import served
from tests.suspects.made import made, made_run
from tnlpad.records.store import RunFolder
from tnlpad.suspects.audit import rate
from tnlpad.suspects.audit_files import read_audit, read_sample, write_audit, write_sample
from tnlpad.suspects.audited_run import audit_run, draw_from_run
from tnlpad.suspects.listing import rank_run


@pytest.fixture
def folder(tmp_path):
    made_run(tmp_path / "runs" / "somewhere")
    return tmp_path / "runs" / "somewhere"


def test_without_a_sample_there_is_nothing(folder):
    with served(folder) as client:
        assert client.document("about")["audit"] is None
        found = client.document("audit")
        assert (found["positions"], found["sentence"], found["drawn"]) == ([], None, 0)


def test_only_labels_up_to_the_first_gap_count(folder):
    run = rank_run(RunFolder(folder))
    _, wrong, _ = made()
    with served(folder) as client:
        status, found = client.post("audit", {"sample": 30})
        assert (status, found["drawn"], found["decided"]) == (200, 30, 0)
        assert client.document("about")["audit"] == {"drawn": 30}
        rows = draw_from_run(run, 30).rows
        assert found["positions"] == run.ranking.positions[rows].tolist()
        choices = ["suggested" if wrong[row] else "given" for row in rows]
        choices[3] = "unsure"
        for place in (*range(12), *range(20, 30)):
            client.decide(found["positions"][place], choices[place])
        found = client.document("audit")
        assert found["decided"] == 22
        expected = rate(
            [
                {"given": "right", "suggested": "wrong", "unsure": "unsure"}[each] if place < 12 else None
                for place, each in enumerate(choices)
            ],
            draw_from_run(run, 30),
        ).share
        assert (found["estimate"], found["low"], found["high"]) == (expected.estimate, expected.low, expected.high)
        assert "Checked 12 of 30 labels" in found["sentence"]
        assert "1 unclear" in found["sentence"]
    assert read_audit(folder) is None  # some are not decided on


def test_a_complete_sample_is_the_audit_of_the_run(folder):
    with served(folder) as client:
        _, found = client.post("audit", {"sample": 10})
        for at in found["positions"]:
            client.decide(at, "exclude" if at % 2 else "given")
    audit = read_audit(folder)
    assert (audit.drawn, audit.rate.checked) == (10, 10)
    assert audit.rate.wrong == sum(at % 2 for at in found["positions"])
    with served(folder) as client:
        assert client.document("audit")["decided"] == 10
        assert client.post("audit", {"sample": 15})[1]["drawn"] == 15
        assert client.document("audit")["decided"] == 10
        assert client.post("audit", {"sample": 5})[1]["drawn"] == 15  # never smaller
    assert len(read_sample(folder / "audit", rank_run(RunFolder(folder)))) == 15


def test_a_review_keeps_the_further_classes_of_an_audit(folder):
    run = rank_run(RunFolder(folder))
    sample, names = draw_from_run(run, 10), run.scores.class_names
    ids = [run.names.ids[row] for row in sample.rows]
    decisions = {name: names[label] for name, label in zip(ids, run.ranking.evidence.given[sample.rows], strict=True)}
    decisions |= {ids[0]: "zebra", ids[1]: None}
    write_sample(folder / "audit", run, sample)
    write_audit(folder / "audit", audit_run(run, decisions, sample))
    before = read_audit(folder)
    assert before.review == decisions
    with served(folder) as client:
        assert client.document("audit")["decided"] == 10
    after = read_audit(folder)
    assert (after.review, after.rate) == (before.review, before.rate)


@pytest.mark.parametrize("size", [0, -1, 601, 1.5, "10", None, True])
def test_a_wrong_size_is_named(folder, size):
    with served(folder) as client:
        status, answer = client.post("audit", {"sample": size})
        assert status == 400
        assert str(size) in answer["error"]
        assert not (folder / "audit").exists()
