"""One number per epoch of a run, rounded for figures and for archived records.

Shares keep four decimals, which is exact for ten thousand test images. Losses and norms keep three significant digits.
Curves are rounded when they are read, so those of a run folder equal those of its archived record. JSON stores shares
as whole ten-thousandths, which takes less space.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tnlpad.schema import described, fits, shown

Curve = tuple[float, ...]
BrokenCurve = tuple[float | None, ...]  # None in epochs without a value

SINGLE = ("train_loss", "validation_accuracy", "test_accuracy")
# Curves by network; one that equals the curve of the reported network is stored as the name of that curve.
AS_REPORTED = {"judged_test_accuracy": "test_accuracy", "judged_validation_accuracy": "validation_accuracy"}
NAMED = (*AS_REPORTED, "memorised", "norms", "selection_precision", "selection_size")
NO_SHARES = ("train_loss", "norms", "selection_size")
UNITS_PER_ONE = 10_000


@dataclass(frozen=True, kw_only=True)
class Curves:
    """The curves of a run. Accuracies and the like are shares of 1; element k belongs to epoch k + 1.

    Args:
        train_loss: Mean over the epoch's batches.
        validation_accuracy: Accuracy of the reported network on noisy labels, which chooses the epoch.
        test_accuracy: Accuracy of the reported network on clean labels.
        judged_test_accuracy: Test accuracy by network, if the method evaluates more than one.
        judged_validation_accuracy: Validation accuracy by network. Earlier versions recorded none.
        memorised: By network, the share of wrongly labelled training samples that it gives exactly their wrong label.
        norms: By name: gradient, and of a decomposition sigma, gamma, drift and averaged_gradient.
        selection_precision: By selection, the share of right labels among the selected samples.
        selection_size: By selection, the number of selected samples. Earlier versions recorded none.
    """

    train_loss: Curve
    validation_accuracy: Curve
    test_accuracy: Curve
    judged_test_accuracy: Mapping[str, BrokenCurve]
    memorised: Mapping[str, BrokenCurve]
    norms: Mapping[str, BrokenCurve]
    selection_precision: Mapping[str, BrokenCurve]
    selection_size: Mapping[str, BrokenCurve] = field(default_factory=dict)
    judged_validation_accuracy: Mapping[str, BrokenCurve] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without empty groups of curves."""
        plain: dict[str, Any] = {name: _to_plain(name, getattr(self, name)) for name in SINGLE}
        for name in NAMED:
            if curves := getattr(self, name):
                plain[name] = {key: _to_plain(name, curve) for key, curve in curves.items()}
        for name, reported in AS_REPORTED.items():
            for key, curve in getattr(self, name).items():
                if curve == getattr(self, reported):
                    plain[name][key] = reported
        return plain


def curves_of(epochs: Sequence[Mapping[str, Any]]) -> Curves:
    """Return the curves of a run folder's epochs.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: They are not those of a run.
    """
    judged = [record["judged"] for record in epochs]
    selections = [record["selection"] for record in epochs]
    several = judged if len(_names(judged)) > 1 else []
    return Curves(
        train_loss=tuple(significant(record["train_loss"]) for record in epochs),
        validation_accuracy=tuple(share(record["validation_accuracy"]) for record in epochs),
        test_accuracy=tuple(share(record["test_accuracy"]) for record in epochs),
        judged_test_accuracy=_by_name(several, lambda network: network["test_accuracy"], share),
        judged_validation_accuracy=_by_name(several, lambda network: network["validation_accuracy"], share),
        memorised=_by_name(judged, lambda network: network.get("memorised"), share),
        norms=_by_name([record["norms"] for record in epochs], lambda norm: norm, significant),
        selection_precision=_by_name(selections, lambda picked: picked["precision"], share),
        selection_size=_by_name(selections, lambda picked: picked["picked"], lambda value: int(_number(value))),
    )


def curves_from_json(plain: Mapping[str, Any]) -> Curves:
    """Return the curves that `to_json` wrote.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: It is anything else.
    """
    single: dict[str, Any] = {name: _from_plain(name, plain[name]) for name in SINGLE}
    named: dict[str, Any] = {
        name: {
            key: _from_plain(name, plain[curve] if curve == AS_REPORTED.get(name) else curve)
            for key, curve in plain.get(name, {}).items()
        }
        for name in NAMED
    }
    lengths = {len(curve) for curves in (single, *named.values()) for curve in curves.values()}
    if len(lengths) > 1:
        raise ValueError(f"curves of {', '.join(map(str, sorted(lengths)))} epochs")
    return Curves(**single, **named)


def share(value: float) -> float:
    """Round to four decimals."""
    return round(_number(value) * UNITS_PER_ONE) / UNITS_PER_ONE


def significant(value: float) -> float:
    """Round to three significant digits."""
    return float(f"{_number(value):.3g}")


def _number(value: Any) -> float:
    if not fits(value, float):
        raise ValueError(f"{shown(value)} where a number should be")
    number: float = value
    return number


def _to_plain(name: str, curve: BrokenCurve) -> list[float | None]:
    if name in NO_SHARES:
        return list(curve)
    return [None if value is None else round(value * UNITS_PER_ONE) for value in curve]


def _from_plain(name: str, plain: Any) -> Any:
    kind = list[float] if name in SINGLE else list[float | None]
    if not fits(plain, kind):
        raise ValueError(f"{name} is not {described(kind)}")
    unit = 1 if name in NO_SHARES else UNITS_PER_ONE
    return tuple(None if value is None else value / unit for value in plain)


def _by_name(
    epochs: Sequence[Mapping[str, Any]], value_of: Callable[[Any], Any], rounded: Callable[[float], float]
) -> dict[str, BrokenCurve]:
    """Return a curve for each name that has a value in some epoch."""
    found = {name: [value_of(epoch[name]) if name in epoch else None for epoch in epochs] for name in _names(epochs)}
    return {
        name: tuple(None if value is None else rounded(value) for value in values)
        for name, values in found.items()
        if any(value is not None for value in values)
    }


def _names(epochs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys in the order in which they first occur."""
    return list(dict.fromkeys(name for epoch in epochs for name in epoch))
