import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.data.own_files import bomb, class_folders, picture, save, scene
from tnlpad.cli import app
from tnlpad.cli.check import _lines
from tnlpad.data.own import open_dataset
from tnlpad.data.own.inspect import inspect
from tnlpad.data.pixels import open_pixels


@pytest.fixture(autouse=True)
def trial(request, monkeypatch):
    """Take the time of the trial as known, except where it is tested."""
    if "timed" not in request.node.name:
        monkeypatch.setattr("tnlpad.runs.trial.estimated_seconds", lambda *_, **__: 150.0)


def check(*arguments):
    return CliRunner().invoke(app, ["check", *map(str, arguments)])


def clean(result):
    """Return a result that is no traceback."""
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def test_a_folder_is_described_and_what_would_be_trained(tmp_path):
    class_folders(tmp_path, count=6)
    result = check(tmp_path)
    assert result.exit_code == 0, result.output
    for wanted in ("12 image files, 2 classes", "cat (6), dog (6)", "12x10 (12)", "RGB (12)", "duplicates: none"):
        assert wanted in result.stdout
    assert "would use small_resnet, at 10 pixels, 100 epochs, batches of 32" in result.stdout
    assert "no test split" in result.stdout
    assert "takes about 2 min on this machine" in result.stdout


def test_json_is_exactly_one_document(tmp_path):
    class_folders(tmp_path, count=5)
    (tmp_path / "cat" / "x.png").write_bytes(b"")
    save(tmp_path / "bird" / "0.png", picture(9))
    result = check(tmp_path, "--json", "--quiet")
    document = json.loads(result.stdout)
    assert result.stderr == ""
    assert document["left_out"] == [{"id": "cat/x.png", "reason": "the file is empty"}]
    assert document["training"]["network"] == "small_resnet"
    assert document["obstacle"] is None
    assert (document["seconds"], document["classes_too_small_to_judge"]) == (150, ["bird"])


def test_contradictions_are_suspects_at_once(tmp_path):
    class_folders(tmp_path)
    save(tmp_path / "dog" / "again.png", picture(1))
    result = check(tmp_path)
    assert "conflicting labels: 1 group " in result.stdout
    assert "1 cat: cat/1.png; 1 dog: dog/again.png" in result.stdout


def test_near_duplicates_across_classes_and_splits_are_named(tmp_path):
    places = ("train/cat", "train/dog", "test/cat", "test/dog")
    for start, place in enumerate(places, start=1):
        for number in range(6):
            save(tmp_path / place / f"{number}.png", scene(100 * start + number))
    save(tmp_path / "train" / "dog" / "again.jpg", scene(0), quality=60)
    save(tmp_path / "test" / "cat" / "again.png", scene(0).resize((60, 45)))
    result = check(tmp_path)
    assert result.exit_code == 0, result.output
    assert "near duplicates: 2 samples in 1 group that look the same" in result.stdout
    assert "1 group in more than one split" in result.stdout
    assert "conflicting labels: 1 group of near duplicates has different labels" in result.stdout
    assert "1 cat: test/cat/again.png; 1 dog: train/dog/again.jpg" in result.stdout
    (group,) = json.loads(check(tmp_path, "--json").stdout)["near_duplicates"]
    assert group["contradict"]


def test_the_time_is_timed_on_a_part_of_the_data(tmp_path):
    rows = [f"{row % 7},{row % 5},{'ab'[row % 2]}" for row in range(400)]
    (tmp_path / "x.csv").write_text("\n".join(["a,b,label", *rows]))
    seconds = json.loads(check(tmp_path / "x.csv", "--json").stdout)["seconds"]
    assert 0 < seconds < 600


def test_rows_of_one_content_and_two_labels_may_both_be_right(tmp_path):
    (tmp_path / "x.csv").write_text("a,label\n1,x\n1,y\n2,x\n")
    result = check(tmp_path / "x.csv")
    assert "conflicting labels: 1 group of identical samples has different labels: one is wrong, or" in result.stdout
    assert "certainly" not in result.stdout


def test_the_minority_of_conflicting_labels_is_named(tmp_path):
    rows = ["1,ham" if row == 9 else "1,spam" for row in range(12)]
    (tmp_path / "x.csv").write_text("\n".join(["a,label", *rows, "2,ham"]))
    assert "  11 spam; 1 ham: 9\n" in check(tmp_path / "x.csv").stdout


def test_a_table_as_people_have_it(tmp_path):
    """With text, days and gaps, as a spreadsheet saves it."""
    heading = ["Id", "name", "day", "width", "height", "Species"]
    rows = [[k, f"Rose {k}", "2024-02-29", k % 7, "" if k == 3 else k % 5, "ab"[k % 2]] for k in range(12)]
    lines = ["\t".join(map(str, row)) for row in (heading, *rows)]
    (tmp_path / "x.txt").write_bytes("\r\n".join(lines).encode("utf-16"))
    result = check(tmp_path / "x.txt", "--label", "Species")
    assert result.exit_code == 0, result.output
    assert "12 rows of " in result.stdout
    assert "width, height" in result.stdout
    assert "note: columns of dates or times are not trained on: 'day'." in result.stdout
    assert "note: columns of ids or names, whose values hardly repeat, are not trained on: 'name'." in result.stdout
    assert "note: columns with gaps: 1, the most in 'height' with 1 of 12 rows." in result.stdout


