"""Hugging Face models of images and texts as backbones, from a folder, the local cache or, if allowed, the hub.

Only safetensors are loaded and no code of a model is run. The hub is asked only for models that are not on disk, and
not at all if $HF_HUB_OFFLINE or $TRANSFORMERS_OFFLINE is set.

How we differ from the models' own processors: an image is resized to the model's input size and cut to its central
square, without the margin that some of them cut off. Mean and standard deviation are theirs.
"""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tnlpad.errors import DataError
from tnlpad.features.backbone import IDENTITY_DIGITS, Backbone, dimensions_of, sha256_of
from tnlpad.json_text import load_json
from tnlpad.schema import Schema, fits, problem, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")
FILES = ["*.json", "*.safetensors", "*.txt", "*.model"]
IDENTIFYING = (".json", ".safetensors", ".txt", ".model")
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
IMAGE_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
NORMALISATION: Schema = {"image_mean": list[float], "image_std": list[float]}
MAX_PIXELS = 1024
MAX_TOKENS = 512
TEXT_BATCH = 32
SENTENCE_MODULES = {"Transformer", "Pooling", "Normalize"}


@dataclass(frozen=True, kw_only=True)
class TextBackbone:
    """A pretrained model of texts. Fields as in `Backbone`, and:

    Args:
        folder: Folder of the model.
        max_tokens: Tokens of a text that are used.
        first_token, unit_length: As in `TextModel`.
    """

    name: str
    identity: str
    dimensions: int
    folder: Path = field(repr=False, compare=False)
    max_tokens: int
    first_token: bool
    unit_length: bool

    def module(self) -> "nn.Module":
        """Return the network, which takes token ids and a mask, in evaluation mode and without gradients."""
        from tnlpad.features.modules import TextModel

        model = _model(self.folder, self.name)
        wrapped = TextModel(model, first_token=self.first_token, unit_length=self.unit_length)
        return wrapped.eval().requires_grad_(False)

    def embed(self, texts: Sequence[str], device: str = "cpu") -> "NDArray[np.float32]":
        """Return one row of features per text."""
        import numpy as np

        embedder = self.embedder(device)
        rows = [embedder(texts[start : start + TEXT_BATCH]) for start in range(0, len(texts), TEXT_BATCH)]
        return np.concatenate(rows) if rows else np.empty((0, self.dimensions), np.float32)

    def embedder(self, device: str = "cpu") -> "Embedder":
        """Load the model and its tokenizer once, for many batches."""
        return Embedder(self, device)


class Embedder:
    """Turns a batch of texts into features."""

    def __init__(self, backbone: TextBackbone, device: str) -> None:
        self.tokenizer, self.max_tokens = _tokenizer(backbone.folder, backbone.name), backbone.max_tokens
        self.module, self.device = backbone.module().to(device), device

    def __call__(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        import numpy as np
        import torch

        tokens = self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=self.max_tokens, return_tensors="pt"
        )
        with torch.inference_mode():
            rows = self.module(tokens["input_ids"].to(self.device), tokens["attention_mask"].to(self.device))
        return np.asarray(rows.float().cpu().numpy(), dtype=np.float32)


def image_model(name: str) -> Backbone:
    """Return a model of images such as dinov2 or clip, by its name or folder."""
    folder = _folder(name)
    processor = _image_processor(folder, name)
    pixels = _side(processor, name)
    mean, std = _normalisation(processor, name)

    def build() -> "nn.Module":
        from tnlpad.features.modules import ImageModel, Normalised

        return Normalised(ImageModel(_model(folder, name)), mean, std)

    return Backbone(
        name=name,
        identity=_identity(folder, name),
        pixels=pixels,
        dimensions=dimensions_of(build(), pixels, name),
        build=build,
    )


