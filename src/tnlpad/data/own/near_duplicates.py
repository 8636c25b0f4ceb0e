"""Find exact and near duplicates: pictures that look the same, texts with the same words, rows of the same content.

Pictures are compared by a thumbnail, which survives resizing and compression. Its discrete cosine transform gives a
perceptual hash: one bit for the sign of each of the lowest frequencies (C. Zauner, "Implementation and benchmarking of
perceptual image hash functions", 2010; here without the median). Pictures whose hashes differ in few bits are
duplicates if their thumbnails agree as well, since similar compositions have similar hashes.

Texts are equal after normalisation, or share nearly all pairs of adjacent words. Such texts are found by MinHash
(A. Broder, "On the resemblance and containment of documents", 1997).

All pairs are never compared. A hash is cut into bands, and only samples with an equal band are, so the time grows
with the number of samples.
"""

import unicodedata
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tnlpad.data.own.dataset import OwnDataset
from tnlpad.data.own.digests import Digests
from tnlpad.data.pixels import LUMA_SIDE, thumbnail
from tnlpad.data.progress import SILENT, Reporter, in_threads
from tnlpad.rng import numpy_stream
from tnlpad.types import Index

Pairs = NDArray[np.int64]  # 2 × pairs
MAX_NEIGHBOURS = 32  # rows that each is compared with per band; many share one where pictures are alike
ROWS_AT_ONCE = 1 << 14

HASH_BITS, BAND_BITS = 128, 16
MAX_DIFFERENT_BITS = 28  # those of a smooth picture are chance at high frequencies; other pictures differ in 40 or more
BITS_OF_BYTE = np.array([number.bit_count() for number in range(256)], dtype=np.uint8)
MIN_CONTRAST = 3.0  # standard deviation of the thumbnail, of 255: less is a blank picture
MIN_CORRELATION = 0.99
MAX_LUMA_DIFFERENCE = 24  # of any cell of the thumbnail, of 255
MAX_CHROMA_DIFFERENCE = 16
CELLS_PER_PROBE = 11  # of which one is compared first, in a pattern that covers all columns

MIN_SHINGLES = 10  # texts with fewer pairs of words must be equal
MIN_SHARED_SHINGLES = 0.8  # of those in either text
TEXT_BANDS, HASHES_PER_BAND = 12, 3


def near_duplicate_groups(own: OwnDataset, reporter: Reporter = SILENT) -> list[list[int]]:
    """Return groups of two or more rows that are exact or near duplicates of each other, in ascending order.

    Duplicates of duplicates are in one group. Rows of numbers and tables are duplicates only if they are equal.
    """
    same = paired_by_value(own.digests)
    first = np.unique(same[1])  # exact copies are compared once
    near: Pairs = np.empty((2, 0), dtype=np.int64)
    if own.texts is not None:
        near = _similar_texts([own.texts[row] for row in first])
    elif (looks := _thumbnails(own, first, reporter)) is not None:
        near = _similar_pictures(looks)
    return sorted(grouped(connected([same, first[near]], len(own.ids))))


def grouped(number: Index) -> list[list[int]]:
    """Return groups of two or more rows with the same number, in the order of the numbers."""
    several = np.flatnonzero(np.bincount(number)[number] > 1)
    order = several[np.argsort(number[several], kind="stable")]
    groups = np.split(order, np.flatnonzero(np.diff(number[order])) + 1)
    return [group.tolist() for group in groups if len(group)]


def connected(pairs: Sequence[Pairs], count: int) -> Index:
    """Number the samples so that those that are connected by pairs have the same number."""
    from scipy.sparse import coo_matrix  # type: ignore[import-untyped, unused-ignore]
    from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped, unused-ignore]

    left, right = np.concatenate(pairs, axis=1)
    graph = coo_matrix((np.ones(len(left), dtype=bool), (left, right)), shape=(count, count))
    together: Index = connected_components(graph, directed=False)[1].astype(np.int64)
    return together


def paired_by_value(values: Sequence[Hashable]) -> Pairs:
    """Pair each sample with the first of the same value."""
    if isinstance(values, Digests):
        return np.stack([np.arange(len(values)), values.first_places()])
    first: dict[Hashable, int] = {}
    return np.array([[row, first.setdefault(value, row)] for row, value in enumerate(values)], dtype=np.int64).T


