"""Files that are images by their names, lie where they should, and whose names can be written down."""

import os

IMAGE_SUFFIXES = {
    ".jpg", ".jpeg", ".jfif", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm", ".jp2"
}  # fmt: skip


def is_image_name(name: str) -> bool:
    """Whether the name ends as those of images do."""
    return os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES


def reason_not_below(path: str, folder: str) -> str | None:
    """Why a file is not one of this folder, links followed; None if it is. `folder` must be resolved itself."""
    try:
        real = os.path.realpath(path)
    except (OSError, ValueError) as error:
        return f"cannot be looked up: {error}"
    if real == folder or real.startswith(folder.rstrip(os.sep) + os.sep):
        return None
    link = "is a link that leads" if os.path.islink(path) else "lies"
    return f"{link} out of the folder {folder}"


def as_text(name: str) -> str | None:
    """A file's name if it is text that can be written down; names are bytes to the system, and not always UTF-8."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return None
    return name
