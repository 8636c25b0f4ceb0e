"""The samples of a run as the page shows them, by position: columns of all, details of some, pictures and search."""

import os
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tnlpad.review.further_columns import FurtherColumns, read_further_columns
from tnlpad.review.once import Once
from tnlpad.review.words import Span, WordEvidence
from tnlpad.suspects.listing import RankedRun, Suspect
from tnlpad.suspects.pictures import MAX_SIDE_PIXELS, Illustrator
from tnlpad.types import Index

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset

LARGE_SIDE_PIXELS = 480
MAX_CHARACTERS = 10_000  # of a text
ROWS_AT_ONCE = 8192


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
        self.further: Once[FurtherColumns] = Once(lambda: read_further_columns(run))
        self._words = Once(self._word_evidence)
        self._searched = Once(self._searchable)

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
        """Return the own data of the run; None if they cannot be opened."""
        self._prepared()
        return self._shown.data if self.run.about else None

    def columns(self) -> bytes:
        """Return given, suggested, confidence, row and part of all samples, one column after the other."""
        ranking, order = self.run.ranking, self.run.ranking.order
        confidence = np.full(len(order), np.nan) if self.run.caution is not None else ranking.confidence[order]
        index, given_rows = self.run.scores.columns["index"], self.run.names.rows
        rows = (index if given_rows is None else given_rows)[order]
        columns = (
            ranking.evidence.given[order].astype("<u4"),
            ranking.evidence.suggested[order].astype("<u4"),
            confidence.astype("<f4"),
            rows.astype("<u4"),
            (self.run.scores.columns["part"][order] == "validation").astype("u1"),
        )
        return b"".join(column.tobytes() for column in columns)

    def details(self, positions: Sequence[int]) -> list[dict[str, Any]]:
        """Return what the page shows of some samples."""
        self._prepared()
        return [self._detail(suspect) for suspect in self.run.suspects_at(positions)]

    def _detail(self, suspect: Suspect) -> dict[str, Any]:
        text = self._shown.text(suspect, MAX_CHARACTERS)
        at = suspect.rank - 1
        return {
            "at": at,
            "id": suspect.id,
            "row": suspect.index,
            "path": suspect.path,
            "why": suspect.why,
            "text": text,
            "evidence": [] if text is None else self._evidence(suspect, text),
            "numbers": [(each.column, each.value, each.given, each.suggested) for each in self._shown.numbers(suspect)],
            "values": self.further().values(at) or self._shown.values(suspect),
        }

    def picture(self, at: int, *, large: bool = False) -> bytes | None:
        """Return the picture of a sample as a JPEG file, or None."""
        (suspect,) = self.run.suspects_at([at])
        if suspect.path is None:
            self._prepared()
        return self._shown.jpeg(suspect, LARGE_SIDE_PIXELS if large else MAX_SIDE_PIXELS)

    # Words ------------------------------------------------------------------------------------------------------------

    def _evidence(self, suspect: Suspect, text: str) -> list[Span]:
        words = self._words()
        return words.spans(text, self._shown.places[suspect.id], suspect.given, suspect.suggested)

    def _word_evidence(self) -> WordEvidence:
        data = self.data()
        assert data is not None, "a text is shown"
        assert data.texts is not None, "a text is shown"
        labels = data.labels.copy()
        given = self.run.ranking.evidence.given
        labels[[self._shown.places[name] for name in self.run.names.ids]] = given  # noise may have been added
        return WordEvidence(data.texts, labels)

    # Search -----------------------------------------------------------------------------------------------------------

    def search(self, query: str) -> Index:
        """Return the positions whose id, path, text or further columns contain all words of a query."""
        import pyarrow.compute as pc

        found = np.ones(len(self), dtype=np.bool_)
        for word in _folded(query).split():
            found &= pc.match_substring(self._searched(), word).to_numpy()
        return np.flatnonzero(found)

    def _searchable(self) -> Any:
        """Return an Arrow column with all that can be searched, by position."""
        import pyarrow as pa

        names, further = self.run.names, self.further()
        data = self.data() if self.kind == "text" else None
        folder = _folder(self.run)

        def texts(at: int, place: int) -> Iterable[str]:
            yield names.ids[place]
            yield (names.paths[place] or "").removeprefix(folder)
            if data is not None and data.texts is not None:
                yield data.texts[self._shown.places[names.ids[place]]]
            yield from (value for _, value in further.values(at))

        chunks = []
        for start in range(0, len(self), ROWS_AT_ONCE):
            places = self.run.ranking.order[start : start + ROWS_AT_ONCE].tolist()
            folded = [_folded("\n".join(texts(at, place))) for at, place in enumerate(places, start)]
            chunks.append(pa.array(folded, pa.large_string()))
        return pa.chunked_array(chunks, pa.large_string())


def _folder(run: RankedRun) -> str:
    """Return the folder that holds the data. Searches leave it out, since a word of its name would find everything."""
    if not run.about:
        return ""
    folder = str(run.about.get("images") or run.about["path"])
    return folder if os.path.isdir(folder) else os.path.dirname(folder)


def _folded(text: str) -> str:
    """Return a text as searches compare it: in one case, and with accents in one form."""
    return unicodedata.normalize("NFC", text.casefold()).encode("utf-8", "replace").decode()
