"""Read Parquet files that fit into memory, and the columns of Arrow tables."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import filterfalse
from pathlib import Path
from typing import Any

from tnlpad.data.files import readable_as
from tnlpad.data.own.columns import require_different
from tnlpad.data.own.tables import CELL_BYTES, ROW_BYTES, SMALLER_TABLE
from tnlpad.errors import DataError
from tnlpad.memory import memory_limits, require_memory

PART_AT_ONCE, MAX_ROWS_TO_MEASURE = 1 / 16, 1 << 16  # of the memory and at most, to measure texts in
OFFSET_BYTES = 4  # of Arrow, for each text
TEXT_TYPES = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")  # of Parquet …
REPEATING = {"PLAIN_DICTIONARY", "RLE_DICTIONARY", "DELTA_BYTE_ARRAY"}  # … and the encodings that store one text once


def parquet_file(path: Path) -> Any:
    """Open a Parquet file and read its schema."""
    from pyarrow import parquet as pq

    with readable_as("Parquet", path):
        file = pq.ParquetFile(path)
        require_different(file.schema_arrow.names, path)
        return file


def parquet_table(path: Path) -> Any:
    """Read a Parquet file as an Arrow table; raise DataError if it does not fit into memory."""
    require_rows_fit([path], path)
    return parquet_content(path)


def parquet_content(path: Path) -> Any:
    """Read a Parquet file, after `require_rows_fit`, as an Arrow table."""
    with readable_as("Parquet", path):
        return validated(_without_views(parquet_file(path).read()), path)


def _without_views(table: Any) -> Any:
    """Return the table with texts and bytes of plain types: pyarrow cannot select rows of views, which others write."""
    import pyarrow as pa

    fields = [field.with_type(_plain(field.type)) for field in table.schema]
    schema = pa.schema(fields, metadata=table.schema.metadata)
    return table if schema.equals(table.schema) else table.cast(schema)


def _plain(kind: Any) -> Any:
    import pyarrow as pa
    from pyarrow import types

    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    return kind


def require_rows_fit(paths: Sequence[Path], where: Path) -> None:
    """Raise DataError if the rows of Parquet files, which may be packed a thousand times, do not fit into memory.

    Args:
        paths: The files.
        where: Their folder, or the only file.
    """
    rows, chunks = 0, []
    for path in paths:
        file = parquet_file(path)
        rows += file.metadata.num_rows
        for group in range(file.metadata.num_row_groups):
            _require_readable(file, group, path)
            chunks += _chunks(file.metadata, group)
    what = f"{where} has {rows:,} rows. It"
    needed = ROW_BYTES * rows + sum(CELL_BYTES * chunk.num_values + chunk.total_uncompressed_size for chunk in chunks)
    require_memory(needed, what, SMALLER_TABLE)
    repeating = [chunk for chunk in chunks if _repeats(chunk)]
    limit = min(memory_limits(), default=needed)
    if needed + sum(chunk.num_values * chunk.total_uncompressed_size for chunk in repeating) > limit:
        needed -= sum(chunk.total_uncompressed_size for chunk in repeating)
        for path in paths:
            for size in _sizes_of_texts(path, int(PART_AT_ONCE * limit)):
                needed += size
                if needed > limit:
                    require_memory(needed, what, SMALLER_TABLE)


def _require_readable(file: Any, group: int, path: Path) -> None:
    """Raise DataError if the descriptions of columns are damaged: pyarrow's `column` would end the process.

    Reading a row goes through the same descriptions, and raises.
    """
    size = file.metadata.row_group(group).total_byte_size
    require_memory(size, f"{path} has {size:,} bytes in a group of rows. It", SMALLER_TABLE)
    with readable_as("Parquet", path):
        next(file.iter_batches(1, row_groups=[group], use_threads=False), None)


def _chunks(file: Any, group: int) -> list[Any]:
    """Return the description of each column of a group of rows of a Parquet file."""
    return [file.row_group(group).column(place) for place in range(file.num_columns)]


def _repeats(chunk: Any) -> bool:
    """Whether texts or bytes are encoded so that one which is stored once may be many values."""
    return chunk.physical_type in TEXT_TYPES and not REPEATING.isdisjoint(chunk.encodings)


def _sizes_of_texts(path: Path, most: int) -> Iterator[int]:
    """Yield the bytes of texts that may repeat, some rows after the other, which take at most that memory at once."""
    from pyarrow import parquet as pq

    with readable_as("Parquet", path):
        file = parquet_file(path)
        groups = [[each for each in _chunks(file.metadata, number) if _repeats(each)] for number in _groups(file)]
        once = sorted({each.path_in_schema for group in groups for each in group if _is_listed(each)})
        listing = pq.ParquetFile(path, read_dictionary=once)  # holds each text once, however often it occurs
        for number, found in enumerate(groups):
            for source, chunks in ((listing, filter(_is_listed, found)), (file, filterfalse(_is_listed, found))):
                names, size = [], 0
                for chunk in chunks:
                    names.append(chunk.path_in_schema)
                    size += chunk.total_uncompressed_size
                # Of texts that are not listed, any row may have all.
                rows = most * (file.metadata.row_group(number).num_rows if source is listing else 1) // max(1, size)
                rows = min(max(1, rows), MAX_ROWS_TO_MEASURE)
                if names:
                    for batch in source.iter_batches(rows, row_groups=[number], columns=names, use_threads=False):
                        yield sum(map(_bytes_of_texts, batch.columns))


def _groups(file: Any) -> range:
    return range(file.metadata.num_row_groups)


def _is_listed(chunk: Any) -> bool:
    """Whether each text that repeats is in a list, which pyarrow can return instead of the texts."""
    return chunk.physical_type == TEXT_TYPES[0] and "DELTA_BYTE_ARRAY" not in chunk.encodings


def _bytes_of_texts(array: Any) -> int:
    """Return the bytes of an Arrow array, with texts from a list counted as often as they occur."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(array, pa.DictionaryArray):
        lengths = pc.binary_length(array.dictionary)
        return OFFSET_BYTES * len(array) + (pc.sum(lengths.take(array.indices)).as_py() or 0)
    if isinstance(array, pa.StructArray):
        return sum(map(_bytes_of_texts, array.flatten()))
    if isinstance(array, (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)):
        return _bytes_of_texts(array.flatten())
    return int(array.nbytes)


