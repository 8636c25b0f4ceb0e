import os
import shutil

import pytest

from tests.data.own_files import class_folders, picture, save
from tnlpad.data.own.folder import Boundary, is_image_name, read_folder, read_unlabelled_folder, reason_not_below
from tnlpad.errors import DataError


def test_a_class_is_a_folder(tmp_path):
    listing = read_folder(class_folders(tmp_path, ("dog", "cat"), 2))
    assert list(listing.ids) == ["cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png"]
    assert listing.labels == ["cat", "cat", "dog", "dog"]
    assert listing.parts is None
    assert listing.files[0] == str(tmp_path / "cat" / "0.png")


def test_parts_have_folders_of_their_own(tmp_path):
    for part in ("train", "val", "Test"):
        class_folders(tmp_path / part, count=1)
    listing = read_folder(tmp_path)
    found = dict(zip(listing.ids, listing.parts, strict=True))
    assert found["train/cat/0.png"] == "train"
    assert found["val/dog/0.png"] == "validation"
    assert found["Test/dog/0.png"] == "test"
    assert set(listing.labels) == {"cat", "dog"}


def test_a_class_may_be_called_like_a_part(tmp_path):
    listing = read_folder(class_folders(tmp_path, ("test", "cat"), 1))
    assert (listing.labels, listing.parts) == (["cat", "test"], None)


def test_images_may_lie_deeper_and_others_are_ignored_with_a_note(tmp_path):
    class_folders(tmp_path, count=1)
    save(tmp_path / "cat" / "2019" / "x.JPG")
    (tmp_path / "cat" / "notes.txt").write_text("x")
    (tmp_path / "cat" / ".hidden.png").write_text("x")
    (tmp_path / "loose.png").write_text("x")
    listing = read_folder(tmp_path)
    assert "cat/2019/x.JPG" in listing.ids
    assert len(listing.ids) == 3
    assert listing.notes == (
        "1 file is not named as an image and is ignored (.txt 1).",
        "1 image is in no class folder and ignored.",
    )


def test_names_of_any_language_and_length(tmp_path):
    long = "ü" * 120 + ".png"
    for folder in ("猫", "собака"):
        save(tmp_path / folder / long)
    listing = read_folder(tmp_path)
    assert set(listing.ids) == {f"猫/{long}", f"собака/{long}"}


def test_a_name_that_is_no_text_is_left_out(tmp_path):
    class_folders(tmp_path, count=1)
    try:
        (tmp_path / "cat" / os.fsdecode(b"\xff.png")).write_bytes(b"x")
    except OSError:
        pytest.skip("this file system has no such names")
    listing = read_folder(tmp_path)
    assert len(listing.ids) == 2
    assert "a name that is not UTF-8" in listing.problems[0].reason
    listing.problems[0].id.encode()


def test_links_lead_nowhere_else(tmp_path):
    outside, data = class_folders(tmp_path / "outside"), class_folders(tmp_path / "data", count=1)
    (data / "cat" / "out.png").symlink_to(outside / "cat" / "0.png")
    (data / "cat" / "in.png").symlink_to(data / "dog" / "0.png")
    (data / "cat" / "folder").symlink_to(outside)
    (data / "bird").symlink_to(outside / "dog")
    listing = read_folder(data)
    assert list(listing.ids) == ["cat/0.png", "cat/in.png", "dog/0.png"]
    reasons = {each.id: each.reason for each in listing.problems}
    assert reasons.keys() == {"cat/out.png", "cat/folder", "bird"}
    assert "is a link that leads out of the folder" in reasons["cat/out.png"]


def test_a_link_to_itself_is_nothing(tmp_path):
    class_folders(tmp_path)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "cat" / "loop.png").symlink_to(tmp_path / "cat" / "loop.png")
    listing = read_folder(tmp_path)
    assert {name.split("/")[0] for name in listing.ids} == {"cat", "dog"}


def test_a_folder_that_is_a_link_itself_is_read(tmp_path):
    class_folders(tmp_path / "data")
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert len(read_folder(tmp_path / "link").ids) == 6


def test_mistakes_are_named_with_the_way_out(tmp_path):
    with pytest.raises(DataError, match="has no class folders with images"):
        read_folder(tmp_path)
    save(tmp_path / "x.png", picture())
    with pytest.raises(DataError, match="not in class folders"):
        read_folder(tmp_path)
    class_folders(tmp_path / "images")
    with pytest.raises(DataError, match=r"one class, 'images'\. Did you mean .*images"):
        read_folder(tmp_path)


