import numpy as np
import pytest

from tests.data.own_files import bomb, class_folders, picture, save, write_arrow
from tnlpad.data.errors import DataError
from tnlpad.data.own import open_dataset


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
    with pytest.raises(DataError, match=r"none of its 1 samples can be used; cat/empty\.png: the file is empty"):
        open_dataset(tmp_path)


def test_rows_with_gaps_are_left_out(tmp_path):
    rows = np.array([[1, 2], [np.nan, 1], [np.inf, 0], [3, 4]])
    own = open_dataset(npz(tmp_path / "x.npz", features=rows, labels=[0, 1, 1, 1]))
    assert own.ids == ("0", "3")
    assert [each.id for each in own.problems] == ["1", "2"]
    assert own.problems[0].reason == "has no finite number in column 'column 0'"


def test_samples_without_a_label_are_left_out(tmp_path):
    (tmp_path / "x.csv").write_text("a,label\n1,x\n2,\n3,y\n")
    own = open_dataset(tmp_path / "x.csv")
    assert own.ids == ("0", "2")
    assert own.problems[0].reason == "has no label"


def test_pictures_of_a_hugging_face_dataset(tmp_path):
    import pyarrow as pa

    contents = [save(tmp_path / f"{n}.png", picture(n)).read_bytes() for n in range(2)]
    rows = [{"bytes": content, "path": None} for content in [*contents, None]]
    table = pa.table({"image": rows, "label": [0, 1, 0]})
    features = {"label": {"names": ["cat", "dog", "cow"]}}
    own = open_dataset(write_arrow(tmp_path / "data", table, features))
    assert (own.kind, own.class_names, own.paths) == ("files", ("cat", "dog", "cow"), (None, None))
    assert [own.files[row] for row in range(2)] == own.files[:2] == contents
    assert [each.id for each in own.problems] == ["2"]


def test_parts_count(tmp_path):
    for number, part in enumerate(("train", "val", "test")):
        class_folders(tmp_path / part, start=1000 * number)
    own = open_dataset(tmp_path)
    assert (own.shape.samples, own.shape.validation, own.shape.test) == (12, 6, 6)
    assert own.ids[own.indices("test")[0]] == "test/cat/0.png"


def test_progress_is_told(tmp_path):
    class Heard:
        told: list[tuple[str, int, int]]

        def say(self, message):
            pass

        def progress(self, task, done, total):
            self.told = [(task, done, total)]

    heard = Heard()
    open_dataset(class_folders(tmp_path), reporter=heard)
    assert heard.told == [("Looking at images", 6, 6)]


def test_names_beside_the_labels_may_be_the_labels(tmp_path):
    images = np.zeros((5, 4, 4), np.uint8) + np.arange(5, dtype=np.uint8)[:, None, None]
    labels = ["dog", "cat", "cow", "dog", "cat"]
    own = open_dataset(npz(tmp_path / "x.npz", images=images, labels=labels, class_names=["dog", "cat"]))
    assert (own.class_names, own.labels.tolist()) == (("dog", "cat"), [0, 1, 0, 1])
    assert [each.reason for each in own.problems] == ["has the label 'cow', which is not the name of a class"]


@pytest.mark.parametrize(
    ("labels", "note"),
    [
        (
            ["1.5", "2", "2.5"],
            "every label is a number, such as 1.5, and each number counts as a class: is it a measurement?",
        ),
        (["NA", "x", "nan"], "words for no value count as classes (NA, nan): leave labels empty where there is none."),
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
