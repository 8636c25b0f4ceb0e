"""Words of a text that speak for the suggested label or for the given one, by the other texts with these labels.

A word w occurs in k of the n texts with a label. With a of them added to both sides (Jeffreys' prior), its log odds
between the suggested label s and the given label g are

    l = log (k_s + a) / (n_s − k_s + a) − log (k_g + a) / (n_g − k_g + a),

and their standard error is √(Σ 1 / (k + a) + 1 / (n − k + a)) over both labels. A word counts if l is at least
`MIN_ERRORS` standard errors from 0 and its weight is not small, and the strongest words are marked. The weight is
tanh(l / 2), from −1 to 1: the probability of the suggested label less that of the given one, for a reader who knows
this word alone.

Texts are counted by the given labels, some of which are wrong, so the weights are a little too small. At most
`MAX_TEXTS` texts of a label are counted. The text itself does not count.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tnlpad.types import Index, Labels

WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*|\d+")
PRIOR = 0.5
MIN_ERRORS = 2.0
MIN_WEIGHT = 0.3  # a word that is nearly twice as likely with one label as with the other
MAX_TEXTS = 3000
MAX_WORDS = 12  # that are marked in a text
MAX_CLASSES_HELD = 64
Span = tuple[int, int, float]  # start and end in UTF-16 units, as a browser counts them, and weight


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassWords:
    """Number of texts with a label, in how many of them each word occurs, and which texts these are."""

    texts: int
    containing: Mapping[str, int]
    rows: frozenset[int]


class WordEvidence:
    """Finds the words of texts that tell two labels apart.

    Args:
        texts: All texts.
        labels: The given label of each.
    """

    def __init__(self, texts: Sequence[str], labels: Labels) -> None:
        self.texts, self.labels = texts, labels
        self._words_of = lru_cache(maxsize=MAX_CLASSES_HELD)(self._count)

    def spans(self, text: str, row: int, given: int, suggested: int) -> list[Span]:
        """Return the marked words of a text, in its order.

        Args:
            text: The text, or its beginning.
            row: Its row among all texts.
            given, suggested: The two labels. A positive weight speaks for the suggested one.
        """
        found = [(match.start(), match.end(), match[0].casefold()) for match in WORD.finditer(text)]
        weights = self._weights({word for _, _, word in found}, row, given, suggested)
        marked = [(start, end, weights[word]) for start, end, word in found if word in weights]
        shift = _units_before(text) if not text.isascii() else range(len(text) + 1)
        return [(int(shift[start]), int(shift[end]), round(weight, 3)) for start, end, weight in marked]

    def _weights(self, words: set[str], row: int, given: int, suggested: int) -> dict[str, float]:
        sides = self._words_of(suggested), self._words_of(given)
        own = [int(row in side.rows) for side in sides]
        if any(side.texts <= counted for side, counted in zip(sides, own, strict=True)):
            return {}
        strength: dict[str, tuple[float, float]] = {}
        for word in words:
            (k_s, n_s), (k_g, n_g) = (
                (side.containing.get(word, counted) - counted, side.texts - counted)
                for side, counted in zip(sides, own, strict=True)
            )
            parts = (k_s + PRIOR, n_s - k_s + PRIOR, k_g + PRIOR, n_g - k_g + PRIOR)
            log_odds = math.log(parts[0] / parts[1]) - math.log(parts[2] / parts[3])
            errors = log_odds / math.sqrt(sum(1 / part for part in parts))
            weight = math.tanh(log_odds / 2)
            if abs(errors) >= MIN_ERRORS and abs(weight) >= MIN_WEIGHT:
                strength[word] = abs(errors), weight
        strongest = sorted(strength, key=lambda word: (-strength[word][0], word))[:MAX_WORDS]
        return {word: strength[word][1] for word in strongest}

    def _count(self, label: int) -> ClassWords:
        rows: Index = np.flatnonzero(self.labels == label)
        rows = rows[:: -(-len(rows) // MAX_TEXTS) or 1]
        counts = Counter(word for row in rows for word in {each.casefold() for each in WORD.findall(self.texts[row])})
        # Words of a single text would take most of the memory, and say next to nothing.
        return ClassWords(
            texts=len(rows),
            containing={word: count for word, count in counts.items() if count > 1},
            rows=frozenset(rows.tolist()),
        )


def _units_before(text: str) -> Index:
    """Return the number of UTF-16 units before each character, and in all."""
    units = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return np.concatenate([[0], np.cumsum(np.where(units > 0xFFFF, 2, 1))])
