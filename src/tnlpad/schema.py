"""Check plain data, as JSON files hold them, against the types that their readers rely on.

A schema names the fields that are used and their types. Fields that it does not name are ignored and optional ones may
be missing, so that records of other versions stay readable.
"""

import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

MAX_SHOWN = 60
LIMITS: dict[type, float] = {int: 2**63, float: 1e300}  # of numbers that arrays can hold; NaN is below none
WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


@dataclass(frozen=True)
class Optional:
    """The type of a field that may be missing."""

    kind: Any


Schema = Mapping[str, Any]  # by field: a type, an `Optional`, or the schema of an object


def problem(value: Any, schema: Schema, where: str = "") -> str | None:
    """Describe the first field that is missing or of another type; None if all is well."""
    if not isinstance(value, dict):
        return f"{where.rstrip('.') or 'the content'} is not a JSON object"
    for name, wanted in schema.items():
        kind = wanted.kind if isinstance(wanted, Optional) else wanted
        if name not in value:
            if kind is wanted:
                return f"{where}{name} is missing"
        elif isinstance(kind, Mapping):
            if found := problem(value[name], kind, f"{where}{name}."):
                return found
        elif not fits(value[name], kind):
            return f"{where}{name} is {shown(value[name])}, not {described(kind)}"
    return None


def fits(value: Any, kind: Any) -> bool:
    """Return whether a value of JSON has a type: a class, a union, a Literal, or a list or dict of types."""
    if isinstance(kind, types.UnionType):
        return any(fits(value, each) for each in get_args(kind))
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return isinstance(value, str) and value in parts
    if origin is list:
        return isinstance(value, list) and all(fits(each, parts[0]) for each in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(each, parts[1]) for each in value.values())
    if kind in (int, float):
        return isinstance(value, int | kind) and not isinstance(value, bool) and abs(value) < LIMITS[kind]
    return isinstance(value, kind) and (kind is not str or _is_unicode(value))


def _is_unicode(text: str) -> bool:
    """Return whether a text can be written: JSON can have halves of surrogate pairs."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def shown(value: Any) -> str:
    """Return a value for a message, shortened."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def described(kind: Any) -> str:
    """Return words for a type."""
    if isinstance(kind, types.UnionType):
        return " or ".join(described(each) for each in get_args(kind))
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(parts)
    if origin in (list, dict):
        return f"a list of which each is {described(parts[0])}" if origin is list else "an object of such values"
    return "null" if kind is types.NoneType else WORDS.get(kind, str(kind))
