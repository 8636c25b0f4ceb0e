"""Cleaned data come back in the form in which they came, whatever that was."""

import csv
import json
import os
import shlex
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tnlpad
from tests import test_rows
from tests.cli.trained import asked, document, own_data, trained
from tests.data.own_files import picture, save, write_arrow
from tests.edited_runs import edit, without_checksums
from tests.review.own_run import own_run
from tnlpad.data.own import open_dataset

openpyxl = pytest.importorskip("openpyxl", reason="needs openpyxl, the extra [tables]")
pd = pytest.importorskip("pandas", reason="needs pandas, which the extra [integrations] brings")

KINDS = {
    "folder": "",
    "csv": ".csv",
    "parquet": ".parquet",
    "jsonl": ".jsonl",
    "workbook": ".xlsx",
    "npz_images": ".npz",
    "npz_features": ".npz",
    "hugging_face_folder": "",
}


def rows_in(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def contents(own):
    """The label of each sample by its content, apart for the test part."""
    parts = own.parts or ("train",) * len(own.ids)
    labels = [own.class_names[label] for label in own.labels]
    return {(part == "test", digest): label for part, digest, label in zip(parts, own.digests, labels, strict=True)}


@pytest.mark.parametrize("kind", KINDS)
def test_data_come_back_in_their_form(kind, tmp_path):
    """With unusable samples among them, a label corrected, one of a new class, and a sample excluded."""
    data, labels = getattr(test_rows, kind)(tmp_path)
    run = trained(data, tmp_path / "runs")
    first = open_dataset(data)
    places = first.indices("train")[[2, 3, 4]]
    one, new, gone = (first.ids[place] for place in places)
    other = next(name for name in first.class_names if name != first.class_names[first.labels[places[0]]])
    lines = ["id,label,choice", f"{one},{other},suggested", f"{new},wasp,other", f"{gone},,exclude"]
    (tmp_path / "review.csv").write_text("\n".join(lines))
    out = tmp_path / "new" / f"out{KINDS[kind]}"
    words = ("clean", run, "--out", out, "--confidence", 1, "--review", tmp_path / "review.csv")
    written = document(*words)
    assert (written["corrected"], written["dropped"], written["decided"]) == (2, 1, 2)
    before, after = contents(first), contents(open_dataset(out))
    digests = [first.digests[place] for place in places]
    expected = before | {(False, digests[0]): other, (False, digests[1]): "wasp"}
    del expected[False, digests[2]]
    assert after == expected
    changes = rows_in(written["changes"])
    assert [(row["id"], row["to"], row["why"]) for row in changes] == [
        (one, other, "your decision"),
        (new, "wasp", "your decision"),
        (gone, "", "your decision"),
    ]
    assert all(labels[int(row["row"])] == row["from"] for row in changes)
    assert {path.name for path in out.parent.iterdir()} == {
        out.name,
        f"{out.name}.changes.csv",
        f"{out.name}.decisions.csv",
    }
    assert shlex.split(written["next"])[:3] == ["tnlpad", "train", str(out)]
    again = asked(*words)
    if KINDS[kind] == "":
        assert again.exit_code == 2
        assert "not empty" in again.stderr
    else:
        assert again.exit_code == 0


def cleaned(kind, tmp_path, suffix=None):
    """Clean data of a kind, with one sample of a new class and one dropped, and return both paths."""
    data, _ = getattr(test_rows, kind)(tmp_path)
    run = trained(data, tmp_path / "runs")
    first = open_dataset(data)
    new, gone = (first.ids[place] for place in first.indices("train")[:2])
    (tmp_path / "review.csv").write_text(f"id,label\n{new},wasp\n{gone},\n")
    out = tmp_path / f"out{KINDS[kind] if suffix is None else suffix}"
    document("clean", run, "--out", out, "--confidence", 1, "--review", tmp_path / "review.csv")
    return data, out


def test_a_parquet_file_keeps_types_and_unusable_rows(tmp_path):
    before, after = (pq.read_table(path) for path in cleaned("parquet", tmp_path))
    for name in before.column_names:
        assert after.schema.field(name).type == before.schema.field(name).type
    assert after.column_names == [*before.column_names, "original_label", "id"]
    table = after.to_pandas()
    assert len(table) == test_rows.COUNT - 1
    assert table["label"].isna().sum() == len(test_rows.MISSING)
    assert table["key"].tolist() == [f"k{row}" for row in range(test_rows.COUNT) if row != 1]
    assert table["original_label"].dropna().isin(test_rows.CLASSES).all()


def test_a_parquet_file_with_views_is_cleaned(tmp_path):
    """Polars writes texts as views, of which pyarrow cannot select rows."""
    labels = ["a", "b"] * 20
    table = pa.table({"x": np.arange(40) % 7, "label": pa.array(labels, type=pa.string_view())})
    try:
        pq.write_table(table, tmp_path / "data.parquet")
    except pa.ArrowNotImplementedError:
        pytest.skip("this pyarrow does not write views")
    run = trained(tmp_path / "data.parquet", tmp_path / "runs")
    (tmp_path / "review.csv").write_text("id,label\n1,a\n3,\n")
    document("clean", run, "--out", tmp_path / "out.parquet", "--confidence", 1, "--review", tmp_path / "review.csv")
    assert pq.read_table(tmp_path / "out.parquet")["label"].to_pylist() == ["a", "a", "a", *labels[4:]]


@pytest.mark.parametrize(
    ("suffix", "dtype", "new", "labels", "wanted"),
    [
        (".parquet", "int8", "7", [7, 1, 0], "int8"),
        (".parquet", "int8", "700", ["700", "1", "0"], None),
        (".parquet", "float64", "7", [7, 1, 0], "float64"),
        (".parquet", "float64", "new", ["new", "1", "0"], None),
        (".jsonl", "int64", "7", [7, 1, 0], "int64"),
        (".npz", "uint8", "7", [7, 1, 0], "uint8"),
        (".npz", "uint8", "300", [300, 1, 0], "int64"),
        (".npz", "uint8", "new", ["new", "1", "0"], None),
    ],
)
def test_a_new_class_keeps_the_others_as_they_are(suffix, dtype, new, labels, wanted, tmp_path):
    data, out = tmp_path / f"data{suffix}", tmp_path / f"out{suffix}"
    table = pd.DataFrame({"x": np.arange(40) % 7, "label": (np.arange(40) % 2).astype(dtype)})
    if suffix == ".npz":
        np.savez(data, features=table[["x"]].to_numpy(), labels=table["label"].to_numpy())
    else:
        table.to_parquet(data) if suffix == ".parquet" else table.to_json(data, orient="records", lines=True)
    run = trained(data, tmp_path / "runs")
    (tmp_path / "review.csv").write_text(f"id,label\n0,{new}\n")
    document("clean", run, "--out", out, "--confidence", 1, "--review", tmp_path / "review.csv")
    if suffix == ".npz":
        found = np.load(out)["labels"]
    else:
        found = pd.read_parquet(out)["label"] if suffix == ".parquet" else pd.read_json(out, lines=True)["label"]
    assert found[:3].tolist() == labels
    assert wanted is None or found.dtype == wanted


@pytest.mark.parametrize("labels", [(True, False), (1.0, 2.0), (1, 2), ("1.0", "True")])
def test_classes_keep_their_names_as_text(labels, tmp_path):
    records = [{"a": row, "b": row**2 % 7, "label": labels[row % 2]} for row in range(20)]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, records)))
    first = own_run(tmp_path / "run", tmp_path / "x.jsonl")
    names = [first.class_names[label] for label in first.labels]
    (tmp_path / "review.csv").write_text(f"id,label\n0,{names[0]}\n1,{names[0]}\n")
    out = tmp_path / "out.csv"
    document("clean", tmp_path / "run", "--out", out, "--confidence", 1, "--review", tmp_path / "review.csv")
    second = open_dataset(out)
    assert [second.class_names[label] for label in second.labels] == [names[0], names[0], *names[2:]]
    assert second.decided == {"0": names[0], "1": names[0]}
    assert [row["original_label"] for row in rows_in(out)] == names


