"""Prepare user data for training: decode, encode or standardise them, add noise if requested, and split them.

It is unknown which labels are right, so nothing is measured that needs clean labels. A test part has its given labels.
Without one there is no test accuracy: the held-out samples choose the epoch, so they cannot stand in for it.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tnlpad.data.catalogue import IMAGENET_NORMALISATION, Normalisation
from tnlpad.data.own import OwnDataset
from tnlpad.data.own.digests import Digests
from tnlpad.data.own.open import decoded
from tnlpad.data.own.selection import EncodedImages, Selection, selected
from tnlpad.data.progress import SILENT, Reporter, in_threads
from tnlpad.data.storage import prepared_of
from tnlpad.errors import DataError
from tnlpad.features.backbone import Backbone
from tnlpad.features.cache import Features
from tnlpad.features.encoder import Encoder
from tnlpad.features.extract import extract_dataset, extract_texts, pixels_of
from tnlpad.features.projection import MAX_DIMENSIONS, Projection
from tnlpad.features.table import TableEncoder
from tnlpad.features.text import TextEncoder
from tnlpad.noise import make_noisy_labels, parse_noise
from tnlpad.rng import numpy_stream
from tnlpad.runs.choose_backbone import AnyBackbone
from tnlpad.runs.config import RunConfig, check_noise_file
from tnlpad.runs.folds import NOT_TRAINED, belonging_together, divide
from tnlpad.runs.images import Images
from tnlpad.runs.prepare import Data, held_out_parts
from tnlpad.types import ImageFiles, Index, NoisyLabels, Split

MIN_DEVIATION = 1e-3  # of a channel that is the same in all images
MIN_CLASSES = 2
MIN_SAMPLES = 10  # a tenth of them is held out
ROWS_AT_ONCE = 1 << 12  # of images
NUMBERS_AT_ONCE = 1 << 25  # of features
MAX_PROJECTED_FROM = 100_000  # training samples that a projection is fitted to
Inputs = NDArray[Any] | ImageFiles


def trainable_parts(own: OwnDataset) -> tuple[Index, Index]:
    """Return the rows to train on or hold out, and those of the test part; raises DataError if they are too few."""
    rows, test = own.indices("train", "validation"), own.indices("test")
    train = own.indices("train")
    classes = len(np.unique(own.labels[train]))
    if classes < MIN_CLASSES:
        found = "no training samples"
        if classes:
            name = own.class_names[own.labels[train[0]]][:80]
            found = f"one class, {name!r}, in its {len(train):,} training samples"
        raise DataError(f"{own.source} has {found}. At least two classes are needed.")
    if len(rows) < MIN_SAMPLES and not own.shape.validation:
        raise DataError(
            f"{own.source} has {len(rows)} samples to train on, and at least {MIN_SAMPLES} are needed, since a tenth "
            "is held out to choose the epoch. Add samples, or a validation part."
        )
    return rows, test


def prepare_own_data(
    config: RunConfig,
    own: OwnDataset,
    device: torch.device,
    *,
    backbone: AnyBackbone | None = None,
    cache: Path | None = None,
    reporter: Reporter = SILENT,
) -> Data:
    """Decode, encode or standardise the inputs, add noise if requested, and split; all depend only on data and seed.

    Args:
        config: The run.
        own: The data.
        device: Where the run takes place.
        backbone: The pretrained network that the configuration names.
        cache: Folder of cached features.
        reporter: Receives progress.
    """
    rows, test_rows = trainable_parts(own)
    parts = _split(config, own, rows)
    encoder: Encoder | None = None
    projection: Projection | None = None
    if is_encoded(config):
        every, encoder = _encoded(config, own, rows[parts.train], backbone, device, cache, reporter)
        every, projection, normalisation = _reduced(every, rows[parts.train], one_scale=own.texts is not None)
        inputs: Inputs = _at(every, rows)
        test: Inputs = every[test_rows]
    elif config.finetune:
        inputs, test, normalisation = _finetuned(config, own, rows, test_rows, backbone, reporter)
    else:
        inputs, test, normalisation = _inputs(config, own, rows, test_rows, parts, reporter)
    noisy = _labels(config, own, rows, inputs)
    return Data(
        fold=_folds(config, own, rows, parts, inputs, noisy, device),
        encoder=encoder,
        projection=projection,
        normalisation=normalisation,
        num_classes=len(own.class_names),
        class_names=own.class_names,
        train=_to_device(inputs, device),
        test=_to_device(test, device) if len(test_rows) else None,
        test_labels=torch.from_numpy(own.labels[test_rows]).to(device),
        noisy=noisy,
        given=torch.from_numpy(noisy.given).to(device),
        correct=None if config.noise == "none" else torch.from_numpy(noisy.given == noisy.clean).to(device),
        parts=parts,
        published=None,
    )


def is_encoded(config: RunConfig) -> bool:
    """Whether a run is on features that are computed from its data, or judged out of fold."""
    assert config.data is not None, "a run on user data"
    on_features = config.backbone is not None and not config.finetune
    return on_features or config.folds is not None or config.data.kind in ("text", "table")


def _encoded(
    config: RunConfig,
    own: OwnDataset,
    train: Index,
    backbone: AnyBackbone | None,
    device: torch.device,
    cache: Path | None,
    reporter: Reporter,
) -> tuple[Features, Encoder | None]:
    """Return features of all samples, and the encoder that was fitted to the training samples, if any."""
    if config.backbone is not None:
        found = _same(config, backbone)
        if isinstance(found, Backbone) and config.resize != found.pixels:
            raise DataError(
                f"resize={config.resize}: {found.name} takes images of {found.pixels} pixels here. Leave it out."
            )
        return backbone_features(own, found, device=device, cache=cache, reporter=reporter), None
    if own.texts is not None:
        texts = TextEncoder.fit([own.texts[row] for row in train], seed=config.seed)
        return texts.transform(own.texts), texts
    if own.table is not None:
        table = TableEncoder.fit(own.table.take(train))
        return table.transform(own.table), table
    assert own.features is not None, "checked with the configuration"
    return own.features, None


def backbone_features(
    own: OwnDataset, backbone: AnyBackbone, *, device: torch.device | str, cache: Path | None, reporter: Reporter
) -> Features:
    """Return the features of all samples, from the cache or computed now."""
    if isinstance(backbone, Backbone):
        return extract_dataset(own, backbone, device=device, cache=cache, reporter=reporter)
    assert own.texts is not None, "checked when the backbone was resolved"
    return extract_texts(own.texts, backbone, device=device, cache=cache, reporter=reporter)


def _same(config: RunConfig, backbone: AnyBackbone | None) -> AnyBackbone:
    """Return the backbone if it is the one that the run was configured for."""
    if backbone is None or backbone.identity != config.backbone:
        found = "none was given" if backbone is None else f"this is {backbone.identity}"
        raise DataError(f"This is a run with {config.backbone}, but {found}. Add --backbone.")
    return backbone


def _finetuned(
    config: RunConfig,
    own: OwnDataset,
    rows: Index,
    test_rows: Index,
    backbone: AnyBackbone | None,
    reporter: Reporter,
) -> tuple[Inputs, Inputs, Normalisation]:
    """Return the images of training and test at the backbone's size, and the normalisation that it expects."""
    found = _same(config, backbone)
    assert isinstance(found, Backbone), "checked when it was chosen"
    assert found.ours is not None, "checked when it was chosen"
    normalisation = Normalisation(mean=found.ours.mean, std=found.ours.std)
    if config.crop is not None:
        return _files(config, own, rows), _files(config, own, test_rows), normalisation
    assert config.resize is not None, "checked with the configuration"
    pictures, side = own.files if own.files is not None else own.images, config.resize
    assert pictures is not None, "checked when the backbone was chosen"
    chosen = np.concatenate([rows, test_rows])
    pixels = np.empty((len(chosen), 3, side, side), dtype=np.uint8)
    images = in_threads(lambda row: pixels_of(pictures[row], side), chosen.tolist(), "Decoding images", reporter)
    for row, image in enumerate(images):
        pixels[row] = image
    return pixels[: len(rows)], pixels[len(rows) :], normalisation


