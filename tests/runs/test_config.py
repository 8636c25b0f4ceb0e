import dataclasses
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.methods.problems import blobs, build, setup_for
from tests.runs.test_recipes import shape
from tnlpad.cli.options import read_settings
from tnlpad.data.catalogue import CATALOGUE
from tnlpad.data.own import DataShape
from tnlpad.errors import NoiseDataError
from tnlpad.methods import METHODS
from tnlpad.runs.config import RunConfig, check_noise_file, command, configure, departures, from_json, with_settings
from tnlpad.runs.devices import device_named, unused_gpu
from tnlpad.runs.recipes import DATASET_DEFAULTS, NEEDS_NOISE_RATE
from tnlpad.runs.rules import RULES

TEXTS = DataShape(
    fingerprint="0" * 64, kind="text", samples=99, validation=0, test=0, classes=2, channels=1, height=1, width=1
)
# For every rule the values next to its edge: the last that is allowed, and the first that is not.
EDGES = [
    ("cifar10", "epochs", 1, 0),
    ("cifar10", "batch_size", 1, 0),
    ("food101", "batches_per_epoch", 1, 0),
    ("cifar10", "learning_rate", 1e-9, 0.0),
    ("cifar10", "milestones", (1, 2), (2, 2)),
    ("cifar10", "milestones", (), (0,)),
    ("cifar10", "decay", 1.0, 1.01),
    ("cifar10", "decay", 0.01, 0.0),
    ("cifar10", "momentum", 0.0, -0.01),
    ("cifar10", "momentum", 0.99, 1.0),
    ("cifar10", "weight_decay", 0.0, -1e-9),
    ("cifar10", "validation_fraction", 0.01, 0.0),
    ("cifar10", "validation_fraction", 0.99, 1.0),
    ("food101", "subset", 1, 0),
    ("food101", "resize", 112, 0),
    ("food101", "crop", 1, 0),
    ("cifar10", "crop_padding", 0, -1),
    ("cifar10", "cutout", 0, -1),
    ("cifar10", "stem_padding", 0, -1),
    ("clothing1m", "pretrained", "mine-12345678.pt", "mine-1234567.pt"),
    ("clothing1m", "pretrained", f"mine-{'0' * 64}.pt", f"mine-{'0' * 65}.pt"),
    ("cifar10", "noise_rate", 0.0, -0.01),
    ("cifar10", "noise_rate", 0.99, 1.0),
    ("cifar10", "patience", 1, 0),
    (TEXTS, "folds", 2, 1),
    (TEXTS, "repeats", 1, 0),
]


def test_every_rule_has_an_edge():
    assert {name for _, name, *_ in EDGES} | {"seed"} == RULES.keys()


@pytest.mark.parametrize(("dataset", "name", "allowed", "refused"), EDGES)
def test_edges(dataset, name, allowed, refused):
    assert getattr(configure(dataset, settings={name: allowed}), name) == allowed
    with pytest.raises(ValueError, match=f"{name}={re.escape(repr(refused))}: must be {re.escape(RULES[name][0])}"):
        configure(dataset, settings={name: refused})


def test_seeds_count_from_zero():
    assert configure("digits", seed=0).seed == 0
    with pytest.raises(ValueError, match="seed=-1: must be a whole number >= 0"):
        configure("digits", seed=-1)


# Images of the catalogue


def test_images_in_files_may_be_cropped_to_all_that_there_is():
    assert configure("food101", settings={"crop": 128}).crop == 128


def test_clean_validation_where_it_was_published():
    assert configure("clothing1m", settings={"validation": "clean"}).validation == "clean"


def test_noise_of_images_in_memory_may_depend_on_them():
    assert configure("digits", noise="instance:0.4").noise == "instance:0.4"


# A person's own data

FILES, IMAGES = shape(), shape(kind="images", height=16, width=16)
FEATURES = shape(kind="features", channels=30, height=1, width=1)
STREAMED = {"resize": 20, "crop": 16}