def test_json_records_keep_their_fields(tmp_path):
    data, _ = test_rows.jsonl(tmp_path)
    lines = [line for line in data.read_text().splitlines() if line]
    records = [json.loads(line) | ({"more": [1, {"x": None}]} if k % 2 else {}) for k, line in enumerate(lines)]
    data.write_text("\n".join(map(json.dumps, records)))
    run = trained(data, tmp_path / "runs", 1, "--ignore", "more")
    document("clean", run, "--out", tmp_path / "out.jsonl", "--top", 2)
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    changed = 0
    for before, after in zip(records, written, strict=True):
        assert all(after[name] == before[name] for name in before if name != "label")
        assert set(after) - set(before) <= {"id", "original_label"}
        changed += after["label"] != before["label"]
    assert changed == 2


def test_a_workbook_keeps_its_sheets_and_formats(tmp_path):
    data, _ = test_rows.workbook(tmp_path)
    workbook = openpyxl.load_workbook(data)
    workbook.create_sheet("notes")["A1"] = "about"
    workbook.worksheets[0]["B2"].number_format = "0.000"
    workbook.save(data)
    run = trained(data, tmp_path / "runs")
    ids = open_dataset(data).ids
    (tmp_path / "review.csv").write_text(f"id,label\n{ids[4]},\n{ids[5]},wasp\n")
    document("clean", run, "--out", tmp_path / "out.xlsx", "--confidence", 1, "--review", tmp_path / "review.csv")
    written = openpyxl.load_workbook(tmp_path / "out.xlsx")
    assert written["notes"]["A1"].value == "about"
    assert written.worksheets[0]["B2"].number_format == "0.000"
    before, after = (pd.read_excel(path) for path in (data, tmp_path / "out.xlsx"))
    assert list(after.columns) == [*before.columns, "id", "original_label"]
    assert len(after) == len(before) - 1
    assert (after["label"] == "wasp").sum() == 1


