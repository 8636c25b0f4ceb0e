import csv
import json
import os
import re
import shlex
import shutil
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli import trained
from tests.cli.trained import document, own_data
from tests.data.own.test_shards import write_shards
from tests.data.own_files import picture, save
from tests.edited_runs import edit
from tests.review.own_run import own_run
from tests.suspects.made import made_run
from tnlpad.data.own import open_dataset
from tnlpad.records.store import RunFolder
from tnlpad.suspects.listing import rank_run


def asked(*words):
    return trained.asked("clean", *words)


@pytest.fixture
def run(tmp_path):
    made_run(tmp_path / "run")
    return tmp_path / "run"


def rows_in(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_labels_are_corrected_and_the_original_kept(run, tmp_path):
    out = tmp_path / "new" / "manifest.csv"
    result = asked(run, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    counts, table = json.loads(result.stdout), rows_in(out)
    changed = [row for row in table if row["changed"] == "yes"]
    assert counts == {
        "file": str(out),
        "changes": f"{out}.changes.csv",
        "samples": 600,
        "kept": 600,
        "corrected": len(changed),
        "dropped": 0,
        "decided": 0,
        "spared": [],
        "reviews": [],
        "disagreements": [],
        "next": None,
    }
    log = rows_in(f"{out}.changes.csv")
    assert [(row["id"], row["from"], row["to"]) for row in log] == [
        (row["id"], row["original_label"], row["label"]) for row in changed
    ]
    assert [row["why"] for row in log] == [f"suggestion, confidence {row['confidence']}" for row in changed]
    assert changed
    assert all(row["label"] != row["original_label"] for row in changed)


def test_labels_are_dropped(run, tmp_path):
    out = tmp_path / "manifest.csv"
    assert "samples kept" in asked(run, "--out", out, "--action", "drop").stdout
    assert 0 < len(rows_in(out)) < 600


def test_a_suggestion_is_not_said_to_be_right(run, tmp_path):
    said = asked(run, "--out", tmp_path / "out.csv", "--top", 2)
    assert "2 labels replaced by the suggested class" in said.stdout
    assert said.stderr.count("--action drop") == said.stderr.count(f"tnlpad review {run}") == 1
    dropped = asked(run, "--out", tmp_path / "dropped.csv", "--top", 2, "--action", "drop")
    assert "--action drop" not in dropped.stderr


def test_decisions_are_counted_apart_from_suggestions(run, tmp_path):
    first = next(row["id"] for row in _written(run, tmp_path, "--top", 2) if row["changed"] == "no")
    (tmp_path / "review.csv").write_text(f"id,label\n{first},bee\n")
    said = asked(run, "--out", tmp_path / "out.csv", "--top", 2, "--review", tmp_path / "review.csv")
    assert "1 label replaced by decision, 2 by the suggested class" in said.stdout
    assert "--action drop" not in said.stderr


def test_a_confidence_is_a_share_or_a_percentage(run, tmp_path):
    for text in ("0.95", "95%", "95 %"):
        assert document("clean", run, "--out", tmp_path / f"{text}.csv", "--confidence", text)["corrected"] > 0
    assert len({path.read_bytes() for path in tmp_path.glob("*%*.csv.changes.csv")}) == 1
    for text in ("95", "40%", "high"):
        result = asked(run, "--out", tmp_path / "m.csv", "--confidence", text)
        assert result.exit_code == 2
        assert f"--confidence {text}: " in result.stderr


@pytest.mark.parametrize("words", [["--out", "folder"], ["--out", "m.csv", "--confidence", "0.2"], []])
def test_wrong_options_are_usage_errors(run, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert asked(run, *words).exit_code == 2
    assert not (tmp_path / "m.csv").exists()


def test_decisions_of_a_review_override_the_scores(run, tmp_path):
    ids = [row["id"] for row in _written(run, tmp_path, "--confidence", 1)]
    (tmp_path / "review.csv").write_text(f"id,label\n{ids[0]},bee\n{ids[1]},\n")
    table = _written(run, tmp_path, "--confidence", 1, "--review", tmp_path / "review.csv")
    assert [row["id"] for row in table] == [ids[0], *ids[2:]]
    assert table[0]["label"] == "bee"
    assert not any(row["changed"] == "yes" for row in table[1:])
    result = asked(run, "--out", tmp_path / "m.csv", "--review", tmp_path / "none.csv")
    assert result.exit_code == 3
    assert "none.csv does not exist" in result.stderr
    (tmp_path / "review.csv").write_text("id,label\nelsewhere,bee\n")
    result = asked(run, "--out", tmp_path / "m.csv", "--review", tmp_path / "review.csv")
    assert result.exit_code == 3
    assert "'elsewhere'" in result.stderr


def _written(run, folder, *words):
    assert asked(run, "--out", folder / "m.csv", *words).exit_code == 0
    return rows_in(folder / "m.csv")


def test_a_weak_network_changes_nothing_unless_asked(run, tmp_path):
    (run / "summary.json").write_text(json.dumps({"run_id": "run", "chosen": {"validation_accuracy": 0.1}}))
    result = asked(run, "--out", tmp_path / "m.csv")
    assert result.exit_code == 1
    assert "only 10 % of the held-out samples" in result.stderr
    for way_out in ("tnlpad audit", "--review", "--top"):
        assert way_out in result.stderr
    assert not (tmp_path / "m.csv").exists()
    assert not any(row["changed"] == "yes" for row in _written(run, tmp_path, "--confidence", 0.5))
    assert sum(row["changed"] == "yes" for row in _written(run, tmp_path, "--top", 7)) == 7
    (tmp_path / "review.csv").write_text("id,label\n3,bee\n")
    decided = _written(run, tmp_path, "--review", tmp_path / "review.csv")
    assert {row["id"] for row in decided if row["changed"] == "yes"} <= {"3"}


def test_nothing_is_suggested_where_nothing_changes(run, tmp_path):
    result = asked(run, "--out", tmp_path / "m.csv", "--confidence", 1)
    assert result.exit_code == 0
    assert "No label was changed: none is wrong with a probability of 1.0 or more (highest: 0." in result.stderr
    assert "tnlpad train" not in result.output
    assert len(rows_in(tmp_path / "m.csv")) == 600


def test_why_nothing_changes_fits_the_decisions(run, tmp_path):
    listed = rank_run(RunFolder(run)).suspects(600)
    (tmp_path / "review.csv").write_text(
        "\n".join(["id,label", *(f"{each.id},{each.given_name}" for each in listed if each.confidence >= 0.8)])
    )
    words = (run, "--out", tmp_path / "m.csv", "--review", tmp_path / "review.csv")
    highest = max(each.confidence for each in listed if each.confidence < 0.8)
    (shown,) = re.findall(r"none without a decision .* of 0\.9 or more \(highest: (.*?)\)", asked(*words).stderr)
    assert float(shown) == pytest.approx(highest, abs=0.001)
    assert "the 3 most suspicious ones have decisions" in asked(*words, "--top", 3).stderr


def test_logs_are_not_written_over_what_is_read(run, tmp_path):
    for name in ("m.csv.decisions.csv", "m.csv.changes.csv"):
        (tmp_path / name).write_text("id,label\n3,\n")
        result = asked(run, "--out", tmp_path / "m.csv", "--review", tmp_path / name)
        assert (result.exit_code, f"m.csv: {tmp_path / name}" in result.stderr) == (2, True)
        assert (tmp_path / name).read_text() == "id,label\n3,\n"


def test_nobody_votes_twice(run, tmp_path):
    for name, label in (("a", "ant"), ("b", "bee")):
        (tmp_path / f"{name}.csv").write_text(f"id,label\n3,{label}\n")
    (tmp_path / "link.csv").symlink_to("b.csv")
    words = [word for name in ("a", "b", "link") for word in ("--review", tmp_path / f"{name}.csv")]
    result = asked(run, "--out", tmp_path / "m.csv", *words)
    assert (result.exit_code, "link.csv is given twice" in result.stderr) == (2, True)


def test_an_audit_is_used(run, tmp_path):
    truth = dict.fromkeys(document("audit", run, "--sample", 40)["ids"], "bee")
    decisions = "\n".join(["id,label", *(f"{name},{label}" for name, label in truth.items())])
    (tmp_path / "decisions.csv").write_text(decisions)
    assert trained.asked("audit", run, "--review", tmp_path / "decisions.csv").exit_code == 0
    labels = {row["id"]: row["label"] for row in _written(run, tmp_path, "--confidence", 1)}
    assert {name: labels[name] for name in truth} == truth


def test_a_class_that_a_review_empties_is_named(run, tmp_path):
    every = _written(run, tmp_path, "--confidence", 1)
    lines = [f"{row['id']},ant" for row in every if row["label"] == "bee"]
    (tmp_path / "review.csv").write_text("\n".join(["id,label", *lines]))
    result = asked(run, "--out", tmp_path / "m.csv", "--confidence", 1, "--review", tmp_path / "review.csv")
    assert "no sample is left of class 'bee'" in result.stderr


@pytest.mark.parametrize(
    ("kind", "suffix", "test"),
    [
        ("folder", "csv", 0),
        ("parts", "csv", 6),
        ("images", "npz", 6),
        ("features", "csv", 6),
        ("hugging face", "parquet", 0),
    ],
)
def test_the_written_file_is_trained_on(tmp_path, kind, suffix, test):
    data = own_data(tmp_path, kind)
    run = trained.trained(data, tmp_path / "runs")
    out = tmp_path / "elsewhere" / f"clean.{suffix}"
    first = open_dataset(data)
    bird, gone = (first.ids[row] for row in first.indices("train")[:2])
    (tmp_path / "review.csv").write_text(f"id,label\n{bird},bird\n{gone},\n")
    written = document("clean", run, "--out", out, "--confidence", 1, "--review", tmp_path / "review.csv")
    assert (written["samples"], written["kept"], written["corrected"]) == (len(first.ids), len(first.ids) - 1, 1)
    train = shlex.split(written["next"])[1:]
    again = document(*train, "--set", "epochs=1", "--out", tmp_path / "more")
    assert again["samples"]["test"] == test
    assert document("suspects", tmp_path / "more" / again["run_id"])["samples"] == len(first.ids) - 1 - test
    second = open_dataset(out, images=train[3] if "--images" in train else None)
    assert set(second.ids) == set(first.ids) - {gone}
    _same_but_for_a_label(first, second, bird)


def _same_but_for_a_label(first, second, bird):
    assert second.class_names == tuple(sorted({"bird", *first.class_names}))
    before, after = ({name: row for row, name in enumerate(own.ids)} for own in (first, second))
    for name, row in after.items():
        assert second.digests[row] == first.digests[before[name]]
        label = "bird" if name == bird else first.class_names[first.labels[before[name]]]
        assert second.class_names[second.labels[row]] == label
    assert np.sum(np.array(second.parts) == "test") == np.sum(np.array(first.parts) == "test")


def test_published_data_have_labels_by_id_alone(run, tmp_path):
    result = asked(run, "--out", tmp_path / "m.csv")
    assert "cannot read it" in result.stderr


def test_the_kind_of_file_follows_the_data(tmp_path):
    run = trained.trained(own_data(tmp_path, "images"), tmp_path / "runs")
    result = asked(run, "--out", tmp_path / "m.csv", "--confidence", 1)
    assert result.exit_code == 2
    assert "Name a .npz file" in result.stderr
    (tmp_path / "data.npz").unlink()
    result = asked(run, "--out", tmp_path / "m.npz", "--confidence", 1)
    assert result.exit_code == 3
    assert "data.npz is gone" in result.stderr
    assert not list(tmp_path.glob("m.*"))


def test_the_data_are_not_overwritten(tmp_path):
    data = own_data(tmp_path, "features")
    before = data.read_text()
    run = trained.trained(data, tmp_path / "runs")
    for out in (data, tmp_path / "not" / "yet" / ".." / ".." / data.name):
        result = asked(run, "--out", out, "--confidence", 1)
        assert result.exit_code == 2
        assert "is the file that the data come from" in result.stderr
        assert data.read_text() == before
    assert not (tmp_path / "not").exists()


def test_a_class_that_is_new_is_named(run, tmp_path):
    first = document("suspects", run, "--top", 1)["listed"][0]["id"]
    (tmp_path / "review.csv").write_text(f"id,label\n{first},wasp\n")
    result = asked(run, "--out", tmp_path / "m.csv", "--review", tmp_path / "review.csv")
    assert "adds class 'wasp'" in result.stderr


def test_few_held_out_samples_change_nothing_without_a_confidence(tmp_path):
    run = trained.trained(own_data(tmp_path, "folder"), tmp_path / "runs")
    result = asked(run, "--out", tmp_path / "m.csv")
    assert result.exit_code == 1
    assert "Only 2 samples were held out" in result.stderr
    assert not (tmp_path / "m.csv").exists()


def test_a_named_label_column_is_found_again(tmp_path):
    """By every command that opens the data of the run, and new data that have or have not such a column."""
    generator = np.random.default_rng(0)
    rows = [f"{a + 4 * (k % 2)},{'xy'[k % 2]},{b}" for k, (a, b) in enumerate(generator.normal(size=(40, 2)))]
    data = tmp_path / "x.csv"
    data.write_text("\n".join(["width,Cover_Type,height", *rows]))
    run = trained.trained(data, tmp_path / "runs", 2, "--label", "Cover_Type")
    assert json.loads((run / "data.json").read_text())["label_column"] == "Cover_Type"
    written = document("clean", run, "--out", tmp_path / "clean.csv", "--top", 1)
    assert written["next"] == f"tnlpad train {tmp_path / 'clean.csv'} --label Cover_Type"
    assert open_dataset(tmp_path / "clean.csv", label="Cover_Type").columns == ("width", "height")
    assert trained.asked("suspects", run, "--out", tmp_path / "s", "--format", "html", "--top", 3).exit_code == 0
    assert "width" in (tmp_path / "s" / "index.html").read_text()
    assert len(document("predict", run, data)["predictions"]) == 40
    (tmp_path / "new.csv").write_text("height,width\n1,2\n")
    assert len(document("predict", run, tmp_path / "new.csv")["predictions"]) == 1
    (tmp_path / "kinds.csv").write_text("height,width,kind\n1,2,wet\n")
    assert len(document("predict", run, tmp_path / "kinds.csv")["predictions"]) == 1


def test_a_column_to_ignore_is_ignored_by_every_command_and_comes_back(tmp_path):
    """Also one that would name the samples."""
    rows = [f"{k % 3},{'A/' * (k == 2)}{k},{k % 5},{k},{'xy'[k % 2]},fold {k % 4}" for k in range(20)]
    data = tmp_path / "x.csv"
    data.write_text("\n".join(["id,Ticket,a,b,label,split", *rows]))
    refused = trained.asked("train", data, "--out", tmp_path / "runs", "--ignore", "id", "--ignore", "split")
    assert ": --ignore Ticket (ignore= in Python)." in refused.stderr
    words = ("--ignore", "ticket", "--ignore", "id", "--ignore", "split")
    run = trained.trained(data, tmp_path / "runs", 1, *words)
    assert json.loads((run / "data.json").read_text())["columns"] == ["a", "b"]
    written = document("clean", run, "--out", tmp_path / "clean.csv", "--top", 1)
    assert written["next"] == f"tnlpad train {tmp_path / 'clean.csv'} --ignore ticket --ignore id --ignore split"
    table = rows_in(tmp_path / "clean.csv")
    assert list(table[0]) == ["id", "Ticket", "a", "b", "label", "split", "sample_id", "original_label"]
    for place, name in ((0, "id"), (1, "Ticket"), (5, "split")):
        assert [row[name] for row in table] == [row.split(",")[place] for row in rows]
    assert len(document("predict", run, data)["predictions"]) == 20
    assert trained.asked(*written["next"].split()[1:], "--set", "epochs=1", "--out", tmp_path / "runs").exit_code == 0
    assert (
        "has changed"
        not in trained.asked("train", data, "--ignore", "id", "--ignore", "Ticket", "--ignore", "a").stderr
    )


def test_another_label_column_is_no_change_of_the_data(tmp_path):
    rows = [f"{k},{k % 2},{k // 20}" for k in range(40)]
    (tmp_path / "x.csv").write_text("\n".join(["a,fine,label", *rows]))
    first = trained.trained(tmp_path / "x.csv", tmp_path / "runs")
    words = ["train", tmp_path / "x.csv", "--out", tmp_path / "runs", "--set", "epochs=1"]
    other = trained.asked(*words, "--label", "fine")
    assert other.exit_code == 0, other.output
    assert "has changed" not in other.stderr
    assert len(list((tmp_path / "runs").iterdir())) == 2
    (tmp_path / "x.csv").write_text("\n".join(["a,fine,label", *rows, "40,0,1"]))
    assert f"has changed since {first.name}" in trained.asked(*words).stderr


def test_another_text_column_is_no_change_of_the_data(tmp_path):
    rows = [f"good {k},bad {k},{k % 2}" for k in range(40)]
    (tmp_path / "x.csv").write_text("\n".join(["first,second,label", *rows]))
    words = ["train", tmp_path / "x.csv", "--out", tmp_path / "runs", "--set", "epochs=1", "--no-scores"]
    assert trained.asked(*words, "--text", "first").exit_code == 0
    other = trained.asked(*words, "--text", "second")
    assert (other.exit_code, "has changed" in other.stderr) == (0, False)


def test_changed_data_are_recognised_from_another_folder(tmp_path, monkeypatch):
    rows = [f"{k},{k % 2}" for k in range(40)]
    (tmp_path / "x.csv").write_text("\n".join(["a,label", *rows]))
    words = ["--out", tmp_path / "runs", "--set", "epochs=1"]
    first = trained.trained(tmp_path / "x.csv", tmp_path / "runs", 1)
    (tmp_path / "x.csv").write_text("\n".join(["a,label", *rows, "40,1"]))
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    result = trained.asked("train", "../x.csv", *words, "--resume")
    assert (result.exit_code, f"has changed since {first.name}" in result.stderr) == (3, True)


FORMS = [("csv", "utf-8", ","), ("csv", "utf-8-sig", ";"), ("csv", "utf-8", "|"), ("txt", "utf-16", "\t")]


@pytest.mark.parametrize(("suffix", "encoding", "separator"), FORMS)
def test_a_table_comes_back_as_it_was_but_for_its_labels(tmp_path, suffix, encoding, separator):
    heading = ["note", "width", "Kind", "height"]
    table = [[f"é{k}", f"{k / 3:.17g}", " xy"[1 + k % 2] + " ", k % 4] for k in range(14)]
    table[5][3] = ""
    table[7][2] = ""
    lines = [separator.join(map(str, row)) for row in (heading, *table)]
    data, out = tmp_path / f"data.{suffix}", tmp_path / f"clean.{suffix}"
    data.write_bytes("\r\n".join([*lines, ""]).encode(encoding))
    run = trained.trained(data, tmp_path / "runs", 1, "--label", "kind")
    (tmp_path / "review.csv").write_text("id,label\n0,y\n1,\n")
    result = asked(run, "--out", out, "--review", tmp_path / "review.csv")
    assert result.exit_code == 0, result.output
    assert "Left as before: 1 sample that could not be trained on" in result.stderr
    written = out.read_bytes().decode(encoding).split("\r\n")
    assert written[0] == separator.join([*heading, "id", "original_label"])
    assert written[1].startswith(lines[1].replace("x ", "y"))
    assert written[1].endswith(f"{separator}x")
    assert [line.split(separator)[4] for line in written[1:-1]] == ["0", *map(str, range(2, 14))]
    for line in lines[3:]:
        assert any(each.startswith(line + separator) for each in written), line
    assert out.read_bytes()[:3] == data.read_bytes()[:3]
    first, second = (open_dataset(path, label="kind") for path in (data, out))
    assert set(first.ids) - set(second.ids) == {"1"}
    assert second.parts is None  # a table with gaps is judged out of fold: no sample is held out


def test_a_table_that_was_cleaned_before_keeps_the_first_labels(tmp_path):
    rows = [f"{k},{k % 5},{'xy'[k % 2]},z,train,{k}" for k in range(12)]
    (tmp_path / "x.csv").write_text("\n".join(["id,a,label,original_label,split,b", *rows]))
    run = trained.trained(tmp_path / "x.csv", tmp_path / "runs")
    table = _written(run, tmp_path, "--confidence", 1)
    assert list(table[0]) == ["id", "a", "label", "original_label", "split", "b"]
    assert {row["original_label"] for row in table} == {"z"}


def test_a_table_of_parquet_keeps_its_columns_as_text(tmp_path):
    days = np.datetime64("2024-02-28") + np.arange(12)
    columns = {"day": days, "a": np.arange(12) / 7, "label": np.arange(12) % 2, "gap": [None, *range(11)]}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    run = trained.trained(tmp_path / "x.parquet", tmp_path / "runs")
    table = _written(run, tmp_path, "--confidence", 1)
    assert [row["day"] for row in table[:2]] == ["2024-02-28", "2024-02-29"]
    assert [float(row["a"]) for row in table] == columns["a"].tolist()
    assert table[0]["gap"] == ""


def _manifest(folder):
    """A table of images in UTF-16 with tabs, with further columns and a row that leads nowhere."""
    own_data(folder, "folder")
    paths = [path.relative_to(folder) for path in sorted((folder / "data").glob("*/*.png"))]
    rows = [f"{path}\tKamera {k % 3}\t{path.parent.name}\t2024-02-{k + 1:02}" for k, path in enumerate(paths)]
    heading = "file_name\tQuelle\tKind\tTag"
    (folder / "x.txt").write_bytes("\r\n".join([heading, *rows, "gone.png\tWeb\tcat\t", ""]).encode("utf-16"))
    return folder / "x.txt", paths, rows


def test_a_table_of_paths_comes_back_as_it_was_but_for_its_labels(tmp_path):
    data, paths, rows = _manifest(tmp_path)
    run = trained.trained(data, tmp_path / "runs", 1, "--label", "kind")
    (tmp_path / "review.csv").write_text(f"id,label\n{paths[0]},bird\n{paths[1]},\n")
    out, words = tmp_path / "new" / "clean.txt", ["--review", tmp_path / "review.csv", "--confidence", 1]
    result = asked(run, "--out", out, *words)
    assert result.exit_code == 0, result.output
    assert "Left as before: 1 sample that could not be trained on" in result.stderr
    heading, *written = [line.split("\t") for line in out.read_bytes().decode("utf-16").splitlines()]
    assert heading == ["file_name", "Quelle", "Kind", "Tag", "id", "split", "original_label"]
    before = [row.split("\t") for row in rows]
    assert written[0][:4] == [*before[0][:2], "bird", before[0][3]]
    assert written[0][6] == before[0][2]
    assert [line[:4] for line in written[1:-1]] == before[2:]
    assert written[-1] == ["gone.png", "Web", "cat", "", "gone.png", "", ""]
    train = document("clean", run, "--out", out, *words)["next"]
    assert train == f"tnlpad train {out} --label kind --images {tmp_path}"
    assert trained.asked(*shlex.split(train)[1:], "--set", "epochs=1", "--out", tmp_path / "runs").exit_code == 0
    beside = document("clean", run, "--out", tmp_path / "clean.txt", *words)
    assert beside["next"] == f"tnlpad train {tmp_path / 'clean.txt'} --label kind"
    assert len(open_dataset(tmp_path / "clean.txt", label="kind").ids) == 19


def test_other_columns_of_a_table_of_pictures_are_kept(tmp_path):
    """As it is, and the first labels of data that were cleaned before; a picture that cannot be read stays."""
    contents = [save(tmp_path / f"{k}.png", picture(k)).read_bytes() for k in range(24)]
    columns = {
        "photo": [*contents[:4], b"damaged", *contents[5:]],
        "source": [f"camera {k}" for k in range(24)],
        "image": [f"scan {k}" for k in range(24)],
        "label": [None] * 24,
        "kind": ["cat", "dog"] * 12,
        "split": ["test", "train", "train"] * 8,
        "mask": contents[::-1],
        "original_label": ["bird"] * 24,
        "day": [date(2024, 2, 1 + k) for k in range(24)],
    }
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    run = trained.trained(tmp_path / "x.parquet", tmp_path / "runs", 1, "--label", "kind")
    out = tmp_path / "clean.parquet"
    (tmp_path / "review.csv").write_text("id,label\ntrain/0,ape\ntrain/1,\n")
    written = document("clean", run, "--out", out, "--confidence", 1, "--review", tmp_path / "review.csv")
    assert written["next"] == f"tnlpad train {out} --label kind"
    table = pq.read_table(out).to_pydict()
    assert set(table) == {"id", *columns}
    assert sorted(table["source"]) == sorted(f"camera {k}" for k in range(24) if k != 2)
    for row, name in enumerate(table["source"]):
        place = int(name.split()[1])
        assert table["photo"][row] == columns["photo"][place]
        assert table["mask"][row] == contents[23 - place]
        assert table["image"][row] == f"scan {place}"
        assert table["kind"][row] == ("ape" if place == 1 else columns["kind"][place])
        assert table["day"][row] == columns["day"][place]
    assert set(table["original_label"]) == {"bird"}
    first, second = (open_dataset(path, label="kind") for path in (tmp_path / "x.parquet", out))
    assert set(second.digests) < set(first.digests)


def test_a_table_of_paths_that_was_edited_since_is_not_cleaned(tmp_path):
    data, paths, _ = _manifest(tmp_path)
    run = trained.trained(data, tmp_path / "runs", 1, "--label", "kind")
    before = data.read_bytes()
    out = tmp_path / "new" / "clean.txt"
    for old, new, problem in (
        ("\tcat\t", "\tbird\t", f"'{paths[0]}' had the label 'cat' and has 'bird'"),
        (str(paths[0]), str(paths[1]), f"'{paths[0]}' is missing"),
    ):
        data.write_bytes(before.decode("utf-16").replace(old, new, 1).encode("utf-16"))
        result = asked(run, "--out", out, "--confidence", 1)
        assert (result.exit_code, out.parent.exists()) == (3, False)
        assert problem in result.stderr


def test_a_table_of_paths_that_is_gone_is_written_from_the_record(tmp_path):
    data, *_ = _manifest(tmp_path)
    run = trained.trained(data, tmp_path / "runs", 1, "--label", "kind")
    data.unlink()
    document("clean", run, "--out", tmp_path / "clean.csv", "--confidence", 1)
    assert (tmp_path / "clean.csv").read_bytes().startswith(b"id,path,label")
    assert len(open_dataset(tmp_path / "clean.csv").ids) == 20


def test_a_table_of_paths_that_is_gone_may_lose_every_sample(tmp_path):
    data, *_ = _manifest(tmp_path)
    own = own_run(tmp_path / "run", data, label="kind")
    data.unlink()
    (tmp_path / "review.csv").write_text("\n".join(["id,label", *(f"{name}," for name in own.ids)]))
    words = ("clean", tmp_path / "run", "--out", tmp_path / "clean.csv", "--review", tmp_path / "review.csv")
    assert document(*words)["dropped"] == 20
    shutil.rmtree(tmp_path / "data")
    result = trained.asked(*words)
    assert (result.exit_code, "is gone, and its images are" in result.stderr) == (3, True)


@pytest.mark.parametrize("change", ["labels", "images", "gone"])
def test_shards_that_changed_since_the_run_are_refused(change, tmp_path):
    shards = write_shards(tmp_path / "shards", ["cat", "dog"] * 10)
    own_run(tmp_path / "run", shards)
    words = ("clean", tmp_path / "run", "--out", tmp_path / "clean.csv", "--confidence", 1)
    assert document(*words)["kept"] == 20
    (tmp_path / "clean.csv").unlink()
    shutil.rmtree(shards)
    if change == "labels":
        write_shards(shards, ["dog", "cat"] * 10)
    elif change == "images":
        write_shards(shards, ["cat", "dog"] * 11)
    result = trained.asked(*words)
    assert (result.exit_code, "gone" in result.stderr) == (3, change == "gone")
    assert str(shards) in result.stderr
    assert not (tmp_path / "clean.csv").exists()


def test_a_path_that_the_system_refuses_is_one_of_data_that_are_gone(tmp_path):
    data, *_ = _manifest(tmp_path)
    run = trained.trained(data, tmp_path / "runs", 1, "--label", "kind")
    edit(run / "data.json", lambda about: about.update(path=str(tmp_path / ("9" * 400))))
    for _ in range(2):  # the second writes over the first
        document("clean", run, "--out", tmp_path / "clean.csv", "--confidence", 1)
    assert len(open_dataset(tmp_path / "clean.csv").ids) == 20


def test_simulated_noise_is_no_change_of_a_table(tmp_path):
    data, *_ = _manifest(tmp_path)
    run = trained.trained(data, tmp_path / "runs", 1, "--label", "kind", "--noise", "symmetric:0.4")
    assert document("clean", run, "--out", tmp_path / "clean.txt", "--confidence", 1)["kept"] == 20


def test_data_that_were_moved_are_found_where_they_are_trained_on_again(tmp_path):
    data = own_data(tmp_path, "parts")
    run = trained.trained(data, tmp_path / "runs")
    moved = data.rename(tmp_path / "moved")
    result = asked(run, "--out", tmp_path / "c.csv", "--confidence", 1)
    assert result.exit_code == 3
    assert "run `tnlpad train` with the new path" in result.stderr
    assert not (tmp_path / "c.csv").exists()
    before = RunFolder(run).summary()
    assert trained.trained(moved, tmp_path / "runs") == run
    assert RunFolder(run).summary() == before
    table = _written(run, tmp_path, "--confidence", 1)
    assert len(table) == 32
    assert all(row["path"] == str(moved / row["id"]) for row in table)


def test_several_people_review(run, tmp_path):
    before = {row["id"]: row["label"] for row in _written(run, tmp_path, "--confidence", 1)}
    texts = ["0,bee,other\n1,bee,other\n2,,exclude", "0,bee,other\n1,ant,other\n2,,unsure", "0,ant,other\n3,wasp,other"]
    words = []
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.csv").write_text(f"id,label,choice\n{text}\n")
        words += ["--review", tmp_path / f"{number}.csv"]
    found = document("clean", run, "--out", tmp_path / "m.csv", "--confidence", 1, *words)
    assert [(each["id"], each["decided"]) for each in found["disagreements"]] == [("0", True), ("1", False)]
    assert found["disagreements"][0]["votes"] == [{"label": "bee", "votes": 2}, {"label": "ant", "votes": 1}]
    after = {row["id"]: row["label"] for row in rows_in(tmp_path / "m.csv")}
    assert after == {name: label for name, label in before.items() if name != "2"} | {"0": "bee", "3": "wasp"}
    said = asked(run, "--out", tmp_path / "m.csv", *words).stderr
    assert "disagree about 2 samples, and have no majority for 1" in said
    assert "0 (bee 2, ant 1), 1 (bee 1, ant 1)" in said


def test_the_review_of_the_run_is_used_unless_another_one_is_given(run, tmp_path):
    (run / "review").mkdir()
    (run / "review" / "review.csv").write_text("id,path,label,given,suggested,choice\n0,,wasp,ant,bee,other\n")
    result = asked(run, "--out", tmp_path / "m.csv")
    assert f"Using the decisions in {run / 'review' / 'review.csv'}" in result.stderr
    assert rows_in(tmp_path / "m.csv")[0]["label"] == "wasp"
    assert document("clean", run, "--out", tmp_path / "m.csv", "--no-review")["reviews"] == []
    assert rows_in(tmp_path / "m.csv")[0]["label"] != "wasp"
    (tmp_path / "other.csv").write_text("id,label\n1,fly\n")
    assert [row["label"] for row in _written(run, tmp_path, "--review", tmp_path / "other.csv")[:2]] != ["wasp", "fly"]
    both = asked(run, "--out", tmp_path / "m.csv", "--no-review", "--review", tmp_path / "other.csv")
    assert both.exit_code == 2


def test_killed_just_before_a_folder_has_its_name_the_same_command_writes_everything(tmp_path, monkeypatch):
    run = trained.trained(own_data(tmp_path, "folder"), tmp_path / "runs")
    words = ("clean", run, "--out", tmp_path / "new", "--top", "2")
    with monkeypatch.context() as patch:
        patch.setattr("os.rename", lambda *_: (_ for _ in ()).throw(OSError(5, "killed")))
        assert trained.asked(*words).exit_code == 1
    assert not (tmp_path / "new").exists()
    assert trained.asked(*words).exit_code == 0
    assert {"new", "new.changes.csv"} <= {each.name for each in tmp_path.iterdir()}
    assert not list(tmp_path.glob(".*"))


def test_the_log_of_changes_is_there_when_the_folder_is(tmp_path, monkeypatch):
    """A command that finds the folder does not write it again, so a kill must not come between the two."""
    run = trained.trained(own_data(tmp_path, "folder"), tmp_path / "runs")
    rename, there = os.rename, []

    def renamed(source, target):
        there.append((tmp_path / "new.changes.csv").exists())
        rename(source, target)

    monkeypatch.setattr("os.rename", renamed)
    assert trained.asked("clean", run, "--out", tmp_path / "new", "--top", "2").exit_code == 0
    assert there == [True]


def contents(folder):
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}


@pytest.fixture
def cleaned(tmp_path):
    """A table that was cleaned, with decisions of a person."""
    made_run(tmp_path / "run")
    (tmp_path / "review.csv").write_text("id,label\n0,wasp\n1,fly\n")
    folder = tmp_path / "out"
    _written(tmp_path / "run", folder, "--review", tmp_path / "review.csv", "--top", 5)
    assert set(contents(folder)) == {"m.csv", "m.csv.changes.csv", "m.csv.decisions.csv"}
    return folder


@pytest.mark.parametrize("function", ["os.fsync", "os.replace"])
@pytest.mark.parametrize("call", range(1, 7))
def test_data_and_logs_stay_as_they_were_if_one_of_them_cannot_be_written(cleaned, monkeypatch, function, call):
    before, real, calls = contents(cleaned), getattr(os, function.removeprefix("os.")), []

    def full(*arguments):
        calls.append(arguments)
        if len(calls) == call:
            raise OSError(28, "No space left on device")
        return real(*arguments)

    (cleaned.parent / "review.csv").write_text("id,label\n5,wasp\n")
    words = (cleaned.parent / "run", "--review", cleaned.parent / "review.csv", "--top", 9)
    with monkeypatch.context() as patch:
        patch.setattr(function, full)
        result = asked(*words, "--out", cleaned / "m.csv")
    if len(calls) < call:
        assert (result.exit_code, call > 3) == (0, True)
        return
    assert (result.exit_code, "Free some space" in result.stderr) == (1, True)
    assert contents(cleaned) == before
    assert asked(*words, "--out", cleaned / "m.csv").exit_code == 0
    assert all(content != before[name] for name, content in contents(cleaned).items())


def test_where_no_file_can_be_replaced_everything_stays(cleaned, monkeypatch):
    before = contents(cleaned)

    def refused(source, target):
        if os.path.dirname(target) == str(cleaned):
            raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", refused)
        assert asked(cleaned.parent / "run", "--out", cleaned / "m.csv", "--top", 9).exit_code == 1
    assert contents(cleaned) == before


def test_an_interrupt_just_after_the_data_were_replaced_keeps_their_logs(cleaned, monkeypatch):
    before, real = contents(cleaned), os.replace

    def interrupted(source, target):
        real(source, target)
        if os.path.basename(target) == "m.csv" and os.path.dirname(target) == str(cleaned):
            raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupted)
    assert asked(cleaned.parent / "run", "--out", cleaned / "m.csv", "--top", 9).exit_code == 130
    assert len(rows_in(cleaned / "m.csv.changes.csv")) == 9
    assert contents(cleaned)["m.csv"] != before["m.csv"]


@pytest.mark.parametrize("length", [229, 243, 250, 255, 256])
def test_a_name_is_long_enough_for_the_logs_or_refused_before_anything_is_written(run, tmp_path, length):
    folder = tmp_path / "out"
    result = asked(run, "--out", folder / ("x" * (length - 4) + ".csv"), "--top", 2)
    if length < 240:
        assert (result.exit_code, len(list(folder.iterdir()))) == (0, 2)
    else:
        assert (result.exit_code, "Choose a shorter name" in result.stderr) == (1, True)
        assert not folder.exists()


def test_a_pipe_in_the_place_of_a_log_is_refused(run, tmp_path):
    os.mkfifo(tmp_path / "m.csv.changes.csv")
    assert asked(run, "--out", tmp_path / "m.csv").exit_code == 1
    assert (tmp_path / "m.csv.changes.csv").is_fifo()
    assert not (tmp_path / "m.csv").exists()


def test_the_logs_of_two_commands_at_once_belong_to_the_folder(tmp_path, monkeypatch):
    run = trained.trained(own_data(tmp_path, "folder"), tmp_path / "runs")
    rename, others = os.rename, []

    def renamed(source, target):
        if not others:
            others.append(None)
            others[0] = trained.asked("clean", run, "--out", tmp_path / "new", "--top", "3")
        rename(source, target)

    monkeypatch.setattr("os.rename", renamed)
    assert trained.asked("clean", run, "--out", tmp_path / "new", "--top", "2").exit_code == 0
    assert (others[0].exit_code, "another process is writing it" in others[0].stderr) == (1, True)
    assert len(rows_in(tmp_path / "new.changes.csv")) == 2
    assert not list(tmp_path.glob(".*"))


def test_what_a_kill_leaves_beside_a_complete_folder_goes_with_the_next_command(run, tmp_path):
    made = trained.trained(own_data(tmp_path, "folder"), tmp_path / "runs")
    assert trained.asked("clean", made, "--out", tmp_path / "new", "--top", "2").exit_code == 0
    (tmp_path / ".new.0.tnlpad.tmp").touch()
    assert trained.asked("clean", made, "--out", tmp_path / "new", "--top", "2").exit_code == 2
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("change", ["other content", "another image", "gone"])
def test_images_that_changed_since_the_run_are_refused(change, tmp_path):
    data = trained.own_data(tmp_path, "folder")
    run = trained.trained(data, tmp_path / "runs")
    first, second = sorted((data / "cat").iterdir())[:2]
    if change == "other content":
        first.write_bytes(second.read_bytes())
    elif change == "another image":
        first.with_name("new.png").write_bytes(second.read_bytes())
    else:
        first.unlink()
    result = trained.asked("clean", run, "--out", tmp_path / "cleaned", "--confidence", "1")
    assert result.exit_code == 3
    assert f"{data} has changed since the run" in result.stderr
    assert ("'cat/" in result.stderr) == (change == "gone")
    assert not (tmp_path / "cleaned").exists()
