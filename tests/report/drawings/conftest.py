"""Made-up records of finished runs."""

from pathlib import Path

import pytest

from tnlpad.records.archive import FinishedRecord
from tnlpad.records.curves import Curves

OPTIONS = {
    "c1": 1e-4,
    "c2": 0.6,
    "gamma_family": "power",
    "sigma_constraint": True,
    "gamma_constraint": True,
}


def record(
    method="tnlpad",
    *,
    dataset="cifar10",
    noise="symmetric:0.4",
    seed=1,
    protocol="paper",
    network="resnet18",
    settings=None,
    test=(0.5, 0.8, 0.7),
    validation=(0.3, 0.5, 0.4),
    memorised=None,
    norms=None,
    milestones=(40, 80),
    precision=None,
    size=None,
    options=None,
    curves=True,
):
    settings = dict(settings or {})
    own = {name: settings.get(name, value) for name, value in OPTIONS.items()} if method == "tnlpad" else {}
    epoch = validation.index(max(validation)) + 1
    summary = {
        "selection": "first epoch of the highest noisy validation accuracy",
        "chosen": {
            "epoch": epoch,
            "validation_accuracy": validation[epoch - 1],
            "test_accuracy": test[epoch - 1],
        },
        "last": {"epoch": len(test), "test_accuracy": test[-1]},
        "samples": {"train": 900, "validation": 100, "test": 100},
        "wrong_labels": 0.4,
    }
    config = {
        "dataset": dataset,
        "noise": noise,
        "protocol": protocol,
        "method": method,
        "network": network,
        "seed": seed,
        "options": options or own,
        "epochs": settings.get("epochs", len(test)),
        "milestones": list(milestones),
        **{name: settings[name] for name in ("precision", "compiled", "patience") if name in settings},
    }

    def read():
        assert curves, "the curves of this record are not to be read"
        return Curves(
            train_loss=(1.0,) * len(test),
            validation_accuracy=tuple(validation),
            test_accuracy=tuple(test),
            judged_test_accuracy={},
            memorised=memorised or {},
            norms=norms or {},
            selection_precision=precision or {},
            selection_size=size or {},
        )

    return FinishedRecord(
        run_id=f"{dataset}_{noise}_{method}_{seed}_{sorted(settings.items())}",
        config=config,
        settings=settings,
        summary=summary,
        source=Path("somewhere"),
        read_curves=read,
    )


@pytest.fixture
def make_record():
    return record


def lines(axes):
    """Return x and y of the lines of a panel by label."""
    return {line.get_label(): line.get_xydata() for line in axes.get_lines() if not line.get_label().startswith("_")}


def titles(figure):
    return [plain(axes.get_title(loc="left")) for axes in figure.axes]


def plain(text):
    """Replace no-break spaces and line breaks by spaces."""
    return text.replace("\u00a0", " ").replace("\n", " ")
