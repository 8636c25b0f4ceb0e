"""Read the pickles in which CIFAR and CIFAR-N are published, without running them.

A pickle is a program for a small stack machine, and the standard one obeys it: it imports what the file names and calls
it. This is a machine of our own that knows plain values, lists, tuples and dicts, and a handful of names, none of which
it imports or calls: what they stand for (a NumPy array, its dtype, a scalar, latin-1 text turned back into bytes) is
put together in `pickled_arrays` from the bytes in the file. Everything else is refused.

What a file can cost is bounded by its length: no array is larger than the bytes given for it, keys of dicts are text or
numbers (the hash of nested tuples takes exponential time), and the number of instructions is limited.
"""

import io
import pickletools
from collections.abc import Callable
from typing import Any

from tnlpad.data.pickled_arrays import (
    CALLS,
    NAMES,
    UNFINISHED,
    Name,
    Refused,
    UnfinishedArray,
    UnfinishedDType,
    finished,
)
from tnlpad.errors import DataError

MOST_INSTRUCTIONS = 1_000_000  # the largest published file, CIFAR-100's training batch, takes 250,000

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
            raise Refused(f"the instruction {instruction}")

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
            raise Refused("an item appended to something that is no list")
        if any(isinstance(item, UNFINISHED) for item in items):
            raise Refused("a list of other things than plain values")
        self.stack[-1].extend(items)

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict or len(items) % 2:
            raise Refused("an entry of something that is no dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) not in (str, bytes, int):
                raise Refused("a dict whose keys are neither text nor numbers")
            if isinstance(value, (Name, UnfinishedDType)):
                raise Refused("a dict of other things than plain values and arrays")
            target[key] = value

    def set_item(self, _: object) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.set_items([key, value])

    def name(self, name: str) -> None:
        if name not in NAMES:
            raise Refused(f"{name.replace(' ', '.')!s:.80}")
        self.stack.append(Name(name))

    def name_from_stack(self, _: object) -> None:
        attribute, module = self.stack.pop(), self.stack.pop()
        self.name(f"{module!s:.80} {attribute!s:.80}")

    def call(self, _: object) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if not (isinstance(function, Name) and function.name in CALLS and type(arguments) is tuple):
            raise Refused("a call of something that is no name")
        self.stack.append(CALLS[function.name](*arguments))

    def build(self, _: object) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if not isinstance(target, (UnfinishedArray, UnfinishedDType)):
            raise Refused("the state of something that is no array")
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
                raise Refused(f"more than {MOST_INSTRUCTIONS:,} instructions")
            machine.execute(instruction.name, argument)
        return finished(machine.stack.pop()), stream.tell()
    except Refused as refused:
        raise DataError(
            f"{where} asks for {refused}, which a dataset never needs. Nothing of it was run; do not trust this file."
        ) from refused
    # What a random stream of instructions runs into: an empty stack, a place never remembered, bytes that end early or
    # are no text, a call with the wrong number of arguments.
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, EOFError) as error:
        reason = str(error) or type(error).__name__
        raise DataError(f"{where} is not a readable pickle ({reason:.120}): it is damaged or truncated.") from error