def test_a_dataset_keeps_its_splits_features_and_class_names(tmp_path):
    datasets = pytest.importorskip("datasets")
    data, out = cleaned("hugging_face_folder", tmp_path)
    before, after = (datasets.load_from_disk(str(path)) for path in (data, out))
    assert list(after) == ["train", "test"]
    assert (len(after["train"]), len(after["test"])) == (len(before["train"]) - 1, len(before["test"]))
    features = after["train"].features
    assert features["text"] == before["train"].features["text"]
    assert features["label"].names == ["ant", "bee", "wasp"]
    assert features["original_label"].names == ["ant", "bee", "wasp"]
    assert after["train"][0]["label"] == 2
    assert after["train"][0]["original_label"] == before["train"][0]["label"]
    assert after["test"]["text"][:] == before["test"]["text"][:]


def test_a_new_class_in_one_split_fits_the_others(tmp_path):
    for part, count in {"train": 30, "test": 10}.items():
        table = pa.table({"x": np.arange(count) % 7, "label": np.arange(count) % 2})
        (tmp_path / "data").mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / "data" / f"{part}-00000-of-00001.parquet")
    run = trained(tmp_path / "data", tmp_path / "runs")
    (tmp_path / "review.csv").write_text("id,label\ntrain/0,new\n")
    for name in ("out", "out.parquet"):
        document("clean", run, "--out", tmp_path / name, "--confidence", 1, "--review", tmp_path / "review.csv")
        assert set(open_dataset(tmp_path / name).class_names) == {"0", "1", "new"}


@pytest.mark.parametrize("saved", [True, False])
def test_a_split_may_lose_every_sample(saved, tmp_path):
    rows = {"text": [f"words {row}" for row in range(20)], "label": [0, 1] * 10}
    parts = {"train": pa.table(rows), "validation": pa.table(rows).slice(0, 6)}
    if saved:
        datasets = pytest.importorskip("datasets")
        datasets.disable_progress_bars()
        whole = {name: datasets.Dataset(datasets.table.InMemoryTable(table)) for name, table in parts.items()}
        datasets.DatasetDict(whole).save_to_disk(tmp_path / "data")
    else:
        (tmp_path / "data").mkdir()
        for name, table in parts.items():
            pq.write_table(table, tmp_path / "data" / f"{name}.parquet")
    own_run(tmp_path / "run", tmp_path / "data")
    lines = ["id,label", *(f"validation/{row}," for row in range(6))]
    (tmp_path / "review.csv").write_text("\n".join(lines))
    for name in ("out", "out.parquet"):
        words = ("--out", tmp_path / name, "--confidence", 1, "--review", tmp_path / "review.csv")
        assert document("clean", tmp_path / "run", *words)["dropped"] == 6
        assert list(open_dataset(tmp_path / name).ids) == [f"train/{row}" for row in range(20)]