@pytest.mark.parametrize(
    ("own", "settings", "name"),
    [
        *((IMAGES, {name: 4}, name) for name in ("resize", "crop", "batches_per_epoch", "subset")),
        *((FILES, {name: 4}, name) for name in ("batches_per_epoch", "subset")),
        *((FILES, {**STREAMED, name: 4}, name) for name in ("crop_padding", "cutout", "subset")),
        *((FEATURES, {name: 4}, name) for name in ("resize", "crop", "crop_padding", "cutout", "stem_padding")),
        *((FEATURES, {name: 4}, name) for name in ("batches_per_epoch", "subset")),
        (FEATURES, {"flip": True}, "flip"),
    ],
)
def test_what_would_do_nothing_is_refused(own, settings, name):
    with pytest.raises(ValueError, match=f"{name}={settings[name]}: has no effect"):
        configure(own, settings=settings)


@pytest.mark.parametrize(
    ("own", "settings"),
    [
        (IMAGES, {"crop_padding": 2, "flip": True, "cutout": 4}),
        (FILES, {"crop_padding": 2, "flip": True, "cutout": 4, "resize": 20}),
        (FILES, {**STREAMED, "batches_per_epoch": 3, "flip": True}),
        (FILES, {"resize": 20, "crop": 20}),
    ],
)
def test_what_does_something_is_taken(own, settings):
    config = configure(own, settings=settings)
    assert {name: getattr(config, name) for name in settings} == settings


@pytest.mark.parametrize(
    ("own", "settings", "possible"),
    [(IMAGES, {}, True), (FILES, {}, True), (FILES, STREAMED, False), (FEATURES, {}, False)],
    ids=["images", "files", "streamed files", "features"],
)
def test_noise_that_depends_on_images_needs_them_in_memory(own, settings, possible):
    if possible:
        assert configure(own, noise="instance:0.4", settings=settings).noise == "instance:0.4"
    else:
        with pytest.raises(ValueError, match=r"'instance:0.4'.*in memory"):
            configure(own, noise="instance:0.4", settings=settings)


# Written out from the paper's "Datasets and Implementation Details".
PAPER = {
    #                 network     batch  decays at  c2   crop  flip
    "mnist": ("lenet", 32, (10, 20), 2.0, 0, False),
    "fashion_mnist": ("resnet18", 32, (10, 20), 1.5, 0, False),
    "cifar10": ("resnet18", 64, (40, 80), 0.6, 4, True),
    "cifar100": ("resnet50", 64, (40, 80), 0.2, 4, True),
    "cifar10n": ("resnet18", 64, (40, 80), 0.8, 4, True),
}


@pytest.mark.parametrize("dataset", PAPER)
def test_the_papers_defaults(dataset):
    config = configure(dataset, noise="symmetric:0.4")
    network, batch_size, milestones, c2, crop_padding, flip = PAPER[dataset]
    expected = {
        "network": network,
        "batch_size": batch_size,
        "milestones": milestones,
        "crop_padding": crop_padding,
        "flip": flip,
        "epochs": 100,
        "learning_rate": 0.01,
        "decay": 0.1,
        "decay_takes_effect": "in",
        "momentum": 0.9,
        "weight_decay": 1e-3,
        "validation_fraction": 0.1,
        "patience": None,
        "noise_rate": 0.4,
        "precision": "float32",
        "method": "tnlpad",
        "seed": 1,
    }
    assert {name: getattr(config, name) for name in expected} == expected
    assert (config.options["c1"], config.options["c2"]) == (1e-4, c2)


def test_the_authors_code_where_it_differs():
    paper, authors = (configure("cifar10", protocol=protocol) for protocol in ("paper", "authors"))
    assert (paper.stem_padding, authors.stem_padding) == (1, 0)
    assert configure("mnist", protocol="authors").stem_padding is None


def test_the_stem_goes_with_the_network():
    assert configure("mnist", network="resnet18").stem_padding == 1
    assert configure("mnist", settings={"network": "resnet18"}, protocol="authors").stem_padding == 0
    assert configure("cifar10", network="wide_resnet28_2").stem_padding is None
    assert configure("cifar10", settings={"network": "lenet"}).stem_padding is None
    assert configure("cifar10", settings={"stem_padding": "0"}).stem_padding == 0
    assert configure("mnist", settings={"network": "resnet18", "stem_padding": "0"}).stem_padding == 0


