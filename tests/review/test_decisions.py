import csv
import errno
import json
import os
from dataclasses import replace
from threading import Thread

import pytest

from tests.suspects.made import made_run
from tests.time_limit import time_limit
from tnlpad.records.store import RecordError, RunFolder
from tnlpad.review.decisions import Decision, DecisionLog, parse_decisions
from tnlpad.review.saved_table import SavedTable, write_table
from tnlpad.suspects.listing import rank_run
from tnlpad.suspects.review import read_reviews


@pytest.fixture
def run(tmp_path):
    made_run(tmp_path / "runs" / "somewhere", samples=200)
    return rank_run(RunFolder(tmp_path / "runs" / "somewhere"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "review.jsonl"


def decision(at, choice, label=None):
    return Decision(at=at, choice=choice, label=label)


def store(log, *decisions):
    return log.append(decisions, [f"{log.version} {number}" for number, _ in enumerate(decisions)])


def names(run, at):
    """Names of the given and the suggested class, and the third one."""
    row = run.ranking.order[at]
    classes, found = run.scores.class_names, run.ranking.evidence
    given, suggested = classes[found.given[row]], classes[found.suggested[row]]
    return given, suggested, next(iter(set(classes) - {given, suggested}))


def test_the_last_decision_counts_and_carries_its_label(run, path):
    log = DecisionLog(path, run)
    given, suggested, third = names(run, 0)
    store(log, decision(0, "given"), decision(1, "unsure"), decision(2, "exclude"))
    before = store(log, decision(0, "other", third))
    assert log.since(0) == (
        before,
        [decision(0, "other", third), decision(1, "unsure"), decision(2, "exclude")],
    )
    assert log.since(before) == (before, [])
    after = store(log, decision(1, None), decision(0, "suggested"))
    assert log.since(before) == (after, [decision(0, "suggested", suggested), decision(1, None)])
    assert log.decided() == [decision(0, "suggested", suggested), decision(2, "exclude")]
    store(log, decision(0, "other", given))
    assert log.last(0) == decision(0, "given", given)


def test_a_repeated_key_is_stored_once(run, path):
    log = DecisionLog(path, run)
    first = log.append([decision(0, "given")], ["k"])
    assert log.append([decision(0, "exclude"), decision(1, "given")], ["k", "l"]) == first + 1
    assert log.last(0).choice == "given"
    again = DecisionLog(path, run)
    assert again.append([decision(0, "exclude")], ["k"]) == first + 1
    assert path.read_bytes().count(b"\n") == 2


def test_the_log_is_read_again_without_a_half_written_line(run, path):
    log = DecisionLog(path, run)
    store(log, decision(3, "suggested"), decision(4, "given"), decision(5, "given"), decision(5, None))
    complete = path.read_bytes()
    path.write_bytes(complete + complete.splitlines()[0][:-4])
    again = DecisionLog(path, run)
    assert path.read_bytes() == complete
    assert again.since(0) == log.since(0)
    assert [each.at for each in again.decided()] == [3, 4]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "5",
        '{"key": "k"}',
        '{"key": "k", "id": "0", "choice": "maybe", "label": null}',
        '{"key": "k", "id": "9999", "choice": "exclude", "label": null}',
        '{"key": "k", "id": "0", "choice": "given", "label": "cow"}',
        '{"key": "k", "id": "0", "choice": "given", "label": null}',
        '{"key": "k", "id": "0", "choice": "exclude", "label": "ant"}',
        '{"key": "k", "id": "0", "choice": "given", "label": []}',
    ],
)
def test_a_damaged_line_is_named(run, path, line):
    store(DecisionLog(path, run), decision(0, "given"))
    with open(path, "a") as file:
        file.write(line + "\n")
    with pytest.raises(RecordError, match="line 2 is damaged, or about another run"):
        DecisionLog(path, run)


def test_a_folder_in_the_place_of_the_log_is_named(run, path):
    path.mkdir(parents=True)
    with pytest.raises(RecordError, match=rf"{path.name} cannot be read \(Is a directory\).*move it away"):
        DecisionLog(path, run)


