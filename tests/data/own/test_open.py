import numpy as np
import pytest

from tests.data.own_files import bomb, class_folders, picture, save, write_arrow
from tests.data.small_data import Recorder
from tnlpad.data.own import is_path, open_dataset
from tnlpad.data.own.open import decoded
from tnlpad.data.stream import decode
from tnlpad.errors import DataError


def npz(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_a_folder_of_images(tmp_path):
    own = open_dataset(class_folders(tmp_path))
    assert (own.kind, own.class_names, own.parts) == ("files", ("cat", "dog"), None)
    assert own.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert own.labels.dtype == np.int64
    assert own.paths[0] == str(tmp_path / "cat" / "0.png")
    shape = own.shape
    assert (shape.samples, shape.validation, shape.test, shape.classes) == (6, 0, 0, 2)
    assert (shape.channels, shape.height, shape.width) == (3, 10, 10)
    assert own.indices("train").tolist() == list(range(6))
    assert own.indices("test").tolist() == []


def test_a_file_whose_name_leaves_no_room_for_that_of_decisions(tmp_path):
    path = tmp_path / f"{'x' * 245}.csv"
    path.write_text("text,label\n" + "".join(f"word{row} here,{'ab'[row % 2]}\n" for row in range(10)))
    assert len(open_dataset(path).ids) == 10


def test_bad_samples_are_left_out_and_listed(tmp_path):
    class_folders(tmp_path)
    (tmp_path / "cat" / "empty.png").write_bytes(b"")
    (tmp_path / "cat" / "text.jpg").write_text("x")
    bomb(tmp_path / "dog" / "bomb.png")
    own = open_dataset(tmp_path)
    assert len(own.ids) == 6
    assert {each.id for each in own.problems} == {"cat/empty.png", "cat/text.jpg", "dog/bomb.png"}


def test_nothing_but_bad_samples(tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "empty.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"none of the 1 samples .* cat/empty\.png: the file is empty"):
        open_dataset(tmp_path)


def test_arrays_with_gaps_are_tables_unless_a_run_takes_none(tmp_path):
    rows = np.array([[1, 2], [np.nan, 1], [np.inf, 0], [3, 4]])
    path = npz(tmp_path / "x.npz", features=rows, labels=[0, 1, 1, 1])
    own = open_dataset(path)
    assert (own.kind, len(own.ids), own.problems) == ("table", 4, ())
    assert "the most in 'column 0' with 2 of 4 rows" in own.notes[0]
    assert open_dataset(path, labelled=False, categories=()).kind == "table"
    own = open_dataset(path, labelled=False)
    assert tuple(own.ids) == ("0", "3")
    assert [each.id for each in own.problems] == ["1", "2"]
    assert own.problems[0].reason == "the value in column 0 is missing or not finite"


def test_samples_without_a_label_are_left_out(tmp_path):
    (tmp_path / "x.csv").write_text("a,label\n1,x\n2,\n3,y\n")
    own = open_dataset(tmp_path / "x.csv")
    assert tuple(own.ids) == ("0", "2")
    assert own.problems[0].reason == "the label is missing"


def test_pictures_of_a_hugging_face_dataset(tmp_path):
    import pyarrow as pa

    contents = [save(tmp_path / f"{n}.png", picture(n)).read_bytes() for n in range(2)]
    rows = [{"bytes": content, "path": None} for content in [*contents, None]]
    table = pa.table({"image": rows, "label": [0, 1, 0]})
    features = {"label": {"names": ["cat", "dog", "cow"]}}
    own = open_dataset(write_arrow(tmp_path / "data", table, features))
    assert (own.kind, own.class_names, tuple(own.paths)) == ("files", ("cat", "dog", "cow"), (None, None))
    assert [own.files[row] for row in range(2)] == own.files[:2] == contents
    assert [each.id for each in own.problems] == ["2"]


def test_parts_count(tmp_path):
    for number, part in enumerate(("train", "val", "test")):
        class_folders(tmp_path / part, start=1000 * number)
    own = open_dataset(tmp_path)
    assert (own.shape.samples, own.shape.validation, own.shape.test) == (12, 6, 6)
    assert own.ids[own.indices("test")[0]] == "test/cat/0.png"


def test_progress_is_told(tmp_path):
    recorder = Recorder()
    open_dataset(class_folders(tmp_path), reporter=recorder)
    assert recorder.steps == [("Checking images", 6, 6)]


def test_names_beside_the_labels_may_be_the_labels(tmp_path):
    images = np.zeros((5, 4, 4), np.uint8) + np.arange(5, dtype=np.uint8)[:, None, None]
    labels = ["dog", "cat", "cow", "dog", "cat"]
    own = open_dataset(npz(tmp_path / "x.npz", images=images, labels=labels, class_names=["dog", "cat"]))
    assert (own.class_names, own.labels.tolist()) == (("dog", "cat"), [0, 1, 0, 1])
    assert [each.reason for each in own.problems] == ["the label 'cow' is not the name of a class"]


@pytest.mark.parametrize(
    ("labels", "note"),
    [
        (
            ["1.5", "2", "2.5"],
            "every label is a number, such as 1.5, and each number counts as a class: is it a measurement?",
        ),
        (["NA", "x", "nan"], "words for a missing value count as classes (NA, nan): leave missing labels empty."),
        (["1", "2", "3"], None),
        (["1.5", "2", "x"], None),
    ],
)
def test_odd_classes_are_noted(tmp_path, labels, note):
    rows = "\n".join(f"{row},{label}" for row, label in enumerate(labels))
    (tmp_path / "x.csv").write_text(f"a,label\n{rows}\n")
    assert open_dataset(tmp_path / "x.csv").notes == ((note,) if note else ())


def test_no_samples_at_all(tmp_path):
    with pytest.raises(DataError, match=r"x\.npz holds no samples"):
        open_dataset(npz(tmp_path / "x.npz", images=np.empty((0, 4, 4), np.uint8), labels=[]))


def test_mixed_modes_become_colours_and_gray_alone_stays_gray(tmp_path):
    for number, mode in enumerate(("L", "LA", "1")):
        save(tmp_path / "gray" / "ab"[number % 2] / f"{number}.png", picture(number, mode=mode))
    gray = open_dataset(tmp_path / "gray")
    assert gray.shape.channels == 1
    assert decoded(gray.files, 8, 1).shape == (3, 1, 8, 8)
    save(tmp_path / "gray" / "a" / "colour.jpg", picture(9, mode="CMYK"))
    mixed = open_dataset(tmp_path / "gray")
    assert mixed.shape.channels == 3
    assert decoded(mixed.files, 8, 3).shape == (4, 3, 8, 8)


def test_images_keep_their_order_and_progress_is_told(tmp_path):
    files = [str(save(tmp_path / f"{number}.png", picture(number))) for number in range(5)]
    recorder = Recorder()
    pixels = decoded(files, 6, 3, reporter=recorder)
    assert all((pixels[row] == decode(file, 6, 6)).all() for row, file in enumerate(files))
    assert recorder.steps == [("Decoding images", 5, 5)]


@pytest.mark.parametrize("name", ["nowhere", "x.xyz", "a" * 5000])
def test_what_is_no_data_is_refused(tmp_path, name):
    if name == "x.xyz":
        (tmp_path / name).write_text("x")
    with pytest.raises(DataError):
        open_dataset(tmp_path / name)


def test_a_folder_of_paths_is_for_tables_of_them(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    class_folders(tmp_path / "data")
    rows = npz(tmp_path / "x.npz", features=np.ones((3, 2)), labels=[0, 1, 1])
    (tmp_path / "x.csv").write_text("a,label\n1,x\n")
    picture_bytes = (tmp_path / "data" / "cat" / "0.png").read_bytes()
    pq.write_table(pa.table({"image": [picture_bytes], "label": [0]}), tmp_path / "x.parquet")
    for path in (tmp_path / "data", rows, tmp_path / "x.csv", tmp_path / "x.parquet"):
        with pytest.raises(DataError, match=r"--images .* column of paths"):
            open_dataset(path, images=tmp_path)


def test_columns_to_ignore_are_those_of_tables(tmp_path):
    class_folders(tmp_path / "data")
    rows = npz(tmp_path / "x.npz", features=np.ones((3, 2)), labels=[0, 1, 1])
    (tmp_path / "data" / "x.csv").write_text("path,label,a\ncat/0.png,x,1\n")
    assert open_dataset(tmp_path / "data" / "x.csv", ignored=["a"]).kind == "files"
    for path in (tmp_path / "data", rows):
        with pytest.raises(DataError, match=r"--ignore a: .* is not a table\."):
            open_dataset(path, ignored=["a"])
    (tmp_path / "y.csv").write_text("A,b,label\nx1,1,x\n2,2,y\n")
    own = open_dataset(tmp_path / "y.csv", ignored=["a"])
    assert (own.columns, own.ignored) == (("b",), ("a",))
    with pytest.raises(DataError, match=r"y\.csv has no column 'c' to ignore; it has A, b, label"):
        open_dataset(tmp_path / "y.csv", ignored=["a", "c"])


def test_what_looks_like_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(class_folders(tmp_path))
    assert [word for word in ("mnist", "cat", "./x", "x.csv", "X.CSV", "x.npz", ".") if is_path(word)] == [
        "cat",
        "./x",
        "x.csv",
        "X.CSV",
        "x.npz",
        ".",
    ]


@pytest.mark.parametrize(
    ("name", "way_out"),
    [("x.zip", "unpack it first"), ("x.tar.GZ", "unpack it first"), ("x.npy", r"numpy\.savez\(path, features=")],
)
def test_what_is_packed_or_has_no_names_is_told_what_to_do_first(tmp_path, name, way_out):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(DataError, match=way_out) as error:
        open_dataset(tmp_path / name)
    assert name in str(error.value)


def test_data_to_predict_on_need_no_labels(tmp_path):
    class_folders(tmp_path / "data", count=2)
    save(tmp_path / "data" / "loose.png", picture(50))
    own = open_dataset(tmp_path / "data", labelled=False)
    assert tuple(own.ids) == ("loose.png", "cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png")
    assert set(own.labels.tolist()) == {-1}
    (tmp_path / "data" / "x.csv").write_text("path\nloose.png\n")
    assert list(open_dataset(tmp_path / "data" / "x.csv", labelled=False).ids) == ["loose.png"]
    rows = npz(tmp_path / "x.npz", features=np.ones((3, 2)))
    assert open_dataset(rows, labelled=False).features.shape == (3, 2)
    with pytest.raises(DataError, match="has no column `label`"):
        open_dataset(tmp_path / "data" / "x.csv")
    with pytest.raises(DataError, match="Save `images`"):
        open_dataset(rows)


def test_the_name_of_the_column_of_classes_is_remembered_and_changes_nothing_else(tmp_path):
    rows = "\n".join(f"{row},{'xy'[row % 2]}" for row in range(6))
    for name, heading in (("usual", "label"), ("other", "kind")):
        (tmp_path / f"{name}.csv").write_text(f"a,{heading}\n{rows}\n")
    usual = open_dataset(tmp_path / "usual.csv")
    other = open_dataset(tmp_path / "other.csv", label="kind")
    assert (usual.label_column, other.label_column) == (None, "kind")
    assert other.shape == usual.shape


def test_folders_that_are_classes_have_no_column(tmp_path):
    class_folders(tmp_path)
    with pytest.raises(DataError, match=r"--label kind names a column, and .* is a folder of images"):
        open_dataset(tmp_path, label="kind")
    assert len(open_dataset(tmp_path, label="kind", labelled=False).ids) == 6


def test_capitals_in_the_end_of_a_name_do_not_matter(tmp_path):
    (tmp_path / "X.CSV").write_text("a,label\n1,x\n2,y\n")
    assert open_dataset(tmp_path / "X.CSV").columns == ("a",)


def test_text_and_groups_are_columns(tmp_path):
    class_folders(tmp_path / "data")
    rows = npz(tmp_path / "x.npz", features=np.ones((3, 2)), labels=[0, 1, 1], patient=["a", "b", "a"])
    with pytest.raises(DataError, match=r"--text body: .* is not a table with a column of text"):
        open_dataset(tmp_path / "data", text="body")
    with pytest.raises(DataError, match=r"--group who: .* has no columns"):
        open_dataset(tmp_path / "data", group="who")
    with pytest.raises(DataError, match="no array 'who', named by --group; it has features, labels, patient"):
        open_dataset(rows, group="who")
    own = open_dataset(rows, group="patient")
    assert (own.groups[0], own.group_column) == (own.groups[2], "patient")
    assert own.shape == open_dataset(rows).shape


def test_numbers_without_gaps_keep_their_name(tmp_path):
    (tmp_path / "x.csv").write_text("a,b,label\n1,true,x\n2.5,false,y\n3,true,x\n")
    own = open_dataset(tmp_path / "x.csv")
    assert (own.kind, own.shape.name) == ("features", "own-7cc223507d")  # as in version 0.1


def test_rows_keep_their_order_and_no_row_is_left_out_for_a_gap(tmp_path):
    lines = ["1,red,x", ",blue,y", "3,,", "4,red,x", "5,blue,y"]
    (tmp_path / "x.csv").write_text("\n".join(["a,colour,label", *lines]))
    own = open_dataset(tmp_path / "x.csv")
    assert (own.kind, own.ids, own.labels.tolist()) == ("table", ("0", "1", "3", "4"), [0, 1, 0, 1])
    assert own.table.categories == (["red", "blue", "red", "blue"],)
    assert (own.shape.kind, own.shape.channels, own.shape.samples) == ("table", 2, 4)
    assert [each.reason for each in own.problems] == ["the label is missing"]
    (tmp_path / "x.csv").write_text("\n".join(["a,colour,label", "1,red,x", ",red,y", *lines[2:]]))
    assert open_dataset(tmp_path / "x.csv").shape.fingerprint != own.shape.fingerprint


def test_numbers_beside_paths_have_pictures(tmp_path):
    class_folders(tmp_path)
    lines = ["cat/0.png,1,x", "cat/1.png,2,", "cat/9.png,3,y"]
    (tmp_path / "x.csv").write_text("\n".join(["path,a,label", *lines]))
    own = open_dataset(tmp_path / "x.csv", images=tmp_path)
    assert (own.kind, own.columns, own.files) == ("features", ("a",), None)
    assert tuple(own.paths) == (str(tmp_path / "cat" / "0.png"), None)


def test_names_that_are_not_utf_8_are_refused_before_a_run(tmp_path):
    content = "text,label\n" + "".join(f"word{row} here,{'ab'[row % 2]}\n" for row in range(10))
    (tmp_path / "t.csv").write_text(content)
    folder = tmp_path / "d\udcff"
    folder.mkdir()
    (folder / "t.csv").write_text(content)
    with pytest.raises(DataError, match=r"the path '.*d\\udcff/t\.csv' is not UTF-8.* Rename it"):
        open_dataset(folder / "t.csv")
    with pytest.raises(DataError, match=r"the path '.*d\\udcff' is not UTF-8"):
        open_dataset(tmp_path / "t.csv", images=folder)
    assert len(open_dataset(folder / "t.csv", labelled=False).ids) == 10
