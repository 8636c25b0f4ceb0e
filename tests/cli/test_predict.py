import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.cli.trained import asked, document, hugging_face, own_data, trained, trained_digits
from tests.data.own_files import picture, save


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained_digits(tmp_path_factory.mktemp("runs"))


def test_predictions_on_the_test_part_are_as_good_as_the_record_says(run):
    from tnlpad.data import load

    result = asked("predict", run, "digits", "--json", "-q")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["predictions"]
    right = np.mean([int(each["predicted"]) for each in found] == load("digits", None, "test").labels)
    assert right == pytest.approx(json.loads((run / "summary.json").read_text())["chosen"]["test_accuracy"])


def test_predictions_on_own_images_need_no_labels(run, tmp_path):
    (tmp_path / "photographs").mkdir()
    for number in range(3):
        Image.new("L", (16, 12), number * 100).save(tmp_path / "photographs" / f"{number}.png")
    result = asked("predict", run, tmp_path / "photographs", "--out", tmp_path / "p.csv", "-q")
    assert result.exit_code == 0, result.output
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 4


def test_a_single_image(run, tmp_path):
    save(tmp_path / "photo.PNG", picture(1))
    found = document("predict", run, tmp_path / "photo.PNG")["predictions"]
    assert [(each["id"], each["path"]) for each in found] == [("photo.PNG", str(tmp_path / "photo.PNG"))]
    assert found[0]["probability"] == document("predict", run, tmp_path)["predictions"][0]["probability"]


def test_the_most_probable_classes_have_columns_of_their_own(run, tmp_path):
    result = asked("predict", run, "digits", "--top", 3, "-q")
    header, first, *_ = result.stdout.splitlines()
    assert header == "id,path,predicted_1,probability_1,predicted_2,probability_2,predicted_3,probability_3"
    found = document("predict", run, "digits", "--top", 3)["predictions"][0]
    assert first.split(",")[2::2] == found["predicted"]
    assert [float(each) for each in first.split(",")[3::2]] == found["probability"]
    assert found["probability"] == sorted(found["probability"], reverse=True)
    alone = document("predict", run, "digits")["predictions"][0]
    assert (alone["predicted"], alone["probability"]) == (found["predicted"][0], found["probability"][0])
    many = asked("predict", run, "digits", "--top", 11)
    assert many.exit_code == 2
    assert "--top 11: the run has 10 classes" in many.stderr


def test_data_of_another_shape_are_bad_data(run, tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((4, 3, 9, 9), dtype=np.uint8), labels=np.arange(4))
    result = asked("predict", run, tmp_path / "a.npz")
    assert result.exit_code == 3
    assert "takes 1 × 8 × 8" in result.stderr


def predicted(run, data, *words):
    return {each["id"]: each for each in document("predict", run, data, *words)["predictions"]}


def test_a_folder_a_table_and_pictures_get_the_same_predictions(tmp_path):
    data = own_data(tmp_path, "parts")
    run = trained(data, tmp_path / "runs")
    found = predicted(run, data)
    assert len(found) == 32
    some = ["test/cat/0.png", "val/dog/1.png"]
    (tmp_path / "x.csv").write_text("\n".join(["path", *some, "../data/train/cat/0.png"]))
    by_table = predicted(run, tmp_path / "x.csv", "--images", data)
    assert {name: each["probability"] for name, each in by_table.items() if name in some} == pytest.approx(
        {name: found[name]["probability"] for name in some}
    )
    assert by_table["test/cat/0.png"]["path"] == str(data / "test" / "cat" / "0.png")
    pictures = hugging_face(tmp_path / "hf", count=3)  # the same as the first of train/cat
    for number, each in predicted(run, pictures).items():
        assert each["probability"] == pytest.approx(found[f"train/cat/{number}.png"]["probability"])


