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
from tnlpad.data.own.columns import listed
from tnlpad.data.own.dataset import Kind, numbered_columns
from tnlpad.data.pixels import Channels
from tnlpad.data.progress import SILENT, Reporter, in_threads
from tnlpad.data.stream import decode
from tnlpad.errors import DataError
from tnlpad.features.backbone import Backbone
from tnlpad.features.cache import default_cache
from tnlpad.features.extract import pixels_of
from tnlpad.features.table import TableEncoder
from tnlpad.runs.own_data import backbone_features
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
    if _content(_kind(shipped)) != "images":
        raise _other_content(dataset, "images", shipped)
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
    if _content(own.kind) != _content(_kind(shipped)):
        raise _other_content(str(own.source), own.kind, shipped)
    if own.kind in ("text", "table") or isinstance(shipped.backbone, Backbone):
        encoded = _encoded(own, shipped, cache or default_cache(), reporter)
        return Inputs(
            ids=own.ids,
            paths=own.paths,
            rows=lambda start, stop: encoded[start:stop],
            encoded=shipped.backbone is not None,
        )
    if own.files is not None:
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
    if shipped.backbone is not None:
        return backbone_features(own, shipped.backbone, device=device, cache=cache, reporter=reporter)
    assert shipped.encoder is not None, "the run was trained on the same kind of data"
    if isinstance(shipped.encoder, TableEncoder):
        for note in _unseen_notes(shipped.encoder, own):
            reporter.say(f"Note: {note}")
    return shipped.encoder.transform(own.texts if own.texts is not None else own.table)


def _unseen_notes(encoder: TableEncoder, own: OwnDataset) -> Iterator[str]:
    """Yield a remark on each column of categories with values that training did not have."""
    assert own.table is not None, "an encoder of tables"
    for column, found in encoder.unseen(own.table).items():
        yield (
            f"column {column[:80]!r}: {len(found):,} of {len(own.ids):,} rows have a value that the training data did "
            f"not have, or hardly, such as {found[0][:80]!r}."
        )


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


HELD: dict[Kind, str] = {
    "files": "pictures",
    "images": "pictures",
    "features": "rows of numbers",
    "text": "texts",
    "table": "rows with numbers that are missing or not finite, or with categories",
}


def _content(kind: Kind) -> Kind:
    """Return the kind, the same one for pictures in files and in arrays."""
    return "images" if kind == "files" else kind


def _kind(shipped: Shipped) -> Kind:
    return "images" if shipped.config.data is None else shipped.config.data.kind


def _other_content(where: str, kind: Kind, shipped: Shipped) -> DataError:
    return DataError(
        f"{where} holds {HELD[kind]}, and this run was trained on {_trained_on(shipped)}. Give such data, or the run "
        "that was trained on data like these."
    )


def _trained_on(shipped: Shipped) -> str:
    """Say what the run was trained on."""
    kind = _kind(shipped)
    if kind == "text":
        return "texts" if shipped.text_column is None else f"the texts of column {shipped.text_column[:80]!r}"
    columns = shipped.encoder.columns if isinstance(shipped.encoder, TableEncoder) else shipped.columns
    if kind == "features" and _unnamed(columns):
        return f"rows of {len(columns):,} numbers"
    return f"a table with the columns {listed(columns)}" if kind in ("features", "table") else HELD[kind]


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
