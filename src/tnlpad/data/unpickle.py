"""Read the pickles in which CIFAR and CIFAR-N are published.

The standard unpickler calls whatever a file names, so three checks stand before it. `datasets` compares a file with its
published checksum first. Lengths and memo indices must fit the bytes of the file. And `_STAND_INS` lists the only names
that are resolved, each to something in this module that builds numbers from bytes of the file and runs nothing else.
"""

import pickle
import pickletools
import re
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tnlpad.errors import DataError

MAX_INSTRUCTIONS = 1_000_000  # the largest published file, CIFAR-100's training batch, has 250,000


class _RefusedError(Exception):
    """The pickle contains something that the published files do not."""


def unpickle(stream: BinaryIO, *, where: object) -> Any:
    """Return the value of the pickle at the stream's position, and move the position behind it.

    NumPy arrays may be the value itself or values of a dict. `where` names the file in errors.
    """
    try:
        _check_instructions(stream)
        value = _Unpickler(stream, encoding="latin-1").load()  # text of Python 2 is bytes
    except _RefusedError as refused:
        raise DataError(
            f"{where} contains {refused}, which the published data do not. Nothing of it was run; do not trust this "
            "file."
        ) from refused
    except Exception as error:  # a damaged pickle raises anything
        reason = str(error) or type(error).__name__
        raise DataError(f"{where} is not a readable pickle ({reason:.120}): it is damaged or truncated.") from error
    if isinstance(value, dict):
        return {key: each.value if isinstance(each, _Array) else each for key, each in value.items()}
    return value.value if isinstance(value, _Array) else value


def _check_instructions(stream: BinaryIO) -> None:
    """Parse the pickle without executing it, and leave the stream's position unchanged.

    The parser compares every length with the bytes that follow. The unpickler allocates its memo up to the largest
    index, which for 9 bytes can be 64 GB; an index is never above the number of instructions before it.
    """
    start = stream.tell()
    for count, (instruction, argument, _) in enumerate(pickletools.genops(stream)):
        if count == MAX_INSTRUCTIONS:
            raise _RefusedError(f"more than {MAX_INSTRUCTIONS:,} instructions")
        if instruction.name in ("PUT", "BINPUT", "LONG_BINPUT") and int(argument or 0) > count:
            raise _RefusedError(f"the memo index {argument}")
    stream.seek(start)


class _DType:
    """Stand-in for numpy.dtype, limited to numbers. NumPy writes the byte order as a later state."""

    def __init__(self, code: object, *_: object) -> None:
        if not isinstance(code, str) or not re.fullmatch(r"[iu][1248]|f[48]|b1", code):
            raise _RefusedError("an array of other things than numbers")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        if state[1] not in ("<", ">", "|", "="):
            raise _RefusedError("an unknown byte order")
        self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """Stand-in for numpy.ndarray. NumPy writes an empty array first, and shape and content as a later state."""

    value: NDArray[Any] | None = None

    def __init__(self, *_: object) -> None: ...

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, content = state
        if isinstance(content, str):
            content = content.encode("latin-1")
        # The array is a view of the content, so a shape that claims more than that raises.
        self.value = np.frombuffer(content, kind.dtype).reshape(shape, order="F" if fortran else "C").copy()


def _scalar(kind: Any, content: Any) -> object:
    (number,) = np.frombuffer(content.encode("latin-1") if isinstance(content, str) else content, kind.dtype)
    return number.item()


def _encode(text: Any, encoding: object) -> object:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise _RefusedError("text in another encoding than latin-1")
    return text.encode("latin-1")


_STAND_INS: dict[tuple[str, str], str | Callable[..., object]] = {
    ("_codecs", "encode"): _encode,  # how Python 3 writes bytes for Python 2
    ("__builtin__", "bytes"): lambda: b"",  # and how it writes empty bytes
    ("numpy", "dtype"): _DType,
    ("numpy", "ndarray"): "numpy.ndarray",  # only ever an argument of _reconstruct, and ignored there
    # numpy.core became numpy._core in NumPy 2.
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _Array for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _scalar for core in ("core", "_core")},
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        if (module, name) not in _STAND_INS:
            raise _RefusedError(f"{module}.{name}"[:120])
        stand_in = _STAND_INS[module, name]
        # A pickle can set attributes of a function that it names, so it gets a function of its own.
        return stand_in if isinstance(stand_in, (str, type)) else lambda *arguments: stand_in(*arguments)
