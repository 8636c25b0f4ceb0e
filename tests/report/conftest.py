import pytest
from matplotlib.figure import Figure

from tests.synthetic_runs import write_run
from tnlpad.paper.cells import cells
from tnlpad.records.archive import finished_records
from tnlpad.report.drawings.panels import Drawing
from tnlpad.report.results import table_results

GPU = {"precision": "bfloat16", "compiled": True}
COLUMN = {cell.row: cell for cell in cells("simulated") if cell.group == "mnist/symmetric-0.2"}


def summary(mean, sd):
    return {"mean": mean, "sd": sd, "n": 2, "values": [mean, mean]}


def method(last, chosen, memorised, epochs):
    curves = {"test": [0.3, 0.9, last], "validation": [0.2, 0.5, 0.4], "memorised": [0.1, 0.2, memorised]}
    return {
        "test_last_epoch": summary(last, 0.02),
        "test_chosen_epoch": summary(chosen, 0.01),
        "chosen_epochs": epochs,
        "memorised_last_epoch": summary(memorised, 0.05),
        "curves": [curves, curves],
    }


@pytest.fixture
def demo_record():
    return {
        "kind": "demo",
        "command": "tnlpad demo --out <here>",
        "versions": {"python": "3.11.0", "torch": "2.6.0"},
        "seconds": 12.3,
        "configuration": {
            "seeds": [1, 2],
            "noise_rate": 0.4,
            "train_size": 1000,
            "validation_size": 300,
            "epochs": 3,
            "batch_size": 64,
            "learning_rate": 0.01,
            "learning_rate_drop": 0.1,
            "momentum": 0.9,
            "weight_decay": 0.001,
            "c1": 0.0001,
            "c2": 2.0,
        },
        "test_size": 497,
        "runs": {"a": "tnlpad train digits --seed 1", "b": "tnlpad train digits --seed 2"},
        "methods": {
            "plain": method(0.65, 0.88, 0.8, [2, 2]),
            "w": method(0.63, 0.88, 0.9, [2, 2]),
            "sigma": method(0.8, 0.9, 0.3, [2, 3]),
        },
        "gain": {"test_last_epoch": 0.15, "combined_sd": 0.04},
    }


@pytest.fixture
def two_drawings(monkeypatch):
    """One that can be drawn and one that lacks its data, in place of the paper's, which take seconds."""
    texts = {"caption": "What it shows.", "needs": "Runs of a kind.", "plot": lambda found: Figure((2, 1))}
    drawings = {
        "drawn": Drawing(title="A figure", collect=lambda records, extras: True, **texts),
        "lacking": Drawing(title="Another", collect=lambda records, extras: None, **texts),
    }
    monkeypatch.setattr("tnlpad.report.write.DRAWINGS", drawings)
    monkeypatch.setattr("tnlpad.report.write.file_figure", lambda title, curves: None)  # takes half a second each
    return drawings


@pytest.fixture
def table(tmp_path):
    """TNLPAD with two seeds, one more in float32; standard with one."""
    for seed, accuracy in ((1, 0.989), (2, 0.991)):
        write_run(tmp_path, COLUMN["tnlpad"], seed, accuracy=accuracy, last=0.97, memorised=0.25, settings=GPU)
    write_run(tmp_path, COLUMN["tnlpad"], 1, accuracy=0.95)
    write_run(tmp_path, COLUMN["standard"], 1, accuracy=0.98, settings=GPU)
    return table_results("simulated", finished_records([tmp_path]))


@pytest.fixture
def smoke(tmp_path):
    """A table without published numbers, of which one cell is empty."""
    for cell in cells("smoke")[1:]:
        for seed in (1, 2):
            write_run(tmp_path, cell, seed, accuracy=0.9)
    return table_results("smoke", finished_records([tmp_path]))
