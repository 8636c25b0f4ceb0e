"""People's own data: a folder of images, a table, arrays, or a dataset of another library.

A reader (`folder`, `manifest`, `arrays`, `hugging_face`, `objects`) lists the samples. `open` checks each of them and
returns an `OwnDataset`, which runs are configured for and trained on. `inspect` summarises it.
"""

from tnlpad.data.own.dataset import DataShape, OwnDataset
from tnlpad.data.own.open import is_path, open_dataset

__all__ = ["DataShape", "OwnDataset", "is_path", "open_dataset"]