@pytest.mark.parametrize(
    ("method", "dataset", "noise", "expected"),
    [
        ("coteaching_plus", "mnist", "symmetric:0.2", {"init_epoch": 0}),
        ("coteaching_plus", "fashion_mnist", "symmetric:0.2", {"init_epoch": 5}),
        ("coteaching_plus", "cifar10", "symmetric:0.2", {"init_epoch": 20}),
        ("coteaching_plus", "cifar100", "symmetric:0.2", {"init_epoch": 5}),
        ("jocor", "cifar10", "symmetric:0.8", {"co_lambda": 0.3}),
        ("jocor", "cifar100", "symmetric:0.8", {"co_lambda": 0.3}),
        ("adacorr", "cifar10", "symmetric:0.4", {"start_epoch": 25, "update_epoch": 30}),
        ("adacorr", "cifar10", "asymmetric:0.4", {"start_epoch": 20, "update_epoch": 25}),
        ("adacorr", "cifar100", "symmetric:0.8", {"start_epoch": 30, "update_epoch": 35}),
        ("jocor", "fashion_mnist", "symmetric:0.8", {"co_lambda": 0.3}),
        ("adacorr", "cifar10", "symmetric:0.8", {"start_epoch": 20, "update_epoch": 25}),
        ("adacorr", "cifar100", "asymmetric:0.4", {"start_epoch": 25, "update_epoch": 30}),
        ("adacorr", "mnist", "symmetric:0.8", {"start_epoch": 5, "update_epoch": 10}),
        ("adacorr", "mnist", "symmetric:0.4", {"start_epoch": 10, "update_epoch": 15}),
        ("adacorr", "mnist", "asymmetric:0.4", {"start_epoch": 5, "update_epoch": 10}),
        ("sigua", "mnist", "pairflip:0.4", {"sigua_scale": 0.001, "sigua_rate": 0.7}),
        ("sigua", "cifar10", "pairflip:0.4", {"sigua_scale": 0.01, "sigua_rate": None}),
        ("sigua", "mnist", "symmetric:0.4", {"sigua_scale": 0.01, "sigua_rate": None}),
        ("dividemix+tnlpad", "cifar100", "symmetric:0.4", {"c2": 0.2}),
    ],
)
def test_each_methods_own_defaults(method, dataset, noise, expected):
    options = configure(dataset, method=method, noise=noise).options
    assert {name: options[name] for name in expected} == expected


def test_the_rate_that_methods_may_assume():
    assert configure("cifar10", noise="symmetric:0.4", method="jocor").noise_rate == 0.4
    assert configure("cifar10n", noise="human:worse").noise_rate == 0.4021
    assert [configure("cifar10n", noise=f"human:random{number}").noise_rate for number in (1, 2, 3)] == [
        0.1723,
        0.1812,
        0.1764,
    ]
    assert configure("cifar10n", noise="human:aggre", method="coteaching").noise_rate == 0.0901
    assert configure("cifar100n", noise="human:noisy", method="cdr").noise_rate == 0.4020
    # Part of a run's id, and recorded beyond the paper's runs only where it is used.
    assert configure("cifar10n", noise="human:aggre").noise_rate is None
    assert configure("cifar100n", noise="human:noisy", method="standard").noise_rate is None
    assert configure("cifar10n", noise="human:worse", settings={"noise_rate": "0.4"}).noise_rate == 0.4


def test_every_dataset_with_every_method():
    for dataset in DATASET_DEFAULTS:
        for method in METHODS:
            assert configure(dataset, noise="symmetric:0.4", method=method).method == method
    assert len(DATASET_DEFAULTS) * len(METHODS) >= 77


# The name of a run


