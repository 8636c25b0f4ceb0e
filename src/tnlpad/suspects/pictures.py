"""Pictures and texts of samples for the page of suspects, and for rows of numbers the columns by which they stand out.

Pictures are embedded in the page as data URLs. For a row, the page shows the few columns in which it is nearer to the
suggested class than to the given one by most. Typical of a class is the median of the rows with that label, which
hardly moves while fewer than half of the labels are wrong.
"""

import io
import os
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.errors import DataError
from tnlpad.suspects.evidence import Floats
from tnlpad.types import Labels

if TYPE_CHECKING:
    from PIL.Image import Image

    from tnlpad.data.own import OwnDataset
    from tnlpad.suspects.listing import RankedRun, Suspect

MAX_SIDE_PIXELS = 192  # width of a card on a large screen
MIN_SIDE_PIXELS = 56  # smaller images are enlarged by a whole number, with sharp pixels
JPEG_QUALITY = 78
MAX_COLUMNS = 4
MAX_VALUES = 12  # columns of a row that are shown on the page of an audit
MAX_CHARACTERS = 2000  # of a text


class Illustrator:
    """Shows the samples of a run.

    Args:
        run: The run.
        data: Its own data, if they are open already; else they are opened when first needed.
        root: Folder that holds the published datasets.
        warn: Called with a sentence if samples cannot be shown.
    """

    def __init__(
        self, run: "RankedRun", data: "OwnDataset | None", root: Path | None, warn: Callable[[str], None]
    ) -> None:
        self.run, self.root, self.warn = run, root, warn
        self._opened = data
        self._missing: set[str] = set()

    def picture(self, suspect: "Suspect") -> str | None:
        """Return the picture of a sample as a data URL, or None."""
        picture = self.jpeg(suspect)
        return None if picture is None else data_url(picture)

    def jpeg(self, suspect: "Suspect", side: int = MAX_SIDE_PIXELS) -> bytes | None:
        """Return the picture of a sample as a JPEG file of at most `side` pixels, or None."""
        if suspect.path is not None:
            folder = os.path.dirname(suspect.path)
            if folder not in self._missing and not os.path.exists(folder):
                self._missing.add(folder)
                self.warn(f"Pictures are missing: {folder} is gone, which held them.")
            return _jpeg_of_file(suspect.path, side)
        if not self.run.about:
            return None if self._published is None else jpeg_of_array(self._published[suspect.index], side)
        data = self.data if self.run.about["kind"] in ("files", "images") else None
        if data is None:
            return None
        place = self.places[suspect.id]
        if data.images is not None:
            return jpeg_of_array(data.images[place], side)
        return _jpeg_of_file(data.files[place], side) if data.files is not None else None

    def numbers(self, suspect: "Suspect") -> "Sequence[Comparison]":
        """Return the telling columns of a row of numbers; nothing for images."""
        if self.run.about.get("kind") != "features" or self._typical is None:
            return ()
        return self._typical.compared(self.places[suspect.id], suspect.given, suspect.suggested)

    def text(self, suspect: "Suspect") -> str | None:
        """Return the text of a sample, shortened if it is long; None if the data are not texts."""
        if self.run.about.get("kind") != "text" or self.data is None or self.data.texts is None:
            return None
        text = self.data.texts[self.places[suspect.id]]
        return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"

    def categories(self, suspect: "Suspect") -> "Sequence[tuple[str, str]]":
        """Return the first columns of a row with gaps or categories; nothing for other data."""
        return self.values(suspect) if self.run.about.get("kind") == "table" else ()

    def values(self, suspect: "Suspect") -> "Sequence[tuple[str, str]]":
        """Return the first columns of a row of any kind with their values; nothing for images and texts."""
        if self.run.about.get("kind") not in ("features", "table") or self.data is None:
            return ()
        place, data = self.places[suspect.id], self.data
        names, row, categories = data.columns, data.features, {}
        if data.table is not None:
            names, row = data.table.number_columns, data.table.numbers
            categories = data.table.by_category
        if row is None:
            return ()
        numbers = zip(names, row[place].tolist(), strict=True)
        found = [(name, "" if value != value else f"{value:.6g}") for name, value in numbers]
        found += [(name, column[place] or "") for name, column in categories.items()]
        more = len(found) - MAX_VALUES
        return found if more <= 0 else [*found[:MAX_VALUES], ("…", f"{more:,} more columns")]

    def prepare(self) -> None:
        """Open what pictures are made from. After that, several threads may make them at the same time."""
        _ = self.places if self.run.about else self._published

    def open_data(self) -> "OwnDataset | None":
        """Open the own data of the run; None if that fails, with a warning."""
        try:
            return self.run.open_data()
        except DataError as error:
            self.warn(f"The page does not show the samples: {error}")
            return None

    @cached_property
    def data(self) -> "OwnDataset | None":
        """The own data of the run, opened when first needed; None if that fails."""
        return self._opened if self._opened is not None else self.open_data()

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Places of the samples in the own data, by id."""
        return {name: place for place, name in enumerate(self.data.ids)} if self.data is not None else {}

    @cached_property
    def _typical(self) -> "TypicalNumbers | None":
        data = self.data
        if data is None or data.features is None:
            return None
        return TypicalNumbers(data.features, data.labels, data.columns)

    @cached_property
    def _published(self) -> Any:
        """The images of a published dataset, or None."""
        from tnlpad.data import load
        from tnlpad.data.catalogue import CATALOGUE

        dataset = str(self.run.config.get("dataset"))
        if dataset not in CATALOGUE or CATALOGUE[dataset].image_shape is None:
            return None
        try:
            raw: Any = load(CATALOGUE[dataset].images_of or dataset, self.root, "train")
        except DataError as error:
            self.warn(f"The page does not show the samples: {error}")
            return None
        return raw.images


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A number of a row, and what is typical of both classes in its column."""

    column: str
    value: float
    given: float
    suggested: float


