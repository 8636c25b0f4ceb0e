"""Labels that a person decided on are not asked about again when the cleaned data are trained on."""

import csv
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tnlpad
from tests import test_rows
from tests.cli.trained import asked, document, trained
from tests.data.own_files import picture, save
from tests.review.own_run import own_run
from tnlpad.data.own import open_dataset
from tnlpad.data.own.decided import decisions_file
from tnlpad.records.samples import read_decided
from tnlpad.records.store import RunFolder
from tnlpad.suspects.listing import rank_run


def rows_in(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def cleaned(run, out, folder, lines, words=("--confidence", 1)):
    (folder / "review.csv").write_text("\n".join(["id,label", *lines]))
    return document("clean", run, "--out", out, "--review", folder / "review.csv", *words)


def listed_by_label(run):
    return {each.id: each for each in rank_run(RunFolder(run)).suspects(1000)}


def _spared(ranked, classes):
    return {name for name, each in ranked.items() if each.given_name in classes}


KINDS = {"folder": "", "csv": ".csv", "npz_features": ".npz", "hugging_face_folder": ""}


@pytest.mark.parametrize("kind", KINDS)
def test_decisions_add_up_over_the_rounds(kind, tmp_path):
    data, _ = getattr(test_rows, kind)(tmp_path)
    run, first = trained(data, tmp_path / "runs"), open_dataset(data)
    places = first.indices("train")[[0, 3, 4]]
    names = [first.class_names[first.labels[place]] for place in places]
    gone, kept, other = (first.ids[place] for place in places)
    new = next(name for name in first.class_names if name != names[2])
    out = tmp_path / f"one{KINDS[kind]}"
    assert cleaned(run, out, tmp_path, [f"{gone},", f"{kept},{names[1]}", f"{other},{new}"])["decided"] == 2
    digests = {first.digests[place]: label for place, label in zip(places[1:], (names[1], new), strict=True)}
    second = open_dataset(out)
    labels = [second.class_names[label] for label in second.labels]
    known = {name: digest for name, digest in zip(second.ids, second.digests, strict=True) if digest in digests}
    decided = {name: label for name, label in zip(second.ids, labels, strict=True) if name in second.decided}
    assert second.decided == decided
    assert {known[name]: label for name, label in decided.items()} == digests

    result = asked("train", out, "--set", "epochs=1", "--out", tmp_path / "two")
    assert "decided on in an earlier round, and count as checked: 2." in result.stderr
    (again,) = (tmp_path / "two").iterdir()
    assert read_decided(again) == decided
    ranked = listed_by_label(again)
    for name, label in decided.items():
        assert (ranked[name].confidence, ranked[name].why) == (0, "You checked this label: it is right.")
        assert ranked[name].given_name == label
    assert {each.id for each in sorted(ranked.values(), key=lambda each: each.rank)[-2:]} == set(decided)

    more = next(name for name in ranked if name not in decided)
    last = tmp_path / f"three{KINDS[kind]}"
    third = cleaned(again, last, tmp_path, [f"{more},{ranked[more].given_name}"], ("--top", len(ranked)))
    assert (third["decided"], len(open_dataset(last).decided)) == (3, 3)
    changed = {row["id"] for row in rows_in(third["changes"])}
    assert changed == ranked.keys() - {more, *decided} - _spared(ranked, third["spared"])


def _nameless(folder, kind):
    """Write a table sorted by class whose rows have no ids, and return it with the columns to ignore."""
    path, labels = folder / f"x.{kind.split()[0]}", ["cat"] * 10 + ["dog"] * 10
    files = [save(folder / f"{row}.png", picture(row)) for row in range(20)]
    if "pictures" in kind:
        columns = {"file_name": [file.name for file in files], "image": [file.read_bytes() for file in files]}
    elif "paths" in kind:
        columns = {"path": ["2.png" if row == 1 else file.name for row, file in enumerate(files)]}
    else:
        columns = {"a": list(range(20)), "b": [row**2 % 7 for row in range(20)]}
    name = "Id" if "other case" in kind else "id"
    columns |= {name: ["a"] * 20} if "ignored" in kind else {}
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns | {"label": labels}), path)
    else:
        lines = zip(*columns.values(), labels, strict=True)
        path.write_text("\n".join(",".join(map(str, line)) for line in [(*columns, "label"), *lines]))
    return path, ["id"] if "ignored" in kind else []


@pytest.mark.parametrize(
    "kind",
    [
        "csv, id ignored",
        "csv, id in other case ignored",
        "csv of paths, one twice, id ignored",
        "parquet, id ignored",
        "parquet of paths, one twice",
        "parquet of paths, one twice, id ignored",
        "parquet of pictures",
        "parquet of pictures, id ignored",
    ],
)
def test_a_decision_is_about_the_same_sample_after_another_one_was_dropped(kind, tmp_path):
    data, ignored = _nameless(tmp_path, kind.replace(",", ""))
    first = own_run(tmp_path / "run", data, ignored=ignored)
    out = tmp_path / f"out{data.suffix}"
    cleaned(tmp_path / "run", out, tmp_path, [f"{first.ids[1]},", f"{first.ids[2]},cat", f"{first.ids[15]},cat"])
    second = open_dataset(out, ignored=ignored)
    assert second.decided == {first.ids[2]: "cat", first.ids[15]: "cat"}
    before, after = (dict(zip(own.ids, own.digests, strict=True)) for own in (first, second))
    assert after == {name: digest for name, digest in before.items() if name != first.ids[1]}


