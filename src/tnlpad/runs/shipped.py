"""The network of a finished run, ready to use: σ, with the normalisation of its inputs in front, or as an ONNX file."""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from tnlpad import __version__
from tnlpad.atomic_files import write_by_rename
from tnlpad.data.catalogue import Normalisation, find
from tnlpad.data.own.columns import listed
from tnlpad.errors import DataError
from tnlpad.features.backbone import Backbone, resolve_backbone
from tnlpad.features.encoder import ARRAYS, DESCRIPTION, Encoder, load_encoder
from tnlpad.features.hugging_face import TextBackbone, text_model
from tnlpad.features.projection import Projection
from tnlpad.features.table import TableEncoder
from tnlpad.methods import METHODS
from tnlpad.records.samples import DATA_FILE, read_data_file
from tnlpad.records.store import Record, RecordError, RunFolder, damaged
from tnlpad.runs.config import RunConfig
from tnlpad.runs.folds import Ensemble
from tnlpad.runs.own_data import is_encoded
from tnlpad.runs.prepare import build_network
from tnlpad.runs.recorded_config import from_record
from tnlpad.runs.saved_samples import ENCODER_FOLDER, PROJECTION_FOLDER

MAX_REASON = 200  # characters of an error
Shape = tuple[int, ...]  # channels × height × width, or the number of features


class Normalised(nn.Module):
    """A network with normalisation in front: takes pixels in [0, 1] or unscaled features, and returns logits."""

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, normalisation: Normalisation, shape: Shape) -> None:
        super().__init__()
        self.network = network
        per_channel = (-1, *[1] * (len(shape) - 1))
        self.register_buffer("mean", torch.tensor(normalisation.mean, dtype=torch.float32).reshape(per_channel))
        self.register_buffer("std", torch.tensor(normalisation.std, dtype=torch.float32).reshape(per_channel))

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.network((inputs - self.mean) / self.std)
        return logits


@dataclass(frozen=True, kw_only=True, eq=False)
class Shipped:
    """A network with everything that is needed to use it.

    Args:
        config: Configuration of the run.
        network: In evaluation mode, with everything that comes before it except `encoder` and `backbone`.
        class_names: Names of the outputs.
        normalisation: Mean and standard deviation per channel or feature.
        shape: Shape of one input.
        columns: Names of the features in order; empty if the network takes images.
        encoder: Turns texts or rows of a table into features.
        backbone: Pretrained network; one of images is part of `network`, one of texts comes before it.
        head: The network without a backbone of images.
        text_column: Column of the texts, if they were in a table.
    """

    config: RunConfig
    network: nn.Module
    class_names: tuple[str, ...]
    normalisation: Normalisation
    shape: Shape
    columns: tuple[str, ...] = ()
    encoder: Encoder | None = None
    backbone: Backbone | TextBackbone | None = None
    head: nn.Module
    text_column: str | None = None

    @property
    def weights(self) -> nn.Module:
        """The network without the normalisation in front of it, or with everything if there is more than that."""
        return self.network.network if isinstance(self.network, Normalised) else self.network


