"""Read columns of Parquet records, and check that they are complete and of the types that readers rely on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.errors import DataError
from tnlpad.memory import memory_limits, require_memory
from tnlpad.records.store import RecordError, damaged, unusable

PARTS = ("train", "validation", "test")
VALUE_BYTES = 4  # that a value takes in memory at least
COPIES = 2  # of a text in memory: as it is read, and as it is used
MEASURED_ROWS = 1 << 16  # at once
RESTORE = "Restore it if it was changed, or use a machine with more memory."
TEXTS, NUMBERS = ("id", "path", "label_name", "part"), ("label", "row", "index", "given")  # columns by their types


def read_columns(path: Path, needed: Sequence[str], optional: Sequence[str] | None = None) -> Any:
    """Read columns of a Parquet file as an Arrow table.

    Args:
        path: The file.
        needed: Columns that it must have.
        optional: Columns to read if they are there (default: all).

    Raises:
        RecordError: A column is missing, of another type, or has gaps.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:  # threads are no faster here, and each takes memory of its own
            names = file.schema_arrow.names
            if missing := [name for name in needed if name not in names]:
                raise damaged(path, f"column {missing[0]} is missing")
            wanted = [name for name in names if optional is None or name in (*needed, *optional)]
            require_memory(file.metadata.num_rows * len(wanted) * VALUE_BYTES, str(path), RESTORE)
            _require_texts_fit(path, file, wanted)
            table = file.read(wanted, use_threads=False)
    except DataError as error:  # about memory
        raise RecordError(str(error)) from error
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise unusable(path, error) from error
    for name in (*needed, *(optional or ())):  # others are of another version
        if name in table.column_names and (found := _column_problem(name, table.column(name))):
            raise damaged(path, found)
    return table


def _require_texts_fit(path: Path, file: Any, wanted: Sequence[str]) -> None:
    """Raise an error if texts do not fit into memory: one that is stored once may be the value of many rows."""
    import pyarrow.parquet as pq
    from pyarrow import types

    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    kinds = {name: file.schema_arrow.field(name).type for name in wanted}
    texts = [name for name, kind in kinds.items() if types.is_string(kind) or types.is_large_string(kind)]
    most = COPIES * sum(group.num_rows * group.total_byte_size for group in groups)
    if not texts or most <= min(memory_limits(), default=most):
        return
    require_memory(COPIES * sum(group.total_byte_size for group in groups), str(path), RESTORE)
    needed = 0
    # It holds each text once, however often it occurs, and raises where an encoding does not allow that.
    with pq.ParquetFile(path, read_dictionary=texts) as listing:
        for number in range(len(groups)):
            for batch in listing.iter_batches(MEASURED_ROWS, row_groups=[number], columns=texts, use_threads=False):
                needed += COPIES * sum(map(_bytes_of_texts, batch.columns))
                require_memory(needed, str(path), RESTORE)


def _bytes_of_texts(column: Any) -> int:
    """Return the bytes of the texts of an Arrow array, which are stored once each, as often as they occur."""
    from pyarrow import compute

    lengths = compute.binary_length(column.dictionary)
    return int(compute.sum(lengths.take(column.indices).cast("int64")).as_py() or 0)


def _column_problem(name: str, column: Any) -> str | None:
    """Return why a column cannot be used, or None."""
    from pyarrow import compute, types

    text = types.is_string(column.type) or types.is_large_string(column.type)
    empty = name == "path" and types.is_null(column.type)
    if (name in TEXTS and not (text or empty)) or (name in NUMBERS and not types.is_integer(column.type)):
        return f"column {name} has values of the type {column.type}"
    if column.null_count and name != "path":
        return f"column {name} has gaps"
    if name == "path" and text and compute.any(compute.match_substring(column, "\0")).as_py():
        return "column path has a null character, which no path has"
    if name == "part" and (other := {*column.unique().to_pylist()} - {*PARTS}):
        return f"column part has {min(other)[:80]!r}; the parts are {', '.join(PARTS)}"
    if types.is_floating(column.type) and compute.any(compute.is_nan(column)).as_py():
        return f"column {name} has values that are not numbers"
    return None


def as_array(column: Any) -> NDArray[Any]:
    """Return an Arrow column as an array; texts that repeat are one object.

    Numbers go through DLPack where they can: `to_numpy` imports pandas if it is installed, which takes 40 MB.
    """
    from pyarrow import types

    values = column.combine_chunks()
    if types.is_string(values.type):
        encoded = values.dictionary_encode()
        texts: NDArray[Any] = np.array(encoded.dictionary.to_pylist(), dtype=object)[np.from_dlpack(encoded.indices)]
        return texts
    plain = (types.is_integer(values.type) or types.is_floating(values.type)) and not values.null_count
    return np.from_dlpack(values) if plain else np.asarray(values.to_numpy(zero_copy_only=False))
