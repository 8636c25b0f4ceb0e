"""Compute the features of pictures or texts: in batches, in threads, and through the cache.

Features are float32 on every device, so that those of a CPU and of a GPU can be mixed in one cache. They agree to
about five digits, whatever the batches were.
"""

import hashlib
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from tnlpad.data.own.dataset import OwnDataset
from tnlpad.data.own.digests import Digests
from tnlpad.data.own.selection import Encoded
from tnlpad.data.progress import SILENT, Reporter
from tnlpad.data.stream import decode
from tnlpad.errors import DataError
from tnlpad.features.backbone import Backbone
from tnlpad.features.cache import EntryKey, FeatureCache, Features
from tnlpad.features.hugging_face import TEXT_BATCH, TextBackbone
from tnlpad.memory import zeros
from tnlpad.ranks import group

PREPROCESSING = 1  # raise it when decoding or resizing changes the pixels
TEXT_PREPROCESSING = 1
BATCH_ON_CPU = 16  # per core; the maps of larger batches do not stay in its cache
BATCH_ON_GPU = 128
MAX_DECODERS = 16
BATCHES_AHEAD = 2  # per worker
TASK = "Computing features"
ROWS_PER_EXCHANGE = 1024  # of each rank
MAX_BYTES_IN_MEMORY = 1 << 30  # of features; those of 200,000 photographs

Result = TypeVar("Result")
Pictures = Sequence[Encoded] | NDArray[np.uint8]
Compute = Callable[
    [Sequence[int]], Generator[Features, None, None]
]  # rows of samples -> features of one batch after another


def extract(
    pictures: Pictures,
    backbone: Backbone,
    *,
    digests: Sequence[bytes] | None = None,
    device: torch.device | str = "cpu",
    cache: Path | None = None,
    reporter: Reporter = SILENT,
) -> Features:
    """Return float32 features, one row per picture.

    Args:
        pictures: Paths or contents of image files, or an array of uint8, samples × channels × height × width.
        backbone: The pretrained network.
        digests: SHA-256 of each picture, such as `OwnDataset.digests` (default: computed here).
        device: Where the network runs.
        cache: Folder of cached features, such as `default_cache()`; None computes all of them.
        reporter: Receives progress, and a note if the cache cannot be used.
    """

    def compute(rows: Sequence[int]) -> Generator[Features, None, None]:
        return _computed(pictures, rows, backbone, torch.device(device))

    key = EntryKey(
        identity=backbone.identity,
        pixels=backbone.pixels,
        dimensions=backbone.dimensions,
        preprocessing=PREPROCESSING,
    )
    return _cached(_digests(pictures, digests), key, compute, cache, reporter)


def extract_texts(
    texts: Sequence[str],
    backbone: TextBackbone,
    *,
    device: torch.device | str = "cpu",
    cache: Path | None = None,
    reporter: Reporter = SILENT,
) -> Features:
    """Return float32 features, one row per text. Arguments as in `extract`."""

    def compute(rows: Sequence[int]) -> Generator[Features, None, None]:
        if not rows:
            return
        embedder = backbone.embedder(str(device))
        for start in range(0, len(rows), TEXT_BATCH):
            yield embedder([texts[row] for row in rows[start : start + TEXT_BATCH]])

    key = EntryKey(
        identity=backbone.identity, pixels=0, dimensions=backbone.dimensions, preprocessing=TEXT_PREPROCESSING
    )
    digests = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
    return _cached(digests, key, compute, cache, reporter)


def extract_dataset(
    own: OwnDataset,
    backbone: Backbone,
    *,
    device: torch.device | str = "cpu",
    cache: Path | None = None,
    reporter: Reporter = SILENT,
) -> Features:
    """Return the features of own data that are pictures. Arguments as in `extract`."""
    pictures: Pictures | None = own.files if own.files is not None else own.images
    if pictures is None:
        raise DataError(f"{own.source} holds no pictures, which {backbone.name} needs. Use `--backbone none`.")
    return extract(pictures, backbone, digests=own.digests, device=device, cache=cache, reporter=reporter)


def _cached(
    digests: Sequence[bytes], key: EntryKey, compute: Compute, root: Path | None, reporter: Reporter
) -> Features:
    """Take rows from the cache, compute the others, and store these. Samples of the same content are computed once."""
    store, digests = FeatureCache(root, key), Digests.of(digests)
    first = digests.first_places()
    different = np.flatnonzero(first == np.arange(len(digests)))
    features, missing = zeros(len(digests), key.dimensions, MAX_BYTES_IN_MEMORY), np.ones(len(different), bool)
    for places, rows in store.read(digests.take(different)):
        features[different[places]] = rows
        missing[places] = False
    # Ranks may have caches of their own.
    wanted: list[int] = np.unique(np.concatenate(group.from_each(different[missing]))).tolist()
    done = 0
    try:
        for some, rows in _by_all_ranks(compute, wanted):
            features[some] = rows
            if group.rank() == 0:
                store.add([digests[row] for row in some], rows)
            done += len(some)
            reporter.progress(TASK, done, len(wanted))
    finally:  # also if interrupted: the next pass goes on from here
        store.flush()
        if store.problem is not None:
            reporter.say(f"{store.problem} Features are computed without it.")
    for row in np.flatnonzero(first != np.arange(len(digests))):
        features[row] = features[first[row]]
    return features


