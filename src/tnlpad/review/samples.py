"""The samples of a run as the page shows them, by position: columns of all, details of some, pictures and search."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tnlpad.review.further_columns import FurtherColumns, read_further_columns
from tnlpad.review.numbers import Numbers, numbers_of
from tnlpad.review.once import Once
from tnlpad.review.search import Search
from tnlpad.review.words import WordEvidence
from tnlpad.suspects.listing import RankedRun, Suspect
from tnlpad.suspects.pictures import MAX_SIDE_PIXELS, Illustrator
from tnlpad.types import Index, Labels

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset

LARGE_SIDE_PIXELS = 480
MAX_CHARACTERS = 10_000  # of a text


class Texts(Sequence[str]):
    """An Arrow column of texts, which takes less memory than a list of them."""

    def __init__(self, column: Any) -> None:
        self.column = column

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, place: Any) -> Any:
        return self.column[place].as_py()


class Samples:
    """Shows the samples of a run, for several threads.

    Args:
        run: The run.
        root: Folder that holds the published datasets.
        warn: Called with a sentence if samples cannot be shown.
    """

    def __init__(self, run: RankedRun, root: Path | None, warn: Callable[[str], None]) -> None:
        self.run = run
        self._shown = Illustrator(run, None, root, warn)
        self._prepared = Once(self._shown.prepare)
        self.further: Once[FurtherColumns] = Once(partial(read_further_columns, run))
        self.columns = Once(self._columns)
        self.texts = Once(self._read_texts)
        self.numbers = Once(self._read_numbers)
        self._words = Once(self._word_evidence)
        self._search = Once(self._searchable)

    def __len__(self) -> int:
        return len(self.run.ranking.order)

    @property
    def kind(self) -> str:
        return str(self.run.about.get("kind", "images"))

    @property
    def has_pictures(self) -> bool:
        """Whether there is a picture of some sample, as far as the records of the run say."""
        return self.kind in ("files", "images") or any(path is not None for path in self.run.names.paths)

    def data(self) -> "OwnDataset | None":
        """Return the own data of the run; None if they cannot be opened. They are kept only if pictures need them."""
        if not self.run.about:
            return None
        if all(path is not None for path in self.run.names.paths) or self.kind not in ("files", "images"):
            return self._shown.open_data()
        self._prepared()
        return self._shown.data

    def places(self, data: "OwnDataset") -> Index:
        """Return the place of each sample in the own data, by position."""
        place_of = {name: place for place, name in enumerate(data.ids)}
        ids, order = self.run.names.ids, self.run.ranking.order
        return np.array([place_of[ids[row]] for row in order.tolist()], dtype=np.int64)

    def _columns(self) -> bytes:
        """Return given, suggested, confidence, row and part of all samples, one column after the other."""
        ranking, order = self.run.ranking, self.run.ranking.order
        confidence = np.full(len(order), np.nan) if self.run.caution is not None else ranking.confidence[order]
        columns = (
            ranking.evidence.given[order].astype("<u4"),
            ranking.evidence.suggested[order].astype("<u4"),
            confidence.astype("<f4"),
            self.run.rows[order].astype("<u4"),
            (self.run.scores.columns["part"][order] == "validation").astype("u1"),
        )
        return b"".join(column.tobytes() for column in columns)

    def read_ahead(self) -> None:
        """Read what the first details need, unless that means to decode all pictures."""
        self.further()
        self.texts()
        self.numbers()

    def details(self, positions: Sequence[int]) -> list[dict[str, Any]]:
        """Return what the page shows of some samples."""
        return [self._detail(suspect) for suspect in self.run.suspects_at(positions)]

    def _detail(self, suspect: Suspect) -> dict[str, Any]:
        at, pair = suspect.rank - 1, (suspect.given, suspect.suggested)
        text, numbers = self._text(at), self.numbers()
        return {
            "at": at,
            "id": suspect.id,
            "row": suspect.index,
            "path": suspect.path,
            "why": suspect.why,
            "text": text,
            "evidence": [] if text is None else self._words().spans(text, at, *pair),
            "numbers": [] if numbers is None else numbers.compared(at, *pair),
            "values": self.further().values(at) or ([] if numbers is None else numbers.values(at)),
        }

    def picture(self, at: int, *, large: bool = False) -> bytes | None:
        """Return the picture of a sample as a JPEG file, or None."""
        (suspect,) = self.run.suspects_at([at])
        if suspect.path is None:
            if self.kind not in ("files", "images"):
                return None
            self._prepared()
        return self._shown.jpeg(suspect, LARGE_SIDE_PIXELS if large else MAX_SIDE_PIXELS)

    def search(self, query: str) -> Index:
        """Return the positions whose id, path, text or further columns contain all words of a query."""
        return self._search().positions(query)

    def _searchable(self) -> Search:
        texts = self.texts()
        return Search(self.run, self.further(), None if texts is None else texts.column)

    def _text(self, at: int) -> str | None:
        texts = self.texts()
        text: str | None = None if texts is None else texts[at]
        return text if text is None or len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"

    def _read_texts(self) -> Texts | None:
        """Read the texts by position; None if there are none, or the data cannot be opened."""
        import pyarrow as pa

        data = self._shown.open_data() if self.kind == "text" else None
        if data is None or data.texts is None:
            return None
        texts = data.texts
        ordered = (texts[place] for place in self.places(data).tolist())
        return Texts(pa.array(ordered, pa.large_string(), size=len(self)))

    def _read_numbers(self) -> Numbers | None:
        """Read the columns of numbers; None if there are none, or the data cannot be opened."""
        data = self._shown.open_data() if self.kind in ("features", "table") else None
        return None if data is None else numbers_of(data, self.places(data), self._given)

    @property
    def _given(self) -> Labels:
        return self.run.ranking.evidence.given[self.run.ranking.order]

    def _word_evidence(self) -> WordEvidence:
        texts = self.texts()
        assert texts is not None, "a text is shown"
        return WordEvidence(texts, self._given)