def _alike(keys: NDArray[np.uint64], agree: Callable[[Index, Index], NDArray[np.bool_]]) -> Pairs:
    """Return the pairs of rows that have a key in common, in any column, and agree."""
    found = [np.empty((2, 0), dtype=np.int64)]
    for left, right in _with_equal_keys(keys):
        for start in range(0, len(left), ROWS_AT_ONCE):
            some = slice(start, start + ROWS_AT_ONCE)
            kept = agree(left[some], right[some])
            found.append(np.stack([left[some][kept], right[some][kept]]))
    return np.concatenate(found, axis=1)


def _with_equal_keys(keys: NDArray[np.uint64]) -> Iterator[tuple[Index, Index]]:
    """Yield pairs of rows by column of keys; of many rows with one key, each is paired with the next ones."""
    for column in range(keys.shape[1]):
        # Rows with one key are sorted by the next columns, so that equal ones lie side by side.
        order = np.lexsort(np.roll(keys, -column, axis=1).T[::-1])
        key = keys[order, column]
        for distance in range(1, min(MAX_NEIGHBOURS, len(order) - 1) + 1):
            equal = key[distance:] == key[:-distance]
            if not equal.any():
                break
            yield order[:-distance][equal], order[distance:][equal]


# Pictures -------------------------------------------------------------------------------------------------------------


def _thumbnails(own: OwnDataset, rows: Index, reporter: Reporter) -> NDArray[np.uint8] | None:
    """Return a thumbnail of each picture; those of files were made when the files were opened."""
    if own.image_info is not None:
        return own.image_info.thumbnails[rows]
    if own.images is None:
        return None
    made = list(in_threads(partial(_thumbnail_of_array, own.images), rows.tolist(), "Comparing images", reporter))
    return np.frombuffer(b"".join(made), dtype=np.uint8).reshape(len(made), -1)


def _thumbnail_of_array(images: NDArray[np.uint8], row: int) -> bytes:
    planes = images[row].transpose(1, 2, 0)
    return thumbnail(
        Image.fromarray(planes[:, :, 0] if planes.shape[2] == 1 else np.ascontiguousarray(planes[:, :, :3]))
    )


def _similar_pictures(looks: NDArray[np.uint8]) -> Pairs:
    hashes, contrast = _perceptual_hashes(looks[:, : LUMA_SIDE**2])
    rows = np.flatnonzero(contrast >= MIN_CONTRAST)
    hashes, luma, chroma = hashes[rows], looks[rows, : LUMA_SIDE**2], looks[rows, LUMA_SIDE**2 :]
    some_cells = np.ascontiguousarray(luma[:, ::CELLS_PER_PROBE])

    def agree(left: Index, right: Index) -> NDArray[np.bool_]:
        kept = _different_bits(hashes[left], hashes[right]) <= MAX_DIFFERENT_BITS
        kept[kept] = _largest_difference(some_cells[left[kept]], some_cells[right[kept]]) <= MAX_LUMA_DIFFERENCE
        kept[kept] = _look_the_same(luma[left[kept]], luma[right[kept]])
        kept[kept] = _largest_difference(chroma[left[kept]], chroma[right[kept]]) <= MAX_CHROMA_DIFFERENCE
        return kept

    return rows[_alike(hashes.view(f"u{BAND_BITS // 8}").astype(np.uint64), agree)]


