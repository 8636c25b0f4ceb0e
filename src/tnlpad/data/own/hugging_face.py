"""A Hugging Face dataset on disk: what `save_to_disk` writes, or Parquet files as the Hub has them.

Read through pyarrow, without the package `datasets`. Images are those of a column of pictures with their bytes, or of a
column of paths below the folder; else every column of numbers beside the label is a feature. Text is not trained on
here.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tnlpad.data.errors import DataError
from tnlpad.data.files import read_bounded, readable_as
from tnlpad.data.own.listing import Listing
from tnlpad.data.own.parquet import joined, parquet_file, parquet_table, sound
from tnlpad.data.own.parts import PARTS, Part, part_named
from tnlpad.data.own.pictures import in_order, listing_of_tables, picture_column

DICTIONARY, STATE, INFO = "dataset_dict.json", "state.json", "dataset_info.json"
MOST_JSON_BYTES = 1 << 26


def is_hugging_face(folder: Path) -> bool:
    """Whether this is such a folder."""
    return any((folder / name).is_file() for name in (DICTIONARY, STATE)) or bool(_parquet_files(folder))


def read_hugging_face(
    folder: Path, *, label: str | None = None, labelled: bool = True, columns: Sequence[str] = ()
) -> Listing:
    """The samples of every part, those to train on first.

    Args:
        folder: Where they lie.
        label: The column of the classes; one with a usual name when not given.
        labelled: Whether there must be labels; without, they are not read either.
        columns: The features to take, whatever else there is; all that there are when not given.
    """
    pieces = in_order(_tables(folder), folder)
    if not pieces:
        raise DataError(f"{folder} holds no table of a dataset.")
    features = _features(folder, next(iter(pieces.values())))
    return listing_of_tables(folder, pieces, features, label=label, labelled=labelled, columns=columns)


def read_picture_table(path: Path, *, label: str | None = None, labelled: bool = True) -> Listing | None:
    """The samples of one Parquet file that has the pictures within; None if it has no column of them."""
    if picture_column(parquet_file(path).schema_arrow, label, path) is None:
        return None
    table = parquet_table(path)
    return listing_of_tables(path, {None: table}, _described(table) or {}, label=label, labelled=labelled)


def _tables(folder: Path) -> Iterator[tuple[Part | None, Any]]:
    if (folder / DICTIONARY).is_file():
        names = _json(folder / DICTIONARY).get("splits")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DataError(f"{folder / DICTIONARY} names no splits.")
        for name in names:
            yield part_named(name, folder / DICTIONARY), _arrow_table(folder / _plain(name, folder))
    elif (folder / STATE).is_file():
        yield None, _arrow_table(folder)
    else:
        files = _parquet_files(folder)
        several = len({_part_of(path) for path in files}) > 1
        for path in files:
            yield _part_of(path) if several else None, parquet_table(path)


def _part_of(path: Path) -> Part:
    """By the first word in a file's name that means a part, as in `train-00000-of-00002` and `mnist_test`."""
    words = re.split(r"[^a-z]+", path.stem.lower())
    return next((PARTS[word] for word in words if word in PARTS), "train")


def _arrow_table(folder: Path) -> Any:
    """The files that `state.json` lists, mapped into memory and not copied."""
    import pyarrow as pa

    files = _json(folder / STATE).get("_data_files")
    names = [each.get("filename") for each in files if isinstance(each, dict)] if isinstance(files, list) else []
    tables = []
    for name in names:
        path = folder / _plain(name, folder / STATE)
        with readable_as("Arrow", path), pa.memory_map(str(path)) as source:
            tables.append(sound(pa.ipc.open_stream(source).read_all(), path))
    if not tables:
        raise DataError(f"{folder / STATE} lists no files of data.")
    if (folder / "indices.arrow").exists() or _json(folder / STATE).get("_indices_data_files"):
        raise DataError(f"{folder} is a selection of rows. Save it with flatten_indices() first.")
    return joined(tables, folder)


def _parquet_files(folder: Path) -> list[Path]:
    found = (path for pattern in ("*", "data/*") for path in folder.glob(pattern))
    return sorted(path for path in found if path.suffix.lower() == ".parquet")


def _described(table: Any) -> Mapping[str, Any] | None:
    """What the columns mean, if the table itself says so."""
    metadata = (table.schema.metadata or {}).get(b"huggingface")
    try:
        found = json.loads(metadata)["info"]["features"] if metadata else None
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, dict) else None


def _features(folder: Path, table: Any) -> Mapping[str, Any]:
    """The same, or from the file beside it."""
    found: Any = _described(table)
    for path in (folder / INFO, *sorted(folder.glob(f"*/{INFO}"))):
        if found is None and path.is_file():
            found = _json(path).get("features")
    return found if isinstance(found, dict) else {}


def _plain(name: Any, where: Path) -> str:
    """A name from a file must not lead out of its folder."""
    if not isinstance(name, str) or not name or name in (".", "..") or any(c in name for c in "/\\\0:"):
        raise DataError(f"{where}: {str(name)[:80]!r} is not the name of a file in its folder.")
    return name


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(read_bounded(path, MOST_JSON_BYTES))
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise DataError(f"{path} is not a JSON object.")
    return value
