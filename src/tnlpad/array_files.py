"""Read NumPy's .npy and .npz files that may be damaged or hostile: only the arrays that are used, never objects.

Headers are checked before anything is loaded. An array that claims more than its file holds, or that does not fit into
memory, is refused with the numbers.
"""

import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.errors import DataError
from tnlpad.memory import require_memory
from tnlpad.regular_files import require_regular

NUMBERS, PLAIN = "iuf", "biufUS"  # NumPy's letters for numbers; for booleans, numbers and texts
COPIES = 2  # of an array in memory: as it is read, and as it is used
LAST_CHARACTER, SURROGATES = 0x10FFFF, (0xD800, 0xDFFF)
WAY_OUT = "Save plain arrays with numpy.savez, texts with .astype(str)."


class ArrayFile(Mapping[str, NDArray[Any]]):
    """The arrays of an .npz file by name, each loaded when it is first used.

    Args:
        path: The file.
        kinds: Letters of the kinds of arrays that may be loaded; None allows all that hold no Python objects.
        way_out: End of the message of an error, which says what to do.

    Raises:
        DataError: The file is no archive; or, when an array is used, it cannot be read.
    """

    def __init__(self, path: Path, kinds: str | None = PLAIN, way_out: str = WAY_OUT) -> None:
        self.path, self.kinds, self.way_out = path, kinds, way_out
        self._loaded: dict[str, NDArray[Any]] = {}
        with _readable(path, ".npz", way_out), zipfile.ZipFile(path) as archive:
            self._members = {each.filename.removesuffix(".npy"): each for each in archive.infolist() if _is_array(each)}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __getitem__(self, name: str) -> NDArray[Any]:
        member = self._members[name]
        if name not in self._loaded:
            held = sum(array.nbytes for array in self._loaded.values())
            with _readable(self.path, ".npz", self.way_out, name), zipfile.ZipFile(self.path) as archive:
                with archive.open(member) as file:
                    _check_header(file, member.file_size, self.kinds, self.path, held)
                with archive.open(member) as file:
                    self._loaded[name] = _unicode(np.lib.format.read_array(file, allow_pickle=False))
        return self._loaded[name]


def _is_array(member: zipfile.ZipInfo) -> bool:
    return member.filename.endswith(".npy")


def read_array(path: Path, kinds: str | None = PLAIN, *, mapped: bool = False, way_out: str = WAY_OUT) -> NDArray[Any]:
    """Return the array of an .npy file; `mapped` into memory, it may be larger than that.

    Raises:
        DataError: It cannot be read.
    """
    with _readable(path, ".npy", way_out):
        with open(path, "rb") as file:
            _check_header(file, os.path.getsize(path), kinds, path, None if mapped else 0)
        array: NDArray[Any] = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
        return array if mapped else _unicode(array)


@contextmanager
def _readable(path: Path, kind: str, way_out: str, name: str | None = None) -> Iterator[None]:
    """Turn what reading an array raises into a DataError; NumPy and zipfile raise anything on damaged bytes."""
    try:
        require_regular(path)
        yield
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except Exception as error:
        reason = f"{'' if name is None else f'{name[:80]!r} '}{str(error)[:200] or type(error).__name__}"
        raise DataError(f"{path} cannot be read as {kind}: {reason}. {way_out}") from error


def _check_header(file: IO[bytes], size: int, kinds: str | None, path: Path, held: int | None) -> None:
    """Raise ValueError or DataError unless the array that a file begins with is plain, complete, and fits in memory.

    Args:
        file: An .npy file, or such a member of an .npz file.
        size: Its bytes.
        kinds: Kinds of arrays that are allowed.
        path: The file on disk.
        held: Bytes in memory beside the array; None for an array that is mapped into memory.
    """
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"has version {version[0]}.{version[1]} of the format")
    shape, _, dtype = readers[version](file)
    if dtype.hasobject:
        raise ValueError("holds Python objects")
    if kinds is not None and dtype.kind not in kinds:
        raise ValueError(f"holds values of the type {dtype}")
    count = math.prod(shape)
    if count < 0 or (count and not dtype.itemsize) or count * dtype.itemsize > size - file.tell():
        raise ValueError(f"claims the shape {shape} of {dtype}, which its {size:,} bytes do not hold")
    if held is not None:
        way_out = "Use a part of it, image files instead of arrays, or a machine with more memory."
        require_memory(held + COPIES * count * dtype.itemsize, str(path), way_out)


def _unicode(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array; raise ValueError if its texts hold numbers that are no characters."""
    if array.dtype.kind == "U" and array.size:
        codes = np.ravel(array, order="K").view(np.dtype("u4").newbyteorder(array.dtype.byteorder))
        if codes.max() > LAST_CHARACTER or ((codes >= SURROGATES[0]) & (codes <= SURROGATES[1])).any():
            raise ValueError("holds texts with characters that Unicode does not have")
    return array


def as_texts(array: NDArray[Any], where: str) -> NDArray[Any]:
    """Return an array, of texts if it holds them as bytes; raise DataError if those are no texts."""
    try:
        return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    except UnicodeDecodeError as error:
        raise DataError(f"{where} has bytes that are not text in UTF-8. Save it with .astype(str).") from error