def load_shipped(folder: RunFolder) -> Shipped:
    """Build a finished run's network on the CPU and load its weights."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder.warn_if_unchecked()
    config, own = _config(folder), read_data_file(folder.path)
    class_names, normalisation, columns = _about(own, config)
    stages = _stages(folder, config, own or {})
    inputs = stages.dimensions or _shape(config)
    if len(normalisation.mean) not in (1, inputs[0]):
        raise damaged(
            folder.path / DATA_FILE, f"{len(normalisation.mean)} means, and the network takes {inputs[0]} channels"
        )
    try:
        state = load_file(folder.artefact(folder.model_file.name) or folder.model_file)
        count = (config.folds or 1) * (config.repeats or 1)
        if count > len(state):
            raise damaged(folder.config_file, f"{count:,} networks, and the file of weights has {len(state):,} tensors")
        networks = [
            METHODS[config.method].shipped(lambda _: build_network(config, inputs, len(class_names)))
            for _ in range(count)
        ]
        network = networks[0] if config.folds is None else Ensemble(networks, config.folds)
        network.load_state_dict(state)
    except (OSError, SafetensorError, RuntimeError) as error:
        reason = shorten(str(error), MAX_REASON, placeholder=" …")  # torch lists every tensor that does not fit
        raise RecordError(f"{folder.model_file} cannot be used ({reason}). Restore it, or train again.") from error
    head: nn.Module = Normalised(network, normalisation, inputs)
    if stages.projection is not None:
        head = nn.Sequential(stages.projection.module(), head)
    shape = inputs if stages.projection is None else (len(stages.projection.weight),)
    network = head
    if stages.images is not None:
        network, shape = nn.Sequential(stages.images.module(), head), (3, stages.images.pixels, stages.images.pixels)
    return Shipped(
        config=config,
        network=network.eval(),
        head=head.eval(),
        class_names=class_names,
        normalisation=normalisation,
        shape=shape,
        columns=columns,
        encoder=stages.encoder,
        backbone=stages.images or stages.texts,
        text_column=(own or {}).get("text_column"),
    )


def _config(folder: RunFolder) -> RunConfig:
    try:
        return from_record(folder.config())
    except ValueError as error:
        raise damaged(folder.config_file, f"not a configuration that tnlpad {__version__} knows: {error}") from error


class _Stages(NamedTuple):
    """The stages that a run's samples pass before its network."""

    dimensions: Shape | None = None
    encoder: Encoder | None = None
    projection: Projection | None = None
    images: Backbone | None = None
    texts: TextBackbone | None = None


def _stages(folder: RunFolder, config: RunConfig, about: Mapping[str, Any]) -> _Stages:
    if config.data is None or not is_encoded(config):
        return _Stages()
    encoder, projection, images, texts = None, None, None, None
    dimensions = config.data.channels
    if config.backbone is not None:
        found = _backbone(config, about, folder)
        texts, images = (found, None) if isinstance(found, TextBackbone) else (None, found)
        dimensions = found.dimensions
    elif config.data.kind in ("text", "table"):
        _has_encoder(folder, ENCODER_FOLDER)
        encoder = load_encoder(folder.path / ENCODER_FOLDER)
        dimensions = encoder.dimensions
    if _has_encoder(folder, PROJECTION_FOLDER):
        projection = Projection.from_files(folder.path / PROJECTION_FOLDER)
        dimensions = projection.dimensions
    return _Stages((dimensions,), encoder, projection, images, texts)


def _has_encoder(folder: RunFolder, name: str) -> bool:
    """Return whether this folder of a run has files of an encoder; raise `RecordError` if one is damaged."""
    files = [folder.artefact(f"{name}/{file}") for file in (DESCRIPTION, ARRAYS)]
    return files != [None, None]


def _backbone(config: RunConfig, about: Mapping[str, Any], folder: RunFolder) -> Backbone | TextBackbone:
    """Find the backbone of a run where it was, with the same weights."""
    assert config.data is not None, "a run on user data"
    name, file = about.get("backbone"), about.get("backbone_weights")
    if name is None:
        raise damaged(folder.path / DATA_FILE, f"it does not name the backbone, {config.backbone}")
    weights = None if file is None else Path(file)
    again = "Restore it, or repeat the `tnlpad train` of this run with the place where it is now."
    if weights is not None and not weights.is_file():
        raise DataError(f"{folder.path} needs {weights}, the weights of {config.backbone}, which is gone. {again}")
    if os.path.isabs(name) and not os.path.isdir(name):
        raise DataError(f"{folder.path} needs {name}, the folder of {config.backbone}, which is gone. {again}")
    if config.data.kind == "text":
        found: Backbone | TextBackbone | None = text_model(name)
    else:
        found = resolve_backbone(name, config.data, weights=weights, pixels=config.resize).backbone
    if found is None or found.identity != config.backbone:
        now = "none" if found is None else found.identity
        raise DataError(f"{folder.path} needs {config.backbone}, but {weights or name} is {now} now. {again}")
    return found


