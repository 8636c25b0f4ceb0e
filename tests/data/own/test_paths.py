import os

import pytest

from tnlpad.data.own.paths import as_text, is_image_name, reason_not_below


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
    assert "cannot be looked up" in reason_not_below("\0", str(folder))


def test_a_name_that_is_no_text():
    assert as_text("ü") == "ü"
    assert as_text(os.fsdecode(b"\xff")) is None
