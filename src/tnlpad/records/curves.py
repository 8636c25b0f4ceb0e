"""What a figure needs of a run's epochs: one number per epoch, rounded to what can be seen and no further.

Shares keep four digits after the point, which is exact for ten thousand test images, and losses and norms keep three
significant ones. As plain data shares are whole ten-thousandths, which takes less room. Rounding comes first, so that a
curve read from a run folder equals the one read from its archived record.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Curve = tuple[float, ...]
BrokenCurve = tuple[float | None, ...]  # some quantities have no value in some epochs


@dataclass(frozen=True, kw_only=True)
class Curves:
    """A run's course; accuracies and the like are shares of 1, element k belongs to epoch k + 1.

    Args:
        train_loss: Mean over the epoch's batches.
        validation_accuracy: On noisy labels, of what the method reports; chooses the epoch.
        test_accuracy: On clean labels, of what the method reports.
        judged_test_accuracy: The same by the name of each judged network, where there is more than one.
        memorised: By judged network, the share of wrongly labelled training samples given exactly their wrong label.
        norms: By name: gradient, and of a decomposition sigma, gamma, drift and averaged_gradient.
        selection_precision: By selection, the share of right labels among the samples picked.
        selection_size: How many were picked; records of earlier versions have none.
    """

    train_loss: Curve
    validation_accuracy: Curve
    test_accuracy: Curve
    judged_test_accuracy: Mapping[str, BrokenCurve]
    memorised: Mapping[str, BrokenCurve]
    norms: Mapping[str, BrokenCurve]
    selection_precision: Mapping[str, BrokenCurve]
    selection_size: Mapping[str, BrokenCurve] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain data; what this run does not have is left out, and what is there already is not said again."""
        plain: dict[str, Any] = {name: _plain(name, getattr(self, name)) for name in SINGLE}
        for name in NAMED:
            if curves := getattr(self, name):
                plain[name] = {key: _plain(name, curve) for key, curve in curves.items()}
        for key, curve in self.judged_test_accuracy.items():
            if curve == self.test_accuracy:
                plain["judged_test_accuracy"][key] = AS_REPORTED
        return plain


SINGLE = ("train_loss", "validation_accuracy", "test_accuracy")
NAMED = ("judged_test_accuracy", "memorised", "norms", "selection_precision", "selection_size")
AS_REPORTED = "test_accuracy"  # in place of a curve that is the method's own
NO_SHARES = ("train_loss", "norms", "selection_size")
UNITS_PER_ONE = 10_000


def curves_of(epochs: Sequence[Mapping[str, Any]]) -> Curves:
    """The curves of a run folder's epochs; a KeyError or TypeError means that they are not those of a run."""
    judged = [record["judged"] for record in epochs]
    selections = [record["selection"] for record in epochs]
    several = len(_names(judged)) > 1
    return Curves(
        train_loss=tuple(significant(record["train_loss"]) for record in epochs),
        validation_accuracy=tuple(share(record["validation_accuracy"]) for record in epochs),
        test_accuracy=tuple(share(record["test_accuracy"]) for record in epochs),
        judged_test_accuracy=_by_name(judged, lambda network: network["test_accuracy"], share) if several else {},
        memorised=_by_name(judged, lambda network: network.get("memorised"), share),
        norms=_by_name([record["norms"] for record in epochs], lambda norm: norm, significant),
        selection_precision=_by_name(selections, lambda picked: picked["precision"], share),
        selection_size=_by_name(selections, lambda picked: picked["picked"], int),
    )


def curves_from_json(plain: Mapping[str, Any]) -> Curves:
    """The curves that `to_json` wrote; a KeyError, TypeError or ValueError means that it did not."""
    single: dict[str, Any] = {name: _curve(name, plain[name]) for name in SINGLE}
    named: dict[str, Any] = {
        name: {
            key: _curve(name, plain[AS_REPORTED] if curve == AS_REPORTED else curve) for key, curve in curves.items()
        }
        for name, curves in ((name, plain.get(name, {})) for name in NAMED)
    }
    lengths = {len(curve) for curve in [*single.values(), *(c for curves in named.values() for c in curves.values())]}
    if len(lengths) > 1:
        raise ValueError(f"curves of {', '.join(map(str, sorted(lengths)))} epochs")
    return Curves(**single, **named)


def share(value: float) -> float:
    """Four digits after the point."""
    return round(value * UNITS_PER_ONE) / UNITS_PER_ONE


def significant(value: float) -> float:
    """Three significant digits."""
    return float(f"{value:.3g}")


def _plain(name: str, curve: BrokenCurve) -> list[float | None]:
    if name in NO_SHARES:
        return list(curve)
    return [None if value is None else round(value * UNITS_PER_ONE) for value in curve]


def _curve(name: str, plain: Sequence[float | None]) -> Any:
    unit = 1 if name in NO_SHARES else UNITS_PER_ONE
    return tuple(None if value is None else value / unit for value in plain)


def _by_name(
    epochs: Sequence[Mapping[str, Any]], value_of: Callable[[Any], Any], rounded: Callable[[float], float]
) -> dict[str, BrokenCurve]:
    """A curve for each name that occurs; None where it has no value, and no curve where it never has one."""
    found = {name: [value_of(epoch[name]) if name in epoch else None for epoch in epochs] for name in _names(epochs)}
    return {
        name: tuple(None if value is None else rounded(value) for value in values)
        for name, values in found.items()
        if any(value is not None for value in values)
    }


def _names(epochs: Sequence[Mapping[str, Any]]) -> list[str]:
    """In the order in which they first occur."""
    return list(dict.fromkeys(name for epoch in epochs for name in epoch))