def test_a_dataset_is_written_as_parquet_files_without_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    folder = tmp_path / "data"
    features = {
        "label": {"names": ["ant", "bee"], "_type": "ClassLabel"},
        "text": {"dtype": "string", "_type": "Value"},
    }
    write_arrow(folder, pa.table({"text": test_rows.TEXTS, "label": test_rows.CODES}), features)
    run = trained(folder, tmp_path / "runs")
    (tmp_path / "review.csv").write_text("id,label\n0,wasp\n1,\n")
    out = tmp_path / "out"
    document("clean", run, "--out", out, "--confidence", 1, "--review", tmp_path / "review.csv")
    assert [path.name for path in (out / "data").iterdir()] == ["train-00000-of-00001.parquet"]
    second = open_dataset(out)
    assert second.class_names == ("ant", "bee", "wasp")
    assert len(second.ids) == test_rows.COUNT - 1
    assert second.texts[0] == test_rows.TEXTS[0]


def test_arrays_keep_their_names_types_and_order_of_axes(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (24, 9, 8, 3), dtype=np.uint8)
    given = {"x": images, "y": np.arange(24, dtype=np.int16)[:, None] % 2, "weights": np.arange(24) / 7, "note": "a"}
    np.savez(tmp_path / "x.npz", **given)
    run = trained(tmp_path / "x.npz", tmp_path / "runs")
    (tmp_path / "review.csv").write_text("id,label\n0,1\n5,\n")
    out = tmp_path / "out.npz"
    document("clean", run, "--out", out, "--confidence", 1, "--review", tmp_path / "review.csv")
    kept = [row for row in range(24) if row != 5]
    with np.load(out) as written:
        assert set(written) == {*given, "original_y", "ids", "split"}
        assert (written["x"] == images[kept]).all()
        assert (written["y"].dtype, written["y"].shape) == (np.int16, (23, 1))
        assert written["y"][0, 0] == 1
        assert (written["original_y"] == given["y"][kept]).all()
        assert (written["weights"] == given["weights"][kept]).all()
        assert written["ids"].tolist() == [str(row) for row in kept]


def test_arrays_of_texts_that_were_saved_as_bytes(tmp_path):
    names = np.array(["ant", "bée"])
    rows = np.arange(24) % 2 * 9.0 + np.random.default_rng(0).normal(size=(24, 3)).T
    ids = np.array([f"é{row}" for row in range(24)])
    texts = {"class_names": names, "ids": ids}
    as_bytes = {name: np.char.encode(values, "utf-8") for name, values in texts.items()}
    np.savez(tmp_path / "x.npz", x=rows.T, y=np.arange(24) % 2, **as_bytes)
    run = trained(tmp_path / "x.npz", tmp_path / "runs")
    (tmp_path / "review.csv").write_text("id,label\né0,bée\né5,\n")
    out = tmp_path / "out.npz"
    document("clean", run, "--out", out, "--confidence", 1, "--review", tmp_path / "review.csv")
    with np.load(out) as written:
        assert written["class_names"].tolist() == names.tolist()
        assert written["y"].tolist() == [1, 1, 0, 1, 0, *(np.arange(6, 24) % 2)]
    assert open_dataset(out).ids == tuple(name for name in ids.tolist() if name != "é5")