def test_the_name_does_not_change_between_versions():
    """Runs are found by their names: change this only when the numbers of a run change."""
    config = configure("cifar10", noise="symmetric:0.4", seed=3)
    assert config.run_id == "cifar10_symmetric-0.4_tnlpad_resnet18_seed3_a929520c7e"


def test_every_field_counts():
    config = configure("digits", noise="symmetric:0.4")
    other = {int: 7, float: 0.123, str: "lenet", bool: True, tuple: (1, 2)}
    names, changed = {config.run_id}, 0
    for field in dataclasses.fields(RunConfig):
        value = getattr(config, field.name)
        if field.name in ("noise", "options"):
            continue
        changed += 1
        names.add(dataclasses.replace(config, **{field.name: other.get(type(value), 5)}).run_id)
    for name in config.options:
        changed += 1
        names.add(dataclasses.replace(config, options={**config.options, name: "another"}).run_id)
    assert changed > 30
    assert len(names) == changed + 1


def test_the_order_of_settings_does_not_matter():
    settings = {"epochs": "3", "c2": "0.5", "flip": "true", "milestones": "1,2"}
    backwards = dict(reversed(settings.items()))
    a, b = (configure("digits", settings=each) for each in (settings, backwards))
    assert a == b
    assert a.run_id == b.run_id
    assert json.dumps(a.to_json()) == json.dumps(b.to_json())


def test_the_same_value_written_otherwise_is_the_same_run():
    texts = ({"learning_rate": "0.010"}, {"learning_rate": "1e-2"}, {"learning_rate": 0.01}, {})
    assert len({configure("cifar10", settings=each).run_id for each in texts}) == 1
    assert configure("digits", settings={"c2": 1}).run_id == configure("digits", settings={"c2": "1.0"}).run_id
    assert configure("digits", noise="symmetric:0.40").run_id == configure("digits", noise="symmetric:0.4").run_id


# Settings by name


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("epochs", "20", 20),
        ("learning_rate", "1e-3", 1e-3),
        ("weight_decay", "0", 0.0),
        ("milestones", "5,9", (5, 9)),
        ("milestones", "", ()),
        ("milestones", [5, 9], (5, 9)),
        ("flip", "true", True),
        ("flip", "False", False),
        ("patience", "7", 7),
        ("patience", "none", None),
        ("noise_rate", "0.25", 0.25),
        ("noise_rate", "none", None),
        ("network", "lenet", "lenet"),
        ("decay_takes_effect", "after", "after"),
        ("precision", "bfloat16", "bfloat16"),
        ("c2", "0.5", 0.5),
        ("gamma_constraint", "false", False),
        ("gamma_family", "linear", "linear"),
    ],
)
def test_every_type_of_setting(name, text, value):
    config = configure("mnist", settings={name: text})
    found = config.options[name] if name in config.options else getattr(config, name)
    assert found == value
    assert type(found) is type(value)


def test_a_number_or_none_of_a_method():
    assert configure("mnist", noise="symmetric:0.4", method="sigua").options["sigua_rate"] is None
    config = configure("mnist", noise="symmetric:0.4", method="sigua", settings={"sigua_rate": "0.5"})
    assert config.options["sigua_rate"] == 0.5


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("epochs", "many", "must be a whole number"),
        ("epochs", "2.5", "must be a whole number"),
        ("epochs", 2.5, "must be a whole number"),
        ("epochs", True, "must be a whole number"),
        ("learning_rate", "nan", "must be a number"),
        ("learning_rate", "inf", "must be a number"),
        ("milestones", "9,5", "ascending"),
        ("milestones", "5,x", "whole numbers separated by commas"),
        ("milestones", [5.5], "whole numbers separated by commas"),
        ("flip", "maybe", "true or false"),
        ("patience", "soon", "a whole number or none"),
        ("precision", "float16", "float32 or bfloat16"),
        ("gamma_family", "cubic", "power or constant"),
        ("network", 3, "text"),
    ],
)
def test_wrong_values_name_the_rule(name, value, rule):
    with pytest.raises(ValueError, match=rf"{name}=.*{rule}"):
        configure("mnist", settings={name: value})


