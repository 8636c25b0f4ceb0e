import csv
import json
import re
import shlex

import pytest

from tests.cli.trained import asked, document, own_data, trained
from tests.suspects.made import made, made_run
from tnlpad.suspects.audit_files import read_audit
from tnlpad.suspects.review import read_review

SCORES, WRONG, CLEAN = made()
NAMES = SCORES.class_names


@pytest.fixture
def run(tmp_path):
    made_run(tmp_path / "runs" / "somewhere")
    return tmp_path / "runs" / "somewhere"


def drawn(run, folder=None):
    with open((folder or run / "audit") / "audit.csv", newline="", encoding="utf-8") as file:
        return [row["id"] for row in csv.DictReader(file)]


def decide(path, ids, changed=(), header=("id", "label")):
    """Write the truth as decisions, but for the rows in `changed`."""
    empty = [""] * (len(header) - 2)
    rows = {name: [name, NAMES[CLEAN[int(name)]], *empty] for name in ids} | {row[0]: list(row) for row in changed}
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows.values()])
    return path


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_labels_are_drawn_and_decided_on(run, tmp_path):
    result = asked("audit", run, "--sample", 100)
    assert result.exit_code == 0, result.output
    assert "Drew 100 of 600 labels at random (seed 1)." in result.stdout
    assert "--review decisions.csv" in result.stderr
    assert {path.name for path in (run / "audit").iterdir()} == {"audit.json", "audit.csv", "index.html"}

    decisions = decide(tmp_path / "decisions.csv", drawn(run))
    result = asked("audit", run, "--review", decisions)
    assert result.exit_code == 0, result.output
    wrong = sum(WRONG[int(name)] for name in drawn(run))
    assert f"Checked 100 of 100 drawn labels: {wrong} wrong, {100 - wrong} right." in result.stdout
    assert f"among all 600: {wrong:.1f} % (95 % interval " in result.stdout
    assert "more checks would halve the interval: tnlpad audit" in result.stdout
    assert "By given label" in result.stdout
    assert read_audit(run).rate.wrong == wrong


@pytest.mark.parametrize(("size", "made"), [(580, 40), (580, 560), (40, 30)])
def test_the_labels_that_would_halve_the_interval_can_be_drawn(run, tmp_path, size, made):
    asked("audit", run, "--sample", size)
    decisions = decide(tmp_path / "d.csv", drawn(run)[:made])
    said = asked("audit", run, "--review", decisions).stdout
    more = int(re.search(r"About ([\d,]+) more checks", said)[1].replace(",", ""))
    command = re.search(r"halve the interval: tnlpad (.*) --sample (\d+)", said)
    assert (command is not None) == (more > size - made)
    if command is not None:
        assert int(command[2]) == min(made + more, 600)
        assert asked(*shlex.split(command[1]), "--sample", command[2]).exit_code == 0


def test_an_audit_elsewhere_is_said_not_to_be_used(run, tmp_path):
    for folder, used in ((tmp_path / "elsewhere", False), (run / ".." / run.name / "audit", True)):
        asked("audit", run, "--sample", 20, "--out", folder)
        decisions = decide(tmp_path / "d.csv", drawn(run, folder))
        said = asked("audit", run, "--out", folder, "--review", decisions).stdout
        assert ("use these decisions from now on" in said) == used
        assert (f"use an audit in {run / 'audit'} alone" in said) != used
        assert (read_audit(run) is not None) == used


def test_json_is_one_document(run, tmp_path):
    found = document("audit", run, "--sample", 50, "--by", "class", "--seed", 7)
    assert (found["drawn"], found["labels"], found["by"], found["seed"]) == (50, 600, "class", 7)
    assert found["ids"] == drawn(run)
    result = document("audit", run, "--review", decide(tmp_path / "d.csv", found["ids"]))
    share = result["rate"]["share"]
    assert share["low"] < WRONG.mean() < share["high"]
    assert [each["name"] for each in result["rate"]["classes"]] == list(NAMES)
    assert json.loads((run / "audit" / "result.json").read_text())["rate"] == result["rate"]


def test_a_larger_sample_extends_the_first(run):
    first = set(document("audit", run, "--sample", 40, "--by", "confidence")["ids"])
    assert set(document("audit", run)["ids"]) == first
    assert len(document("audit", run, "--sample", 20)["ids"]) == 40
    assert first < set(document("audit", run, "--sample", 90)["ids"])


