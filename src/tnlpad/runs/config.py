"""What the values of a run must be: each by itself, and those that only mean something for some data.

A run as a value: one frozen configuration says everything that its numbers depend on, and its hash names the run.

Defaults are the paper's for each dataset. What a default depends on (the dataset, the noise, the method) is resolved
before hashing, so that one name never means two numbers. Device, output folder and verbosity are not part of a run.
"""

import dataclasses
import functools
import hashlib
import inspect
import json
import re
import shlex
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tnlpad.data.catalogue import find
from tnlpad.data.own import DataShape
from tnlpad.errors import NoiseDataError
from tnlpad.methods import METHODS
from tnlpad.networks import NETWORKS
from tnlpad.noise.spec import NoiseSpec, parse_noise
from tnlpad.runs.recipes import (
    DATASET_DEFAULTS,
    assumed_rate,
    method_options,
    options_for_weights,
    own_recipe,
    run_defaults,
)
from tnlpad.runs.settings import as_text, check_name, nearest, read

WEIGHTS_NAME = re.compile(r"[^/\\]+-[0-9a-f]{8,64}\.(pth|pt|safetensors)")
# What a value must be, in words and as a test; None is left to the fields that may be None.
RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "seed": ("a whole number >= 0", lambda value: value >= 0),
    "epochs": ("at least 1", lambda value: value >= 1),
    "batch_size": ("at least 1", lambda value: value >= 1),
    "batches_per_epoch": ("at least 1, or none", lambda value: value >= 1),
    "learning_rate": ("a number > 0", lambda value: value > 0),
    "milestones": ("epochs in ascending order", lambda value: list(value) == sorted({*value}) and all(value)),
    "decay": ("in (0, 1]", lambda value: 0 < value <= 1),
    "momentum": ("in [0, 1)", lambda value: 0 <= value < 1),
    "weight_decay": ("a number >= 0", lambda value: value >= 0),
    "validation_fraction": ("in (0, 1), since validation chooses the epoch", lambda value: 0 < value < 1),
    "subset": ("a number of images >= 1, or none", lambda value: value >= 1),
    "resize": ("a number of pixels >= 1, or none", lambda value: value >= 1),
    "crop": ("a number of pixels >= 1, or none", lambda value: value >= 1),
    "crop_padding": ("a number of pixels >= 0", lambda value: value >= 0),
    "cutout": ("a number of pixels >= 0", lambda value: value >= 0),
    "stem_padding": ("a number of pixels >= 0, or none", lambda value: value >= 0),
    "pretrained": (
        "the name of a file in the folder `weights` below the root of datasets that ends in the first digits of its "
        "SHA-256, such as resnet50-0676ba61.pth, or none",
        lambda value: WEIGHTS_NAME.fullmatch(value) is not None,
    ),
    "noise_rate": ("in [0, 1), or none", lambda value: 0 <= value < 1),
    "patience": ("at least 1 epoch, or none", lambda value: value >= 1),
}


def check(config: "RunConfig") -> None:
    """Refuse a run that breaks a rule."""
    check_name("network", config.network, NETWORKS)
    for name, (rule, holds) in RULES.items():
        value = getattr(config, name)
        if value is not None and not holds(value):
            raise ValueError(f"{name}={value!r}: must be {rule}.")
    _check_images(config)


def _check_images(config: "RunConfig") -> None:
    """Images in files are resized, cropped and never all in memory; those in memory are taken as they are."""
    if config.data is not None:
        _check_own(config, config.data)
        return
    info = find(config.dataset)
    in_files = info.image_shape is None
    for name in ("crop_padding", "cutout") if in_files else ("resize", "crop", "subset", "batches_per_epoch"):
        if value := getattr(config, name):
            where, others = ("are read from files", "in memory") if in_files else ("fit into memory", "in files")
            raise ValueError(f"{name}={value}: is for images {others}, and those of {info.name} {where}. Leave it out.")
    if in_files and not 1 <= (config.crop or 0) <= (config.resize or 0):
        raise ValueError(
            f"resize={config.resize}, crop={config.crop}: images of {info.name} are resized, and a square is cut out "
            "of them that must fit into what they are resized to. Give both."
        )
    if in_files and parse_noise(config.noise).kind == "instance":
        raise ValueError(
            f"noise={config.noise!r}: depends on all images at once, and those of {info.name} do not fit into memory. "
            "Use another kind, or a file of labels."
        )
    if config.validation == "clean" and config.dataset != "clothing1m":
        raise ValueError(f"validation='clean': no clean validation set was published for {info.name}. Use 'noisy'.")


