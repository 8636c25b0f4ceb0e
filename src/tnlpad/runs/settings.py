"""Settings by name: text from a command line becomes the value of a typed field, and back."""

import inspect
import math
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from tnlpad import suggestions


def check_name(what: str, name: str, known: Iterable[str]) -> None:
    """Raise ValueError for an unknown name."""
    if name not in (every := list(known)):
        raise ValueError(f"{what}={name!r} is unknown{nearest(name, every)} There are: {', '.join(every)}.")


def nearest(word: str, known: list[str]) -> str:
    """Return the end of a sentence about an unknown word, with the known word that is most similar to it."""
    meant = suggestions.nearest(word, known)
    return f"; did you mean {meant}?" if meant else "."


def read(key: str, value: Any, hint: Any) -> Any:
    """Convert text to the type of a field; other values must already have that type."""
    choices = list(hint.__args__) if isinstance(hint, types.UnionType) else [hint]
    for choice in sorted(choices, key=lambda choice: choice is not type(None)):  # before str, which takes "none" too
        try:
            return _read_one(value, choice)
        except (ValueError, TypeError, OverflowError):
            continue
    raise ValueError(f"{key}={value!r}: must be {allowed(hint)}.")


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


def _one_of(value: Any, known: Mapping[Any, Any]) -> Any:
    if value not in known:
        raise ValueError
    return known[value]


def _number(value: Any, kind: type[int] | type[float]) -> int | float:
    if isinstance(value, bool):
        raise TypeError
    number = kind(value)
    if not math.isfinite(number) or (isinstance(value, float) and number != value):  # such as 2.5 for an int
        raise ValueError
    return number


def allowed(hint: Any) -> str:
    """Describe the values of a type, such as "a whole number or none"."""
    if isinstance(hint, types.UnionType):
        return " or ".join(map(allowed, hint.__args__))
    if typing.get_origin(hint) is Literal:
        return " or ".join(typing.get_args(hint))
    kinds = {int: "a whole number", float: "a number", bool: "true or false", type(None): "none"}
    return kinds.get(hint, "whole numbers separated by commas" if typing.get_origin(hint) is tuple else "text")


def as_text(value: Any) -> str:
    """Write a value so that `read` reads it."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def field_comments(config: type[Any]) -> Mapping[str, str]:
    """Return the comment behind each field of a dataclass, inherited fields included."""
    comments: dict[str, str] = {}
    for each in reversed(config.__mro__[:-1]):
        for line in inspect.getsource(each).splitlines():
            code, _, comment = line.strip().partition("  # ")
            name = code.partition(":")[0]
            if name in inspect.get_annotations(each):
                comments[name] = comment
    return comments
