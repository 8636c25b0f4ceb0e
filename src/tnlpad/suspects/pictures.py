"""Small pictures that are part of a page: the bytes of an image as an address that a browser shows.

What can be seen of a row of numbers: where it lies between the class that it was given and the one suggested.

A row has no picture, so its page shows a few columns, those in which it is nearer to the suggested class than to the
given one by most. What is typical of a class is the median of the rows with that label: it hardly moves while fewer
than half of them are wrong.

What the page of suspects shows of a sample: its picture, or the numbers by which it stands out.
"""

import io
import os
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.suspects.evidence import Floats
from tnlpad.suspects.listing import open_run_data
from tnlpad.types import Labels

if TYPE_CHECKING:
    from PIL.Image import Image

    from tnlpad.data.own import OwnDataset
    from tnlpad.suspects.listing import JudgedSamples, Suspect

SIDE_PIXELS = 192  # as wide as a card of the page on a large screen
SMALLEST_SHOWN_PIXELS = 56  # of a side: images smaller than this are enlarged by whole numbers, with sharp pixels
QUALITY = 78


def of_image(image: "Image") -> str:
    """A picture of an upright image."""
    return _address(image.convert("RGB"))


def of_array(pixels: NDArray[np.uint8]) -> str:
    """A picture of channels × height × width bytes."""
    from PIL import Image

    planes = pixels.transpose(1, 2, 0)
    image = Image.fromarray(planes[:, :, 0] if planes.shape[2] == 1 else planes[:, :, :3])
    return of_image(image)


def _address(image: "Image") -> str:
    from PIL import Image

    larger = -(-SMALLEST_SHOWN_PIXELS // max(image.size))
    if larger > 1:
        image = image.resize((image.width * larger, image.height * larger), Image.Resampling.NEAREST)
    image.thumbnail((SIDE_PIXELS, SIDE_PIXELS))
    content = io.BytesIO()
    image.save(content, "JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + b64encode(content.getvalue()).decode()


MOST_COLUMNS = 4


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A row's number in one column beside what is typical of both classes."""

    column: str
    value: float
    given: float
    suggested: float


class TypicalNumbers:
    """Rows of numbers by their ids, and what is typical of each class.

    Args:
        features: Samples × columns.
        labels: As given, one for each row.
        columns: Their names.
        ids: One for each row.
    """

    def __init__(
        self, features: NDArray[np.float32], labels: Labels, columns: Sequence[str], ids: Sequence[str]
    ) -> None:
        self.features, self.labels, self.columns = features, labels, columns
        self.place: Mapping[str, int] = {name: row for row, name in enumerate(ids)}
        self.medians: dict[int, Floats] = {}

    def compared(self, name: str, given: int, suggested: int) -> list[Comparison]:
        """The columns that speak most for the suggested label, the most telling first."""
        row = self.features[self.place[name]].astype(np.float64)
        usual, other = self._typical(given), self._typical(suggested)
        nearer = (np.abs(row - usual) - np.abs(row - other)) / self._spread
        chosen = np.argsort(-nearer, kind="stable")[:MOST_COLUMNS]
        return [
            Comparison(
                column=self.columns[each],
                value=float(row[each]),
                given=float(usual[each]),
                suggested=float(other[each]),
            )
            for each in chosen
        ]

    def _typical(self, label: int) -> Floats:
        if label not in self.medians:
            rows = self.features[self.labels == label]
            self.medians[label] = np.median(rows if len(rows) else self.features, axis=0).astype(np.float64)
        return self.medians[label]

    @cached_property
    def _spread(self) -> Floats:
        """Of every column; one that is the same everywhere says nothing, whatever it is divided by."""
        spread: Floats = self.features.std(0, dtype=np.float64)
        return np.where(spread > 0, spread, 1.0)


Warn = Callable[[str], None]


def pictures_of(
    found: "JudgedSamples", own: "OwnDataset | None", root: Path | None, warn: Warn
) -> "Callable[[Suspect], str | None]":
    """Of a file where the sample is one; else of the run's own data or the catalogue's, opened for the first asked."""

    @cache
    def fallback() -> "Callable[[Suspect], str | None]":
        return _without_paths(found, own, root, warn)

    @cache
    def complain(folder: str) -> None:
        warn(f"Pictures are missing: {folder} is gone, where they lay.")

    def picture(suspect: "Suspect") -> str | None:
        if suspect.path is None:
            return fallback()(suspect)
        if not os.path.exists(folder := os.path.dirname(suspect.path)):
            complain(folder)
        return _of_file(suspect.path)

    return picture


def _of_file(source: str | bytes) -> str | None:
    from tnlpad.data.pixels import open_pixels
    from tnlpad.errors import DataError

    try:
        return of_image(open_pixels(source, 2 * SIDE_PIXELS))
    except DataError:  # a page without one picture is still a page
        return None


def _without_paths(
    found: "JudgedSamples", own: "OwnDataset | None", root: Path | None, warn: Warn
) -> "Callable[[Suspect], str | None]":
    from tnlpad.records.scores import read_data_file

    if (about := read_data_file(found.folder.path)) is not None:
        return _of_own(found, own, str(about["kind"]), warn)
    images = _catalogue_images(str(found.folder.config().get("dataset")), root, warn)
    return lambda suspect: None if images is None else of_array(images[suspect.index])


def _of_own(
    found: "JudgedSamples", opened: "OwnDataset | None", kind: str, warn: Warn
) -> "Callable[[Suspect], str | None]":
    """Pictures out of an .npz file or a Hugging Face dataset; rows of numbers have none."""
    from tnlpad.errors import DataError

    if kind == "features":
        return lambda suspect: None
    try:
        own = opened if opened is not None else open_run_data(found.folder)
    except DataError as error:
        warn(f"The page has no pictures: {error}")
        return lambda suspect: None
    place = {name: number for number, name in enumerate(own.ids)}

    def picture(suspect: "Suspect") -> str | None:
        if own.images is not None:
            return of_array(own.images[place[suspect.id]])
        return _of_file(own.files[place[suspect.id]]) if own.files is not None else None

    return picture


def numbers_of(
    found: "JudgedSamples", opened: "OwnDataset | None", warn: Warn
) -> "Callable[[Suspect], Sequence[Comparison]]":
    """The telling columns of rows of numbers, opened for the first asked; nothing of images."""
    from tnlpad.errors import DataError
    from tnlpad.records.scores import read_data_file

    @cache
    def typical() -> TypicalNumbers | None:
        if (read_data_file(found.folder.path) or {}).get("kind") != "features":
            return None
        try:
            own = opened if opened is not None else open_run_data(found.folder)
        except DataError as error:
            warn(f"The page does not show the rows: {error}")
            return None
        assert own.features is not None, "the run remembers that they are features"
        return TypicalNumbers(own.features, own.labels, own.columns, own.ids)

    def numbers(suspect: "Suspect") -> "Sequence[Comparison]":
        rows = typical()
        return () if rows is None else rows.compared(suspect.id, suspect.given, suspect.suggested)

    return numbers


def _catalogue_images(dataset: str, root: Path | None, warn: Warn) -> Any:
    from tnlpad.data import load
    from tnlpad.data.catalogue import CATALOGUE
    from tnlpad.errors import DataError

    if dataset not in CATALOGUE or CATALOGUE[dataset].image_shape is None:
        return None
    try:
        raw: Any = load(CATALOGUE[dataset].images_of or dataset, root, "train")
    except DataError as error:
        warn(f"The page has no pictures: {error}")
        return None
    return raw.images