def test_one_class_only(tmp_path):
    class_folders(tmp_path, ("cat",))
    result = clean(check(tmp_path))
    assert result.exit_code == 3
    assert "cat (3)" in result.stdout
    assert "one class, 'cat'" in result.stderr


def test_every_bad_image_is_counted(tmp_path):
    class_folders(tmp_path / "data", count=5)
    (tmp_path / "data" / "cat" / "empty.png").write_bytes(b"")
    (tmp_path / "data" / "cat" / "text.png").write_text("x")
    bomb(tmp_path / "data" / "dog" / "bomb.png")
    outside = save(tmp_path / "outside.png")
    (tmp_path / "data" / "dog" / "link.png").symlink_to(outside)
    result = clean(check(tmp_path / "data"))
    assert result.exit_code == 0
    assert "left out: 4 samples" in result.stdout
    for reason in ("the file is empty", "not an image", "unpacks to more than 67,108,864", "leads out of the folder"):
        assert reason in result.stdout


def test_many_classes_and_long_names_stay_readable(tmp_path):
    labels = [f"{'å' * 300}{number}" for number in range(10_000)]
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).random((10_000, 2)), y=labels)
    result = clean(check(tmp_path / "x.npz"))
    assert result.exit_code == 0
    assert "10,000 classes" in result.stdout
    assert "classes with fewer than 5 samples, too few to judge: 10,000 (" in result.stdout
    assert max(map(len, result.stdout.splitlines())) < 1200


def test_names_do_not_command_the_terminal(tmp_path):
    class_folders(tmp_path, ("a\x1b[2Jb", "new\nline"), count=5)
    result = clean(check(tmp_path))
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert "classes: a\\x1b[2Jb (5), new\\nline (5)\n" in result.stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("path\nx.png\n", "has no column `label`"),
        ("path,label\n/etc/passwd,a\n/etc/hosts,b\n", "lies out of the folder"),
        ("a,label\nnan,1\nnan,2\n", "has no column to train on"),
        ("path,label\nmissing.png,a\n", "missing.png does not exist"),
    ],
)
def test_tables_that_cannot_be_used(tmp_path, content, message):
    (tmp_path / "x.csv").write_text(content)
    result = clean(check(tmp_path / "x.csv"))
    assert result.exit_code == 3
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((0, 4)), "y": np.zeros(0)}, "holds no samples"),
        ({"x": np.full((4, 3), np.nan), "y": np.arange(4)}, "none of the 4 samples"),
        ({"x": np.full((4, 3, 8, 8), np.nan), "y": np.arange(4)}, "NaN or infinity"),
        ({"x": np.zeros((4, 2)), "y": np.zeros(4)}, "one class, '0'"),
        ({"x": np.zeros((4, 2)), "y": np.eye(4)}, "one class per sample"),
    ],
)
def test_arrays_that_cannot_be_used(tmp_path, arrays, message):
    np.savez(tmp_path / "x.npz", **arrays)
    result = clean(check(tmp_path / "x.npz"))
    assert result.exit_code == 3
    assert message in result.stderr


@pytest.mark.parametrize("encoding", ["utf-16-le", "latin-1"])
def test_a_table_of_another_encoding_is_told_how_to_be_saved(tmp_path, encoding):
    (tmp_path / "x.csv").write_bytes("path,label\nx.png,käse\n".encode(encoding))
    result = clean(check(tmp_path / "x.csv"))
    assert result.exit_code == 3
    assert "Save it as UTF-8" in result.stderr


def test_nothing_there(tmp_path):
    result = clean(check(tmp_path / "nowhere"))
    assert (result.exit_code, result.stdout) == (3, "")
    assert "does not exist" in result.stderr
    assert check("mnist").exit_code == 2


def test_no_name_is_not_the_current_folder(tmp_path, monkeypatch):
    class_folders(tmp_path, count=10)
    monkeypatch.chdir(tmp_path)
    result = check("")
    assert (result.exit_code, "DATA is empty" in result.stderr) == (2, True)
    assert check(".").exit_code == 0


def test_nothing_is_written(tmp_path, monkeypatch):
    class_folders(tmp_path / "data", count=5)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    before = sorted(tmp_path.rglob("*"))
    assert check(tmp_path / "data").exit_code == 0
    assert sorted(tmp_path.rglob("*")) == before


def test_pipes_and_folders_are_no_images(tmp_path):
    class_folders(tmp_path / "data", count=5)
    os.mkfifo(tmp_path / "data" / "cat" / "pipe.png")
    os.mkfifo(tmp_path / "x.csv")
    result = clean(check(tmp_path / "data"))
    assert result.exit_code == 0
    assert "1: it is not a regular file (such as cat/pipe.png)" in result.stdout
    result = clean(check(tmp_path / "x.csv"))
    assert result.exit_code == 3
    assert "is neither a file nor a folder" in result.stderr