def test_a_folder_without_images_does_not_make_parts_classes(tmp_path):
    for part in ("train", "test"):
        class_folders(tmp_path / part, count=1)
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "x.txt").write_text("x")
    assert set(read_folder(tmp_path).labels) == {"cat", "dog"}
    save(tmp_path / "annotations" / "x.png", picture())
    listing = read_folder(tmp_path)
    assert set(listing.labels) == {"annotations", "test", "train"}
    assert "test, train are taken for classes: the folder 'annotations'" in listing.notes[-1]
    shutil.rmtree(tmp_path / "test")
    assert "train is taken for a class: the folder 'annotations'" in read_folder(tmp_path).notes[-1]


def test_images_beside_the_folders_are_told_of(tmp_path):
    class_folders(tmp_path, count=1)
    save(tmp_path / "loose.png", picture())
    assert read_folder(tmp_path).notes == ("1 image is in no class folder and ignored.",)


def test_a_table_in_the_folder_may_be_what_is_meant(tmp_path):
    save(tmp_path / "x.png", picture())
    (tmp_path / "labels.csv").write_text("path,label")
    with pytest.raises(DataError, match=r"Did you mean .*labels\.csv\?"):
        read_folder(tmp_path)
    (tmp_path / "hub" / "mnist").mkdir(parents=True)
    (tmp_path / "hub" / "mnist" / "train-0.parquet").write_bytes(b"")
    with pytest.raises(DataError, match=r"Did you mean .*hub/mnist\?"):
        read_folder(tmp_path / "hub")


@pytest.mark.parametrize("parts", [("training_set", "test_set"), ("val", "test"), ("fold1", "fold2", "fold3")])
def test_folders_above_those_of_the_classes_are_told_of(tmp_path, parts):
    for part in parts:
        class_folders(tmp_path / part, count=1)
    listing = read_folder(tmp_path)
    assert set(listing.labels) == set(parts)
    (note,) = listing.notes
    assert note.startswith(
        f"{', '.join(sorted(parts))} are taken for classes, and each of them has the folders cat, dog"
    )
    save(tmp_path / parts[0] / "x.png")
    assert read_folder(tmp_path).notes == ()


def test_parts_of_one_class_are_read(tmp_path):
    for part in ("train", "val"):
        class_folders(tmp_path / part, classes=("cat",), count=1)
    assert set(read_folder(tmp_path).labels) == {"cat"}


def test_several_words_for_one_part_go_together(tmp_path):
    for part in ("train", "val", "validation"):
        class_folders(tmp_path / part, count=1)
    assert read_folder(tmp_path).parts.count("validation") == 4


def test_files_of_other_kinds_alone_are_named(tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "x.heic").write_bytes(b"x")
    for read, message in (
        (read_folder, "has no class folders with images"),
        (read_unlabelled_folder, "holds no images"),
    ):
        with pytest.raises(DataError, match=rf"{message}.*1 file is not named as an image .*\.heic 1"):
            read(tmp_path)


def test_capitals_in_the_names_of_tables_do_not_matter(tmp_path):
    (tmp_path / "LABELS.CSV").write_text("path,label")
    with pytest.raises(DataError, match=r"Did you mean .*LABELS\.CSV\?"):
        read_folder(tmp_path)


def test_images_that_all_lie_elsewhere(tmp_path):
    outside = class_folders(tmp_path / "outside")
    (tmp_path / "data" / "cat").mkdir(parents=True)
    (tmp_path / "data" / "cat" / "0.png").symlink_to(outside / "cat" / "0.png")
    with pytest.raises(DataError, match=r"none of 1 images can be used; cat/0\.png is a link .* Copy the files into"):
        read_folder(tmp_path / "data")


def test_deeper_folders_of_different_names_are_nothing_odd(tmp_path):
    for number, place in enumerate(("cat/indoors", "cat/outdoors", "dog/indoors", "dog/garden")):
        save(tmp_path / place / "x.png", picture(number))
    assert read_folder(tmp_path).notes == ()


def test_a_folder_far_above_those_of_the_classes_is_told_of(tmp_path):
    class_folders(tmp_path / "archive" / "data" / "photos", count=1)
    with pytest.raises(DataError, match=r"has one class, 'archive'\. Did you mean .*archive/data/photos, which holds"):
        read_folder(tmp_path)
    class_folders(tmp_path / "one", classes=("cat",), count=1)
    assert read_folder(tmp_path / "one").labels == ["cat"]