@pytest.mark.parametrize(
    ("call", "nearest"),
    [
        (lambda: configure("cifar01"), "cifar10"),
        (lambda: configure("mnist", method="tnlpat"), "tnlpad"),
        (lambda: configure("mnist", network="resnet81"), "resnet18"),
        (lambda: configure("mnist", protocol="authers"), "authors"),
        (lambda: configure("mnist", settings={"epoch": 3}), "epochs"),
        (lambda: configure("mnist", settings={"gamma_familly": "power"}), "gamma_family"),
        (lambda: configure("mnist", noise="symetric:0.4"), "symmetric:0.4"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(call, nearest):
    with pytest.raises(ValueError, match=rf"(?i)did you mean {nearest}\b"):
        call()


def test_a_setting_of_another_method_is_unknown():
    with pytest.raises(ValueError, match="'c2' is not a setting"):
        configure("mnist", method="standard", settings={"c2": 1})


@pytest.mark.parametrize(
    ("name", "way"), [("seed", "--seed"), ("method", "--method"), ("noise", "--noise"), ("dataset", "DATA")]
)
def test_what_has_a_word_of_its_own_is_not_set(name, way):
    with pytest.raises(ValueError, match=f"not for --set: give it .*{way}"):
        configure("mnist", settings={name: "1"})


@pytest.mark.parametrize("name", ["options", "noise_file_sha256", "data"])
def test_what_follows_from_other_words_is_not_set(name):
    with pytest.raises(ValueError, match=f"'{name}' is not a setting"):
        configure("mnist", settings={name: "1"})


def test_no_name_means_two_things():
    run = {field.name for field in dataclasses.fields(RunConfig)}
    for entry in METHODS.values():
        assert not run & {field.name for field in dataclasses.fields(entry.config)}


def test_every_dataset_of_the_catalogue_has_a_recipe():
    assert DATASET_DEFAULTS.keys() == CATALOGUE.keys()


# Images in files


def test_food101():
    config = configure("food101")
    expected = {
        "noise": "none",
        "network": "imagenet_resnet50",
        "pretrained": None,
        "batch_size": 32,
        "learning_rate": 0.001,
        "momentum": 0.9,
        "epochs": 100,
        "milestones": (40, 80),
        "weight_decay": 1e-3,
        "validation": "noisy",
        "validation_fraction": 0.1,
        "resize": 128,
        "crop": 112,
        "flip": True,
    }
    assert {name: getattr(config, name) for name in expected} == expected
    assert (config.options["c2"], config.options["init"]) == (0.8, "independent")


def test_clothing1m():
    config = configure("clothing1m")
    expected = {
        "network": "imagenet_resnet50",
        "pretrained": "resnet50-0676ba61.pth",
        "batch_size": 32,
        "learning_rate": 0.001,
        "epochs": 20,
        "milestones": (6,),
        "decay_takes_effect": "in",
        "weight_decay": 0.005,
        "validation": "noisy",
        "resize": 256,
        "crop": 224,
    }
    assert {name: getattr(config, name) for name in expected} == expected
    assert (config.options["c2"], config.options["init"]) == (0.8, "zero")


def test_weights_go_with_the_network_and_the_split_with_the_weights():
    """A random γ would drown what was learnt; without weights the paper's split is right."""
    for words, pretrained, init in [
        ({"network": "resnet18"}, None, "independent"),
        ({"settings": {"network": "resnet18"}}, None, "independent"),
        ({"settings": {"pretrained": "none"}}, None, "independent"),
        ({"settings": {"pretrained": "mine-12345678.safetensors"}}, "mine-12345678.safetensors", "zero"),
        ({"settings": {"pretrained": "none", "init": "random_split"}}, None, "random_split"),
        ({"settings": {"init": "random_split"}}, "resnet50-0676ba61.pth", "random_split"),
    ]:
        config = configure("clothing1m", **words)
        assert (config.pretrained, config.options["init"]) == (pretrained, init), words
    food = configure("food101", settings={"pretrained": "resnet50-0676ba61.pth"})
    assert food.options["init"] == "zero"
    assert with_settings(food, {"pretrained": "none"}) == configure("food101")
    chosen = with_settings(food, {"init": "random_split"})
    assert with_settings(chosen, {"pretrained": "none"}).options["init"] == "random_split"
    assert "init" not in configure("clothing1m", method="standard", settings={"pretrained": "none"}).options


@pytest.mark.parametrize(
    "name", ["resnet50.pth", "weights/resnet50-0676ba61.pth", "resnet50-0676ba61.exe", "-0676ba61.pth"]
)
def test_weights_are_named_by_their_content(name):
    with pytest.raises(ValueError, match=r"pretrained=.*such as resnet50-0676ba61\.pth"):
        configure("clothing1m", settings={"pretrained": name})


def test_what_methods_may_assume_of_labels_that_are_wrong_as_published():
    assert configure("clothing1m", method="coteaching").noise_rate == 0.385
    assert configure("food101", method="cdr").noise_rate == 0.2
    assert configure("food101", method="cdr", noise="symmetric:0.4").noise_rate == 0.4
    assert configure("food101", method="cdr", settings={"noise_rate": "0.1"}).noise_rate == 0.1


@pytest.mark.parametrize(
    ("dataset", "settings", "message"),
    [
        ("food101", {"crop_padding": 4}, "crop_padding=4: has no effect on streamed images"),
        ("food101", {"cutout": 8}, "cutout=8"),
        ("food101", {"crop": 200}, "resize=128, crop=200: .* must fit"),
        ("food101", {"resize": "none"}, "resize=None, crop=112: .* Give both"),
        ("food101", {"validation": "clean"}, "validation='clean': food101 has no clean"),
        ("cifar10", {"resize": 36}, "resize=36: has no effect on images in memory"),
        ("cifar10", {"crop": 28}, "crop=28"),
        ("cifar10", {"subset": 100}, "subset=100"),
        ("cifar10", {"batches_per_epoch": 100}, "batches_per_epoch=100"),
        ("cifar10", {"validation": "clean"}, "validation='clean'"),
    ],
)
def test_what_does_not_go_with_the_images(dataset, settings, message):
    with pytest.raises(ValueError, match=message):
        configure(dataset, settings=settings)
    with pytest.raises(ValueError, match=message):
        from_json({**configure(dataset).to_json(), **with_none(settings)})


def with_none(settings):
    return {name: None if value == "none" else value for name, value in settings.items()}


def test_noise_that_needs_all_images_at_once():
    with pytest.raises(ValueError, match=r"'instance:0.4'.*clothing1m has streamed images"):
        configure("clothing1m", noise="instance:0.4")


# From a file


def test_round_trip():
    for method in METHODS:
        config = configure("cifar10", noise="symmetric:0.4", method=method, settings={"epochs": 7})
        again = from_json(json.loads(json.dumps(config.to_json())))
        assert again == config
        assert again.run_id == config.run_id


def test_a_recorded_run_keeps_its_name():
    """Options that came later have the value without which it was run, and are part of its command."""
    records = sorted((Path(__file__).parents[2] / "results").glob("*.json"))
    assert records
    for file in records:
        config = from_json(json.loads(file.read_text())["summary"]["config"])
        assert config.run_id == file.stem
    plain = configure("cifar10", method="dividemix", settings={"steps": "all"})
    assert "steps" not in plain.to_json()["options"]
    assert from_json(plain.to_json()).options["steps"] == "all"
    assert departures(plain) == {"steps": "all"}
    assert command(plain).endswith("--set steps=all")


def test_a_cpu_keeps_the_channels_of_own_images_last():
    assert configure(shape()).channels_last
    without = [
        configure(shape(), device="cuda"),
        configure(shape(), network="lenet"),
        configure(shape(), backbone="resnet18-0123456789", finetune=True),
        configure("cifar10"),
    ]
    assert {config.channels_last for config in without} == {None}
    assert all("channels_last" not in config.to_json() for config in without)


def test_the_layout_is_part_of_the_run():
    last, first = configure(shape()), configure(shape(), settings={"channels_last": "none"})
    assert last.hash != first.hash
    assert [from_json(each.to_json()) for each in (last, first)] == [last, first]
    assert "channels_last" not in command(last)
    assert command(first).endswith("--set channels_last=none")
    assert "channels_last" not in command(configure(shape(), device="cuda"))
    with pytest.raises(ValueError, match="channels_last=True: has no effect"):
        configure(TEXTS, settings={"channels_last": True})


def test_a_file_is_read_as_strictly_as_a_command_line():
    plain = configure("digits", noise="symmetric:0.4").to_json()
    assert from_json({**plain, "noise": "symmetric:0.40"}).noise == "symmetric:0.4"
    for change, message in [
        ({"epochs": None}, "epochs=None"),
        ({"epochs": 0}, "at least 1"),
        ({"speed": 3}, "speed is missing or unknown"),
        ({"dataset": "digitz"}, "(?i)did you mean digits"),
        ({"method": "tnlpat"}, "did you mean tnlpad"),
        ({"network": "lenett"}, "did you mean lenet"),
        ({"options": {}}, "options="),
        ({"options": [1]}, r"options=\[1\]: tnlpad has c1, "),
        ({"data": 3}, "data=3"),
        ({"options": {**plain["options"], "c2": "strong"}}, "c2='strong'"),
        ({"noise": 4}, "noise=4"),
    ]:
        with pytest.raises(ValueError, match=message):
            from_json({**plain, **change})
    with pytest.raises(ValueError, match="epochs is missing"):
        from_json({key: value for key, value in plain.items() if key != "epochs"})


def test_settings_on_top():
    config = configure("digits", noise="symmetric:0.4")
    assert with_settings(config, {"epochs": "3", "c2": "2"}) == configure(
        "digits", noise="symmetric:0.4", settings={"epochs": "3", "c2": "2"}
    )
    assert with_settings(config, {}) == config


def test_a_file_of_noise_is_part_of_the_run_by_its_content(tmp_path):
    file = tmp_path / "matrix.npy"
    np.save(file, np.eye(10))
    config = configure("digits", noise=f"matrix:{file}")
    check_noise_file(config)
    np.save(file, np.full((10, 10), 0.1))
    assert configure("digits", noise=f"matrix:{file}").run_id != config.run_id
    with pytest.raises(NoiseDataError, match="has changed since"):
        check_noise_file(config)
    with pytest.raises(NoiseDataError, match="cannot be read"):
        configure("digits", noise=f"matrix:{tmp_path / 'none.npy'}")


def test_a_run_by_the_recipe_has_no_departures():
    words = {"noise": "pairflip:0.2", "network": "lenet", "seed": 7}
    runs = {(name, method): configure(name, method=method, **words) for name in DATASET_DEFAULTS for method in METHODS}
    assert {key: found for key, config in runs.items() if (found := departures(config))} == {}


def test_departures_are_the_settings_that_change_something():
    settings = {"c2": 0.9, "epochs": 100, "patience": 20, "milestones": "30,60", "flip": "false", "noise_rate": "none"}
    config = configure("cifar10", noise="symmetric:0.4", settings=settings)
    expected = {"c2": 0.9, "patience": 20, "milestones": [30, 60], "flip": False, "noise_rate": None}
    assert departures(config) == expected  # 100 epochs are the recipe's own


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ({}, {}),
        ({"network": "vgg19", "protocol": "authors"}, {"stem_padding": None}),
        ({"method": "standard", "seed": 12, "device": "cuda"}, {}),
        ({"network": "lenet", "device": "cuda"}, {}),
        ({"device": "cuda"}, {"precision": "float32"}),
        ({}, {"c2": 1e-7, "milestones": (), "flip": False, "noise_rate": None, "gamma_family": "step"}),
        ({"dataset": "clothing1m"}, {"pretrained": "none", "batches_per_epoch": 1000, "validation": "clean"}),
    ],
)
def test_the_command_makes_the_same_run(words, settings):
    config = configure(**{"dataset": "cifar10", "noise": "symmetric:0.4", **words}, settings=settings)
    first, verb, dataset, *options = shlex.split(command(config))
    assert (first, verb) == ("tnlpad", "train")
    said = list(zip(options[::2], options[1::2], strict=True))
    by_name = {name.removeprefix("--"): value for name, value in said if name != "--set"}
    by_name["seed"] = int(by_name["seed"])
    by_setting = read_settings(value for name, value in said if name == "--set")
    for device in ("cpu", "cuda") if config.compiled else ("cpu",):
        assert configure(dataset, settings=by_setting, device=device, **by_name).run_id == config.run_id


def test_a_name_with_spaces_is_quoted_in_the_command(tmp_path):
    np.save(tmp_path / "my matrix.npy", np.eye(10))
    config = configure("digits", noise=f"matrix:{tmp_path / 'my matrix.npy'}")
    assert config.noise in shlex.split(command(config))


def test_a_gpu_has_settings_of_its_own_and_they_name_the_run():
    plain, gpu = (configure("cifar10", device=device) for device in ("cpu", "cuda:0"))
    assert (plain.precision, plain.compiled) == ("float32", False)
    assert (gpu.precision, gpu.compiled) == ("bfloat16", True)
    assert plain.run_id != gpu.run_id
    chosen = configure("cifar10", device="cuda", settings={"precision": "float32", "compiled": False})
    assert chosen.run_id == plain.run_id


@pytest.mark.parametrize("words", [{}, {"dataset": "cifar10", "network": "lenet"}])
def test_lenet_is_too_small_for_bfloat16(words):
    config = configure(**{"dataset": "mnist", "device": "cuda", **words})
    assert (config.precision, config.compiled) == ("float32", True)
    by_setting = configure("cifar10", device="cuda", settings={"network": "lenet"})
    assert by_setting.precision == "float32"


@pytest.mark.parametrize("method", METHODS)
def test_methods_that_need_a_noise_rate_are_listed(method):
    try:
        build(method, setup_for(blobs(), noise_rate=None))
        needs_rate = False
    except ValueError:
        needs_rate = True
    assert needs_rate == (method in NEEDS_NOISE_RATE)


@pytest.mark.parametrize("method", METHODS)
def test_the_paper_runs_every_method_on_human_labels_too(method):
    """Methods that assume a noise rate have one, as counted by those who published the labels."""
    for name in ("random1", "random2", "random3", "worse", *(("aggre",) if method in NEEDS_NOISE_RATE else ())):
        rate = configure("cifar10n", noise=f"human:{name}", method=method).noise_rate
        assert rate is not None
        assert 0.09 < rate < 0.41


def test_a_gpu_that_is_not_used_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("tnlpad.runs.devices.NVIDIA_DRIVER", str(tmp_path / "driver"))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert unused_gpu("cpu") is None
    (tmp_path / "driver").touch()
    assert "cannot use" in unused_gpu("cpu")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert "--device cuda" in unused_gpu("cpu")
    assert unused_gpu("cuda:0") is None


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert device_named("cuda:1") == "cuda:1"
    with pytest.raises(ValueError, match=r"cuda:7.*cuda:0 to cuda:1"):
        device_named("cuda:7")


@pytest.mark.parametrize("name", ["meta", "fpga", "hpu", "gpu", ""])
def test_a_device_that_cannot_compute_is_refused(name):
    with pytest.raises(ValueError, match=f"device {name}: choose cpu, cuda or auto"):
        device_named(name)


@pytest.mark.parametrize("name", ["seed", "epochs", "batch_size", "milestones"])
def test_a_whole_number_that_readers_of_runs_refuse_is_refused(name):
    def changed(number):
        value = (number,) if name == "milestones" else number
        return configure("digits", seed=value) if name == "seed" else configure("digits", settings={name: value})

    assert changed(2**63 - 1)
    with pytest.raises(ValueError, match=rf"{name}=\(?9223372036854775808.*2\^63"):
        changed(2**63)
