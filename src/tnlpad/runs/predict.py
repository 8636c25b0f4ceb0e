"""Predictions of a finished run's network for the test part of a dataset or for user data."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tnlpad.data import load
from tnlpad.data.own import OwnDataset
from tnlpad.data.own.dataset import numbered_columns
from tnlpad.data.pixels import Channels
from tnlpad.data.progress import SILENT, Reporter, in_threads
from tnlpad.data.stream import decode
from tnlpad.errors import DataError
from tnlpad.features.backbone import Backbone
from tnlpad.features.cache import default_cache
from tnlpad.features.extract import extract_dataset, extract_texts, pixels_of
from tnlpad.features.table import TableEncoder
from tnlpad.runs.shipped import Shipped
from tnlpad.types import RawDataset

BATCH_SIZE = 128
Rows = Callable[[int, int], NDArray[Any]]  # from start and stop to inputs of the network


@dataclass(frozen=True, kw_only=True, eq=False)
class Inputs:
    """Samples to predict: their ids, a function that reads them, and whether it returns features of a backbone."""

    ids: Sequence[str]
    paths: Sequence[str | None]
    rows: Rows
    encoded: bool = False


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The most probable classes of a sample, in descending order, and their probabilities."""

    id: str
    path: str | None
    predicted: tuple[str, ...]
    probability: tuple[float, ...]


def inputs_of_catalogue(dataset: str, shipped: Shipped, root: Path | None) -> Inputs:
    """Return the test images of a dataset of the catalogue."""
    found = load(dataset, root, "test")
    if isinstance(found, RawDataset):
        images = found.images
        _require_shape(images.shape[1:], shipped, dataset)
        names = [str(place) for place in range(len(images))]
        return Inputs(ids=names, paths=[None] * len(names), rows=lambda start, stop: images[start:stop] / 255)
    return Inputs(ids=found.paths, paths=found.paths, rows=_from_files(found.paths, shipped))


def inputs_of_own(
    own: OwnDataset, shipped: Shipped, *, cache: Path | None = None, reporter: Reporter = SILENT
) -> Inputs:
    """Return user data, which must have been opened with the `reading_options`.

    Args:
        own: The data.
        shipped: The network; features of its backbone are computed here.
        cache: Folder of computed features (default: the user's).
        reporter: Receives progress.
    """
    rows: Rows
    if own.kind in ("text", "table") or isinstance(shipped.backbone, Backbone):
        encoded = _encoded(own, shipped, cache or default_cache(), reporter)
        return Inputs(
            ids=own.ids,
            paths=own.paths,
            rows=lambda start, stop: encoded[start:stop],
            encoded=shipped.backbone is not None,
        )
    if own.files is not None:
        if len(shipped.shape) != 3:
            raise DataError(f"{own.source} has images, but this run's network takes {shipped.shape[0]} features.")
        rows = _from_files(own.files, shipped)
    elif own.images is not None and shipped.config.finetune:
        images, side = own.images, shipped.shape[1]

        def rows(start: int, stop: int) -> NDArray[Any]:
            return np.stack([pixels_of(image, side) for image in images[start:stop]]) / 255

    else:
        values, scale = (own.images, 255.0) if own.images is not None else (_features(own, shipped), 1.0)
        _require_shape(values.shape[1:], shipped, str(own.source))

        def rows(start: int, stop: int) -> NDArray[Any]:
            return values[start:stop] / scale

    return Inputs(ids=own.ids, paths=own.paths, rows=rows)


def _encoded(own: OwnDataset, shipped: Shipped, cache: Path, reporter: Reporter) -> NDArray[np.float32]:
    device = next(shipped.head.parameters()).device
    if isinstance(shipped.backbone, Backbone):
        return extract_dataset(own, shipped.backbone, device=device, cache=cache, reporter=reporter)
    if shipped.backbone is not None and own.texts is not None:
        return extract_texts(own.texts, shipped.backbone, device=device, cache=cache, reporter=reporter)
    if shipped.encoder is None:
        found = "texts" if own.texts is not None else "numbers that are missing or not finite, or categories"
        raise DataError(f"{own.source} has {found}, which this run was not trained on. Give data of the same kind.")
    return shipped.encoder.transform(own.texts if own.texts is not None else own.table)


