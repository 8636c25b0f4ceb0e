"""Penalty strengths as functions of the epoch: β1(t) for σ and β2(t) for γ.

Paper: "Tackling Noisy Labels with Network Parameter Additive Decomposition". β1 = c1·t grows, so that σ moves less and
less once the clean patterns are learnt; β2 = t^(−c2) shrinks, so that γ becomes free to absorb what remains, the wrong
labels. The paper also compares other shapes of β2 (constant, linear, exponential, step); all of them start at 1.

A penalty is any callable from the 1-based epoch to a non-negative number. The classes here also check their arguments
and have a readable `repr`. `None` switches a penalty off.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

Penalty = Callable[[int], float]


def _require(name: str, value: float, valid: Callable[[float], bool], rule: str) -> None:
    try:
        accepted = valid(value)
    except TypeError:  # a string, for example, does not compare with numbers
        accepted = False
    if not accepted:
        raise ValueError(f"{name}={value!r}: {rule}")


def _from_zero(value: float) -> bool:
    return 0 <= value < math.inf


def _from_one(value: float) -> bool:
    return 1 <= value < math.inf


@dataclass(frozen=True)
class LinearGrowth:
    """β(t) = c1·t, the paper's penalty on ‖σ − σ_previous epoch‖."""

    c1: float = 1e-4

    def __post_init__(self) -> None:
        rule = "must be a finite number >= 0 (the paper uses 1e-4; 0 switches the penalty off)"
        _require("c1", self.c1, _from_zero, rule)

    def __call__(self, epoch: int) -> float:
        return self.c1 * epoch


@dataclass(frozen=True)
class PowerDecay:
    """β(t) = t^(−c2), the paper's penalty on ‖γ‖."""

    c2: float = 0.6

    def __post_init__(self) -> None:
        _require("c2", self.c2, _from_zero, "must be a finite number >= 0 (the paper uses 0.2 to 2.0)")

    def __call__(self, epoch: int) -> float:
        return float(epoch**-self.c2)


@dataclass(frozen=True)
class Constant:
    """β(t) = value."""

    value: float = 1.0

    def __post_init__(self) -> None:
        # Infinity is a meaningful constant: the proximal update then holds γ at exactly 0.
        _require("value", self.value, lambda value: value >= 0, "must be a number >= 0")

    def __call__(self, epoch: int) -> float:
        return self.value


@dataclass(frozen=True)
class LinearDecay:
    """β(t) = 1 − (t − 1)/epochs, never below 0."""

    epochs: int

    def __post_init__(self) -> None:
        _require("epochs", self.epochs, _from_one, "must be at least 1; later epochs have no penalty")

    def __call__(self, epoch: int) -> float:
        return max(0.0, 1.0 - (epoch - 1) / self.epochs)


@dataclass(frozen=True)
class ExponentialDecay:
    """β(t) = factor^(t − 1)."""

    factor: float = 0.95

    def __post_init__(self) -> None:
        _require("factor", self.factor, lambda factor: 0 < factor <= 1, "must lie in (0, 1]")

    def __call__(self, epoch: int) -> float:
        return float(self.factor ** (epoch - 1))


@dataclass(frozen=True)
class StepDecay:
    """β(t) = factor^⌊(t − 1)/every⌋."""

    factor: float = 0.6
    every: int = 10

    def __post_init__(self) -> None:
        _require("factor", self.factor, lambda factor: 0 < factor <= 1, "must lie in (0, 1]")
        _require("every", self.every, _from_one, "must be at least 1 epoch")

    def __call__(self, epoch: int) -> float:
        return float(self.factor ** ((epoch - 1) // self.every))


def strength(penalty: Penalty | None, epoch: int, name: str) -> float:
    """Return a penalty's value at an epoch; raise if it would silently make weights NaN."""
    if penalty is None:
        return 0.0
    value = penalty(epoch)
    rule = f"a penalty must be a number >= 0. Check {penalty!r}, which is called with the 1-based epoch."
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} is {value!r} at epoch {epoch}: {rule}") from error
    if not number >= 0:  # also catches NaN
        raise ValueError(f"{name} is {number} at epoch {epoch}: {rule}")
    return number


def choose_penalty(
    short: str,
    value: float | None,
    long: str,
    penalty: Penalty | None,
    default: Penalty,
    schedule: Callable[[float], Penalty],
) -> Penalty | None:
    """Return the penalty set by the shorthand (c1, c2) or as an object; raise if both are set."""
    if value is None:
        if penalty is not None and (isinstance(penalty, type) or not callable(penalty)):
            raise TypeError(f"{long}={penalty!r}: give a function of the epoch, such as {default!r}, or None.")
        return penalty
    if penalty is not default:
        raise ValueError(f"{short}={value} and {long}={penalty!r} set the same penalty: pass one of them.")
    return schedule(value)
