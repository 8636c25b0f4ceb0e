"""Labels as they come in: class indices within range, and those of the samples that they are said to be of."""

import numpy as np
from numpy.typing import ArrayLike

from tnlpad.errors import LabelMismatchError
from tnlpad.types import Labels


def checked_labels(labels: ArrayLike, num_classes: int) -> Labels:
    """A copy of the labels as int64, refused unless each is a class index from 0 to num_classes − 1."""
    array = np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(f"labels have shape {array.shape}: must be one-dimensional, one class index per sample.")
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"labels are {array.dtype}: must be whole numbers, class indices from 0.")
    outside = np.flatnonzero((array < 0) | (array >= num_classes))
    if outside.size:
        bad = int(outside[0])
        raise ValueError(
            f"labels[{bad}] = {array[bad]}: must lie in 0..{num_classes - 1} for {num_classes} classes. Renumber the "
            "labels from 0, or state the number of classes that there are."
        )
    return array.astype(np.int64)


def require_same_clean_labels(noted: Labels, dataset: Labels, source: str) -> None:
    """Refuse noisy labels whose clean labels are not, sample for sample, those of the dataset.

    A file in another order of samples would otherwise be trained on as noise of nearly 1 − 1/C.
    """
    if len(noted) != len(dataset):
        raise LabelMismatchError(
            f"{source} has {len(noted)} labels and the dataset {len(dataset)}: there must be one for each sample. "
            "Use the labels with the dataset and the part of it that they were made for."
        )
    different = np.flatnonzero(noted != dataset)
    if different.size:
        first = int(different[0])
        raise LabelMismatchError(
            f"{source} notes clean label {noted[first]} for sample {first}, the dataset says {dataset[first]}; "
            f"{different.size} of {len(dataset)} differ, and none may. The samples are in another order or are others: "
            "use the dataset's published order, or make the labels again for this dataset."
        )
