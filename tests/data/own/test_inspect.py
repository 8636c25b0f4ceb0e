import json

import numpy as np

from tests.data.own_files import class_folders, picture, save
from tnlpad.data.own import open_dataset
from tnlpad.data.own.inspect import contradictions, inspect


def test_counts(tmp_path):
    class_folders(tmp_path, ("cat", "dog"), 3)
    save(tmp_path / "bird" / "0.png", picture(9, size=(5, 7), mode="L"))
    found = inspect(open_dataset(tmp_path))
    assert found.classes == {"cat": 3, "dog": 3, "bird": 1}
    assert list(found.classes)[-1] == "bird"
    assert (found.imbalance, found.single, found.empty) == (3, ("bird",), ())
    assert found.sizes == {(12, 10): 6, (5, 7): 1}
    assert found.modes == {"RGB": 6, "L": 1}
    assert found.parts == {"train": 7}
    assert found.duplicates == ()


def test_duplicates_and_contradictions(tmp_path):
    class_folders(tmp_path)
    save(tmp_path / "cat" / "again.png", picture(0))
    save(tmp_path / "dog" / "again.png", picture(1))
    found = inspect(open_dataset(tmp_path))
    assert [set(each.ids) for each in found.duplicates] == [
        {"cat/1.png", "dog/again.png"},
        {"cat/0.png", "cat/again.png"},
    ]
    assert [each.contradict for each in found.duplicates] == [True, False]


def test_labels_that_contradict_each_other_are_counted(tmp_path):
    class_folders(tmp_path / "same")
    assert contradictions(open_dataset(tmp_path / "same")) is None
    texts = [("buy now", "spam")] * 5 + [("buy now", "ham")] * 2 + [("see you", "ham"), ("see you", "spam")]
    lines = ["text,label", *(f"{text},{label}" for text, label in texts)]
    (tmp_path / "texts.csv").write_text("\n".join(lines))
    said = contradictions(open_dataset(tmp_path / "texts.csv", text="text"))
    assert said.startswith("2 groups of identical samples")
    assert "at least 3 are wrong" in said
    (tmp_path / "numbers.csv").write_text("height,label\n1,a\n1,b\n2,a\n3,b\n")  # two things of one height
    assert contradictions(open_dataset(tmp_path / "numbers.csv")) is None


def test_what_is_tested_on_should_not_be_trained_on(tmp_path):
    for part in ("train", "test"):
        class_folders(tmp_path / part)
    assert all(each.across_parts for each in inspect(open_dataset(tmp_path)).duplicates)


def test_reasons_are_counted(tmp_path):
    class_folders(tmp_path)
    for name in "ab":
        (tmp_path / "cat" / f"{name}.png").write_bytes(b"")
    (tmp_path / "cat" / "c.png").write_bytes(b"no image")
    found = inspect(open_dataset(tmp_path))
    assert found.reasons == {"the file is empty": 2, "not an image of a known format": 1}


def test_features_and_plain_data(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.eye(3), y=["a", "b", "b"])
    found = inspect(open_dataset(tmp_path / "x.npz"))
    plain = json.loads(json.dumps(found.to_json()))
    assert plain["columns"] == ["column 0", "column 1", "column 2"]
    assert plain["classes"] == {"b": 2, "a": 1}
    assert plain["classes_of_one_sample"] == ["a"]


def test_classes_that_are_one_number_are_alike_and_signs_are_not_ignored(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.eye(6), y=["1", "1.0", "-1", "Hot dog", "hot_dog", "01"])
    assert inspect(open_dataset(tmp_path / "x.npz")).alike == (("01", "1", "1.0"), ("Hot dog", "hot_dog"))


def test_images_of_arrays_are_of_one_size_and_duplicates_are_plain_data(tmp_path):
    np.savez(tmp_path / "x.npz", images=np.zeros((2, 5, 7), np.uint8), labels=["a", "b"])
    found = inspect(open_dataset(tmp_path / "x.npz"))
    assert found.sizes == {(7, 5): 2}
    assert found.to_json()["duplicates"] == [
        {"ids": ["0", "1"], "labels": ["a", "b"], "parts": ["train", "train"], "contradict": True}
    ]