# What does nothing to own data of a kind, unless they are image files that are streamed.
WITHOUT_EFFECT = {
    "images": ("resize", "crop", "batches_per_epoch", "subset"),
    "files": ("batches_per_epoch", "subset"),
    "features": ("resize", "crop", "crop_padding", "flip", "cutout", "batches_per_epoch", "subset", "stem_padding"),
}


def _check_own(config: "RunConfig", own: DataShape) -> None:
    """Image files are decoded once and kept in memory, unless a random part is cut out of them each time."""
    streamed = own.kind == "files" and config.crop is not None
    for name in ("crop_padding", "cutout", "subset") if streamed else WITHOUT_EFFECT[own.kind]:
        if value := getattr(config, name):
            what = "images streamed from files" if streamed else f"{own.kind} in memory"
            raise ValueError(f"{name}={value}: has no meaning for {what}. Leave it out.")
    if own.kind == "files" and (config.resize is None or (config.crop or 1) > config.resize):
        raise ValueError(
            f"resize={config.resize}, crop={config.crop}: images in files are resized, and a square that is cut out of "
            "them must fit into what they are resized to."
        )
    if parse_noise(config.noise).kind == "instance" and (streamed or own.kind == "features"):
        raise ValueError(f"noise={config.noise!r}: depends on images that are in memory. Use another kind.")
    if config.validation == "clean":
        raise ValueError("validation='clean': nobody knows which labels of own data are right. Use 'noisy'.")


