"""Load published weights from a local file, with every key and shape checked first.

Meant for the weights of `imagenet_resnet50` and `efficientnet_lite0`. Clothing1M is usually trained from
`resnet50-0676ba61.pth` (ImageNet, first recipe, 76.13 % top-1). `resnet50-11ad3fa6.pth` comes from a later, stronger
recipe, and results from the two do not compare. The digits in such a name are the beginning of the file's SHA-256, and
are checked.

Load before building the optimizer: it reads σ from the weights. Keep γ = 0 (`parameter_groups(init="zero")`): a random
γ would destroy the loaded features.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from tnlpad.json_text import parse_json
from tnlpad.networks.network import Network
from tnlpad.schema import fits

HASH_IN_NAME = re.compile(r"-([0-9a-f]{8,64})\.[a-z]+$")
MIN_DEVIATION = 0.3  # of a feature, relative to the root mean square of all
OPTIONAL = "num_batches_tracked"  # a counter that older files do not have


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """The result of `load_pretrained`.

    Attributes:
        path: The file.
        sha256: Its full hash.
        hash_checked: Whether the hash was compared with the file's name or with an expected one.
        classes_in_file: The number of classes of the file's last layer; 0 if it has none.
        new_head: Whether the network kept its own last layer, because its number of classes differs.
    """

    path: Path
    sha256: str
    hash_checked: bool
    classes_in_file: int
    new_head: bool


def load_pretrained(
    model: nn.Module, path: str | Path, *, head: str = "fc", sha256: str | None = None, new_head: bool = False
) -> Pretrained:
    """Load a state dict from a local file, with the last layer unless its number of classes differs.

    After an error, the model has not changed.

    Args:
        model: The network, such as `imagenet_resnet50(num_classes=14)`.
        path: A `.pth` or `.pt` file (only tensors are unpickled), or `.safetensors`.
        head: The name of the last, linear layer: "fc" in the ImageNet ResNet, "classifier" in the other networks.
        sha256: The expected hash or its beginning, for a file whose name does not have it.
        new_head: Whether the model keeps its last layer in any case.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file: download the published weights and pass the path to them.")
    state = model.state_dict()
    if f"{head}.weight" not in state:
        layers = ", ".join(name for name, _ in model.named_children())
        raise ValueError(f"head={head!r}: {type(model).__name__} has no such linear layer, only {layers}.")
    digest, checked = _checked_hash(path, sha256)
    saved = _read(path)
    if isinstance(model, Network):
        saved = {model.our_name(key): tensor for key, tensor in saved.items()}
    new_head = new_head or _has_other_classes(state, saved, head)
    kept = {key for key in state if new_head and key.startswith(f"{head}.")}
    _check(state, saved, kept, path)
    model.load_state_dict({key: state[key] if key in kept else saved.get(key, state[key]) for key in state})
    return Pretrained(
        path=path,
        sha256=digest,
        hash_checked=checked,
        classes_in_file=len(saved.get(f"{head}.weight", ())),
        new_head=new_head,
    )


class StandardisedLinear(nn.Linear):
    """A linear layer on features that are standardised first. Its weights are 0 at first.

    Features of pretrained networks may be large, and a layer that suits them at the small steps that the network needs
    would diverge or learn nothing. With weights of 0, the first steps leave the features alone.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)
        self.register_buffer("mean", torch.zeros(in_features))
        self.register_buffer("std", torch.ones(in_features))

    def forward(self, input: Tensor) -> Tensor:
        return super().forward((input - self.mean) / self.std)

    @torch.no_grad()
    def fit(self, features: Tensor) -> None:
        """Take mean and standard deviation from the features of some samples.

        A feature that hardly varies in them is not scaled up to the others: it would multiply every later change.
        """
        deviation = features.std(0)
        typical = float(deviation.square().mean().sqrt())
        self.mean.copy_(features.mean(0))
        self.std.copy_(deviation.clamp(min=MIN_DEVIATION * typical if typical > 0 else 1.0))


def head_name(network: nn.Module) -> str:
    """Return the name of a network's last layer: "fc" in the ImageNet ResNet, "classifier" in the others."""
    return next(str(name) for name, module in network.named_modules() if module is network.classifier)


def standardise_features(network: Network) -> None:
    """Replace the last layer by a `StandardisedLinear` of the same size."""
    last = cast(nn.Linear, network.classifier)
    setattr(network, head_name(network), StandardisedLinear(last.in_features, last.out_features))


