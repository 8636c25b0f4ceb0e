"""The columns of a Parquet file, and of any table of Arrow."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tnlpad.data.errors import DataError
from tnlpad.data.files import readable_as
from tnlpad.data.own.columns import require_different


def parquet_file(path: Path) -> Any:
    """A Parquet file of which only the description has been read, and makes sense."""
    from pyarrow import parquet as pq

    with readable_as("Parquet", path):
        file = pq.ParquetFile(path)
        require_different(file.schema_arrow.names, path)
        return file


def parquet_table(path: Path) -> Any:
    """The whole of it, as an Arrow table."""
    with readable_as("Parquet", path):
        return sound(parquet_file(path).read(), path)


def sound(table: Any, path: Path) -> Any:
    """The table, if each of its columns is what it says; what is not can crash whoever looks at its values."""
    table.validate(full=True)
    require_different(table.column_names, path)
    return table


def arrow_columns(table: Any, where: Path) -> dict[str, Any]:
    """The columns of an Arrow table by their names."""
    return {name: values_of(table, name, where) for name in table.column_names}


def values_of(table: Any, name: str, where: Path) -> Any:
    """The values of a column: numbers without gaps as an array, the rest as a list."""
    from pyarrow import types

    column = table.column(name)
    numeric = types.is_floating(column.type) or types.is_integer(column.type)
    try:
        return column.to_numpy() if numeric and not column.null_count else _as_text(column).to_pylist()
    # Damaged text, a date that Python has not, a place in a dictionary that is not there.
    except (ValueError, ArithmeticError, LookupError, NotImplementedError) as error:
        raise DataError(f"{where}: a value in column {name[:80]!r} cannot be read: {error}. Correct it.") from error


def is_bytes(kind: Any) -> bool:
    """Whether a column of this type holds plain bytes."""
    from pyarrow import types

    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _as_text(column: Any) -> Any:
    """Bytes that are all text, as some programs write it, become text."""
    import pyarrow as pa

    try:
        return column.cast(pa.large_string()) if is_bytes(column.type) else column
    except pa.ArrowInvalid:
        return column


def joined(tables: Sequence[Any], folder: Path) -> Any:
    """Tables of the same columns as one."""
    import pyarrow as pa

    try:
        return pa.concat_tables(tables, promote_options="default")
    except pa.ArrowException as error:
        raise DataError(
            f"{folder}: its tables have different columns ({error}). Name one of the files if they are different data."
        ) from error