Protocol = Literal["paper", "authors"]


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that determines a run's numbers on a given machine."""

    dataset: str
    noise: str
    protocol: Protocol
    method: str
    options: Mapping[str, Any]  # the method's own configuration
    network: str
    seed: int
    epochs: int
    batch_size: int
    batches_per_epoch: int | None  # of about as many samples of each class, drawn anew; None: all samples
    learning_rate: float
    milestones: tuple[int, ...]
    decay: float
    decay_takes_effect: Literal["in", "after"]
    momentum: float
    weight_decay: float
    validation: Literal["noisy", "clean"]  # a part of the training data, or the set published for it
    validation_fraction: float
    subset: int | None  # training images, where there are fewer than published: other data, so another run
    resize: int | None  # pixels of the shorter side; None: images in memory are taken as they are
    crop: int | None  # pixels of the square cut out of it
    crop_padding: int
    flip: bool
    cutout: int
    stem_padding: int | None
    pretrained: str | None  # the file of weights to begin with, by a name that tells its content
    noise_rate: float | None  # what methods may assume, not what is true
    noise_file_sha256: str | None  # where the noise is read from a file: a name may mean other labels tomorrow
    instance_inputs: Literal["raw", "unit", "standardized"]
    legacy_streams: bool
    precision: Literal["float32", "bfloat16"]
    compiled: bool  # fused kernels round differently
    patience: int | None
    data: DataShape | None = None  # of a person's own data; None: the dataset is one of the catalogue

    def to_json(self) -> dict[str, Any]:
        """As plain data, in the order of the fields; `data` only where there are own ones."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        if self.data is None:
            del plain["data"]
        return plain

    @property
    def run_id(self) -> str:
        """Readable words and a hash of everything."""
        content = json.dumps(self.to_json(), sort_keys=True).encode()
        words = [self.dataset, parse_noise(self.noise).name, self.method, self.network, f"seed{self.seed}"]
        return "_".join(words) + "_" + hashlib.sha256(content).hexdigest()[:10]


RUN_HINTS = typing.get_type_hints(RunConfig)
COMMON_DEFAULTS: dict[str, Any] = {
    "batches_per_epoch": None,
    "decay_takes_effect": "in",
    # Of Clothing1M the paper does not say which: as for its other datasets, though a clean one was published.
    "validation": "noisy",
    "validation_fraction": 0.1,
    "subset": None,
    "resize": None,
    "crop": None,
    "cutout": 0,
    "instance_inputs": "raw",
    "legacy_streams": False,
    "precision": "float32",
    "compiled": False,
    "patience": None,
}
# ImageNet weights as everyone used them at the time; the later resnet50-11ad3fa6.pth comes from a stronger recipe.
PRETRAINED = {("clothing1m", "imagenet_resnet50"): "resnet50-0676ba61.pth"}
OWN_ARGUMENTS = ("dataset", "noise", "protocol", "method", "seed")  # of `configure`, and of the command line


def configure(
    dataset: str | DataShape,
    *,
    noise: str = "none",
    protocol: Protocol = "paper",
    method: str = "tnlpad",
    network: str | None = None,
    seed: int = 1,
    device: str = "cpu",
    settings: Mapping[str, Any] | None = None,
) -> RunConfig:
    """The run that these words mean, with the paper's defaults for whatever they leave open.

    A person's own data are given by their shape, and have defaults of their own (`own_recipe`). `settings` override any
    field of the run or of the method's own configuration by name; strings are read as the field's type. Unknown names
    are refused with the nearest one. The device is where it will run, since its numbers depend on how it computes.
    """
    settings = settings or {}
    own = dataset if isinstance(dataset, DataShape) else None
    name = find(dataset).name if isinstance(dataset, str) else dataset.name
    check_name("method", method, METHODS)
    check_name("protocol", protocol, typing.get_args(Protocol))
    spec = parse_noise(noise)
    values = {**COMMON_DEFAULTS, **_recipe(name, own), **run_defaults(method, name), "data": own}
    values |= {"dataset": name, "noise": str(spec), "protocol": protocol, "method": method, "seed": seed}
    values |= {"noise_rate": assumed_rate(method, name, spec), "noise_file_sha256": _digest(spec)}
    values["network"] = values["network"] if network is None else network
    values |= _of_network(values["network"], name, protocol)
    values |= _of_device(device, settings.get("network", values["network"]))
    options = method_options(method, name, protocol, spec, values["epochs"])
    options |= options_for_weights(method, values["pretrained"])
    return with_settings(RunConfig(**values, options=options), settings)


def _recipe(name: str, own: DataShape | None) -> dict[str, Any]:
    return DATASET_DEFAULTS[name] if own is None else own_recipe(own)


def with_settings(config: RunConfig, settings: Mapping[str, Any]) -> RunConfig:
    """The same run but for these fields, of the run or of the method's own configuration."""
    values: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for key, value in settings.items():
        target, hints = _place(key, config.method)
        (values if target == "run" else own)[key] = read(key, value, hints[key])
    if values.get("crop") is not None and config.data is not None:
        values = {"crop_padding": 0} | values  # which is for images in memory: a part cut out of files takes its place
    if "network" in values:
        values = _of_network(values["network"], config.dataset, config.protocol) | values
    options = dict(config.options)
    if "pretrained" in values and options_for_weights(config.method, config.pretrained).items() <= options.items():
        options |= options_for_weights(config.method, values["pretrained"])
    options |= own
    changed = dataclasses.replace(config, **values, options=options)
    check(changed)
    return changed


def _of_device(device: str, network: str) -> dict[str, Any]:
    """How a run computes on this device unless told otherwise."""
    if not device.startswith("cuda"):
        return {}
    # LeNet's layers are too small for tensor cores: in float32 there are fused kernels for them.
    return {"precision": "float32" if network == "lenet" else "bfloat16", "compiled": True}


def departures(config: RunConfig) -> dict[str, Any]:
    """Where a run departs from the recipe that `configure` has for its words: what `settings` would say."""
    recipe = configure(
        config.data or config.dataset,
        noise=config.noise,
        protocol=config.protocol,
        method=config.method,
        network=config.network,
        seed=config.seed,
    )
    expected, actual = (_flat(each.to_json()) for each in (recipe, config))
    return {name: value for name, value in actual.items() if value != expected[name]}


def _flat(plain: dict[str, Any]) -> dict[str, Any]:
    """A configuration's settings in one dictionary: no method has an option of a run's field's name."""
    options: dict[str, Any] = plain.pop("options")
    return plain | options


