"""Read the configuration of a finished run, which another version may have written."""

from collections.abc import Mapping
from typing import Any

from tnlpad.methods import METHODS
from tnlpad.noise.spec import parse_noise
from tnlpad.records.summaries import NAMES
from tnlpad.runs.config import (
    DATA_HINTS,
    LATER_OPTIONS,
    OPTIONAL,
    RUN_HINTS,
    RunConfig,
    configure,
    from_json,
    method_hints,
    shape_from_json,
)
from tnlpad.runs.settings import check_name
from tnlpad.schema import Optional, Schema, problem

RECORDED: Schema = {**NAMES, "options": dict, "data": Optional(dict | None)}


def from_record(plain: Mapping[str, Any]) -> RunConfig:
    """Read the configuration of a finished run.

    Fields and options that this version does not have are ignored. Those that are missing get the values of the recipe.

    Raises:
        ValueError: A field has a wrong value, or one that names the data, the method or the network is missing.
    """
    if found := problem(plain, RECORDED):
        raise ValueError(found)
    method = plain["method"]
    check_name("method", method, METHODS)
    known = _in(RUN_HINTS, plain)
    known["options"] = LATER_OPTIONS.get(method, {}) | _in(method_hints(method), plain["options"])
    if known.get("data") is not None:
        known["data"] = _in(DATA_HINTS, known["data"])
    lacking = RUN_HINTS.keys() - known.keys() - {*OPTIONAL} or method_hints(method).keys() - known["options"]
    if not lacking:
        return from_json(known)
    recipe = _recipe(known).to_json()
    return from_json(recipe | known | {"options": recipe["options"] | known["options"]})


def _in(names: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plain.items() if name in names}


def _recipe(known: Mapping[str, Any]) -> RunConfig:
    """Return the recipe for the data, method and network of a run. A file of noise may be gone, and is not read."""
    named = {name: known[name] for name in ("protocol", "method", "network", "seed", "backbone") if name in known}
    noise = known["noise"] if parse_noise(known["noise"]).file is None else "none"
    data = shape_from_json(known.get("data")) or known["dataset"]
    return configure(data, noise=noise, finetune=bool(known.get("finetune")), **named)
