"""β1 and β2 in closed form, as the report needs them: it reads records and does not load what trained them.

The same formulas as in `tnlpad.core.penalties`, to which a test holds them.
"""

from collections.abc import Callable, Mapping
from typing import Any

C1 = 1e-4
FACTORS = {"exponential": 0.95, "step": 0.6}
STEP_EPOCHS = 10


def beta1(epoch: int, c1: float = C1) -> float:
    """c1·t."""
    return c1 * epoch


def power(epoch: int, c2: float) -> float:
    """t^(−c2)."""
    return float(epoch**-c2)


def beta2(family: str, epoch: int, *, c2: float, epochs: int) -> float:
    """Of one of the families; all of them are 1 in the first epoch."""
    forms: dict[str, Callable[[], float]] = {
        "constant": lambda: 1.0,
        "linear": lambda: max(0.0, 1.0 - (epoch - 1) / epochs),
        "power": lambda: power(epoch, c2),
        "exponential": lambda: float(FACTORS["exponential"] ** (epoch - 1)),
        "step": lambda: float(FACTORS["step"] ** ((epoch - 1) // STEP_EPOCHS)),
    }
    if family not in forms:
        raise ValueError(f"family={family!r}: there are {', '.join(forms)}.")
    return forms[family]()


def beta2_of_run(config: Mapping[str, Any], epoch: int) -> float | None:
    """β2 of a recorded run of the decomposition; None where γ was not constrained."""
    options = config["options"]
    if not options["gamma_constraint"]:
        return None
    return beta2(options["gamma_family"], epoch, c2=options["c2"], epochs=config["epochs"])
