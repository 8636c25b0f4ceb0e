"""Read the pickles in which CIFAR and CIFAR-N are published, without running them.

A pickle is a program for a small stack machine, and the standard one obeys it: it imports what the file names and calls
it. This is a machine of our own that knows plain values, lists, tuples and dicts, and a handful of names, none of which
it imports or calls: what they stand for (a NumPy array, its dtype, a scalar, latin-1 text turned back into bytes) is
put together here from the bytes in the file. Everything else is refused.

What a file can cost is bounded by its length: no array is larger than the bytes given for it, keys of dicts are text or
numbers (the hash of nested tuples takes exponential time), and the number of instructions is limited.
"""

import io
import math
import pickletools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.errors import DataError

MOST_INSTRUCTIONS = 1_000_000  # the largest published file, CIFAR-100's training batch, takes 250,000
MOST_DIMENSIONS = 8


class _Refused(Exception):
    """The pickle asks for something that data of this kind never need."""


@dataclass(frozen=True)
class _Name:
    """A name that the pickle wants imported."""

    name: str


@dataclass
class _DType:
    """A dtype under construction: NumPy writes its kind first and its byte order as a later state."""

    code: str
    order: str = "="

    def build(self, state: object) -> None:
        if not (isinstance(state, tuple) and len(state) >= 2 and state[1] in ("<", ">", "|", "=")):
            raise _Refused("a dtype that is not a plain number")
        self.order = state[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.code)


@dataclass
class _Array:
    """An array under construction: NumPy writes an empty one first and its content as a later state."""

    value: NDArray[Any] | None = None

    def build(self, state: object) -> None:
        if not (isinstance(state, tuple) and len(state) == 5 and isinstance(state[2], _DType)):
            raise _Refused("an array whose state is not that of NumPy")
        _, shape, kind, fortran, content = state
        if isinstance(content, str):  # text of Python 2 is bytes
            content = content.encode("latin-1")
        if not isinstance(content, bytes):
            raise _Refused("an array of objects")
        if not (isinstance(shape, tuple) and len(shape) <= MOST_DIMENSIONS):
            raise _Refused("an array without a proper shape")
        if not all(type(length) is int and length >= 0 for length in shape):
            raise _Refused("an array without a proper shape")
        if math.prod(shape) * kind.dtype.itemsize != len(content):
            raise _Refused("an array whose shape does not fit its content")
        flat = np.frombuffer(content, kind.dtype)
        self.value = flat.reshape(shape, order="F" if fortran else "C").copy()


_UNFINISHED = (_Name, _DType, _Array)


def _bytes(*arguments: object) -> bytes:
    if arguments:
        raise _Refused("bytes made of something else")
    return b""


def _encode(text: object, encoding: object) -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise _Refused("text in another encoding than latin-1")
    return text.encode("latin-1")


def _dtype(code: object, *_: object) -> _DType:
    if not isinstance(code, str) or not re.fullmatch(r"[iu][1248]|f[48]|b1", code):
        raise _Refused("an array of other things than numbers")
    return _DType(code)


def _scalar(kind: object, content: object) -> object:
    if isinstance(content, str):
        content = content.encode("latin-1")
    if not (isinstance(kind, _DType) and isinstance(content, bytes) and len(content) == kind.dtype.itemsize):
        raise _Refused("a number without its bytes")
    return np.frombuffer(content, kind.dtype)[0].item()


def _reconstruct(*_: object) -> _Array:
    return _Array()


# The names that may be "called", and what happens instead. numpy.core became numpy._core in NumPy 2.
_CALLS: dict[str, Callable[..., object]] = {
    "_codecs encode": _encode,
    "__builtin__ bytes": _bytes,  # how Python 3 writes no bytes at all for readers of Python 2
    "numpy dtype": _dtype,
    "numpy.core.multiarray _reconstruct": _reconstruct,
    "numpy._core.multiarray _reconstruct": _reconstruct,
    "numpy.core.multiarray scalar": _scalar,
    "numpy._core.multiarray scalar": _scalar,
}
_NAMES = {*_CALLS, "numpy ndarray"}

_PUSHES_ITS_ARGUMENT = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
}
_PUSHES_A_NEW: dict[str, Callable[[], object]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": dict,
}
_DOES_NOTHING = {"PROTO", "FRAME", "STOP"}