def test_images_become_links_or_copies_in_the_folders_of_their_classes(tmp_path):
    data = own_data(tmp_path, "parts")
    save(data / "train" / "cat" / "deep" / "a.png", picture(9))
    run = trained(data, tmp_path / "runs")
    lines = ["id,label", "train/cat/0.png,dog", "train/cat/deep/a.png,dog", "train/dog/1.png,new one", "val/cat/0.png,"]
    (tmp_path / "review.csv").write_text("\n".join(lines))
    words = ("--confidence", 1, "--review", tmp_path / "review.csv")
    document("clean", run, "--out", tmp_path / "linked", *words)
    document("clean", run, "--out", tmp_path / "copied", "--files", "copy", *words)
    linked, copied = (
        {path.relative_to(tmp_path / name).as_posix(): path for path in (tmp_path / name).rglob("*.png")}
        for name in ("linked", "copied")
    )
    assert linked.keys() == copied.keys()
    source = {path.relative_to(data).as_posix() for path in data.rglob("*.png")}
    moved = {"train/dog/0-2.png", "train/dog/deep/a.png", "train/new one/1.png"}
    assert linked.keys() - source == moved
    assert source - linked.keys() == {"train/cat/0.png", "train/cat/deep/a.png", "train/dog/1.png", "val/cat/0.png"}
    assert os.path.samefile(linked["train/dog/0-2.png"], data / "train/cat/0.png")
    assert not os.path.samefile(copied["train/dog/0-2.png"], data / "train/cat/0.png")
    assert copied["train/dog/0-2.png"].read_bytes() == (data / "train/cat/0.png").read_bytes()


@pytest.mark.parametrize("label", ["é" * 128, "a/b", "..", ".hidden"])
def test_labels_that_cannot_be_folders_are_refused(tmp_path, label):
    run = trained(own_data(tmp_path, "folder"), tmp_path / "runs")
    (tmp_path / "review.csv").write_text(f"id,label\ncat/0.png,{label}\n")
    words = ("--out", tmp_path / "out", "--confidence", 1, "--review", tmp_path / "review.csv")
    result = asked("clean", run, *words)
    assert (result.exit_code, "--out FILE.csv" in result.stderr) == (3, True)
    assert not (tmp_path / "out").exists()


def test_a_number_makes_no_name_too_long(tmp_path):
    data, long = own_data(tmp_path, "folder"), "é" * 125 + "a.png"  # 255 bytes
    for place, name in enumerate(("cat", "dog")):
        save(data / name / long, picture(place + 50))
    run = trained(data, tmp_path / "runs")
    (tmp_path / "review.csv").write_text(f"id,label\ncat/{long},dog\n")
    document("clean", run, "--out", tmp_path / "out", "--confidence", 1, "--review", tmp_path / "review.csv")
    assert {path.name for path in (tmp_path / "out" / "dog").glob("é*")} == {long, "é" * 124 + "-2.png"}


def test_images_are_copied_where_links_are_impossible(tmp_path, monkeypatch):
    def refuse(*paths, **options):
        raise OSError(18, "Invalid cross-device link")

    run = trained(own_data(tmp_path, "folder"), tmp_path / "runs")
    monkeypatch.setattr(os, "link", refuse)
    assert document("clean", run, "--out", tmp_path / "out", "--top", 1)["corrected"] == 1
    assert len(open_dataset(tmp_path / "out").ids) == 20