def _about(own: Record | None, config: RunConfig) -> tuple[tuple[str, ...], Normalisation, tuple[str, ...]]:
    if own is None:
        info = find(config.dataset)
        return info.class_names, info.normalisation, ()
    numbers = own["normalisation"]
    normalisation = Normalisation(mean=tuple(numbers["mean"]), std=tuple(numbers["std"]))
    return tuple(own["class_names"]), normalisation, tuple(own.get("columns", ()))


def _shape(config: RunConfig) -> Shape:
    if config.crop is not None:
        return 3, config.crop, config.crop
    if config.data is None:
        shape = find(config.dataset).image_shape
        assert shape is not None, "image files have a crop"
        return shape
    if config.finetune and config.resize is not None:
        return 3, config.resize, config.resize
    if config.data.kind == "features":
        return (config.data.channels,)
    if config.data.kind == "images":
        return config.data.channels, config.data.height, config.data.width
    assert config.resize is not None, "checked with the configuration"
    return config.data.channels, config.resize, config.resize


MAX_LOGIT_DIFFERENCE = 1e-4  # in float32
COMPARED_INPUTS = 4  # not the batch size of the export, to check that it is dynamic


def input_in_words(shipped: Shipped) -> str:
    """Describe the input of the network."""
    if len(shipped.shape) == 3:
        return f"images, N × {' × '.join(map(str, shipped.shape))}, fractions from 0 to 1"
    numbers = f"N × {shipped.shape[0]:,} numbers"
    if isinstance(shipped.encoder, TableEncoder):
        return f"{numbers}, which `tnlpad predict` computes from the columns {listed(shipped.encoder.columns)}"
    if takes_encoded(shipped):
        return f"{numbers}, which `tnlpad predict` computes from the texts"
    return f"{numbers}, as they are in the data: {listed(shipped.columns)}"


def takes_encoded(shipped: Shipped) -> bool:
    """Whether the network takes numbers that an encoder or a backbone computes before it."""
    return len(shipped.shape) == 1 and (shipped.encoder is not None or shipped.backbone is not None)


class ExportError(Exception):
    """The ONNX network computes other logits than torch."""


def write_onnx(path: Path, shipped: Shipped) -> float:
    """Export to ONNX, compare the logits with torch's, write the file, and return the largest difference."""
    import onnx

    generator = torch.Generator().manual_seed(0)
    example = torch.rand(2, *shipped.shape, generator=generator)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        torch.onnx.export(
            shipped.network,
            (example,),
            file,
            input_names=["inputs"],
            output_names=["logits"],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            dynamo=True,
            external_data=False,
            verbose=False,
        )
        model = onnx.load(file)
        lists = {"class_names": shipped.class_names, "columns": shipped.columns}
        props = {name: json.dumps(list(values)) for name, values in lists.items()}
        onnx.helper.set_model_props(model, props | {"input": input_in_words(shipped)})
        content = model.SerializeToString()
    inputs = torch.rand(COMPARED_INPUTS, *shipped.shape, generator=generator)
    difference = _difference(content, shipped, inputs)
    if not difference <= MAX_LOGIT_DIFFERENCE:
        raise ExportError(
            f"the ONNX network's logits differ from torch's by {difference:g}; rounding explains at most "
            f"{MAX_LOGIT_DIFFERENCE:g}. Nothing was written."
        )
    write_by_rename(path, content)
    return difference


@torch.no_grad()
def _difference(content: bytes, shipped: Shipped, inputs: torch.Tensor) -> float:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (theirs,) = session.run(None, {"inputs": inputs.numpy()})
    return float(np.abs(np.asarray(theirs) - shipped.network(inputs).numpy()).max())