@pytest.mark.parametrize("words", [("--by", "class"), ("--seed", 2)])
def test_another_drawing_does_not_replace_a_sample(run, tmp_path, words):
    asked("audit", run, "--sample", 40)
    before = files_of(run / "audit")
    result = asked("audit", run, "--sample", 40, *words)
    assert result.exit_code == 2
    assert "40 labels by random with seed 1" in result.stderr
    assert files_of(run / "audit") == before
    other = tmp_path / "other"
    assert asked("audit", run, "--sample", 40, *words, "--out", other).exit_code == 0
    found = document("audit", run, "--out", other, "--review", decide(tmp_path / "d.csv", drawn(run, other)))
    assert found["drawn"] == 40
    assert read_audit(run) is None


def test_decisions_in_the_folder_are_found(run):
    ids = document("audit", run, "--sample", 40)["ids"]
    decide(run / "audit" / "decisions.csv", ids)
    assert document("audit", run)["rate"]["checked"] == 40
    assert len(document("audit", run, "--sample", 50)["ids"]) == 50


def test_files_of_several_people_count_together(run, tmp_path):
    ids = document("audit", run, "--sample", 40)["ids"]
    first, second = decide(tmp_path / "a.csv", ids[:25]), decide(tmp_path / "b.csv", ids[20:])
    assert document("audit", run, "--review", first, "--review", second)["rate"]["checked"] == 40


def test_undecided_and_unsure_labels_are_named(run, tmp_path):
    ids = document("audit", run, "--sample", 40)["ids"]
    changed = [[name, "", "unsure"] for name in ids[:3]]
    path = decide(tmp_path / "d.csv", ids[:30], changed, ("id", "label", "choice"))
    result = asked("audit", run, "--review", path)
    assert result.exit_code == 0, result.output
    assert "Checked 27 of 40 drawn labels" in result.stdout
    assert "10 labels without a decision are left out" in result.stdout
    assert "3 labels marked not sure are left out" in result.stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("given,label\n1,ant\n", "no column id"),
        ("id,label\n", "no decisions"),
        ("id,given\n1,ant\n", "no column label"),
        ("id,label\nelephant,ant\n", "'elephant' is not a sample of this run"),
        ("id,label\n{other},ant\n", "is not in the sample"),
        ("id,label\n{first},ant\n{first},bee\n", "two decisions about '{first}'"),
        ("id,label,given\n{first},ant,whale\n", "'whale', but in this run it has"),
        ("audit,id,label\n0123456789ab,{first},ant\n", "another sample or run"),
        ("id,label,choice\n{first},ant,perhaps\n", "'perhaps'"),
        ("id,label,choice\n{first},{given},wrong\n", "gives the same one as right"),
        ("id,label\n{first}\n", "line 2"),
        ("id,label\n{first},?\n", "no label was decided on"),
        ("label,id\nant\n", "line 2: 1 fields, but 2 columns"),
        (b"\xff\xfe\x00id", "not a text file in UTF-16"),
    ],
)
def test_bad_decisions_are_refused_and_nothing_is_lost(run, tmp_path, content, said):
    ids = document("audit", run, "--sample", 40)["ids"]
    asked("audit", run, "--review", decide(tmp_path / "good.csv", ids))
    before = files_of(run / "audit")
    given = NAMES[SCORES.columns["given"][int(ids[0])]]
    words = {"first": ids[0], "given": given, "other": next(str(k) for k in range(600) if str(k) not in ids)}
    bad = tmp_path / "bad.csv"
    bad.write_bytes(content if isinstance(content, bytes) else content.format(**words).encode())
    result = asked("audit", run, "--review", bad)
    assert result.exit_code == 3, result.output
    assert said.format(**words) in result.stderr
    assert files_of(run / "audit") == before


def test_decisions_about_another_run_are_refused(run, tmp_path):
    made_run(tmp_path / "runs" / "other", seed=1)
    ids = document("audit", run, "--sample", 40)["ids"]
    document("audit", tmp_path / "runs" / "other", "--sample", 40)
    page = (run / "audit" / "index.html").read_text()
    token = page.split('data-token="')[1].split('"')[0]
    rows = [[token, name, "ant"] for name in ids]
    path = tmp_path / "d.csv"
    path.write_text("\n".join(",".join(row) for row in [["audit", "id", "label"], *rows]))
    assert asked("audit", run, "--review", path).exit_code == 0
    result = asked("audit", tmp_path / "runs" / "other", "--review", path)
    assert result.exit_code == 3
    assert "another sample or run" in result.stderr


