"""Datasets of other libraries, as a program holds them: those of Hugging Face and of torch."""

from collections.abc import Sequence
from typing import Any

from tnlpad.data.errors import DataError
from tnlpad.data.own.listing import IN_MEMORY, Listing
from tnlpad.data.own.parts import Part, part_named
from tnlpad.data.own.pictures import in_order, listing_of_tables


def is_hugging_face_dataset(data: Any) -> bool:
    """Whether this is one of Hugging Face's, by its name: the package is no dependency."""
    return type(data).__module__.split(".")[0] == "datasets"


def is_torch_dataset(data: Any) -> bool:
    """Whether this is one of torch's."""
    from torch.utils.data import Dataset

    return isinstance(data, Dataset)


def listing_of_hugging_face(data: Any, label: str | None, labelled: bool, columns: Sequence[str] = ()) -> Listing:
    """The samples of a `Dataset` or a `DatasetDict`; its table is used as it lies in memory, and no picture decoded."""
    parts: list[tuple[Part | None, Any]] = [(None, data)]
    if hasattr(data, "keys"):  # a DatasetDict
        parts = [(part_named(name, IN_MEMORY), data[name]) for name in data]
    for part, piece in parts:
        if not hasattr(piece, "with_format") or not hasattr(piece, "__len__"):
            raise DataError(f"data is a {type(piece).__name__}, which is read once: load it without streaming.")
        if len(piece) == 0:
            raise DataError(f"data holds no sample{f' in {part}' if part else ''}: give a dataset that has some.")
    if not parts:
        raise DataError("data holds no sample: give a dataset that has some.")
    tables = in_order(((part, piece.with_format("arrow")[:]) for part, piece in parts), IN_MEMORY)
    features = parts[0][1].features.to_dict()
    return listing_of_tables(
        IN_MEMORY, tables, features, follow_paths=True, label=label, labelled=labelled, columns=columns
    )


def gathered(dataset: Any, labelled: bool) -> tuple[list[Any], list[Any] | None, Sequence[str] | None]:
    """Every sample of a torch dataset, its label, and the names of the classes as torchvision calls them."""
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise DataError(
            f"data is a {type(dataset).__name__} without a length: give a dataset that is indexed by number."
        )
    images, labels = [], []
    for row in range(len(dataset)):
        sample = dataset[row]
        pair = isinstance(sample, (tuple, list)) and len(sample) > 1
        if labelled and not pair:
            raise DataError(
                f"data[{row}] is a {type(sample).__name__}: a dataset gives a pair of an image and its label."
            )
        images.append(sample[0] if isinstance(sample, (tuple, list)) else sample)
        labels.append(sample[1] if pair else None)
    names = getattr(dataset, "classes", None)
    named = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
    return images, labels if labelled else None, names if named and names else None
