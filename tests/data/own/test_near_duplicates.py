import io

import numpy as np
import pytest
from PIL import Image, ImageFilter

from tests.data.own_files import class_folders, save, scene
from tnlpad.data.own import open_dataset
from tnlpad.data.own.near_duplicates import MAX_NEIGHBOURS, _with_equal_keys, near_duplicate_groups, normal_text
from tnlpad.data.own.objects import open_samples


def jpeg(image, quality=60):
    content = io.BytesIO()
    image.save(content, "JPEG", quality=quality)
    return Image.open(content)


COPIES = {
    "compressed.jpg": lambda image: jpeg(image, 40),
    "smaller.png": lambda image: image.resize((70, 50), Image.Resampling.LANCZOS),
    "larger.png": lambda image: image.resize((300, 225), Image.Resampling.BICUBIC),
    "webp.webp": lambda image: image,
    "blurred.png": lambda image: image.filter(ImageFilter.GaussianBlur(1)),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_picture_saved_again_is_found_and_others_are_not(tmp_path, name):
    for number in range(12):
        save(tmp_path / "ab"[number % 2] / f"{number}.png", scene(number))
    save(tmp_path / "b" / name, COPIES[name](scene(4)))
    own = open_dataset(tmp_path)
    assert [{own.ids[row] for row in rows} for rows in near_duplicate_groups(own)] == [{"a/4.png", f"b/{name}"}]


def changed(image):
    """The same picture with something else in a corner, as a camera that does not move sees it."""
    other = image.copy()
    other.paste((255, 255, 255), (90, 60, 110, 80))
    return other


OTHERS = {
    "other colours": lambda image: Image.merge("RGB", image.split()[::-1]),
    "mirrored": lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    "negative": lambda image: Image.eval(image, lambda value: 255 - value),
    "another object": changed,
}


@pytest.mark.parametrize("name", OTHERS)
def test_pictures_that_are_alike_in_part_are_no_duplicates(name):
    own = open_samples([scene(1), OTHERS[name](scene(1))], ["a", "b"])
    assert near_duplicate_groups(own) == []


def test_blank_pictures_are_duplicates_only_if_they_are_equal():
    pages = [Image.fromarray(np.random.default_rng(k).integers(250, 254, (64, 64), dtype=np.uint8)) for k in range(5)]
    assert near_duplicate_groups(open_samples([*pages, pages[2]], list("ababab"))) == [[2, 5]]


def test_arrays_are_compared_by_their_pixels():
    images = np.stack([np.asarray(scene(number, (32, 32))) for number in range(6)])
    near = np.clip(images[1].astype(int) + 2, 0, 255).astype(np.uint8)
    own = open_samples(np.stack([*images, near, images[3]]), np.arange(8) % 2)
    assert near_duplicate_groups(own) == [[1, 6], [3, 7]]
    assert near_duplicate_groups(open_samples(own.images[:, 0], np.arange(8) % 2)) == [[1, 6], [3, 7]]  # gray


def test_a_group_may_have_many_and_the_pictures_are_decoded_once(tmp_path, monkeypatch):
    class_folders(tmp_path, count=3)
    for number in range(40):
        save(tmp_path / "cat" / f"copy{number}.jpg", scene(7), quality=50 + number)
    own = open_dataset(tmp_path)
    monkeypatch.setattr("PIL.Image.open", lambda *_: pytest.fail("opened again"))
    (group,) = near_duplicate_groups(own)
    assert {own.ids[row] for row in group} == {f"cat/copy{number}.jpg" for number in range(40)}


def test_texts_of_the_same_words():
    long = " ".join(f"word{number}" for number in range(30))
    texts = [
        "Free entry, call NOW!",
        "free  entry - call now",
        "free entry call later",
        "great 👍",
        "great 👎",
        "!!!",
        "???",
        long,
        long.replace("word3 ", "other "),
        " ".join(reversed(long.split())),
    ]
    own = open_samples(texts, list("ab" * 5))
    assert near_duplicate_groups(own) == [[0, 1], [7, 8]]
    assert normal_text("Ｆree—ENTRY") == "free entry"


def test_rows_are_duplicates_if_they_are_equal():
    own = open_samples(np.array([[1.0, 2.0], [1.0, 2.000001], [3.0, 4.0], [1.0, 2.0]]), list("abab"))
    assert near_duplicate_groups(own) == [[0, 3]]
    assert near_duplicate_groups(open_samples(np.eye(3), list("aba"))) == []


def test_not_all_pairs_of_many_alike_are_compared():
    keys = np.zeros((500, 2), dtype=np.uint64)
    pairs = sum(len(left) for left, _ in _with_equal_keys(keys))
    assert pairs <= 2 * 500 * MAX_NEIGHBOURS < 500 * 499 / 2
    assert sum(len(left) for left, _ in _with_equal_keys(np.arange(20, dtype=np.uint64).reshape(10, 2))) == 0