def predictions(shipped: Shipped, inputs: Inputs, reporter: Reporter = SILENT, *, top: int = 1) -> Iterator[Prediction]:
    """Yield the `top` most probable classes of each sample, in order."""
    batches = (most_probable(rows, top) for rows in class_probabilities(shipped, inputs, reporter))
    best = chain.from_iterable(zip(shares.tolist(), labels.tolist(), strict=True) for shares, labels in batches)
    for sample, path, (shares, labels) in zip(inputs.ids, inputs.paths, best, strict=True):
        yield Prediction(
            id=sample,
            path=path,
            predicted=tuple(shipped.class_names[label] for label in labels),
            probability=tuple(round(share, 6) for share in shares),
        )


def most_probable(probabilities: Tensor, top: int) -> tuple[Tensor, Tensor]:
    """Return the `top` highest probabilities of each row and their classes, the first of equal ones first."""
    classes = probabilities.shape[1]
    if not 1 <= top <= classes:
        raise ValueError(f"top={top}: the run has {classes} classes. Give a number from 1 to {classes}.")
    shares, labels = probabilities.sort(dim=1, descending=True, stable=True)
    return shares[:, :top], labels[:, :top]


@torch.no_grad()
def class_probabilities(shipped: Shipped, inputs: Inputs, reporter: Reporter = SILENT) -> Iterator[Tensor]:
    """Yield the class probabilities in batches, on the CPU; the network may be on another device."""
    network = shipped.head if inputs.encoded else shipped.network
    for start in range(0, len(inputs.ids), BATCH_SIZE):
        stop = min(start + BATCH_SIZE, len(inputs.ids))
        values = torch.from_numpy(np.asarray(inputs.rows(start, stop), dtype=np.float32))
        yield network(values.to(next(network.parameters()).device)).softmax(1).cpu()
        reporter.progress("Predicting", stop, len(inputs.ids))


def reading_options(shipped: Shipped) -> dict[str, Any]:
    """Return the columns to read as options of `open_dataset`: by name, if the run's columns had names."""
    if shipped.config.data is not None and shipped.config.data.kind == "text":
        return {"text": shipped.text_column}
    if isinstance(shipped.encoder, TableEncoder):
        return {"columns": shipped.encoder.columns, "categories": shipped.encoder.category_columns}
    return {"columns": () if _unnamed(shipped.columns) else shipped.columns}


def _features(own: OwnDataset, shipped: Shipped) -> NDArray[np.float32]:
    assert own.features is not None, "own data have files, images or features"
    assert own.columns == shipped.columns or _unnamed(own.columns) or _unnamed(shipped.columns), "opened with them"
    return own.features


def _unnamed(columns: Sequence[str]) -> bool:
    return tuple(columns) == numbered_columns(len(columns))


def _from_files(files: Sequence[str | bytes], shipped: Shipped) -> Rows:
    channels: Channels = 1 if shipped.shape[0] == 1 else 3
    side = shipped.shape[1]
    resize = shipped.config.resize or side

    def one(row: int) -> NDArray[np.uint8]:
        return decode(files[row], resize, side, channels=channels)

    def rows(start: int, stop: int) -> NDArray[Any]:
        return np.stack(list(in_threads(one, range(start, stop), "Decoding images", SILENT))) / 255

    return rows


def _require_shape(found: tuple[int, ...], shipped: Shipped, where: str) -> None:
    if tuple(found) != tuple(shipped.shape):
        theirs, ours = (" × ".join(map(str, shape)) for shape in (found, shipped.shape))
        raise DataError(
            f"{where} has inputs of {theirs}, but this run's network takes {ours}. Give data of that shape."
        )
