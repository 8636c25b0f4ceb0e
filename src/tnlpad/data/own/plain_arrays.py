"""Arrays of NumPy made of what programs hold numbers and labels in: tensors, tables of pandas, lists."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.data.errors import DataError
from tnlpad.data.own.columns import require_different
from tnlpad.data.own.listing import IN_MEMORY


def array_of(data: Any) -> NDArray[Any]:
    """Arrays and tensors of numbers, and lists of them."""
    if data is None:
        raise DataError("data is None: give images, features, a dataset or a path.")
    if isinstance(data, (list, tuple)):
        arrays = [array_of(each) for each in data]
        shapes = [each.shape for each in arrays]
        different = next((row for row, shape in enumerate(shapes) if shape != shapes[0]), None)
        if different is not None:
            raise DataError(
                f"data: sample {different} has the shape {shapes[different]}, and the first one {shapes[0]}. Make them "
                "alike, or give pictures of Pillow, which are brought to one size."
            )
        return np.stack(arrays) if arrays else np.empty((0,))
    if hasattr(data, "detach"):
        return _of_tensor(data)
    array = np.ma.filled(data.astype(np.float64), np.nan) if np.ma.isMaskedArray(data) else np.asarray(data)
    if array.dtype == object:
        raise DataError(
            f"data is a {type(data).__name__} of things that are no numbers: give images as 8-bit numbers of shape "
            "N×H×W, N×H×W×C or N×C×H×W, features as N×D numbers, a dataset or a path."
        )
    return array


def labels_of(labels: Any) -> Any:
    """Labels as a list, or an array of NumPy."""
    if labels is None:
        raise DataError("labels are missing: give one for each sample.")
    if isinstance(labels, (set, frozenset, Mapping)) or not hasattr(labels, "__iter__"):
        raise DataError(f"labels are a {type(labels).__name__}: give a list or an array, with one for each sample.")
    if hasattr(labels, "detach"):
        return _of_tensor(labels)
    return np.asarray(_without_gaps(labels)) if hasattr(labels, "shape") else list(labels)


def _of_tensor(data: Any) -> NDArray[Any]:
    data = data.detach().cpu()
    array: NDArray[Any] = (data.float() if str(data.dtype) == "torch.bfloat16" else data).numpy()
    return array


def columns_of(data: Any) -> dict[str, NDArray[Any]]:
    """The columns of a table of pandas."""
    names = [str(name) for name in data.columns]
    require_different(names, IN_MEMORY)
    return {name: np.asarray(_without_gaps(data[key])) for name, key in zip(names, data.columns, strict=True)}


def _without_gaps(values: Any) -> Any:
    """A table or column of pandas with None in place of its words for nothing; anything else as it is."""
    if not hasattr(values, "notna") or np.asarray(values.notna()).all():
        return values
    return values.astype(object).where(values.notna(), None)
