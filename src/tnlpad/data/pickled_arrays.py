"""What the names in a published pickle stand for: NumPy's arrays, dtypes and scalars, and latin-1 text as bytes.

Nothing is imported or called. NumPy writes an array as an empty one and a later state, so there are unfinished ones in
between; no array is larger than the bytes given for it.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_DIMENSIONS = 8


class Refused(Exception):
    """The pickle asks for something that data of this kind never need."""


@dataclass(frozen=True)
class Name:
    """A name that the pickle wants imported."""

    name: str


@dataclass
class UnfinishedDType:
    """A dtype under construction: NumPy writes its kind first and its byte order as a later state."""

    code: str
    order: str = "="

    def build(self, state: object) -> None:
        """Take the byte order."""
        if not (isinstance(state, tuple) and len(state) >= 2 and state[1] in ("<", ">", "|", "=")):
            raise Refused("a dtype that is not a plain number")
        self.order = state[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """What it is by now."""
        return np.dtype(self.order + self.code)


@dataclass
class UnfinishedArray:
    """An array under construction: NumPy writes an empty one first and its content as a later state."""

    value: NDArray[Any] | None = None

    def build(self, state: object) -> None:
        """Take shape and content."""
        if not (isinstance(state, tuple) and len(state) == 5 and isinstance(state[2], UnfinishedDType)):
            raise Refused("an array whose state is not that of NumPy")
        _, shape, kind, fortran, content = state
        if isinstance(content, str):  # text of Python 2 is bytes
            content = content.encode("latin-1")
        if not isinstance(content, bytes):
            raise Refused("an array of objects")
        if not (isinstance(shape, tuple) and len(shape) <= MOST_DIMENSIONS):
            raise Refused("an array without a proper shape")
        if not all(type(length) is int and length >= 0 for length in shape):
            raise Refused("an array without a proper shape")
        if math.prod(shape) * kind.dtype.itemsize != len(content):
            raise Refused("an array whose shape does not fit its content")
        flat = np.frombuffer(content, kind.dtype)
        self.value = flat.reshape(shape, order="F" if fortran else "C").copy()


UNFINISHED = (Name, UnfinishedDType, UnfinishedArray)


def _bytes(*arguments: object) -> bytes:
    if arguments:
        raise Refused("bytes made of something else")
    return b""


def _encode(text: object, encoding: object) -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise Refused("text in another encoding than latin-1")
    return text.encode("latin-1")


def _dtype(code: object, *_: object) -> UnfinishedDType:
    if not isinstance(code, str) or not re.fullmatch(r"[iu][1248]|f[48]|b1", code):
        raise Refused("an array of other things than numbers")
    return UnfinishedDType(code)


def _scalar(kind: object, content: object) -> object:
    if isinstance(content, str):
        content = content.encode("latin-1")
    if not (isinstance(kind, UnfinishedDType) and isinstance(content, bytes) and len(content) == kind.dtype.itemsize):
        raise Refused("a number without its bytes")
    return np.frombuffer(content, kind.dtype)[0].item()


def _reconstruct(*_: object) -> UnfinishedArray:
    return UnfinishedArray()


# The names that may be "called", and what happens instead. numpy.core became numpy._core in NumPy 2.
CALLS: dict[str, Callable[..., object]] = {
    "_codecs encode": _encode,
    "__builtin__ bytes": _bytes,  # how Python 3 writes no bytes at all for readers of Python 2
    "numpy dtype": _dtype,
    "numpy.core.multiarray _reconstruct": _reconstruct,
    "numpy._core.multiarray _reconstruct": _reconstruct,
    "numpy.core.multiarray scalar": _scalar,
    "numpy._core.multiarray scalar": _scalar,
}
NAMES = {*CALLS, "numpy ndarray"}


def finished(value: Any) -> Any:
    """The value with its arrays, at the top level or as values of a dict there; an array without content is refused."""
    if isinstance(value, dict):
        return {key: _finished_array(each) for key, each in value.items()}
    return _finished_array(value)


def _finished_array(value: Any) -> Any:
    if not isinstance(value, UNFINISHED):
        return value
    if not isinstance(value, UnfinishedArray) or value.value is None:
        raise Refused("something that is no data")
    return value.value