def command(config: RunConfig) -> str:
    """The shortest command that makes this run; on a CPU, if it is one that was not compiled."""
    # Where own data lie is no part of a run: whoever has them says so in place of DATA.
    words = ["tnlpad", "train", config.dataset if config.data is None else "DATA"]
    words += ["--noise", config.noise, "--method", config.method]
    words += ["--network", config.network] if config.network != _recipe(config.dataset, config.data)["network"] else []
    words += ["--protocol", config.protocol] if config.protocol != "paper" else []
    words += ["--seed", str(config.seed)]
    # What is compiled was made for a GPU, whose own precision may be another.
    precision = {"precision": config.precision} if config.compiled else {}
    for name, value in (precision | departures(config)).items():
        words += ["--set", f"{name}={as_text(value)}"]
    return shlex.join(words)


def from_json(plain: Mapping[str, Any]) -> RunConfig:
    """The configuration that `to_json` wrote; one changed by hand is read as strictly as a command line."""
    if wrong := (RUN_HINTS.keys() ^ plain.keys()) - {"data"}:
        raise ValueError(f"Not the configuration of a run: {', '.join(sorted(wrong))} is missing or unknown.")
    values = {key: read(key, plain[key], hint) for key, hint in RUN_HINTS.items() if key not in ("options", "data")}
    values["data"] = shape = _own_shape(plain.get("data"))
    values["dataset"] = find(values["dataset"]).name if shape is None else shape.name
    values["noise"] = str(parse_noise(values["noise"]))
    check_name("method", values["method"], METHODS)
    own, given = _method_hints(values["method"]), plain["options"]
    if not isinstance(given, Mapping) or own.keys() != given.keys():
        raise ValueError(f"options={given!r}: {values['method']} has {', '.join(own) or 'none'}.")
    config = RunConfig(**values, options={key: read(key, given[key], hint) for key, hint in own.items()})
    check(config)
    return config


def _own_shape(plain: Any) -> DataShape | None:
    if plain is None:
        return None
    hints = typing.get_type_hints(DataShape)
    if not isinstance(plain, Mapping) or plain.keys() != hints.keys():
        raise ValueError(f"data={plain!r}: own data are described by {', '.join(hints)}.")
    return DataShape(**{key: read(key, plain[key], hint) for key, hint in hints.items()})


def check_noise_file(config: RunConfig) -> None:
    """Refuse a file of noise that is not the one that the configuration was made with."""
    if config.noise_file_sha256 != _digest(parse_noise(config.noise)):
        raise NoiseDataError(
            f"{config.noise} is not the file that this run was configured with. Restore it, or configure a new run."
        )


def _of_network(network: str, dataset: str, protocol: Protocol) -> dict[str, Any]:
    """What goes with a network: a stem as everyone builds it or as the paper's authors did; weights to begin with."""
    check_name("network", network, NETWORKS)
    choice = "stem_padding" in inspect.signature(NETWORKS[network]).parameters
    padding = 0 if protocol == "authors" else 1
    return {"stem_padding": padding if choice else None, "pretrained": PRETRAINED.get((dataset, network))}


def _digest(spec: NoiseSpec) -> str | None:
    if spec.file is None:
        return None
    try:
        return hashlib.sha256(spec.file.read_bytes()).hexdigest()
    except OSError as error:
        raise NoiseDataError(
            f"{spec.file} cannot be read ({error.strerror or error}): check the file's name."
        ) from error


def _place(key: str, method: str) -> tuple[Literal["run", "method"], dict[str, Any]]:
    method_hints = _method_hints(method)
    fixed = {*OWN_ARGUMENTS, "options", "noise_file_sha256", "data"}
    if key in OWN_ARGUMENTS:
        option = "as DATA" if key == "dataset" else f"with --{key}"
        raise ValueError(f"{key!r} is not for --set: give it {option}.")
    if key in RUN_HINTS and key not in fixed:
        return "run", RUN_HINTS
    if key in method_hints:
        return "method", method_hints
    known = sorted((RUN_HINTS.keys() - fixed) | method_hints.keys())
    raise ValueError(f"{key!r} is no setting of this run{nearest(key, known)} There are: {', '.join(known)}.")


@functools.cache
def _method_hints(method: str) -> dict[str, Any]:
    """The type of each option; looked up once, since a plan has thousands of configurations."""
    return typing.get_type_hints(METHODS[method].config)
