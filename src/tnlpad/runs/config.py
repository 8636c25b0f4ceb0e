"""The configuration of a run: one frozen value that determines its numbers, and whose hash names it.

Everything that a default depends on (dataset, noise, method, device) is resolved before hashing, so one name never
stands for two results. Device, output folder and verbosity are not part of a run.
"""

import dataclasses
import functools
import hashlib
import json
import shlex
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tnlpad.data.catalogue import find
from tnlpad.data.own import DataShape
from tnlpad.errors import NoiseDataError
from tnlpad.methods import METHODS
from tnlpad.networks import NETWORKS
from tnlpad.noise.spec import NoiseSpec, parse_noise
from tnlpad.runs.recipes import (
    COMMON_DEFAULTS,
    assumed_rate,
    dataset_defaults,
    device_defaults,
    method_options,
    network_defaults,
    options_for_weights,
    run_defaults,
)
from tnlpad.runs.rules import RULES, check
from tnlpad.runs.settings import allowed, as_text, check_name, field_comments, read
from tnlpad.suggestions import similar
from tnlpad.types import ProtocolName

HASH_DIGITS = 10
MAX_SUGGESTED = 3
# Fields that are not written if they are None. All but the last are for user data.
OPTIONAL = ("data", "backbone", "finetune", "folds", "repeats", "channels_last")
# Options that a method did not always have, and what it did without them: this value is not written, so that such runs
# keep their names.
LATER_OPTIONS: dict[str, dict[str, Any]] = {"dividemix": {"steps": "all"}, "dividemix+tnlpad": {"steps": "all"}}


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that determines a run's numbers on a given machine.

    The comment behind a field is its description in `settings_listing`.
    """

    dataset: str
    noise: str
    protocol: ProtocolName
    method: str
    options: Mapping[str, Any]  # the method's own options
    network: str  # network architecture
    seed: int
    epochs: int  # number of epochs
    batch_size: int  # samples per batch
    batches_per_epoch: int | None  # batches per epoch, with balanced classes; none: all samples
    learning_rate: float  # initial learning rate
    milestones: tuple[int, ...]  # epochs in which the learning rate is multiplied by `decay`
    decay: float  # learning-rate factor at each milestone
    decay_takes_effect: Literal["in", "after"]  # whether the rate falls in the milestone epoch or after it
    momentum: float  # momentum of SGD
    weight_decay: float  # weight decay of SGD
    validation: Literal["noisy", "clean"]  # validate on a part of the training data, or on the published clean set
    validation_fraction: float  # share of the training data that is held out for validation
    subset: int | None  # number of training images, if the dataset on disk is incomplete
    resize: int | None  # pixels of the shorter side of image files; none: images in memory keep their size
    crop: int | None  # pixels of the square that is cut out of resized image files
    crop_padding: int  # pixels of padding before a random crop, for images in memory
    flip: bool  # flip images at random, left to right
    cutout: int  # side of a square that is erased at random, for images in memory
    stem_padding: int | None  # padding of the network's first convolution, if it has the choice
    pretrained: str | None  # file of initial weights
    noise_rate: float | None  # noise rate that the method assumes; the true one may differ
    noise_file_sha256: str | None  # of the file of the noise, whose content may change under the same name
    instance_inputs: Literal["raw", "unit", "standardized"]  # scale of the pixels that instance noise depends on
    legacy_streams: bool  # draw split and noise as the authors' code does
    precision: Literal["float32", "bfloat16"]  # precision of forward passes
    compiled: bool  # compile the network; fused kernels round differently
    patience: int | None  # stop after this many epochs without a better validation accuracy
    data: DataShape | None = None  # shape of user data; None: a dataset of the catalogue
    backbone: str | None = None  # pretrained network whose features are trained on, with digits of its SHA-256
    finetune: bool | None = None  # whether the backbone itself is trained, from its weights
    folds: int | None = None  # parts of the data; each sample is judged by networks that were not trained on its part
    repeats: int | None = None  # number of times that the data are divided into folds
    channels_last: bool | None = None  # keep images and weights in memory with the channels last; none: by device

    def to_json(self) -> dict[str, Any]:
        """Return plain data in the order of the fields, without the optional ones that are None."""
        plain = self._plain()
        for name in OPTIONAL:
            if plain[name] is None:
                del plain[name]
        for name, value in LATER_OPTIONS.get(self.method, {}).items():
            if plain["options"].get(name) == value:
                del plain["options"][name]
        return plain

    def _plain(self) -> dict[str, Any]:
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return plain

    @property
    def hash(self) -> str:
        """Digits of the hash of all fields, which identify the run."""
        content = json.dumps(self.to_json(), sort_keys=True).encode()
        return hashlib.sha256(content).hexdigest()[:HASH_DIGITS]

    @property
    def run_id(self) -> str:
        """A readable name that ends with the hash."""
        return self.named(self.dataset)

    def named(self, data: str) -> str:
        """Return the name of the run with another word for its data."""
        words = [data, parse_noise(self.noise).name, self.method, self.network, f"seed{self.seed}", self.hash]
        return "_".join(words)


RUN_HINTS, DATA_HINTS = typing.get_type_hints(RunConfig), typing.get_type_hints(DataShape)
ARGUMENTS = ("dataset", "noise", "protocol", "method", "seed")  # of `configure` and of the command line
NOT_SETTABLE = {*ARGUMENTS, "options", "noise_file_sha256", "data", "backbone", "finetune"}


def configure(
    dataset: str | DataShape,
    *,
    noise: str = "none",
    protocol: ProtocolName = "paper",
    method: str = "tnlpad",
    network: str | None = None,
    seed: int = 1,
    device: str = "cpu",
    backbone: str | None = None,
    finetune: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> RunConfig:
    """Return the configuration of a run, with the defaults of `recipes` for everything that is not given.

    Args:
        dataset: A dataset of the catalogue, or the shape of user data.
        noise: Such as `symmetric:0.4`.
        protocol: Whether to follow the paper or its authors' code where they differ.
        method: One of `METHODS`.
        network: One of `NETWORKS`.
        seed: Random seed.
        device: Where the run takes place; precision and compilation depend on it.
        backbone: Identity of the pretrained network whose features are trained on, for user data.
        finetune: Train that network itself, from its weights.
        settings: Fields of the run or of the method's own configuration; strings are converted to the field's type.
    """
    settings = settings or {}
    own = dataset if isinstance(dataset, DataShape) else None
    name = find(dataset).name if isinstance(dataset, str) else dataset.name
    check_name("method", method, METHODS)
    check_name("protocol", protocol, typing.get_args(ProtocolName))
    spec = parse_noise(noise)
    values = {
        **COMMON_DEFAULTS,
        **dataset_defaults(own or name, backbone, finetune),
        **run_defaults(method, name),
        "data": own,
    }
    values |= {"dataset": name, "noise": str(spec), "protocol": protocol, "method": method, "seed": seed}
    values |= {"noise_rate": assumed_rate(method, name, spec), "noise_file_sha256": _digest(spec)}
    values["network"] = values["network"] if network is None else network
    check_name("network", values["network"], NETWORKS)
    values |= network_defaults(values["network"], name, protocol)
    values |= {"backbone": backbone, "finetune": finetune or None}
    if settings.get("folds", values.get("folds")) in (None, "none"):
        values |= {"folds": None, "repeats": None}
        from_scratch = own is not None and not finetune
        values |= device_defaults(device, settings.get("network", values["network"]), own_images=from_scratch)
    options = method_options(method, name, protocol, spec, values["epochs"])
    initial = backbone if finetune else values["pretrained"]
    options |= options_for_weights(method, initial, folds=values.get("folds") is not None)
    return with_settings(RunConfig(**values, options=options), settings)


def with_settings(config: RunConfig, settings: Mapping[str, Any]) -> RunConfig:
    """Return the configuration with some fields of the run or of its method replaced."""
    values: dict[str, Any] = {}
    new_options: dict[str, Any] = {}
    for key, value in settings.items():
        hints = _hints_with(key, config.method)
        (values if hints is RUN_HINTS else new_options)[key] = read(key, value, hints[key])
    if values.get("crop") is not None and config.data is not None:
        values = {"crop_padding": 0} | values  # a crop out of image files replaces the one out of images in memory
    if "network" in values:
        check_name("network", values["network"], NETWORKS)
        values = network_defaults(values["network"], config.dataset, config.protocol) | values
    options = dict(config.options)
    if "pretrained" in values and options_for_weights(config.method, config.pretrained).items() <= options.items():
        options |= options_for_weights(config.method, values["pretrained"])
    options |= new_options
    changed = dataclasses.replace(config, **values, options=options)
    check(changed)
    return changed


def _hints_with(key: str, method: str) -> dict[str, Any]:
    """Return the types of the run's fields or of the method's options, whichever has this setting."""
    options = method_hints(method)
    if key in ARGUMENTS:
        option = "as DATA" if key == "dataset" else f"with --{key}"
        raise ValueError(f"{key!r} is not for --set: give it {option}.")
    if key in RUN_HINTS and key not in NOT_SETTABLE:
        return RUN_HINTS
    if key in options:
        return options
    known = sorted((RUN_HINTS.keys() - NOT_SETTABLE) | options.keys())
    if key == "lr":
        raise ValueError("'lr' is not a setting: use learning_rate, or --lr.")
    names = " or ".join(similar(key, known, MAX_SUGGESTED))
    meant = f"; did you mean {names}?" if names else "."
    raise ValueError(f"{key!r} is not a setting of this run{meant} `tnlpad train --settings` lists all.")


@functools.cache
def method_hints(method: str) -> dict[str, Any]:
    """Return the type of each option; cached, because a plan has thousands of configurations."""
    return typing.get_type_hints(METHODS[method].config)


def settings_listing(config: RunConfig) -> list[tuple[str, str, str]]:
    """Return name, value in this run, and meaning of every setting: fields of the run, then options of its method."""
    options = METHODS[config.method].config
    comments = {**field_comments(RunConfig), **field_comments(options)}
    hints = {name: hint for name, hint in RUN_HINTS.items() if name not in NOT_SETTABLE} | method_hints(config.method)
    listing = []
    for name, hint in hints.items():
        value = config.options[name] if name in config.options else getattr(config, name)
        rule = RULES[name].text if name in RULES else allowed(hint)
        listing.append((name, as_text(value), f"{comments[name]} ({rule})" if comments[name] else rule))
    return listing


def departures(config: RunConfig) -> dict[str, Any]:
    """Return the settings in which a run differs from the recipe for its dataset, noise, method and network."""
    recipe = configure(
        config.data or config.dataset,
        noise=config.noise,
        protocol=config.protocol,
        method=config.method,
        network=config.network,
        seed=config.seed,
        backbone=config.backbone,
        finetune=bool(config.finetune),
    )
    if config.compiled:  # a run on a GPU, where the layout needs no setting
        recipe = dataclasses.replace(recipe, channels_last=None)
    expected, actual = (_flat(each._plain()) for each in (recipe, config))
    return {name: value for name, value in actual.items() if value != expected[name]}


def _flat(plain: dict[str, Any]) -> dict[str, Any]:
    """Merge the options into the fields: no option has the name of a field."""
    options: dict[str, Any] = plain.pop("options")
    return plain | options


def command(config: RunConfig) -> str:
    """Return the shortest command that makes this run, on a CPU unless it is compiled."""
    # The path of user data is not part of a run: DATA stands for it.
    words = ["tnlpad", "train", config.dataset if config.data is None else "DATA"]
    words += ["--noise", config.noise, "--method", config.method]
    words += _backbone_words(config.backbone) if config.backbone is not None else []
    words += ["--finetune"] if config.finetune else []
    words += ["--text", "COLUMN"] if config.data is not None and config.data.kind == "text" else []
    usual = dataset_defaults(config.data or config.dataset, config.backbone, bool(config.finetune))["network"]
    words += ["--network", config.network] if config.network != usual else []
    words += ["--protocol", config.protocol] if config.protocol != "paper" else []
    words += ["--seed", str(config.seed)]
    # A compiled run belongs on a GPU, whose default precision may be another.
    precision = {"precision": config.precision} if config.compiled else {}
    for name, value in (precision | departures(config)).items():
        words += ["--set", f"{name}={as_text(value)}"]
    return shlex.join(words)


def _backbone_words(identity: str) -> list[str]:
    name = identity.rpartition("-")[0]
    return ["--backbone", name, *(["--weights", "FILE"] if name in NETWORKS else [])]


def from_json(plain: Mapping[str, Any]) -> RunConfig:
    """Read what `to_json` wrote; edited files are checked as strictly as a command line."""
    if wrong := (RUN_HINTS.keys() ^ plain.keys()) - {*OPTIONAL}:
        raise ValueError(f"Not the configuration of a run: {', '.join(sorted(wrong))} is missing or unknown.")
    plain = dict.fromkeys(OPTIONAL) | dict(plain)
    values = {key: read(key, plain[key], hint) for key, hint in RUN_HINTS.items() if key not in ("options", "data")}
    values["data"] = own = shape_from_json(plain.get("data"))
    values["dataset"] = find(values["dataset"]).name if own is None else own.name
    values["noise"] = str(parse_noise(values["noise"]))
    check_name("method", values["method"], METHODS)
    hints, options = method_hints(values["method"]), plain["options"]
    if isinstance(options, Mapping):
        options = {**LATER_OPTIONS.get(values["method"], {}), **options}
    if not isinstance(options, Mapping) or hints.keys() != options.keys():
        raise ValueError(f"options={options!r}: {values['method']} has {', '.join(hints) or 'none'}.")
    config = RunConfig(**values, options={key: read(key, options[key], hint) for key, hint in hints.items()})
    check(config)
    return config


def shape_from_json(plain: Any) -> DataShape | None:
    """Read the shape of user data; None for a dataset of the catalogue."""
    if plain is None:
        return None
    if not isinstance(plain, Mapping) or plain.keys() != DATA_HINTS.keys():
        raise ValueError(f"data={plain!r}: the shape of user data has {', '.join(DATA_HINTS)}.")
    return DataShape(**{key: read(key, plain[key], hint) for key, hint in DATA_HINTS.items()})


def check_noise_file(config: RunConfig) -> None:
    """Raise NoiseDataError if the file of the noise has changed since the run was configured."""
    if config.noise_file_sha256 != _digest(parse_noise(config.noise)):
        raise NoiseDataError(
            f"{config.noise} has changed since this run was configured. Restore it, or start a new run."
        )


def _digest(spec: NoiseSpec) -> str | None:
    if spec.file is None:
        return None
    try:
        return hashlib.sha256(spec.file.read_bytes()).hexdigest()
    except OSError as error:
        raise NoiseDataError(f"{spec.file} cannot be read ({error.strerror or error}). Check its name.") from error
