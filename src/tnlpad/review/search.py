"""Search samples by the words of their ids, paths, texts and further columns.

Ids, paths and columns are short, and are stored again in the form that searches compare. Texts are searched as they
are, which takes a little longer and no memory.
"""

import os
import unicodedata
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.review.further_columns import FurtherColumns
from tnlpad.suspects.listing import RankedRun
from tnlpad.types import Index

ROWS_AT_ONCE = 8192


class Search:
    """Finds samples by words.

    Args:
        run: The run.
        further: Further columns of its samples.
        texts: Arrow column of their texts by position, if they have any.
    """

    def __init__(self, run: RankedRun, further: FurtherColumns, texts: Any | None) -> None:
        self.samples, self.texts = len(run.ranking.order), texts
        self._short = _short_texts(run, further)

    def positions(self, query: str) -> Index:
        """Return the positions of the samples that contain all words of a query, in any case."""
        import pyarrow.compute as pc

        found = np.ones(self.samples, dtype=np.bool_)
        for word in query.split():
            contains = np.zeros(self.samples, dtype=np.bool_)
            contains[_true(pc.match_substring(self._short, _folded(word)))] = True
            if self.texts is not None:
                for form in {unicodedata.normalize(form, word) for form in ("NFC", "NFD")}:
                    contains[_true(pc.match_substring(self.texts, form, ignore_case=True))] = True
            found &= contains
        return np.flatnonzero(found)


def _true(answers: Any) -> NDArray[Any]:
    """Return the places of an Arrow column that are true; converting it whole would import pandas, if installed."""
    import pyarrow.compute as pc

    return np.from_dlpack(pc.indices_nonzero(answers))


def _short_texts(run: RankedRun, further: FurtherColumns) -> Any:
    """Return an Arrow column with id, path and further columns of each sample, by position."""
    import pyarrow as pa

    names, folder = run.names, _folder(run)

    def texts(at: int, row: int) -> Iterator[str]:
        yield names.ids[row]
        yield (names.paths[row] or "").removeprefix(folder)
        yield from (value for _, value in further.values(at))

    chunks = []
    for start in range(0, len(run.ranking.order), ROWS_AT_ONCE):
        rows = run.ranking.order[start : start + ROWS_AT_ONCE].tolist()
        folded = [_folded("\n".join(dict.fromkeys(texts(at, row)))) for at, row in enumerate(rows, start)]
        chunks.append(pa.array(folded, pa.large_string()))
    return pa.chunked_array(chunks, pa.large_string())


def _folder(run: RankedRun) -> str:
    """Return the folder that holds the data. Searches leave it out, since a word of its name would find everything."""
    if not run.about:
        return ""
    folder = str(run.about.get("images") or run.about["path"])
    return (folder if os.path.isdir(folder) else os.path.dirname(folder)) + os.sep


def _folded(text: str) -> str:
    """Return a text as searches compare it: in one case, and with accents in one form."""
    return unicodedata.normalize("NFC", text.casefold()).encode("utf-8", "replace").decode()