def test_a_changed_sample_is_refused(run, tmp_path):
    ids = document("audit", run, "--sample", 40)["ids"]
    path = run / "audit" / "audit.json"
    content = json.loads(path.read_text())
    content["drawn"] = content["drawn"][:30]
    path.write_text(json.dumps(content))
    for words in (["--review", decide(tmp_path / "d.csv", ids[:30])], ["--sample", 50]):
        result = asked("audit", run, *words)
        assert result.exit_code == 3
        assert "was changed since the sample was drawn" in result.stderr


def test_the_sample_of_another_run_is_refused(run, tmp_path):
    made_run(tmp_path / "runs" / "other", seed=1)
    asked("audit", run, "--sample", 40)
    (run / "audit").rename(tmp_path / "runs" / "other" / "audit")
    result = asked("audit", tmp_path / "runs" / "other", "--sample", 50)
    assert result.exit_code == 3
    assert "drawn from another run" in result.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--sample", "601"], 2, "--sample 601: the run has 600 labels"),
        (["--sample", "0"], 2, "--sample"),
        (["--sample", "2", "--by", "class"], 2, "3 given classes"),
        (["--review", "nothing.csv"], 3, "nothing.csv does not exist"),
        (["--review", __file__, "--sample", "10"], 2, "one or the other"),
        (["--review", __file__], 3, "no sample yet"),
    ],
)
def test_wrong_options(run, words, code, said):
    result = asked("audit", run, *words)
    assert result.exit_code == code
    assert said in result.stderr
    assert not (run / "audit").exists()


def test_a_class_of_two_is_drawn(tmp_path):
    rows = [f"{k % 7},{k % 3},{'rare' if k in (5, 40) else 'ab'[k % 2]}" for k in range(80)]
    (tmp_path / "data.csv").write_text("\n".join(["width,height,label", *rows]))
    run = trained(tmp_path / "data.csv", tmp_path / "runs")
    found = document("audit", run, "--sample", 30, "--by", "class")
    assert len(found["ids"]) == 30
    page = (run / "audit" / "index.html").read_text()
    assert page.count('data-given="rare"') >= 1
    assert page.count('<table class="numbers values" aria-label="the sample">') == 30


def test_own_pictures_are_on_the_page(tmp_path):
    run = trained(own_data(tmp_path, "folder"), tmp_path / "runs")
    found = document("audit", run)
    assert len(found["ids"]) == found["labels"]  # fewer than 100
    assert (run / "audit" / "index.html").read_text().count("data:image/jpeg") == found["labels"]


def test_decisions_are_a_review_for_clean(run, tmp_path):
    """A label marked not sure is not decided."""
    ids = document("audit", run, "--sample", 5)["ids"]
    page_rows = [["x", ids[0], "", "ant", "ant", "unsure"], ["x", ids[1], "", "", "bee", "wrong"]]
    path = tmp_path / "d.csv"
    header = ["audit", "id", "path", "label", "given", "choice"]
    path.write_text("\n".join(",".join(row) for row in [header, *page_rows]))
    assert read_review(path, ids) == {ids[1]: None}


def test_a_class_with_outer_spaces_is_the_given_one(tmp_path):
    data = own_data(tmp_path, "folder")
    (data / "cat").rename(data / " cat")
    run = trained(data, tmp_path / "runs")
    ids = [name for name in document("audit", run)["ids"] if name.startswith(" cat")]
    path = tmp_path / "d.csv"
    path.write_text("\n".join(["id,label", f"{ids[0]},cat", f"{ids[1]}, cat", f"{ids[2]},dog"]))
    rate = document("audit", run, "--review", path)["rate"]
    assert (rate["checked"], rate["wrong"]) == (3, 1)
    cleaned = document("clean", run, "--out", tmp_path / "cleaned", "--review", path)
    assert cleaned["corrected"] == 1
    assert sorted(each.name for each in (tmp_path / "cleaned").iterdir()) == [" cat", "dog"]