class _Machine:
    """The stack, the stacks below each mark, and the memo."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def execute(self, instruction: str, argument: Any) -> None:
        if instruction in _PUSHES_ITS_ARGUMENT:
            self.stack.append(argument)
        elif instruction in _PUSHES_A_NEW:
            self.stack.append(_PUSHES_A_NEW[instruction]())
        elif instruction in _OPERATIONS:
            _OPERATIONS[instruction](self, argument)
        elif instruction not in _DOES_NOTHING:
            raise _Refused(f"the instruction {instruction}")

    def mark(self, _: object) -> None:
        self.below.append(self.stack)
        self.stack = []

    def since_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.below.pop()
        return items

    def push_tuple_since_mark(self, _: object) -> None:
        items = self.since_mark()  # first: it changes which list `self.stack` is
        self.stack.append(tuple(items))

    def push_tuple(self, length: int) -> None:
        items = [self.stack.pop() for _ in range(length)]
        self.stack.append(tuple(reversed(items)))

    def push_list(self, _: object) -> None:
        items = self.since_mark()
        self.stack.append(items)

    def push_dict(self, _: object) -> None:
        items = self.since_mark()
        self.stack.append({})
        self.set_items(items)

    def append(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise _Refused("an item appended to something that is no list")
        if any(isinstance(item, _UNFINISHED) for item in items):
            raise _Refused("a list of other things than plain values")
        self.stack[-1].extend(items)

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict or len(items) % 2:
            raise _Refused("an entry of something that is no dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) not in (str, bytes, int):
                raise _Refused("a dict whose keys are neither text nor numbers")
            if isinstance(value, (_Name, _DType)):
                raise _Refused("a dict of other things than plain values and arrays")
            target[key] = value

    def set_item(self, _: object) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.set_items([key, value])

    def name(self, name: str) -> None:
        if name not in _NAMES:
            raise _Refused(f"{name.replace(' ', '.')!s:.80}")
        self.stack.append(_Name(name))

    def name_from_stack(self, _: object) -> None:
        attribute, module = self.stack.pop(), self.stack.pop()
        self.name(f"{module!s:.80} {attribute!s:.80}")

    def call(self, _: object) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if not (isinstance(function, _Name) and function.name in _CALLS and type(arguments) is tuple):
            raise _Refused("a call of something that is no name")
        self.stack.append(_CALLS[function.name](*arguments))

    def build(self, _: object) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if not isinstance(target, (_Array, _DType)):
            raise _Refused("the state of something that is no array")
        target.build(state)

    def remember(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    def recall(self, place: int) -> None:
        self.stack.append(self.memo[place])


_OPERATIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "MARK": _Machine.mark,
    "TUPLE": _Machine.push_tuple_since_mark,
    "TUPLE1": lambda machine, _: machine.push_tuple(1),
    "TUPLE2": lambda machine, _: machine.push_tuple(2),
    "TUPLE3": lambda machine, _: machine.push_tuple(3),
    "LIST": _Machine.push_list,
    "DICT": _Machine.push_dict,
    "APPEND": lambda machine, _: machine.append([machine.stack.pop()]),
    "APPENDS": lambda machine, _: machine.append(machine.since_mark()),
    "SETITEM": _Machine.set_item,
    "SETITEMS": lambda machine, _: machine.set_items(machine.since_mark()),
    "GLOBAL": _Machine.name,
    "STACK_GLOBAL": _Machine.name_from_stack,
    "REDUCE": _Machine.call,
    "BUILD": _Machine.build,
    "PUT": _Machine.remember,
    "BINPUT": _Machine.remember,
    "LONG_BINPUT": _Machine.remember,
    "MEMOIZE": lambda machine, _: machine.remember(len(machine.memo)),
    "GET": _Machine.recall,
    "BINGET": _Machine.recall,
    "LONG_BINGET": _Machine.recall,
}


def unpickle(content: bytes, *, where: object, start: int = 0) -> tuple[Any, int]:
    """The value of the pickle that begins at byte `start`, and where the pickle ends. `where` names it in errors.

    Arrays at the top level and those that are values of a dict there come back as NumPy arrays.
    """
    stream = io.BytesIO(content)
    stream.seek(start)
    machine = _Machine()
    try:
        for count, (instruction, argument, _) in enumerate(pickletools.genops(stream)):
            if count == MOST_INSTRUCTIONS:
                raise _Refused(f"more than {MOST_INSTRUCTIONS:,} instructions")
            machine.execute(instruction.name, argument)
        return _finished(machine.stack.pop()), stream.tell()
    except _Refused as refused:
        raise DataError(
            f"{where} asks for {refused}, which a dataset never needs. Nothing of it was run; do not trust this file."
        ) from refused
    # What a random stream of instructions runs into: an empty stack, a place never remembered, bytes that end early or
    # are no text, a call with the wrong number of arguments.
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, EOFError) as error:
        reason = str(error) or type(error).__name__
        raise DataError(f"{where} is not a readable pickle ({reason:.120}): it is damaged or truncated.") from error


def _finished(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finished_array(each) for key, each in value.items()}
    return _finished_array(value)


def _finished_array(value: Any) -> Any:
    if not isinstance(value, _UNFINISHED):
        return value
    if not isinstance(value, _Array) or value.value is None:
        raise _Refused("something that is no data")
    return value.value