def _perceptual_hashes(luma: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Return the signs of the lowest frequencies as bits, low frequencies first, and the standard deviations."""
    place = np.arange(LUMA_SIDE)
    cosine = np.cos(np.pi / LUMA_SIDE * np.outer(place, place + 0.5)).astype(np.float32)
    down, across = np.meshgrid(place, place, indexing="ij")
    lowest = np.lexsort((down.ravel(), (down + across).ravel()))[1 : HASH_BITS + 1]  # without the mean
    hashes = np.empty((len(luma), HASH_BITS // 8), dtype=np.uint8)
    contrast = np.empty(len(luma), dtype=np.float32)
    for start in range(0, len(luma), ROWS_AT_ONCE):
        some = slice(start, start + ROWS_AT_ONCE)
        pictures = luma[some].reshape(-1, LUMA_SIDE, LUMA_SIDE).astype(np.float32)
        waves = (cosine @ pictures @ cosine.T).reshape(len(pictures), -1)
        hashes[some], contrast[some] = np.packbits(waves[:, lowest] > 0, axis=1), pictures.std(axis=(1, 2))
    return hashes, contrast


def _different_bits(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> NDArray[np.int64]:
    different: NDArray[np.int64] = BITS_OF_BYTE[left ^ right].sum(axis=1, dtype=np.int64)
    return different


def _look_the_same(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> NDArray[np.bool_]:
    a, b = (side - side.mean(axis=1, keepdims=True) for side in (left.astype(np.float32), right.astype(np.float32)))
    correlation = (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))
    same: NDArray[np.bool_] = correlation >= MIN_CORRELATION
    return same & (_largest_difference(left, right) <= MAX_LUMA_DIFFERENCE)


def _largest_difference(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> NDArray[np.int16]:
    largest: NDArray[np.int16] = np.abs(left.astype(np.int16) - right).max(axis=1, initial=0)
    return largest


# Texts ----------------------------------------------------------------------------------------------------------------


class _WithoutPunctuation(dict[int, str]):
    """A table for `str.translate` that replaces punctuation by spaces, filled as characters occur."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = " " if unicodedata.category(character).startswith("P") else character
        return self[code]


def normal_text(text: str, blanks: dict[int, str] | None = None) -> str:
    """Return a text without case, punctuation and repeated spaces; a text of nothing else stays as it is."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    words = plain.translate(_WithoutPunctuation() if blanks is None else blanks).split()
    return " ".join(words) or text


def _similar_texts(texts: Sequence[str]) -> Pairs:
    blanks = _WithoutPunctuation()
    normal = [normal_text(text, blanks) for text in texts]
    same = paired_by_value(normal)
    first = np.unique(same[1])
    return np.concatenate([same, first[_overlapping([normal[row] for row in first])]], axis=1)


def _overlapping(texts: Sequence[str]) -> Pairs:
    """Return the pairs of texts that share nearly all pairs of adjacent words."""
    from sklearn.feature_extraction.text import HashingVectorizer

    shingles = HashingVectorizer(
        tokenizer=str.split,
        token_pattern=None,
        lowercase=False,
        ngram_range=(2, 2),
        n_features=2**31 - 1,
        alternate_sign=False,
        binary=True,
        norm=None,
        dtype=np.float32,
    ).transform(texts)
    rows = np.flatnonzero(np.diff(shingles.indptr) >= MIN_SHINGLES)
    if len(rows) < 2:
        return np.empty((2, 0), dtype=np.int64)
    chosen = shingles[rows]
    sizes = np.diff(chosen.indptr)

    def agree(left: Index, right: Index) -> NDArray[np.bool_]:
        shared = np.asarray(chosen[left].multiply(chosen[right]).sum(axis=1)).ravel()
        enough: NDArray[np.bool_] = shared >= MIN_SHARED_SHINGLES * (sizes[left] + sizes[right] - shared)
        return enough

    return rows[_alike(_min_hashes(chosen), agree)]


def _min_hashes(shingles: Any) -> NDArray[np.uint64]:
    """Return a key per text and band: texts have one in common if they share enough shingles."""
    stream = numpy_stream(0, "minhash")
    columns, starts = shingles.indices.astype(np.uint64), shingles.indptr[:-1]
    keys = np.zeros((shingles.shape[0], TEXT_BANDS), dtype=np.uint64)
    for band in range(TEXT_BANDS):
        for _ in range(HASHES_PER_BAND):
            factor, offset = stream.integers(2**64, size=2, dtype=np.uint64)
            hashed = columns * (factor | np.uint64(1)) + offset  # modulo 2⁶⁴; the upper half is well mixed
            lowest = np.minimum.reduceat(hashed >> np.uint64(32), starts)
            keys[:, band] = (keys[:, band] ^ lowest) * np.uint64(0x9E3779B97F4A7C15)
    return keys
