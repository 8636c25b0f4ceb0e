"""A person's own data, whatever they lie in: a folder, a table, arrays, a dataset of another library.

A reader (`folder`, `manifest`, `npz`, `hugging_face`, `in_memory`) makes a `Listing` of what it finds; `usable`
looks at every sample of it and makes an `OwnDataset`, which runs are configured for and trained on.
"""

from tnlpad.data.own.dataset import DataShape, OwnDataset
from tnlpad.data.own.open import is_path, open_dataset

__all__ = ["DataShape", "OwnDataset", "is_path", "open_dataset"]