def validated(table: Any, path: Path) -> Any:
    """Return the Arrow table after a full check; reading values of an invalid one can crash the process."""
    table.validate(full=True)
    require_different(table.column_names, path)
    for kind in table.schema.types:
        _decode_names(kind)
    return table


def _decode_names(kind: Any) -> None:
    """Raise UnicodeDecodeError for a field of a type whose name is not UTF-8, which Arrow's own check accepts."""
    from pyarrow import types

    if types.is_struct(kind):
        fields = {field.name: field.type for field in kind}  # to ask for a name decodes it
        within = list(fields.values())
    else:  # lists, dictionaries and maps
        within = [getattr(kind, name) for name in ("value_type", "key_type", "item_type") if hasattr(kind, name)]
    for each in within:
        _decode_names(each)


def joined(tables: Sequence[Any], folder: Path) -> Any:
    """Concatenate Arrow tables of the same columns."""
    import pyarrow as pa

    try:
        return pa.concat_tables(tables, promote_options="default")
    except pa.ArrowException as error:
        raise DataError(
            f"{folder}: its tables have different columns ({error}). Name one of the files if they are different data."
        ) from error


def arrow_columns(table: Any, where: Path) -> dict[str, Any]:
    """Return the columns of an Arrow table by name."""
    return {name: values_of(table, name, where) for name in table.column_names}


def values_of(table: Any, name: str, where: Path) -> Any:
    """Return a column: numbers without gaps as an array, others as a list, with text for bytes that are text."""
    import pyarrow as pa
    from pyarrow import types

    column = table.column(name)
    numeric = types.is_floating(column.type) or types.is_integer(column.type)
    try:
        if numeric and not column.null_count:
            return column.to_numpy()
        if is_bytes(column.type):
            with suppress(pa.ArrowInvalid):
                column = column.cast(pa.large_string())
        return column.to_pylist()
    # Damaged text, a date that Python does not have, an index that is not in the dictionary.
    except (ValueError, ArithmeticError, LookupError, NotImplementedError) as error:
        raise DataError(f"{where}: a value in column {name[:80]!r} cannot be read: {error}. Correct it.") from error


def is_bytes(kind: Any) -> bool:
    """Whether this is the Arrow type of plain bytes."""
    from pyarrow import types

    return bool(types.is_binary(kind) or types.is_large_binary(kind))
