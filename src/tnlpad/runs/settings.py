"""A command line's text as the value of a field, by the field's type; and the nearest name to one that is unknown."""

import math
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from tnlpad import suggestions as names


def check_name(what: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that is not known."""
    if name not in (every := list(known)):
        raise ValueError(f"{what}={name!r} is unknown{nearest(name, every)} There are: {', '.join(every)}.")


def nearest(word: str, known: list[str]) -> str:
    """The end of a sentence that names what was probably meant."""
    meant = names.nearest(word, known)
    return f"; did you mean {meant}?" if meant else "."


def read(key: str, value: Any, hint: Any) -> Any:
    """A command line's text as a field's type; other values are taken if they are of that type."""
    choices = list(hint.__args__) if isinstance(hint, types.UnionType) else [hint]
    for choice in sorted(choices, key=lambda choice: choice is not type(None)):  # "none" is a text as well
        try:
            return _read_one(value, choice)
        except (ValueError, TypeError, OverflowError):
            continue
    raise ValueError(f"{key}={value!r}: must be {' or '.join(map(_words, choices))}.")


def _read_one(value: Any, choice: Any) -> Any:
    if typing.get_origin(choice) is Literal:
        return _one_of(value, {text: text for text in typing.get_args(choice)})
    if typing.get_origin(choice) is tuple:
        parts = [part for part in value.split(",") if part.strip()] if isinstance(value, str) else value
        return tuple(_read_one(part, int) for part in parts)
    if choice is type(None):
        return _one_of(value, {None: None, "none": None})
    if choice is bool:
        known = {"true": True, "false": False, True: True, False: False}
        return _one_of(value.lower() if isinstance(value, str) else value, known)
    if choice is str and not isinstance(value, str):
        raise TypeError
    return value if choice is str else _number(value, choice)


def _number(value: Any, kind: type[int] | type[float]) -> int | float:
    if isinstance(value, bool):
        raise TypeError
    number = kind(value)
    if not math.isfinite(number) or (isinstance(value, float) and number != value):  # 2.5 is no whole number
        raise ValueError
    return number


def _one_of(value: Any, known: Mapping[Any, Any]) -> Any:
    if value not in known:
        raise ValueError
    return known[value]


def _words(choice: Any) -> str:
    if typing.get_origin(choice) is Literal:
        return " or ".join(typing.get_args(choice))
    kinds = {int: "a whole number", float: "a number", bool: "true or false", type(None): "none"}
    return kinds.get(choice, "whole numbers separated by commas" if typing.get_origin(choice) is tuple else "text")


def as_text(value: Any) -> str:
    """As `read` reads it."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
