"""Datasets: the catalogue of published ones, download, readers, loaders, and user data in `own`.

Names are resolved on first use, so that importing the catalogue loads nothing heavy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tnlpad.data.catalogue import CATALOGUE as CATALOGUE
    from tnlpad.data.catalogue import CIFAR100_SUPERCLASS as CIFAR100_SUPERCLASS
    from tnlpad.data.catalogue import DatasetInfo as DatasetInfo
    from tnlpad.data.cifar_n import LABEL_SETS as LABEL_SETS
    from tnlpad.data.datasets import human_labels as human_labels
    from tnlpad.data.datasets import load as load
    from tnlpad.data.fetch import get as get
    from tnlpad.data.files import default_root as default_root
    from tnlpad.data.verify import check as check
    from tnlpad.data.verify import status as status
    from tnlpad.errors import DataError as DataError
    from tnlpad.errors import FetchError as FetchError

# A name must differ from those of the modules here: an imported module would replace it.
_HOME = {
    "CATALOGUE": "tnlpad.data.catalogue",
    "CIFAR100_SUPERCLASS": "tnlpad.data.catalogue",
    "DataError": "tnlpad.errors",
    "DatasetInfo": "tnlpad.data.catalogue",
    "FetchError": "tnlpad.errors",
    "LABEL_SETS": "tnlpad.data.cifar_n",
    "check": "tnlpad.data.verify",
    "default_root": "tnlpad.data.files",
    "get": "tnlpad.data.fetch",
    "human_labels": "tnlpad.data.datasets",
    "load": "tnlpad.data.datasets",
    "status": "tnlpad.data.verify",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tnlpad.data' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