def _reduced(features: Features, train: Index, *, one_scale: bool) -> tuple[Features, Projection | None, Normalisation]:
    """Standardise the features, or project many of them to fewer.

    With `one_scale` all are divided by one number: the late components of texts are mostly noise.
    """
    if one_scale:
        scale = float(np.sqrt(np.square(features[train], dtype=np.float64).mean())) or 1.0
        return features / np.float32(scale), None, Normalisation(mean=(0.0,), std=(scale,))
    if features.shape[1] > MAX_DIMENSIONS:
        some = train[np.linspace(0, len(train) - 1, min(len(train), MAX_PROJECTED_FROM)).astype(np.int64)]
        projection = Projection.fit(features[some])
        return _projected(features, projection), projection, Normalisation(mean=(0.0,), std=(1.0,))
    standard, normalisation = _standardised(features, train)
    return standard, None, normalisation


def _projected(features: Features, projection: Projection) -> Features:
    starts = range(0, max(1, len(features)), MAX_PROJECTED_FROM)
    parts = [projection.transform(features[start : start + MAX_PROJECTED_FROM]) for start in starts]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _standardised(features: Features, train: Index) -> tuple[Features, Normalisation]:
    """Subtract the mean of each column over the training rows, and divide by the deviation; a few columns at once."""
    count, width = features.shape
    mean, deviation, standard = np.empty(width), np.empty(width), np.empty_like(features)
    # NumPy adds up a single column in another order than several, so none is left alone.
    at_once = max(2, NUMBERS_AT_ONCE // max(1, count))
    for block in np.array_split(np.arange(width), max(1, width // at_once)):
        columns = features[:, block[0] : block[-1] + 1].astype(np.float64)
        mean[block], deviation[block] = columns[train].mean(0), columns[train].std(0)
        deviation[block[deviation[block] == 0]] = 1  # a constant column
        standard[:, block] = (columns - mean[block]) / deviation[block]
    return standard, Normalisation(mean=tuple(mean), std=tuple(deviation))


def _at(values: NDArray[Any], rows: Index) -> NDArray[Any]:
    """Return the values at these rows, in ascending order; a copy unless they are all."""
    return values if len(rows) == len(values) else values[rows]


def _folds(
    config: RunConfig,
    own: OwnDataset,
    rows: Index,
    parts: Split,
    inputs: Inputs,
    noisy: NoisyLabels,
    device: torch.device,
) -> torch.Tensor | None:
    """Divide the training samples into folds, if the run is judged out of fold; others are not trained on."""
    if config.folds is None or config.repeats is None:
        return None
    assert isinstance(inputs, np.ndarray), "features are in memory"
    chosen = rows[parts.train]
    groups = None if own.groups is None else [own.groups[row] for row in chosen]
    digests = own.digests.take(chosen) if isinstance(own.digests, Digests) else [own.digests[row] for row in chosen]
    together = belonging_together(_at(inputs, parts.train), digests, groups)
    stream = numpy_stream(config.seed, "folds")
    try:
        divided = divide(noisy.given[parts.train], config.folds, config.repeats, stream, together)
    except ValueError as error:
        raise DataError(f"{own.source}: {error}") from error
    fold = np.full((config.repeats, len(rows)), NOT_TRAINED)
    fold[:, parts.train] = divided
    return torch.from_numpy(fold).to(device)


def _split(config: RunConfig, own: OwnDataset, rows: Index) -> Split:
    if own.shape.validation:
        held_out = np.isin(rows, own.indices("validation"))
        return Split(train=np.flatnonzero(~held_out), validation=np.flatnonzero(held_out))
    if config.folds is not None:
        return Split(train=np.arange(len(rows)), validation=np.arange(0))
    parts = held_out_parts(config, len(rows))
    if not len(parts.train) or not len(parts.validation):
        raise DataError(
            f"{own.source}: holding out {config.validation_fraction:g} of {len(rows)} samples leaves none to "
            f"{'validate' if len(parts.train) else 'train'} on. Add samples, or change --set validation_fraction=…"
        )
    return parts


def _inputs(
    config: RunConfig, own: OwnDataset, rows: Index, test_rows: Index, parts: Split, reporter: Reporter
) -> tuple[Inputs, Inputs, Normalisation]:
    """Return the inputs of training and test, and their normalisation."""
    if own.features is not None:
        standard, normalisation = _standardised(own.features, rows[parts.train])
        return _at(standard, rows), standard[test_rows], normalisation
    if own.images is not None:
        return _at(own.images, rows), own.images[test_rows], _pixel_statistics(own.images, rows[parts.train])
    assert own.files is not None, "own data have features, images or files"
    if config.crop is not None:
        return _files(config, own, rows), _files(config, own, test_rows), IMAGENET_NORMALISATION
    assert config.resize is not None, "checked with the configuration"
    chosen = Selection(own.files, np.concatenate([rows, test_rows]))
    pixels = decoded(chosen, config.resize, 1 if own.shape.channels == 1 else 3, reporter=reporter)
    return pixels[: len(rows)], pixels[len(rows) :], _pixel_statistics(pixels, parts.train)


def _files(config: RunConfig, own: OwnDataset, rows: Index) -> ImageFiles:
    """Return images that stay on disk, from pixels beside them if `tnlpad data prepare` has written any."""
    assert own.files is not None, "images in memory are not streamed"
    assert config.resize is not None, "checked with the configuration"
    ids, files = selected(own.ids, rows), selected(own.files, rows)
    prepared = prepared_of(own.source, own.ids, own.digests, rows, config.resize)
    return ImageFiles(
        paths=ids,
        labels=own.labels[rows],
        class_names=own.class_names,
        store=prepared or EncodedImages(files, ids, own.source),
    )


def _pixel_statistics(images: NDArray[np.uint8], rows: Index) -> Normalisation:
    """Return mean and standard deviation of each channel, computed exactly from the histogram of its 256 values."""
    counts = np.zeros((images.shape[1], 256), dtype=np.int64)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = images[rows[start : start + ROWS_AT_ONCE]]
        counts += [np.bincount(some[:, channel].ravel(), minlength=256) for channel in range(len(counts))]
    values, means, deviations = np.arange(256) / 255, [], []
    for share in (each / each.sum() for each in counts):
        mean = float(share @ values)
        means.append(mean)
        deviations.append(max(float(np.sqrt(share @ (values - mean) ** 2)), MIN_DEVIATION))
    return Normalisation(mean=tuple(means), std=tuple(deviations))


def _labels(config: RunConfig, own: OwnDataset, rows: Index, inputs: Inputs) -> NoisyLabels:
    if config.noise == "none":
        # No transition matrix: with 10,000 classes it would not fit into memory.
        labels = own.labels[rows]
        return NoisyLabels(given=labels, clean=labels, transition=np.empty((0, 0)))
    check_noise_file(config)
    pixels = inputs if isinstance(inputs, np.ndarray) and inputs.dtype == np.uint8 else None
    return make_noisy_labels(
        parse_noise(config.noise),
        dataset=config.dataset,
        labels=own.labels[rows],
        num_classes=len(own.class_names),
        seed=config.seed,
        images=pixels,
        protocol=config.protocol,
        inputs=config.instance_inputs,
        legacy=config.legacy_streams,
    )


def _to_device(inputs: Inputs, device: torch.device) -> Images:
    return inputs if isinstance(inputs, ImageFiles) else torch.from_numpy(inputs).to(device)
