import os
import shutil
import zipfile

import numpy as np
import pytest
from PIL import Image

from tests.data.small_data import shared_file
from tests.data.storages import shards_of
from tnlpad.data import CATALOGUE, FetchError, check, get, load, status
from tnlpad.data.photographs import read_food101
from tnlpad.data.prepare_dataset import prepare_published
from tnlpad.errors import DataError

CLOTHING1M = CATALOGUE["clothing1m"].class_names

CLASSES = ("apple_pie", "sushi", "waffles")
TRAIN, TEST = 3, 2


@pytest.fixture
def root(tmp_path):
    write_tree(tmp_path)
    return tmp_path


def write_tree(root):
    folder = root / "food-101"
    lists = {"train": [], "test": []}
    generator = np.random.default_rng(0)
    for name in CLASSES:
        (folder / "images" / name).mkdir(parents=True)
        for number in range(TRAIN + TEST):
            pixels = generator.integers(0, 256, (8, 9, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "images" / name / f"{100 + number}.jpg")
            lists["train" if number < TRAIN else "test"].append(f"{name}/{100 + number}")
    (folder / "meta").mkdir()
    (folder / "meta" / "classes.txt").write_text("\n".join(CLASSES) + "\n")
    for split, entries in lists.items():
        (folder / "meta" / f"{split}.txt").write_text("\n".join(entries) + "\n")


def change(root, name, old, new):
    path = root / "food-101" / "meta" / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_lists_decide(root):
    train, test = load("food101", root), load("food101", root, "test")
    assert train.class_names == CLASSES
    assert train.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert test.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert all(os.path.isfile(path) for path in (*train.paths, *test.paths))
    assert not set(train.paths) & set(test.paths)
    assert test.paths[0].endswith(os.path.join("images", "apple_pie", "103.jpg"))


def test_a_subset_is_accepted_and_reported_as_such(root):
    report = check("food101", root)
    assert report.ok
    assert "A subset: 3 of the 101 classes." in report.notes
    assert "train: 9 of the 75,750 images published." in report.notes
    assert report.verified == ["15 images can be decoded"]
    assert status("food101", root).detail == "3 of the 101 classes"


def test_a_missing_class_folder(root):
    (root / "food-101" / "images" / "sushi").rename(root / "elsewhere")
    with pytest.raises(DataError, match=r"images.sushi is missing, .* remove the class"):
        load("food101", root)


def test_a_missing_image(root):
    (root / "food-101" / "images" / "sushi" / "101.jpg").unlink()
    (root / "food-101" / "images" / "sushi" / "104.jpg").unlink()
    with pytest.raises(DataError, match=r"101\.jpg is missing, and the lists name it \(and 1 more image\)"):
        load("food101", root)


def test_corrupt_images_are_found_by_check(root):
    images = root / "food-101" / "images"
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(images / "sushi" / "101.jpg")
    whole = (images / "sushi" / "101.jpg").read_bytes()
    (images / "sushi" / "101.jpg").write_bytes(whole[: len(whole) * 3 // 4])  # the header is whole, the pixels are not
    (images / "sushi" / "102.jpg").write_bytes(b"not a picture")
    (images / "waffles" / "103.jpg").write_bytes(b"")
    report = check("food101", root)
    assert not report.ok
    assert [os.path.basename(problem.split(" is not")[0]) for problem in report.problems] == [
        "101.jpg",
        "102.jpg",
        "103.jpg",
    ]
    assert "remove it from the lists" in report.problems[0]


def test_two_files_with_one_id(root):
    (root / "food-101" / "images" / "sushi" / "101.JPG").write_bytes(b"")
    with pytest.raises(DataError, match=r"sushi: .*101\.(jpg and 101\.JPG|JPG and 101\.jpg) have the same id"):
        load("food101", root)


def test_an_id_listed_twice(root):
    change(root, "train.txt", "sushi/101", "sushi/100")
    with pytest.raises(DataError, match=r"train\.txt: 'sushi/100' is listed 2 times"):
        load("food101", root)


def test_an_id_in_both_splits(root):
    change(root, "test.txt", "sushi/103", "sushi/100")
    with pytest.raises(DataError, match=r"'sushi/100' is in train\.txt and in test\.txt"):
        load("food101", root)


def test_a_class_that_is_not_listed(root):
    change(root, "classes.txt", "sushi\n", "")
    with pytest.raises(DataError, match=r"train\.txt: 'sushi/100' is of a class that meta/classes\.txt does not list"):
        load("food101", root)


def test_a_class_that_food101_does_not_have(root):
    (root / "food-101" / "images" / "sushi").rename(root / "food-101" / "images" / "stones")
    for name in ("classes.txt", "train.txt", "test.txt"):
        change(root, name, "sushi", "stones")
    assert "no class stones" in check("food101", root).problems[0]


@pytest.mark.parametrize("entry", ["sushi/../../secret", "sushi/..", "sushi/", "sushi", "sushi/a\\b", "sushi/c:x"])
def test_lists_cannot_lead_elsewhere(root, entry):
    change(root, "train.txt", "sushi/101", entry)
    with pytest.raises(DataError, match="is not the name of an image"):
        load("food101", root)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"\n\n"])
def test_lists_that_are_none(root, content):
    (root / "food-101" / "meta" / "classes.txt").write_bytes(content)
    with pytest.raises(DataError, match=r"classes\.txt"):
        load("food101", root)


def test_a_missing_list(root):
    (root / "food-101" / "meta" / "test.txt").unlink()
    with pytest.raises(DataError, match=r"test\.txt cannot be read: No such file"):
        load("food101", root)


def test_the_real_sample(tmp_path):
    with zipfile.ZipFile(shared_file("food101_sample.zip")) as archive:
        archive.extractall(tmp_path)
    report = check("food101", tmp_path)
    assert report.ok, report.problems
    assert "A subset: 21 of the 101 classes." in report.notes
    assert report.verified == ["2,100 images can be decoded"]
    train = read_food101(tmp_path / "food-101", "train")
    assert np.bincount(train.labels).tolist() == [80] * 21


LISTS = {
    "noisy_train": [f"images/0/{number}.jpg" for number in range(6)],
    "clean_train": ["images/1/10.jpg", "images/0/1.jpg"],
    "clean_val": ["images/1/11.jpg"],
    "clean_test": ["images/1/12.jpg", "images/1/13.jpg"],
}


@pytest.fixture
def clothing(tmp_path):
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


def append(clothing, name, line):
    path = clothing / "clothing1m" / name
    path.write_text(path.read_text() + line + "\n")


def test_each_split_has_its_keys_and_labels(clothing):
    train = load("clothing1m", clothing)
    assert train.labels.tolist() == [0, 1, 2, 3, 4, 5]
    assert train.class_names == CLOTHING1M
    assert all(os.path.isfile(path) for path in train.paths)
    assert load("clothing1m", clothing, "clean_train").labels.tolist() == [
        13,
        12,
    ]  # one image has two labels, of two kinds
    assert load("clothing1m", clothing, "validation").labels.tolist() == [11]
    assert load("clothing1m", clothing, "test").labels.tolist() == [10, 9]
    with pytest.raises(ValueError, match="split='clean': clothing1m has train, clean_train, validation, test"):
        load("clothing1m", clothing, "clean")


def test_check_walks_the_tree(clothing):
    report = check("clothing1m", clothing)
    assert report.ok
    assert "train: 6 of the 1,000,000 images published." in report.notes
    assert report.verified == ["10 images can be decoded"]
    assert status("clothing1m", clothing).state == "present"


def test_check_finds_missing_and_corrupt_images(clothing):
    (clothing / "clothing1m" / "images" / "1" / "12.jpg").unlink()
    (clothing / "clothing1m" / "images" / "0" / "3.jpg").write_bytes(b"\xff\xd8 and then nothing")
    (clothing / "clothing1m" / "clean_val_key_list.txt").unlink()
    problems = check("clothing1m", clothing).problems
    assert len(problems) == 3
    assert "clean_val_key_list.txt is missing, the list of the validation images" in problems[0]
    assert "12.jpg is missing, and clean_test_key_list.txt lists it" in problems[1]
    assert "3.jpg is not a readable image" in problems[2]


def test_check_reads_shards_and_the_checksums_of_prepared_pixels(clothing, tmp_path):
    folder = clothing / "clothing1m"
    shards_of(folder, folder / "shards")
    shutil.rmtree(folder / "images")
    assert check("clothing1m", clothing).verified == ["10 images can be decoded"]
    prepare_published("clothing1m", clothing, None, resize=5)
    assert check("clothing1m", clothing).verified == ["prepared-5: sha256 of 1 parts", "10 images can be decoded"]
    shard = folder / "shards" / "000000.tar"
    shard.write_bytes(shard.read_bytes().replace(b"\xff\xd8", b"\0\0", 1))
    (problem,) = check("clothing1m", clothing).problems
    assert "000000.tar, member images/0/0.jpg is not a readable image" in problem
    shutil.rmtree(folder / "shards")
    assert check("clothing1m", clothing).ok  # the pixels are all there is
    (folder / "prepared-5" / "names.txt").write_text("images/0/0.jpg")
    assert "names.txt has sha256" in check("clothing1m", clothing).problems[0]


def test_images_that_a_list_names_must_be_in_the_shards(clothing):
    folder = clothing / "clothing1m"
    shards_of(folder, folder / "shards")
    append(clothing, "clean_val_key_list.txt", "images/1/99.jpg")
    append(clothing, "clean_label_kv.txt", "images/1/99.jpg 3")
    with pytest.raises(DataError, match=r"shards has no image 'images/1/99\.jpg', and the lists name it"):
        load("clothing1m", clothing, "validation")
    assert len(load("clothing1m", clothing).paths) == 6


def test_many_missing_images_are_counted_not_listed(clothing):
    for number in range(6):
        (clothing / "clothing1m" / "images" / "0" / f"{number}.jpg").unlink()
    problems = check("clothing1m", clothing).problems
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
        ("noisy_train_key_list.txt", "images/0/1.jpg", "'images/0/1.jpg' is listed 2 times"),
        ("noisy_train_key_list.txt", "images/0/77.jpg", "no label for 'images/0/77.jpg'"),
        ("noisy_train_key_list.txt", "images/../../etc/passwd", "is not the key of an image"),
        ("noisy_train_key_list.txt", "/etc/passwd", "is not the key of an image"),
        ("category_names_eng.txt", "\nHats", "lists 15 classes"),
    ],
)
def test_lists_that_contradict_themselves(clothing, file, line, words):
    append(clothing, file, line)
    with pytest.raises(DataError, match=words):
        load("clothing1m", clothing)


def test_it_cannot_be_downloaded_and_we_say_whom_to_ask(tmp_path):
    with pytest.raises(
        FetchError, match=r"cannot be downloaded.*github\.com/Cysu/noisy_label.*Unpack it into .*clothing1m"
    ):
        get("clothing1m", tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError, match=r"clothing1m is not in .* Ask them"):
        load("clothing1m", tmp_path)


def test_the_class_list_may_be_missing(clothing):
    (clothing / "clothing1m" / "category_names_eng.txt").unlink()
    assert load("clothing1m", clothing).class_names == CLOTHING1M
    assert np.array_equal(load("clothing1m", clothing).labels, np.arange(6))