def test_bad_samples_are_left_out_and_reported(run, tmp_path):
    save(tmp_path / "data" / "good.png", picture(1))
    (tmp_path / "data" / "bad.png").write_bytes(b"")
    result = asked("predict", run, tmp_path / "data")
    assert result.exit_code == 0
    assert "Left out: 1 of 2 samples, such as bad.png: the file is empty" in result.stderr
    assert result.stdout.splitlines()[0] == "id,path,predicted,probability"
    assert len(result.stdout.splitlines()) == 2


def test_columns_are_found_by_name(tmp_path):
    run = trained(own_data(tmp_path, "features"), tmp_path / "runs")
    (tmp_path / "a.csv").write_text("width,height\n1,-2\n3,4\n")
    (tmp_path / "b.csv").write_text("height;more;width\n-2;7;1\n4;7;3\n")
    first = predicted(run, tmp_path / "a.csv")
    assert predicted(run, tmp_path / "b.csv") == first
    np.savez(tmp_path / "c.npz", features=np.array([[1, -2], [3, 4]]))  # no names: the order counts
    assert predicted(run, tmp_path / "c.npz") == first
    (tmp_path / "d.csv").write_text("width,depth\n1,2\n")
    result = asked("predict", run, tmp_path / "d.csv")
    assert result.exit_code == 3
    assert "has no column 'height', which this run was trained on; it has width, depth." in result.stderr
    (tmp_path / "e.csv").write_text("width,height\n1,tall\n")
    result = asked("predict", run, tmp_path / "e.csv")
    assert result.exit_code == 3
    assert "line 2: 'tall' in column 'height' is not a number" in result.stderr


def test_data_of_another_kind_are_refused_with_what_the_run_was_trained_on(tmp_path):
    images = trained(own_data(tmp_path, "images"), tmp_path / "runs")
    numbers = trained(own_data(tmp_path, "features"), tmp_path / "runs")
    (tmp_path / "numbers.csv").write_text("width,height\n1,2\n3,4\n")
    pictures = tmp_path / "photos"
    save(pictures / "a.png", picture(1))
    rows = [f"a scarlet rose in garden {row} of the {row % 7} towns,{'xy'[row % 2]}" for row in range(30)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *rows]))
    texts = trained(tmp_path / "texts.csv", tmp_path / "runs")
    for run, data, said in (
        (images, tmp_path / "numbers.csv", "holds rows of numbers, and this run was trained on pictures"),
        (numbers, pictures, "holds pictures, and this run was trained on a table with the columns width, height"),
        (texts, pictures, "holds no texts, and this run was trained on the texts of column 'text'"),
        (texts, tmp_path / "numbers.csv", "no column 'text', which this run was trained on; it has width, height"),
    ):
        result = asked("predict", run, data)
        assert result.exit_code == 3
        assert said in result.stderr
        assert "--" not in result.stderr


def test_values_that_training_did_not_have_are_noted_by_column(tmp_path):
    rows = [
        f"{row},{('red', 'blue')[row % 2]},{('round', 'square')[row % 3 == 0]},{'xy'[row % 2]}" for row in range(40)
    ]
    (tmp_path / "data.csv").write_text("\n".join(["size,colour,form,label", *rows]))
    run = trained(tmp_path / "data.csv", tmp_path / "runs")
    (tmp_path / "new.csv").write_text("size,colour,form\n1,lila,round\n2,red,square\n3,pink,round\n")
    result = asked("predict", run, tmp_path / "new.csv")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("Note: column 'colour': 2 of 3 rows have a value that ") == 1
    assert "such as 'lila'" in result.stderr
    assert "'form'" not in result.stderr


def test_other_columns_are_ignored_with_a_note(tmp_path):
    run = trained(own_data(tmp_path, "features"), tmp_path / "runs")
    (tmp_path / "a.csv").write_text("id,width,height\n7,1,-2\n8,3,4\n9,,4\n")
    (tmp_path / "b.csv").write_text(
        "comment|height|file|id|split|width|label\n-, so|-2|a.png|7|fold 1|1|x\n?|4|b.png|8||3|\nno|4|c.png|9||NA|\n"
    )
    result = asked("predict", run, tmp_path / "b.csv")
    assert result.exit_code == 0, result.output
    others = "'comment', 'file', 'split', 'label'"
    assert f"Note: columns that this run was not trained on are ignored: {others}." in result.stderr
    found = document("predict", run, tmp_path / "b.csv")
    assert found == document("predict", run, tmp_path / "a.csv")
    assert [each["id"] for each in found["predictions"]] == ["7", "8"]
    assert found["left_out"] == [{"id": "9", "reason": "the value in column 'width' is missing or not finite"}]
    by_parquet = document("predict", run, _parquet(tmp_path / "c.parquet"))
    assert by_parquet["predictions"] == found["predictions"]


