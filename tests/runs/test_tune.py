import functools
import json
from types import SimpleNamespace

import pytest

import tnlpad.runs.tune as tuning
from tnlpad.records.store import RecordError, RunFolder
from tnlpad.runs.config import configure
from tnlpad.runs.tune import Tried, document, grid, tune, winner

SMALL = {"epochs": 2, "batch_size": 256}
rows_of = functools.partial(grid, "digits", noise="symmetric:0.4", settings=SMALL)


def test_a_row_for_every_value_and_a_column_for_every_seed():
    rows = rows_of(field="c2", values=["0.5", "2"], seeds=[1, 4])
    assert [[(config.options["c2"], config.seed) for config in row] for row in rows] == [
        [(0.5, 1), (0.5, 4)],
        [(2.0, 1), (2.0, 4)],
    ]
    expected = configure("digits", noise="symmetric:0.4", seed=4, settings={**SMALL, "c2": 2})
    assert rows[1][1] == expected


def test_every_word_reaches_the_runs():
    words = {"noise": "pairflip:0.2", "protocol": "authors", "method": "jocor", "network": "mlp"}
    rows = grid("digits", field="batch_size", values=[16], seeds=[3], settings={"epochs": 2}, **words)
    assert rows == [[configure("digits", seed=3, settings={"epochs": 2, "batch_size": 16}, **words)]]


def test_without_words_it_is_the_papers_method_on_the_labels_as_they_are():
    assert grid("digits", field="epochs", values=["2"], seeds=[1]) == [[configure("digits", settings={"epochs": 2})]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"field": "c3"}, "did you mean c"),
        ({"field": "epochs"}, "leave out --set epochs"),
        ({"values": []}, "values are missing"),
        ({"seeds": []}, "seeds are missing"),
        ({"seeds": [1, 1]}, "given twice"),
        ({"values": ["1", "1.0"]}, "given twice"),
        ({"values": ["strong"]}, "must be a number"),
    ],
)
def test_wrong_grids(change, message):
    with pytest.raises(ValueError, match=message):
        rows_of(**{"field": "c2", "values": ["1"], "seeds": [1], **change})


def test_numbers_are_those_of_the_runs_and_everything_resumes(tmp_path, monkeypatch):
    rows = rows_of(field="learning_rate", values=["0.01", "1e-6"], seeds=[1, 2])
    told = []
    tried = tune(rows, "learning_rate", tmp_path, on_run=lambda *each: told.append(each))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    for row, each in zip(rows, tried, strict=True):
        summaries = [RunFolder(tmp_path / config.run_id).summary() for config in row]
        assert each.accuracies == tuple(summary["chosen"]["validation_accuracy"] for summary in summaries)
        assert each.mean == pytest.approx(sum(each.accuracies) / 2)
        assert each.run_ids == tuple(config.run_id for config in row)
    assert [each.value for each in tried] == [0.01, 1e-6]
    monkeypatch.setattr("tnlpad.runs.run.prepare_data", lambda *_: pytest.fail("repeated"))
    assert tune(rows, "learning_rate", tmp_path) == tried


def test_it_is_the_chosen_epoch_that_counts(tmp_path, monkeypatch):
    """And where it takes place is passed on."""
    ends = {"chosen": {"validation_accuracy": 0.75}, "last": {"validation_accuracy": 0.5}}
    told = []

    def run(config, out, *, root, device, **_):
        told.append((out, root, device))
        return SimpleNamespace(path=out / "run", summary=lambda: ends)

    monkeypatch.setattr(tuning, "run", run)
    rows = rows_of(field="c2", values=["1"], seeds=[1])
    (each,) = tune(rows, "c2", tmp_path / "runs", root=tmp_path, device="cuda:1")
    assert each.accuracies == (0.75,)
    assert told == [(tmp_path / "runs", tmp_path, "cuda:1")]


class NoTest(dict):
    """A record that notices when someone looks at the test set."""

    def __getitem__(self, key):
        assert "test" not in key, "looked at the test set"
        value = super().__getitem__(key)
        return NoTest(value) if isinstance(value, dict) else value


def test_the_test_set_is_not_looked_at(tmp_path, monkeypatch):
    run = tuning.run

    class Watched(RunFolder):
        def summary(self):
            return NoTest(super().summary())

    monkeypatch.setattr(tuning, "run", lambda *words, **options: Watched(run(*words, **options).path))
    tried = tune(rows_of(field="c2", values=["1"], seeds=[1]), "c2", tmp_path)
    assert "test" not in str(document(tried, "c2", "noisy"))
    with pytest.raises(AssertionError, match="looked at"):
        NoTest({"chosen": {"test_accuracy": 1}})["chosen"]["test_accuracy"]


def test_a_damaged_summary_is_reported(tmp_path):
    rows = rows_of(field="c2", values=["1"], seeds=[1])
    tune(rows, "c2", tmp_path)
    folder = RunFolder(tmp_path / rows[0][0].run_id)
    summary = folder.summary()
    del summary["chosen"]["validation_accuracy"]
    folder.summary_file.write_text(json.dumps(summary))
    with pytest.raises(RecordError, match=r"damaged \(chosen.*validation_accuracy.*\)"):
        tune(rows, "c2", tmp_path)


def tried(value, *accuracies):
    return Tried(value=value, accuracies=accuracies, run_ids=tuple(f"{value}-{k}" for k in range(len(accuracies))))


def test_mean_and_deviation_by_hand():
    each = tried(1, 0.5, 0.7, 0.9)
    assert (each.mean, each.sd) == (pytest.approx(0.7), pytest.approx(0.2))
    assert tried(1, 0.5, 0.7).sd == pytest.approx(0.02**0.5)
    assert tried(1, 0.5).sd is None


def test_the_first_of_the_highest_wins():
    assert winner([tried("a", 0.5), tried("b", 0.75), tried("c", 0.75)]).value == "b"
    assert winner([tried("a", 0.2, 0.9), tried("b", 0.6, 0.6)]).value == "b"  # by the mean, not by the luckiest seed


def test_the_document():
    assert document([tried(1.0, 0.5), tried(2.0, 0.75)], "c2", "noisy") == {
        "field": "c2",
        "chosen": 2.0,
        "selection": "highest mean noisy validation accuracy, each run at its own best epoch; first of equals",
        "tried": [
            {"value": 1.0, "validation_accuracy": {"mean": 0.5, "sd": None, "n": 1}, "runs": {"1.0-0": 0.5}},
            {"value": 2.0, "validation_accuracy": {"mean": 0.75, "sd": None, "n": 1}, "runs": {"2.0-0": 0.75}},
        ],
    }
