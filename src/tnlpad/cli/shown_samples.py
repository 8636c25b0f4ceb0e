"""What the page of suspects shows of a sample: its picture, or the numbers by which it stands out."""

import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tnlpad.cli.find_run import reopened
from tnlpad.cli.output import say

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.suspects.judged import JudgedSamples
    from tnlpad.suspects.listing import Suspect
    from tnlpad.suspects.numbers import Comparison


def pictures_of(
    found: "JudgedSamples", own: "OwnDataset | None", root: Path | None, quiet: bool
) -> "Callable[[Suspect], str | None]":
    """Of a file where the sample is one; else of the run's own data or the catalogue's, opened for the first asked."""

    @cache
    def fallback() -> "Callable[[Suspect], str | None]":
        return _without_paths(found, own, root, quiet)

    @cache
    def complain(folder: str) -> None:
        say(f"Pictures are missing: {folder} is gone, where they lay.", quiet)

    def picture(suspect: "Suspect") -> str | None:
        if suspect.path is None:
            return fallback()(suspect)
        if not os.path.exists(folder := os.path.dirname(suspect.path)):
            complain(folder)
        return _of_file(suspect.path)

    return picture


def _of_file(source: str | bytes) -> str | None:
    from tnlpad.data.errors import DataError
    from tnlpad.data.pixels import open_pixels
    from tnlpad.suspects.thumbnails import SIDE_PIXELS, of_image

    try:
        return of_image(open_pixels(source, 2 * SIDE_PIXELS))
    except DataError:  # a page without one picture is still a page
        return None


def _without_paths(
    found: "JudgedSamples", own: "OwnDataset | None", root: Path | None, quiet: bool
) -> "Callable[[Suspect], str | None]":
    from tnlpad.records.samples import read_data_file
    from tnlpad.suspects.thumbnails import of_array

    if (about := read_data_file(found.folder.path)) is not None:
        return _of_own(found, own, str(about["kind"]), quiet)
    images = _catalogue_images(str(found.folder.config().get("dataset")), root, quiet)
    return lambda suspect: None if images is None else of_array(images[suspect.index])


def _of_own(
    found: "JudgedSamples", opened: "OwnDataset | None", kind: str, quiet: bool
) -> "Callable[[Suspect], str | None]":
    """Pictures out of an .npz file or a Hugging Face dataset; rows of numbers have none."""
    from tnlpad.data.errors import DataError
    from tnlpad.suspects.thumbnails import of_array

    if kind == "features":
        return lambda suspect: None
    try:
        own = opened if opened is not None else reopened(found.folder, quiet)
    except DataError as error:
        say(f"The page has no pictures: {error}", quiet)
        return lambda suspect: None
    place = {name: number for number, name in enumerate(own.ids)}

    def picture(suspect: "Suspect") -> str | None:
        if own.images is not None:
            return of_array(own.images[place[suspect.id]])
        return _of_file(own.files[place[suspect.id]]) if own.files is not None else None

    return picture


def numbers_of(
    found: "JudgedSamples", opened: "OwnDataset | None", quiet: bool
) -> "Callable[[Suspect], Sequence[Comparison]]":
    """The telling columns of rows of numbers, opened for the first asked; nothing of images."""
    from tnlpad.data.errors import DataError
    from tnlpad.records.samples import read_data_file
    from tnlpad.suspects.numbers import TypicalNumbers

    @cache
    def typical() -> TypicalNumbers | None:
        if (read_data_file(found.folder.path) or {}).get("kind") != "features":
            return None
        try:
            own = opened if opened is not None else reopened(found.folder, quiet)
        except DataError as error:
            say(f"The page does not show the rows: {error}", quiet)
            return None
        assert own.features is not None, "the run remembers that they are features"
        return TypicalNumbers(own.features, own.labels, own.columns, own.ids)

    def numbers(suspect: "Suspect") -> "Sequence[Comparison]":
        rows = typical()
        return () if rows is None else rows.compared(suspect.id, suspect.given, suspect.suggested)

    return numbers


def _catalogue_images(dataset: str, root: Path | None, quiet: bool) -> Any:
    from tnlpad.data import load
    from tnlpad.data.catalogue import CATALOGUE
    from tnlpad.data.errors import DataError

    if dataset not in CATALOGUE or CATALOGUE[dataset].image_shape is None:
        return None
    try:
        raw: Any = load(CATALOGUE[dataset].images_of or dataset, root, "train")
    except DataError as error:
        say(f"The page has no pictures: {error}", quiet)
        return None
    return raw.images