def test_without_a_place_for_ids_nothing_is_written(tmp_path):
    lines = [f"1,1,{row},{'xy'[row % 2]}" for row in range(20)]
    (tmp_path / "x.csv").write_text("\n".join(["id,sample_id,a,label", *lines]))
    own_run(tmp_path / "run", tmp_path / "x.csv", ignored=["id", "sample_id"])
    result = asked("clean", tmp_path / "run", "--out", tmp_path / "out.csv", "--confidence", 1)
    assert (result.exit_code, "id and sample_id do not name the samples" in result.stderr) == (3, True)
    assert not list(tmp_path.glob("out*"))


def test_a_sidecar_changes_neither_the_run_nor_its_numbers_and_is_followed(tmp_path):
    data, _ = test_rows.csv(tmp_path)
    run = trained(data, tmp_path / "runs")
    page = run / "suspects" / "index.html"
    before = page.stat().st_mtime_ns
    own = open_dataset(data)
    label = own.class_names[own.labels[2]]
    decisions_file(data).write_text(f"id,label\n{own.ids[2]},{label}\n")
    assert open_dataset(data).shape == own.shape
    assert trained(data, tmp_path / "runs") == run
    assert read_decided(run) == {own.ids[2]: label}
    assert page.stat().st_mtime_ns > before
    (run / "decided.csv").write_text("nothing\n1\n")
    assert "decided.csv is damaged" in asked("suspects", run).stderr
    assert trained(data, tmp_path / "runs") == run
    assert read_decided(run) == {own.ids[2]: label}

    decisions_file(data).write_text(f"id,label\n{own.ids[2]},another\ngone,{label}\n{own.ids[3]},another\n")
    result = asked("train", data, "--set", "epochs=1", "--out", tmp_path / "runs")
    assert "x.csv.decisions.csv about samples that are gone or have another label now: 3." in result.stderr
    assert read_decided(run) == {}
    decisions_file(data).write_text("name\nx\n")
    broken = asked("train", data, "--out", tmp_path / "runs")
    assert (broken.exit_code, "has no column id" in broken.stderr) == (3, True)
    assert tnlpad.load(run).ranked(1)


def test_earlier_decisions_hold_for_fit_and_give_way_to_an_audit(tmp_path):
    data, _ = test_rows.csv(tmp_path)
    own = open_dataset(data)
    label = own.class_names[own.labels[2]]
    decisions_file(data).write_text(f"id,label\n{own.ids[2]},{label}\n")
    with pytest.warns(UserWarning, match="in an earlier round, and count as checked: 1"):
        result = tnlpad.fit(data, out=tmp_path / "runs", settings={"epochs": 1})
    assert result.run.earlier == {own.ids[2]: label}
    drawn = document("audit", result.folder, "--sample", len(own.ids))["ids"]
    lines = [f"{name},wasp" if name == own.ids[2] else f"{name},?" for name in drawn]
    (tmp_path / "audit.csv").write_text("\n".join(["id,label", *lines]))
    assert asked("audit", result.folder, "--review", tmp_path / "audit.csv").exit_code == 0
    ranked = rank_run(RunFolder(result.folder))
    row = list(ranked.names.ids).index(own.ids[2])
    assert (ranked.earlier, ranked.ranking.decisions[row]) == ({}, "wasp")


def test_a_page_is_written_again_if_the_data_are_newer(tmp_path):
    data, table = tmp_path / "x.csv", test_rows.frame()
    table.to_csv(data, index=False)
    run = trained(data, tmp_path / "runs", 1, "--id", "key")
    page = run / "suspects" / "index.html"
    assert b"data:image" not in page.read_bytes()
    for row in range(test_rows.COUNT):
        save(tmp_path / f"k{row}.png", picture(row))
    table.assign(path=table["key"] + ".png").to_csv(data, index=False)
    assert trained(data, tmp_path / "runs", 1, "--id", "key") == run
    assert b"data:image" in page.read_bytes()
    written = page.stat().st_mtime_ns
    trained(data, tmp_path / "runs", 1, "--id", "key")
    assert page.stat().st_mtime_ns == written


def test_a_damaged_list_is_not_counted_and_written_again(tmp_path):
    data, _ = test_rows.csv(tmp_path)
    run = trained(data, tmp_path / "runs")
    place = run / "suspects"
    intact = {path.name: path.read_bytes() for path in place.iterdir()}
    assert intact.keys() == {"suspects.csv", "index.html", "checksums.json"}
    (before,) = json.loads(asked("runs", tmp_path / "runs", "--json").stdout)
    for name, content in intact.items():
        times = os.stat(place / name)
        (place / name).write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
        os.utime(place / name, ns=(times.st_atime_ns, times.st_mtime_ns))  # a disk that fails does not change the time
        (found,) = json.loads(asked("runs", tmp_path / "runs", "--json").stdout)
        assert found["suspects"] == (before["suspects"] if name == "index.html" else None)
        result = asked("train", data, "--set", "epochs=1", "--out", tmp_path / "runs")
        assert ("is damaged, and is written again" in result.stderr, result.exit_code) == (True, 0)
        assert {path.name: path.read_bytes() for path in place.iterdir()} == intact
    assert json.loads(asked("runs", tmp_path / "runs", "--json").stdout) == [before]


def test_a_list_of_an_earlier_version_is_kept(tmp_path):
    data, _ = test_rows.csv(tmp_path)
    run = trained(data, tmp_path / "runs")
    listed = run / "suspects" / "suspects.csv"
    (run / "suspects" / "checksums.json").unlink()
    listed.write_text("confidence\n0.9\n")
    assert json.loads(asked("runs", tmp_path / "runs", "--json").stdout)[0]["suspects"] == 1
    assert trained(data, tmp_path / "runs") == run
    assert listed.read_text() == "confidence\n0.9\n"