def _by_all_ranks(compute: Compute, wanted: Sequence[int]) -> Iterator[tuple[Sequence[int], Features]]:
    """Yield some of the wanted rows and their features, one after the other; each rank computes a share of them."""
    if not group.divides(len(wanted)):
        with closing(compute(wanted)) as batches:
            done = 0
            for rows in batches:
                yield wanted[done : done + len(rows)], rows
                done += len(rows)
        return
    size = ROWS_PER_EXCHANGE * group.count()
    blocks = [wanted[start : start + size] for start in range(0, len(wanted), size)]
    own = [_share(block) for block in blocks]
    with closing(compute([row for share in own for row in share])) as batches:
        rows_one_by_one = chain.from_iterable(batches)
        for block, share in zip(blocks, own, strict=True):
            yield block, np.concatenate(_exchanged(islice(rows_one_by_one, len(share))))


def _share(block: Sequence[int]) -> Sequence[int]:
    first, last = (number * len(block) // group.count() for number in (group.rank(), group.rank() + 1))
    return block[first:last]


def _exchanged(rows: Iterator[Features]) -> list[Features]:
    """Return the rows of all ranks; an error of one is raised on all, so that none waits for it."""
    computed: Features | DataError
    try:
        computed = np.array(list(rows), np.float32)
    except DataError as error:
        computed = error
    found: list[Features] = []
    for each in group.from_each(computed):
        if isinstance(each, DataError):
            raise each
        found += [each] if len(each) else []
    return found


def _computed(
    pictures: Pictures, rows: Sequence[int], backbone: Backbone, device: torch.device
) -> Generator[Features, None, None]:
    if not rows:
        return
    module = backbone.module().to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def decoded(batch: Sequence[int]) -> Tensor:
        return torch.from_numpy(np.stack([pixels_of(pictures[row], backbone.pixels) for row in batch]))

    @torch.inference_mode()
    def features(pixels: Tensor) -> Features:
        images = pixels.to(torch.float32, memory_format=torch.channels_last).div_(255)
        return np.asarray(module(images).float().cpu().numpy(), dtype=np.float32)

    if device.type == "cpu":
        # One thread per batch, instead of all threads on every operator: they never wait for each other.
        workers = torch.get_num_threads()
        yield from _ahead(lambda batch: features(decoded(batch)), _batches(rows, BATCH_ON_CPU, workers), workers)
        return
    workers = min(os.cpu_count() or 1, MAX_DECODERS)
    with closing(_ahead(decoded, _batches(rows, BATCH_ON_GPU, workers), workers)) as batches:
        for pixels in batches:
            pinned = pixels.pin_memory() if device.type == "cuda" else pixels
            yield features(pinned.to(device, non_blocking=True))


def _batches(rows: Sequence[int], most: int, workers: int) -> list[Sequence[int]]:
    """Split into batches, small enough that every worker gets one."""
    size = min(most, -(-len(rows) // workers))
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _ahead(
    function: Callable[[Sequence[int]], Result], batches: Sequence[Sequence[int]], workers: int
) -> Generator[Result, None, None]:
    """Yield the function's results in order, computed by threads some batches ahead, with one thread per operator."""
    waiting = iter(batches)
    pool = ThreadPoolExecutor(workers, thread_name_prefix="features", initializer=torch.set_num_threads, initargs=(1,))
    try:
        first = islice(waiting, BATCHES_AHEAD * workers)
        futures: deque[Future[Result]] = deque(pool.submit(function, batch) for batch in first)
        while futures:
            result = futures.popleft().result()
            futures.extend(pool.submit(function, batch) for batch in islice(waiting, 1))
            yield result
    finally:
        pool.shutdown(cancel_futures=True)  # also if the consumer stops early


def pixels_of(picture: Encoded | NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Return RGB pixels with the shorter side resized and the central square cut out: 3 × side × side."""
    if isinstance(picture, str | bytes):
        return np.ascontiguousarray(decode(picture, side, side))
    planes = np.repeat(picture, 3, axis=0) if len(picture) == 1 else picture
    if planes.shape[0] != 3:
        raise DataError(f"Images have {len(picture)} channels, and pretrained networks take 3. Use `--backbone none`.")
    height, width = planes.shape[1:]
    scale = side / min(height, width)
    resized = Image.fromarray(np.ascontiguousarray(planes.transpose(1, 2, 0))).resize(
        (round(width * scale), round(height * scale)), Image.Resampling.BILINEAR
    )
    left, top = (resized.width - side + 1) // 2, (resized.height - side + 1) // 2  # as `decode` does
    return np.ascontiguousarray(np.asarray(resized.crop((left, top, left + side, top + side))).transpose(2, 0, 1))


def _digests(pictures: Pictures, digests: Sequence[bytes] | None) -> Sequence[bytes]:
    """Return a digest per picture. Those of arrays also contain the shape, which the bytes alone do not."""
    if isinstance(pictures, np.ndarray):
        shape = str(pictures.shape[1:]).encode()
        contents = digests or [hashlib.sha256(np.ascontiguousarray(each).tobytes()).digest() for each in pictures]
        return [hashlib.sha256(shape + content).digest() for content in contents]
    return digests if digests is not None else [_file_digest(picture) for picture in pictures]


def _file_digest(picture: Encoded) -> bytes:
    if isinstance(picture, bytes):
        return hashlib.sha256(picture).digest()
    try:
        with open(picture, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise DataError(f"{picture} cannot be read: {error.strerror or error}.") from error