def test_a_pipe_in_the_place_of_the_log_is_named(run, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    with time_limit(10), pytest.raises(RecordError, match=rf"{path.name} cannot be read \(it is not a regular file\)"):
        DecisionLog(path, run)


def test_a_label_stays_right_if_the_order_and_a_suggestion_change(run, path):
    _, suggested, third = names(run, 0)
    store(DecisionLog(path, run), decision(0, "suggested"))
    found = replace(run.ranking.evidence, suggested=run.ranking.evidence.suggested.copy())
    row = run.ranking.order[0]
    found.suggested[row] = run.scores.class_names.index(third)
    turned = replace(run, ranking=replace(run.ranking, evidence=found, order=run.ranking.order[::-1].copy()))
    assert DecisionLog(path, turned).decided() == [decision(len(run.ranking.order) - 1, "other", suggested)]


def test_decisions_of_an_audit_are_there_before_the_first(run, path):
    rows = run.ranking.order[[0, 1, 2]].tolist()
    given, suggested, _ = names(run, 0)
    audited = replace(run, ranking=replace(run.ranking, decisions={rows[0]: suggested, rows[1]: None}))
    log = DecisionLog(path, audited)
    version, decisions = log.since(0)
    assert [(each.at, each.choice, each.by) for each in decisions] == [
        (0, "suggested", "earlier"),
        (1, "exclude", "earlier"),
    ]
    assert log.since(version) == (version, [])
    assert log.decided() == []
    store(log, decision(0, "given"))
    assert log.decided() == [decision(0, "given", given)]
    assert [each.by for each in log.since(0)[1]] == ["review", "earlier"]


def test_a_withdrawn_decision_of_an_earlier_round_reaches_the_table(run, path, tmp_path):
    rows = run.ranking.order[[0, 1]].tolist()
    given = names(run, 0)[0]
    log = DecisionLog(path, replace(run, ranking=replace(run.ranking, decisions={rows[0]: given, rows[1]: given})))
    assert log.reopened() == []
    store(log, decision(1, None))
    store(log, decision(2, "given"))
    write_table(tmp_path / "review.csv", log)
    merged = read_reviews([tmp_path / "review.csv"], run.names.ids)
    assert merged.undecided == {run.names.ids[rows[1]]}
    assert merged.decisions.keys() == {run.names.ids[run.ranking.order[2]]}


def test_nothing_is_stored_on_a_full_disk(run, path, monkeypatch):
    log = DecisionLog(path, run)
    before = store(log, decision(0, "given"))

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            log.append([decision(1, "given")], ["k"])
    assert log.since(before) == (before, [])
    assert DecisionLog(path, run).version == before
    assert log.append([decision(1, "given")], ["k"]) == before + 1


def test_many_threads_lose_nothing(run, path):
    log = DecisionLog(path, run)

    def decide(worker):
        for turn in range(25):
            key = f"{worker} {turn}"
            log.append([decision(8 * turn + worker, "given")], [key])
            log.append([decision(8 * turn + worker, "given")], [key])

    threads = [Thread(target=decide, args=(worker,)) for worker in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert log.version == 1 + 200
    assert [each.at for each in log.decided()] == list(range(200))
    assert DecisionLog(path, run).since(0) == log.since(0)


def test_a_reader_waits_for_what_is_new(run, path):
    log = DecisionLog(path, run)
    seen = []
    waiting = Thread(target=lambda: seen.append(log.wait(log.version)))
    waiting.start()
    store(log, decision(0, "given"))
    waiting.join()
    assert seen == [2]
    assert log.wait(2, seconds=0.01) == 2
    waiting = Thread(target=lambda: log.wait(2))
    waiting.start()
    log.close()
    waiting.join()
    with pytest.raises(RecordError, match="closed"):
        store(log, decision(0, "given"))


def test_the_table_has_a_row_for_each_decision(run, path, tmp_path):
    log = DecisionLog(path, run)
    given, suggested, third = names(run, 7)
    store(log, decision(9, "exclude"), decision(8, "unsure"), decision(7, "other", third), decision(3, "given"))
    store(log, decision(3, None))
    write_table(tmp_path / "review.csv", log)
    with open(tmp_path / "review.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "path", "label", "given", "suggested", "choice"]
    ids = [run.names.ids[row] for row in run.ranking.order[[7, 8, 9]]]
    assert [(row["id"], row["label"], row["choice"]) for row in rows] == [
        (ids[0], third, "other"),
        (ids[1], "", "unsure"),
        (ids[2], "", "exclude"),
    ]
    assert (rows[0]["given"], rows[0]["suggested"], rows[0]["path"]) == (given, suggested, "")


def test_the_table_is_up_to_date_at_the_start_and_at_the_end(run, path, tmp_path):
    log = DecisionLog(path, run)
    table = tmp_path / "review.csv"
    SavedTable(table, log, pytest.fail)
    assert not table.exists()  # no decisions
    store(log, decision(0, "given"))
    log = DecisionLog(path, run)
    kept = SavedTable(table, log, pytest.fail)
    assert table.read_text().count("\n") == 2
    store(log, *(decision(at, "exclude") for at in range(100)))
    log.close()
    kept.close()
    assert table.read_text().count(",exclude") == 100


def test_a_table_that_cannot_be_written_is_reported_once_and_tried_again(run, path, tmp_path):
    table, said = tmp_path / "review.csv", []
    log = DecisionLog(path, run)
    store(log, decision(0, "given"))
    table.mkdir()
    kept = SavedTable(table, log, said.append)
    table.rmdir()
    log.close()
    kept.close()
    assert len(said) == 1
    assert str(table) in said[0]
    assert table.is_file()


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ({"at": 200, "choice": "given", "key": "k"}, "at=200"),
        ({"at": -1, "choice": "given", "key": "k"}, "at=-1"),
        ({"at": True, "choice": "given", "key": "k"}, "at=True"),
        ({"at": 1.0, "choice": "given", "key": "k"}, "at=1.0"),
        ({"at": 1, "choice": "maybe", "key": "k"}, "choice='maybe'"),
        ({"at": 1, "choice": ["given"], "key": "k"}, "choice="),
        ({"at": 1, "choice": "other", "label": "cow", "key": "k"}, "label='cow'"),
        ({"at": 1, "choice": "other", "label": ["ant"], "key": "k"}, "label="),
        ({"at": 1, "choice": "other", "key": "k"}, "label=None"),
        ({"at": 1, "choice": "given", "key": ""}, "key=''"),
        ({"at": 1, "choice": "given", "key": "k" * 101}, "key="),
        ({"at": 1, "choice": "given"}, "key=None"),
        ("given", "object"),
    ],
)
def test_a_wrong_decision_is_named(entry, named):
    right = {"at": 0, "choice": "other", "label": "ant", "key": "l"}
    assert parse_decisions({"decisions": [right]}, 200, ("ant", "bee")) == ([decision(0, "other", "ant")], ["l"])
    with pytest.raises(ValueError, match="(?i)" + named.replace("[", r"\[")):
        parse_decisions({"decisions": [right, entry]}, 200, ("ant", "bee"))


@pytest.mark.parametrize("document", [[], None, {}, {"decisions": {}}, {"decisions": [{}] * 1001}])
def test_a_request_without_decisions_or_with_too_many_is_refused(document):
    with pytest.raises(ValueError, match="1000"):
        parse_decisions(document, 200, ("ant",))


def test_a_line_is_plain_json(run, path):
    log = DecisionLog(path, run)
    log.append([decision(0, "given")], ["\ud800\u2028\n"])
    (line,) = path.read_bytes().decode("ascii").splitlines()
    assert json.loads(line)["key"] == "\ud800\u2028\n"
    assert DecisionLog(path, run).append([decision(0, "exclude")], ["\ud800\u2028\n"]) == 2