class FixedBatchNorm2d(nn.BatchNorm2d):
    """BatchNorm that keeps its statistics in training mode too; its scale and shift are trained."""

    def train(self, mode: bool = True) -> "FixedBatchNorm2d":
        return super().train(False)


def fix_statistics(model: nn.Module) -> None:
    """Let BatchNorm use the statistics of the pretrained weights from now on, in training too.

    The features that the weights encode depend on them: with statistics of batches instead, accuracy on a few hundred
    photographs is far lower. It also means that σ and w are evaluated with the same statistics.
    """
    for module in model.modules():
        if type(module) is nn.BatchNorm2d:
            module.__class__ = FixedBatchNorm2d
            module.eval()


def normalisation_in(path: Path) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Return mean and standard deviation per channel from a file of `tnlpad export --safetensors`; else None."""
    if path.suffix != ".safetensors":
        return None
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
        mean, std = (parse_json(about[name], finite=True) for name in ("mean", "std"))
    except (OSError, SafetensorError, KeyError, ValueError):
        return None
    if not (fits(mean, list[float]) and fits(std, list[float]) and len(mean) == len(std) == 3 and min(std) > 0):
        return None
    return tuple(map(float, mean)), tuple(map(float, std))


def name_with_hash(path: Path) -> str:
    """Return the file's name with the first digits of its SHA-256, added unless the name has them."""
    digest, in_name = _sha256(path), HASH_IN_NAME.search(path.name)
    named = in_name is not None and digest.startswith(in_name[1])
    return path.name if named else f"{path.stem}-{digest[:8]}{path.suffix}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checked_hash(path: Path, expected: str | None) -> tuple[str, bool]:
    """Return the file's hash, and whether it was compared with another; a damaged file must not be parsed."""
    digest = _sha256(path)
    if expected is not None and not digest.startswith(expected.lower()):
        raise ValueError(
            f"{path.name} has the SHA-256 {digest}, not the expected {expected}: it is damaged or another file. "
            "Download it again, or correct sha256."
        )
    in_name = HASH_IN_NAME.search(path.name)
    if in_name and not digest.startswith(in_name[1]):
        raise ValueError(
            f"{path.name} has the SHA-256 {digest}, which does not begin with the {in_name[1]} of its name: it is "
            "damaged or incomplete. Download it again, or rename it if those digits mean something else."
        )
    return digest, bool(expected or in_name)


def _read(path: Path) -> Mapping[str, Tensor]:
    if path.suffix not in (".pth", ".pt", ".safetensors"):
        raise ValueError(f"{path.name}: weights come as .pth, .pt or .safetensors.")
    try:
        if path.suffix == ".safetensors":
            state: Any = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the readers raise many kinds, and torch's message advises an unsafe load
        raise ValueError(
            f"{path.name} is damaged, or holds more than tensors: download it again, or save the state dict alone."
        ) from error
    if not isinstance(state, Mapping):
        raise ValueError(f"{path.name} holds a {type(state).__name__}: save model.state_dict() instead.")
    for key, value in state.items():
        if not isinstance(value, Tensor):
            raise ValueError(
                f"{path.name} holds a {type(value).__name__} under {key!r}, where a state dict holds tensors. "
                "Save the state dict alone."
            )
    return state


def _has_other_classes(state: Mapping[str, Tensor], saved: Mapping[str, Tensor], head: str) -> bool:
    """Return whether the last layers differ in their number of classes, and in nothing else."""
    ours, theirs = state[f"{head}.weight"], saved.get(f"{head}.weight")
    return theirs is not None and theirs.shape[1:] == ours.shape[1:] and len(theirs) != len(ours)


def _check(state: Mapping[str, Tensor], saved: Mapping[str, Tensor], kept: set[str], path: Path) -> None:
    """Raise for the first key or shape that does not fit, in the model's order."""
    another = "The file belongs to another network, or to this one built with other options."
    unknown = next((key for key in saved if key not in state), None)
    for key, tensor in state.items():
        if key not in saved:
            if key.endswith(OPTIONAL) or key in kept:
                continue
            instead = f" and has {unknown}, which the model does not have" if unknown else ""
            raise ValueError(f"{path.name} lacks {key}{instead}. {another}")
        if key not in kept and saved[key].shape != tensor.shape:
            theirs, ours = tuple(saved[key].shape), tuple(tensor.shape)
            raise ValueError(f"{key} has shape {theirs} in {path.name} and {ours} in the model. {another}")
    if unknown is not None:
        raise ValueError(f"{path.name} has {unknown}, which the model does not have. {another}")
