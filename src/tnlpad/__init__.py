"""tnlpad: train classifiers on data whose labels are partly wrong, and find the wrong labels.

Importing it loads no heavy library, so that `tnlpad --help` is fast: names are resolved on first use.
"""

from importlib import import_module

TYPE_CHECKING = False  # a type checker takes it as true; `typing` itself loads ten modules
if TYPE_CHECKING:
    from typing import Any

    from tnlpad.core.batchnorm import reestimated_batchnorm as reestimated_batchnorm
    from tnlpad.core.decomposition import Decomposition as Decomposition
    from tnlpad.core.split import parameter_groups as parameter_groups
    from tnlpad.errors import DataError as DataError
    from tnlpad.fitting import fit as fit
    from tnlpad.result import Result as Result
    from tnlpad.result import load as load
    from tnlpad.suspects.from_probabilities import find_suspects as find_suspects

__version__ = "0.7.0"

_HOME = {
    "DataError": "tnlpad.errors",
    "Decomposition": "tnlpad.core.decomposition",
    "Result": "tnlpad.result",
    "find_suspects": "tnlpad.suspects.from_probabilities",
    "fit": "tnlpad.fitting",
    "load": "tnlpad.result",
    "parameter_groups": "tnlpad.core.split",
    "reestimated_batchnorm": "tnlpad.core.batchnorm",
}

__all__ = [
    "DataError",
    "Decomposition",
    "Result",
    "__version__",
    "find_suspects",
    "fit",
    "load",
    "parameter_groups",
    "reestimated_batchnorm",
]


def __getattr__(name: str) -> "Any":
    if name not in _HOME:
        raise AttributeError(f"module 'tnlpad' has no attribute {name!r}; it offers {', '.join(__all__)}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