def test_a_failure_leaves_no_folder(tmp_path, monkeypatch):
    run = trained(own_data(tmp_path, "folder"), tmp_path / "runs")
    calls = []

    def fill(*paths, **options):
        calls.append(paths)
        if len(calls) > 5:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copy2", fill)
    result = asked("clean", run, "--out", tmp_path / "a" / "out", "--top", 1, "--files", "copy")
    assert (result.exit_code, "No space left" in result.stderr) == (1, True)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["data/new"], "within the folder that the data come from"),
        (["out.npz"], "Name a folder, or a .csv, .tsv or .txt file"),
        (["data"], "is the file that the data come from"),
        (["out.csv", "--files", "copy"], "--files copy is for images that are written to a folder"),
    ],
)
def test_a_wrong_target_is_a_usage_error(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    run = trained(own_data(tmp_path, "folder"), tmp_path / "runs")
    before = sorted(tmp_path.rglob("*"))
    result = asked("clean", run, "--top", 1, "--out", *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_label_that_is_no_name_of_a_folder_is_refused(tmp_path):
    run = trained(own_data(tmp_path, "folder"), tmp_path / "runs")
    (tmp_path / "review.csv").write_text("id,label\ncat/0.png,../dog\n")
    words = ("clean", run, "--review", tmp_path / "review.csv", "--confidence", 1, "--out")
    result = asked(*words, tmp_path / "out")
    assert result.exit_code == 3
    assert "'../dog'" in result.stderr
    assert not (tmp_path / "out").exists()
    assert asked(*words, tmp_path / "out.csv").exit_code == 0


@pytest.mark.parametrize("suffix", ["", ".csv", ".parquet"])
def test_tables_that_a_program_held_are_cleaned_on_the_command_line(tmp_path, suffix):
    frame = test_rows.frame().dropna()
    frame["kind"] = ["wet", "dry"] * (len(frame) // 2) + ["dry"] * (len(frame) % 2)
    with pytest.warns(UserWarning, match="not trained on"):
        result = tnlpad.fit(frame, out=tmp_path / "runs", settings={"epochs": 1})
    out = tmp_path / f"out{suffix}"
    (tmp_path / "review.csv").write_text(f"id,label\n{frame.index[0]},wasp\n{frame.index[1]},\n")
    document("clean", result.folder, "--out", out, "--confidence", 1, "--review", tmp_path / "review.csv")
    second = open_dataset(out)
    assert second.ids == (str(frame.index[0]), *map(str, frame.index[2:]))
    assert second.class_names[second.labels[0]] == "wasp"


def test_samples_that_were_left_out_are_not_said_to_be_in_saved_data(tmp_path):
    labels = [None, *(test_rows.CLASSES[code] for code in test_rows.CODES[1:])]
    with pytest.warns(UserWarning, match="Left out: 1 of"):
        result = tnlpad.fit(test_rows.TEXTS, labels, out=tmp_path / "runs", settings={"epochs": 1})
    said = asked("clean", result.folder, "--out", tmp_path / "out.csv", "--top", 1)
    assert "1 label replaced" in said.stdout
    assert "could not be trained on" not in said.stderr
    with pytest.warns(UserWarning, match="adds the class 'wasp'"):
        result.clean(review={"1": "wasp"})


def test_many_samples_that_were_left_out_are_counted_and_the_first_are_listed(tmp_path):
    labelled = zip(test_rows.TEXTS, test_rows.CODES, strict=True)
    rows = "".join(f"{text},{test_rows.CLASSES[code]}\n" for text, code in labelled)
    (tmp_path / "data.csv").write_text("text,label\n" + rows + "no label,\n" * 150)
    run = trained(tmp_path / "data.csv", tmp_path / "runs")
    about = json.loads((run / "data.json").read_text())
    assert (len(about["left_out"]), about["left_out_count"]) == (100, 150)
    words = ("clean", run, "--out", tmp_path / "out.csv", "--top", 1)
    assert "Left as before: 150 samples that could not be trained on" in asked(*words).stderr

    def as_older_versions_do(about):
        about["left_out"] += about["left_out"][:50]
        del about["left_out_count"]

    edit(run / "data.json", as_older_versions_do)
    without_checksums(run)
    (tmp_path / "out.csv").unlink()
    assert "Left as before: 150 samples that could not be trained on" in asked(*words).stderr


def test_texts_that_a_program_held_are_cleaned_on_the_command_line(tmp_path):
    labels = [test_rows.CLASSES[code] for code in test_rows.CODES]
    result = tnlpad.fit(test_rows.TEXTS, labels, out=tmp_path / "runs", settings={"epochs": 1})
    document("clean", result.folder, "--out", tmp_path / "out.csv", "--top", 1)
    table = pd.read_csv(tmp_path / "out.csv")
    assert table["text"].tolist() == test_rows.TEXTS
    assert (table["label"] != table["original_label"]).sum() == 1


@pytest.mark.parametrize("kind", ["folder", "csv", "npz_features"])
def test_runs_of_older_versions_are_cleaned(kind, tmp_path):
    """Their records have neither rows nor a column of ids."""
    data, _ = getattr(test_rows, kind)(tmp_path)
    run = trained(data, tmp_path / "runs")
    edit(run / "data.json", lambda about: about.pop("id_column"))
    without_checksums(run)
    samples = pq.read_table(run / "samples.parquet").drop_columns(["row"])
    pq.write_table(samples, run / "samples.parquet")
    own = open_dataset(data)
    place = own.indices("train")[5]
    (tmp_path / "review.csv").write_text(f"id,label\n{own.ids[place]},wasp\n")
    out = tmp_path / f"out{KINDS[kind]}"
    document("clean", run, "--out", out, "--confidence", 1, "--review", tmp_path / "review.csv")
    assert contents(open_dataset(out)) == contents(own) | {(False, own.digests[place]): "wasp"}