def test_folders_without_images_are_named(tmp_path):
    class_folders(tmp_path / "train", count=1)
    (tmp_path / "train" / "cow" / "more").mkdir(parents=True)
    assert read_folder(tmp_path).notes == ("folders without images are not classes: train/cow.",)
    assert read_unlabelled_folder(tmp_path).notes == ()


def test_what_systems_leave_behind_is_no_image(tmp_path):
    class_folders(tmp_path, count=1)
    (tmp_path / "__MACOSX" / "cat").mkdir(parents=True)
    for place in (".DS_Store", "cat/.DS_Store", "__MACOSX/cat/._0.png"):
        (tmp_path / place).write_bytes(b"x")
    save(tmp_path / "dog" / "1.JPG", picture(7))
    save(tmp_path / "dog" / "2.JFIF", picture(8), format="JPEG")
    listing = read_folder(tmp_path)
    assert (listing.labels, listing.problems) == (["cat", "dog", "dog", "dog"], ())


@pytest.mark.parametrize("name", ["metadata.jsonl", "labels.xlsx", "data.ndjson"])
def test_tables_of_every_kind_are_pointed_at(tmp_path, name):
    (tmp_path / "train").mkdir()
    save(tmp_path / "train" / "x.png", picture())
    (tmp_path / "train" / name).touch()
    with pytest.raises(DataError, match=rf"Did you mean .*train/{name}\?"):
        read_folder(tmp_path)


def test_a_table_beside_the_folders_is_pointed_at(tmp_path):
    class_folders(tmp_path, count=1)
    (tmp_path / ".hidden.csv").write_text("path,label")
    assert read_folder(tmp_path).notes == ()
    (tmp_path / "läbels.csv").write_text("path,label")
    table = tmp_path / "läbels.csv"
    assert read_folder(tmp_path).notes == (
        f"the folders are the classes: if {table} has the labels, name that instead.",
    )
    shutil.rmtree(tmp_path / "dog")
    with pytest.raises(DataError, match=r"has one class, 'cat', and a table\. Did you mean .*läbels\.csv\?"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("name", "image"), [("a/b.PNG", True), ("x.jpeg", True), ("x.png.txt", False), (".png", False)]
)
def test_images_by_their_names(name, image):
    assert is_image_name(name) == image


def test_a_file_is_below_its_folder_links_followed(tmp_path):
    folder, outside = tmp_path / "data", tmp_path / "data2"
    folder.mkdir()
    outside.mkdir()
    (folder / "link").symlink_to(outside)
    assert reason_not_below(str(folder / "x" / ".." / "y"), str(folder)) is None
    assert reason_not_below(str(folder), str(folder)) is None
    assert "lies out of the folder" in reason_not_below(str(outside / "x"), str(folder))  # whose name only begins alike
    assert "is a link that leads out of" in reason_not_below(str(folder / "link"), str(folder))
    assert "lies out of" in reason_not_below(str(folder / "link" / "x"), str(folder))
    assert reason_not_below("/x", "/") is None
    assert "cannot be resolved" in reason_not_below("\0", str(folder))


def test_a_known_folder_does_not_make_links_in_it_safe(tmp_path):
    folder = class_folders(tmp_path / "data", ("cat",), 2)
    (tmp_path / "out.png").write_bytes((folder / "cat" / "0.png").read_bytes())
    (folder / "cat" / "out.png").symlink_to(tmp_path / "out.png")
    (folder / "cat" / "in.png").symlink_to(folder / "cat" / "0.png")
    boundary = Boundary(folder)
    paths = [
        "cat/0.png",
        "cat/1.png",
        "cat/in.png",
        "cat/gone.png",
        "cat/out.png",
        "cat/../../out.png",
        "cat/../cat/0.png",
    ]
    reasons = [boundary.reason(str(folder / "cat" / ".." / path)) for path in paths]
    assert reasons == [reason_not_below(str(folder / path), str(folder)) for path in paths]
    assert [reason is None for reason in reasons] == [True, True, True, True, False, False, True]
    assert boundary.reason(f"{folder}/cat/..") is None  # the folder itself
    assert "lies" in (boundary.reason(f"{folder}/cat/../..") or "")