class TypicalNumbers:
    """Compares rows of numbers with what is typical of each class.

    Args:
        features: Samples × columns; NaN where a number is missing. Its column is not compared.
        labels: The given label of each row.
        columns: Names of the columns.
    """

    def __init__(self, features: NDArray[np.float32], labels: Labels, columns: Sequence[str]) -> None:
        self.features, self.labels, self.columns = features, labels, columns
        self.medians: dict[int, Floats] = {}

    def compared(self, place: int, given: int, suggested: int) -> list[Comparison]:
        """Return the columns of a row that speak most for the suggested label, the most telling first."""
        row = self.features[place].astype(np.float64)
        of_given, of_suggested = self._median(given), self._median(suggested)
        nearer = (np.abs(row - of_given) - np.abs(row - of_suggested)) / self._spread
        known = np.flatnonzero(np.isfinite(nearer))
        return [
            Comparison(
                column=self.columns[each],
                value=float(row[each]),
                given=float(of_given[each]),
                suggested=float(of_suggested[each]),
            )
            for each in known[np.argsort(-nearer[known], kind="stable")][:MAX_COLUMNS]
        ]

    def _median(self, label: int) -> Floats:
        if label not in self.medians:
            rows = self.features[self.labels == label]
            rows = rows if len(rows) else self.features
            self.medians[label] = np.array([_median(column[~np.isnan(column)]) for column in rows.T])
        return self.medians[label]

    @cached_property
    def _spread(self) -> Floats:
        columns = (column[~np.isnan(column)] for column in self.features.T)
        # In a constant column, all distances are 0.
        return np.array([float(column.std(dtype=np.float64) or 1.0) if len(column) else 1.0 for column in columns])


def _median(values: NDArray[np.float32]) -> float:
    return float(np.median(values)) if len(values) else np.nan


def jpeg_of_array(pixels: NDArray[np.uint8], side: int = MAX_SIDE_PIXELS) -> bytes:
    """Return channels × height × width bytes as a JPEG file of at most `side` pixels."""
    from PIL import Image

    planes = pixels.transpose(1, 2, 0)
    return jpeg_of_image(Image.fromarray(planes[:, :, 0] if planes.shape[2] == 1 else planes[:, :, :3]), side)


def jpeg_of_image(image: "Image", side: int = MAX_SIDE_PIXELS) -> bytes:
    """Return an upright image as a JPEG file of at most `side` pixels."""
    from PIL import Image

    image = image.convert("RGB")
    factor = -(-MIN_SIDE_PIXELS * side // MAX_SIDE_PIXELS // max(image.size))
    if factor > 1:
        image = image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
    image.thumbnail((side, side))
    content = io.BytesIO()
    image.save(content, "JPEG", quality=JPEG_QUALITY)
    return content.getvalue()


def data_url(jpeg: bytes) -> str:
    """Return a JPEG file as an address for the source of a page."""
    return "data:image/jpeg;base64," + b64encode(jpeg).decode()


def _jpeg_of_file(source: str | bytes, side: int) -> bytes | None:
    from tnlpad.data.pixels import open_pixels

    try:
        return jpeg_of_image(open_pixels(source, 2 * side), side)
    except DataError:  # the other pictures are still worth a page
        return None