def _parquet(path):
    """With a column of pictures besides."""
    columns = {"scan": [b"x", b"y"], "id": [7, 8], "text": ["", "z"], "height": [-2.0, 4.0], "width": [1, 3]}
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "path\n/etc/hostname\n", "lies out of the folder"),
        ("x.csv", "path,label\n", "has no rows"),
        ("x.csv", "a,b\nnan,1\n1,nan\n", "missing or not finite"),
        ("x.npz", "no archive", "cannot be read as .npz"),
        ("x.odt", "x", "is not of a known kind"),
    ],
)
def test_bad_data_end_with_three_and_write_nothing(run, tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    result = asked("predict", run, tmp_path / name, "--out", tmp_path / "new" / "p.csv")
    assert result.exit_code == 3
    assert message in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_data_are_not_overwritten(run, tmp_path):
    save(tmp_path / "a.png", picture(1))
    (tmp_path / "x.csv").write_text("path\na.png\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "x.csv")
    result = asked("predict", run, tmp_path / "x.csv", "--out", tmp_path / "link.csv")
    assert result.exit_code == 2
    assert "is the file that the data come from" in result.stderr
    assert (tmp_path / "x.csv").read_text() == "path\na.png\n"


def test_a_file_that_cannot_be_written_is_named(run, tmp_path):
    (tmp_path / "file").write_text("")
    np.savez(tmp_path / "a.npz", images=np.zeros((4, 8, 8), dtype=np.uint8))
    result = asked("predict", run, tmp_path / "a.npz", "--out", tmp_path / "file" / "p.csv")
    assert result.exit_code == 1
    assert "cannot write" in result.stderr
    assert "Name another file" in result.stderr


def test_columns_without_names_are_taken_in_their_order_with_a_note(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    labels = (rows[:, 0] > 0).astype(int)
    lines = [f"{a},{b},{label}" for (a, b), label in zip(rows, labels, strict=True)]
    (tmp_path / "named.csv").write_text("\n".join(["a,b,label", *lines]))
    np.savez(tmp_path / "unnamed.npz", features=rows, labels=labels)
    notes = []
    for one, other in (("named.csv", "unnamed.npz"), ("unnamed.npz", "named.csv"), ("named.csv", "named.csv")):
        run = trained(tmp_path / one, tmp_path / "runs")
        result = asked("predict", run, tmp_path / other)
        assert result.exit_code == 0, result.output
        notes.append("taken in their order" in result.stderr)
    assert notes == [True, True, False]


@pytest.mark.parametrize("suffix", [".csv", ".npz"])
def test_ids_are_those_of_the_column_that_the_run_was_trained_with(tmp_path, suffix):
    rows, name = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32), f"data{suffix}"

    def write(path, **more):
        columns = {"features": rows} if suffix == ".npz" else {"a": rows[:, 0], "b": rows[:, 1]}
        columns |= {"label": np.arange(40) % 2} | more
        if suffix == ".npz":
            np.savez(path, **columns)
        else:
            lines = [",".join(map(str, line)) for line in zip(*columns.values(), strict=True)]
            path.write_text("\n".join([",".join(columns), *lines]))
        return path

    keys = np.array([f"k{row}" for row in range(40)])
    run = trained(write(tmp_path / name, key=keys), tmp_path / "runs", 1, "--id", "key")
    assert list(predicted(run, tmp_path / name)) == keys.tolist()
    assert list(predicted(run, write(tmp_path / f"other{suffix}"))) == [str(row) for row in range(40)]