def test_pictures_in_a_table_are_called_so(tmp_path):
    contents = [save(tmp_path / f"{k}.png", picture(k)).read_bytes() for k in range(4)]
    pq.write_table(pa.table({"image": contents, "label": ["a", "b"] * 2}), tmp_path / "x.parquet")
    assert "4 pictures in a table, 2 classes" in check(tmp_path / "x.parquet").stdout


def test_classes_that_are_one_or_cannot_be_learnt(tmp_path):
    rows = ["1,Hot dog,test", "2,hot_dog,train", "3,cat,train", "4,cow,val"]
    (tmp_path / "x.csv").write_text("\n".join(["a,label,split", *rows]))
    result = clean(check(tmp_path / "x.csv"))
    assert "(train 2, validation 1, test 1)" in result.stdout
    assert "names of classes that hardly differ: 'Hot dog', 'hot_dog'." in result.stdout
    assert "classes that are not in the training part: 2 (Hot dog, cow)" in result.stdout
    document = json.loads(check(tmp_path / "x.csv", "--json").stdout)
    assert document["classes_named_alike"] == [["Hot dog", "hot_dog"]]
    (tmp_path / "y.csv").write_text("a,label\n1,caf\u00e9\n2,cafe\u0301\n")
    assert r"hardly differ: 'cafe\u0301', 'caf\xe9'." in check(tmp_path / "y.csv").stdout
    assert document["classes_not_trained_on"] == ["Hot dog", "cow"]


def test_a_column_of_classes_of_any_name(tmp_path):
    rows = [f"{row},{row % 3},{'ab'[row % 2]}" for row in range(12)]
    (tmp_path / "x.csv").write_text("\n".join(["a,b,Cover Type", *rows]))
    without = clean(check(tmp_path / "x.csv"))
    assert without.exit_code == 3
    assert "such as --label 'Cover Type'" in without.stderr
    named = check(tmp_path / "x.csv", "--label", "Cover Type")
    assert named.exit_code == 0, named.output
    assert "a (6), b (6)" in named.stdout
    assert "columns: 2 (a, b)" in named.stdout
    fewer = check(tmp_path / "x.csv", "--label", "Cover Type", "--ignore", "b")
    assert "columns: 1 (a)" in fewer.stdout


def test_too_few_samples_to_hold_some_out(tmp_path):
    class_folders(tmp_path, count=4)
    result = clean(check(tmp_path))
    assert result.exit_code == 3
    assert "8 samples to train on" in result.stderr
    assert "at least 10" in result.stderr


def test_complaints_of_the_decoder_are_not_passed_on(tmp_path):
    for label in ("cat", "dog"):
        for number in range(5):
            file = save(tmp_path / label / f"{number}.jpg", picture(number))
            damaged = b"Exif\0\0II*\0\x08\0\0\0\x05\0\x12\x01"  # five entries are said to follow
            marker = b"\xff\xe1" + (len(damaged) + 2).to_bytes(2, "big") + damaged
            content = file.read_bytes()
            file.write_bytes(content[:2] + marker + content[2:])
    with pytest.warns(UserWarning, match="Corrupt EXIF data"):
        open_pixels(str(file), 8)
    command = [sys.executable, "-m", "tnlpad", "check", str(tmp_path), "--quiet"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert "10 image files, 2 classes" in result.stdout


def test_texts_are_described(tmp_path):
    rows = [f"{row},this is message number {row},{'xy'[row % 2]},g{row // 2}" for row in range(6)]
    (tmp_path / "x.csv").write_text("\n".join(["n,what,label,who", *rows]))
    result = clean(check(tmp_path / "x.csv", "--text", "what", "--group", "who"))
    for wanted in ("6 texts, 2 classes", "texts: column 'what', 24 characters in the middle, at most 24", "groups: 3"):
        assert wanted in result.stdout
    document = json.loads(clean(check(tmp_path / "x.csv", "--text", "what", "--group", "who", "--json")).stdout)
    assert (document["kind"], document["text_column"], document["groups"]) == ("text", "what", 3)


def test_a_table_of_numbers_and_categories_is_described(tmp_path):
    class_folders(tmp_path)
    rows = [f"cat/{row}.png,{row % 3 or ''},{['red', 'blue'][row % 2]},{'xy'[row // 3]}" for row in range(6)]
    (tmp_path / "x.csv").write_text("\n".join(["path,a,colour,label", *rows]))
    own = open_dataset(tmp_path / "x.csv")
    lines = list(_lines(inspect(own), own))
    assert lines[0].endswith("x.csv: 6 rows of a table, 2 classes")
    assert "columns of numbers: 1 (a)" in lines
    assert "columns of categories: 1 (colour)" in lines
    assert "pictures: 3 of 6 rows have one, which is shown and not trained on" in lines
    assert inspect(own).to_json()["categories"] == ["colour"]
