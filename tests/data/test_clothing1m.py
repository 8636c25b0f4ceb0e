import os

import numpy as np
import pytest
from PIL import Image

from tnlpad.data import FetchError, check, get, load, status
from tnlpad.data.class_names import CLOTHING1M
from tnlpad.data.errors import DataError

LISTS = {
    "noisy_train": [f"images/0/{number}.jpg" for number in range(6)],
    "clean_train": ["images/1/10.jpg", "images/0/1.jpg"],
    "clean_val": ["images/1/11.jpg"],
    "clean_test": ["images/1/12.jpg", "images/1/13.jpg"],
}


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "clothing1m"
    noisy, clean = LISTS["noisy_train"], [key for name in list(LISTS)[1:] for key in LISTS[name]]
    for key in {*noisy, *clean}:
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (6, 5), (len(key), 0, 0)).save(folder / key)
    for name, keys in LISTS.items():
        (folder / f"{name}_key_list.txt").write_text("\n".join(keys) + "\n")
    (folder / "noisy_label_kv.txt").write_text("".join(f"{key} {i % 14}\n" for i, key in enumerate(noisy)))
    (folder / "clean_label_kv.txt").write_text("".join(f"{key} {13 - i}\n" for i, key in enumerate(clean)))
    (folder / "category_names_eng.txt").write_text("\n".join(CLOTHING1M))
    return tmp_path


def append(root, name, line):
    path = root / "clothing1m" / name
    path.write_text(path.read_text() + line + "\n")


def test_each_split_has_its_keys_and_labels(root):
    train = load("clothing1m", root)
    assert train.labels.tolist() == [0, 1, 2, 3, 4, 5]
    assert train.class_names == CLOTHING1M
    assert all(os.path.isfile(path) for path in train.paths)
    assert load("clothing1m", root, "clean_train").labels.tolist() == [13, 12]  # one image has two labels, of two kinds
    assert load("clothing1m", root, "validation").labels.tolist() == [11]
    assert load("clothing1m", root, "test").labels.tolist() == [10, 9]
    with pytest.raises(ValueError, match="split='clean': clothing1m has train, clean_train, validation, test"):
        load("clothing1m", root, "clean")


def test_check_walks_the_tree(root):
    report = check("clothing1m", root)
    assert report.ok
    assert "train: 6 of the 1,000,000 images published." in report.notes
    assert report.verified == ("10 images can be decoded",)
    assert status("clothing1m", root).state == "present"


def test_check_finds_missing_and_corrupt_images(root):
    (root / "clothing1m" / "images" / "1" / "12.jpg").unlink()
    (root / "clothing1m" / "images" / "0" / "3.jpg").write_bytes(b"\xff\xd8 and then nothing")
    (root / "clothing1m" / "clean_val_key_list.txt").unlink()
    problems = check("clothing1m", root).problems
    assert len(problems) == 3
    assert "clean_val_key_list.txt is missing, the list of the validation images" in problems[0]
    assert "12.jpg is missing, and clean_test_key_list.txt lists it" in problems[1]
    assert "3.jpg is not a readable image" in problems[2]


def test_many_missing_images_are_counted_not_listed(root):
    for number in range(6):
        (root / "clothing1m" / "images" / "0" / f"{number}.jpg").unlink()
    problems = check("clothing1m", root).problems
    assert len(problems) == 5 + 1 + 1  # five with a line, one more, and one in the list of clean images
    assert problems[5] == "… and 1 more missing images."


@pytest.mark.parametrize(
    ("file", "line", "words"),
    [
        ("noisy_label_kv.txt", "images/0/9.jpg 14", "label 14 of 'images/0/9.jpg' is out of range; with 14 classes"),
        ("noisy_label_kv.txt", "images/0/9.jpg -1", "label -1 .* out of range"),
        ("noisy_label_kv.txt", "images/0/9.jpg", "is not a line `key label`"),
        ("noisy_label_kv.txt", "images/0/9.jpg 99999999999999999999", "is not a line `key label`"),
        ("noisy_label_kv.txt", "images/0/1.jpg 2", "'images/0/1.jpg' has two labels, 1 and 2"),
        ("noisy_train_key_list.txt", "images/0/1.jpg", "'images/0/1.jpg' is listed twice"),
        ("noisy_train_key_list.txt", "images/0/77.jpg", "no label for 'images/0/77.jpg'"),
        ("noisy_train_key_list.txt", "images/../../etc/passwd", "is not the key of an image"),
        ("noisy_train_key_list.txt", "/etc/passwd", "is not the key of an image"),
        ("category_names_eng.txt", "\nHats", "lists 15 classes"),
    ],
)
def test_lists_that_contradict_themselves(root, file, line, words):
    append(root, file, line)
    with pytest.raises(DataError, match=words):
        load("clothing1m", root)


def test_it_cannot_be_downloaded_and_we_say_whom_to_ask(tmp_path):
    with pytest.raises(
        FetchError, match=r"cannot be downloaded.*github\.com/Cysu/noisy_label.*Put its tree into .*clothing1m"
    ):
        get("clothing1m", tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError, match=r"clothing1m is not in .* Ask them"):
        load("clothing1m", tmp_path)


def test_the_class_list_may_be_missing(root):
    (root / "clothing1m" / "category_names_eng.txt").unlink()
    assert load("clothing1m", root).class_names == CLOTHING1M
    assert np.array_equal(load("clothing1m", root).labels, np.arange(6))