def text_model(name: str) -> TextBackbone:
    """Return a model of texts, or a sentence-transformers model, by its name or folder."""
    folder = _folder(name)
    tokenizer = _tokenizer(folder, name)
    pooling = _json(folder / "1_Pooling" / "config.json")
    modules = _sentence_modules(folder, name)
    most = _json(folder / "sentence_bert_config.json").get("max_seq_length") or tokenizer.model_max_length
    if not fits(most, float):
        raise DataError(f"backbone={name} takes {shown(most)} tokens at most, which is not a number. Save it again.")
    backbone = TextBackbone(
        name=name,
        identity=_identity(folder, name),
        dimensions=0,
        folder=folder,
        max_tokens=min(int(most), MAX_TOKENS),
        first_token=bool(pooling.get("pooling_mode_cls_token", False)) or pooling.get("pooling_mode") == "cls",
        unit_length="Normalize" in modules,
    )
    try:
        dimensions = backbone.embed(["a text"]).shape[1]
    except DataError:
        raise
    except Exception as error:  # models raise anything
        raise DataError(f"backbone={name} cannot embed a text: {error}") from error
    from dataclasses import replace

    return replace(backbone, dimensions=dimensions)


def _folder(name: str) -> Path:
    """Return the folder of a model, whose weights are safetensors."""
    if os.path.isdir(name):
        return _checked(Path(name), name)
    if os.sep in name and (os.path.isabs(name) or name.startswith(".")):
        raise DataError(f"backbone={name}: there is no such folder.")
    if not HUB_NAME.fullmatch(name):
        raise DataError(f"backbone={name} is not auto, none, lite, a folder or the name of a Hugging Face model.")
    _require_transformers(name)
    from huggingface_hub import snapshot_download

    try:
        local = Path(snapshot_download(name, allow_patterns=FILES, local_files_only=True))
        if any(local.glob("*.safetensors")):
            return _checked(local, name)
    except (OSError, ValueError):  # not in the local cache
        pass
    if _offline():
        raise DataError(f"backbone={name} is not on disk, and downloads are switched off.")
    try:
        return _checked(Path(snapshot_download(name, allow_patterns=FILES)), name)
    except DataError:
        raise
    except Exception as error:  # of the hub and of the network, of many kinds
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise DataError(
            f"backbone={name} is not on disk and cannot be downloaded ({reason}). Check the name and the connection, "
            "or give a folder."
        ) from error


