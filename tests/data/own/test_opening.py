import numpy as np
import pytest

from tests.data.own_files import class_folders, picture, save
from tnlpad.data.errors import DataError
from tnlpad.data.own import is_path, open_dataset


def npz(path, **arrays):
    np.savez(path, **arrays)
    return path


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
        with pytest.raises(DataError, match=r"--images .* is for tables with a column of paths, and .* leave it out"):
            open_dataset(path, images=tmp_path)


def test_columns_to_ignore_are_those_of_tables_of_numbers(tmp_path):
    class_folders(tmp_path / "data")
    rows = npz(tmp_path / "x.npz", features=np.ones((3, 2)), labels=[0, 1, 1])
    (tmp_path / "data" / "x.csv").write_text("path,label,a\ncat/0.png,x,1\n")
    for path in (tmp_path / "data", rows, tmp_path / "data" / "x.csv"):
        with pytest.raises(DataError, match=r"--ignore a is for tables of numbers, and .* is none: leave it out"):
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


def test_data_to_predict_on_need_no_labels(tmp_path):
    class_folders(tmp_path / "data", count=2)
    save(tmp_path / "data" / "loose.png", picture(50))
    own = open_dataset(tmp_path / "data", labelled=False)
    assert own.ids == ("loose.png", "cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png")
    assert set(own.labels.tolist()) == {-1}
    (tmp_path / "data" / "x.csv").write_text("path\nloose.png\n")
    assert open_dataset(tmp_path / "data" / "x.csv", labelled=False).ids == ("loose.png",)
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
    with pytest.raises(DataError, match=r"--label kind names a column, and in .* the folders are the classes"):
        open_dataset(tmp_path, label="kind")
    assert len(open_dataset(tmp_path, label="kind", labelled=False).ids) == 6


def test_capitals_in_the_end_of_a_name_do_not_matter(tmp_path):
    (tmp_path / "X.CSV").write_text("a,label\n1,x\n2,y\n")
    assert open_dataset(tmp_path / "X.CSV").columns == ("a",)