def _offline() -> bool:
    words = (os.environ.get(name, "") for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    return any(word.strip().upper() in ("1", "ON", "YES", "TRUE") for word in words)


def _checked(folder: Path, name: str) -> Path:
    """Return the folder if it has a configuration and safe weights."""
    if not (folder / "config.json").is_file():
        raise DataError(f"backbone={name}: {folder} has no config.json. Give the folder that save_pretrained wrote.")
    if any(folder.glob("*.safetensors")):
        return folder
    pickled = sorted(file.name for file in folder.iterdir() if file.suffix in PICKLED)
    if pickled:
        raise DataError(
            f"backbone={name} has only {pickled[0]}, and such files can run code. Load the model where you trust it, "
            "and save it with save_pretrained(folder, safe_serialization=True)."
        )
    raise DataError(f"backbone={name} has no weights in safetensors.")


def _require_transformers(name: str) -> None:
    import importlib.util

    if importlib.util.find_spec("transformers") is None:
        raise DataError(
            f"backbone={name} is a Hugging Face model and needs transformers. Install it with "
            "`pip install 'tnlpad[integrations]'`."
        )


def _model(folder: Path, name: str) -> "nn.Module":
    """Load a model in float32; every weight must come from the file, except those of a pooling layer we drop."""
    _require_transformers(name)
    import torch
    from transformers import AutoModel
    from transformers.utils import logging

    verbosity, shows_progress = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        model, report = AutoModel.from_pretrained(
            folder,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
            dtype=torch.float32,
        )
    except Exception as error:  # of a damaged or unknown model, of many kinds
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise DataError(f"backbone={name} cannot be loaded: {reason}") from error
    finally:
        logging.set_verbosity(verbosity)
        if shows_progress:
            logging.enable_progress_bar()
    missing = sorted(report["missing_keys"])
    if any(key.startswith("pooler.") for key in missing):
        model.pooler = None  # it would be random
    lacking = [key for key in missing if not key.startswith("pooler.")]
    if lacking or report["mismatched_keys"]:
        raise DataError(
            f"backbone={name} lacks weights, such as {[*lacking, *map(str, report['mismatched_keys'])][0]}. Save the "
            "whole model again."
        )
    return model  # type: ignore[no-any-return]


def _tokenizer(folder: Path, name: str) -> Any:
    _require_transformers(name)
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # of many kinds
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise DataError(f"backbone={name} has no tokenizer that can be loaded: {reason}") from error


def _image_processor(folder: Path, name: str) -> Mapping[str, Any]:
    for file in IMAGE_PROCESSORS:
        found = _json(folder / file)
        found = found.get("image_processor", found)
        if isinstance(found, dict) and ("image_mean" in found or "size" in found):
            return found
    raise DataError(
        f"backbone={name} has no {IMAGE_PROCESSORS[0]}, so its input size and normalisation are unknown. Save its "
        "image processor into the folder, or choose a model of images."
    )


def _side(processor: Mapping[str, Any], name: str) -> int:
    size = processor.get("crop_size") if processor.get("do_center_crop") else None
    size = size or processor.get("size")
    sides = [value for value in size.values() if value] if isinstance(size, dict) else [size]
    side = min((int(value) for value in sides if value is not None and fits(value, float)), default=0)
    if not 1 <= side <= MAX_PIXELS:
        raise DataError(f"backbone={name}: its image processor has the size {size!r}. 1 to {MAX_PIXELS} is possible.")
    return side


def _normalisation(processor: Mapping[str, Any], name: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation per channel."""
    if not processor.get("do_normalize", True):
        processor = {}
    found = {"image_mean": processor.get("image_mean") or [0, 0, 0], "image_std": processor.get("image_std") or [1] * 3}
    reason = problem(found, NORMALISATION)
    if reason is None and min(found["image_std"]) <= 0:
        reason = "image_std has a number that is not above 0"
    if reason is not None:
        raise DataError(f"backbone={name}: of its image processor, {reason}. Save the processor again.")
    return tuple(found["image_mean"]), tuple(found["image_std"])


def _sentence_modules(folder: Path, name: str) -> set[str]:
    listed = _json(folder / "modules.json", list)
    kinds = {str(each.get("type", "")).rsplit(".", 1)[-1] for each in listed if isinstance(each, dict)}
    unknown = sorted(kinds - SENTENCE_MODULES)
    if unknown:
        raise DataError(
            f"backbone={name} has a module {unknown[0]}, which is not supported. Choose a sentence-transformers model "
            f"of {', '.join(sorted(SENTENCE_MODULES))} only."
        )
    return kinds


def _json(path: Path, kind: type = dict) -> Any:
    """Return the content of a JSON file, or an empty value if it is missing or of another kind."""
    try:
        content = load_json(path)
    except (OSError, ValueError):
        return kind()
    return content if isinstance(content, kind) else kind()


def _identity(folder: Path, name: str) -> str:
    """Return the last part of the name, and digits of the hash of all files that the features depend on."""
    total = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.suffix in IDENTIFYING and path.is_file()):
        total.update(f"{file.relative_to(folder).as_posix()}\0{sha256_of(file)}\n".encode())
    short = re.sub(
        r"[^A-Za-z0-9._-]+", "-", Path(os.path.abspath(name)).name if os.path.isdir(name) else name.split("/")[-1]
    )
    return f"{short.strip('.-') or 'model'}-{total.hexdigest()[:IDENTITY_DIGITS]}"
