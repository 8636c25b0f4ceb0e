import pytest

from tests.report.conftest import COLUMN
from tests.synthetic_runs import write_run
from tnlpad.records.archive import finished_records
from tnlpad.report.patience import HEADINGS, Stopping, patience_markdown, stopped, stopping


def test_a_run_stops_when_its_first_best_epoch_lies_far_enough_back():
    course = [0.1, 0.5, 0.4, 0.5, 0.3, 0.6, 0.2]
    assert stopped(course, 1) == (2, 3)
    assert stopped(course, 3) == (2, 5)  # the same accuracy again is no better
    assert stopped(course, 4) == (6, 7)
    assert stopped([0.3], 1) == (1, 1)


def test_it_is_what_the_training_loop_does():
    from tnlpad.training.loop import out_of_patience

    course = [0.1, 0.5, 0.4, 0.5, 0.3, 0.6, 0.2]
    for patience in (1, 2, 3, 4, 10):
        history = []
        for epoch, accuracy in enumerate(course, start=1):
            history.append({"epoch": epoch, "validation_accuracy": accuracy})
            if out_of_patience(history, patience):
                break
        assert stopped(course, patience)[1] == len(history)


class Run:
    """As much of a record as is read."""

    def __init__(self, validation, test, patience=None):
        self.config = {"dataset": "mnist", "method": "tnlpad", "patience": patience}
        self.curves = self
        self.validation_accuracy, self.test_accuracy = validation, test


def test_what_a_patience_would_have_changed():
    late = Run([0.5, 0.4, 0.4, 0.6], [0.7, 0.6, 0.6, 0.8])
    early = Run([0.4, 0.5, 0.3, 0.3], [0.6, 0.7, 0.6, 0.6])
    assert stopping([late, early], 2) == Stopping(runs=2, same=1, change=pytest.approx(-5), spared=pytest.approx(1 / 8))


def test_runs_with_a_patience_of_their_own_say_nothing():
    full, short = Run([0.5, 0.4], [0.7, 0.6]), Run([0.4], [0.5], patience=1)
    lines = patience_markdown([full, short]).splitlines()
    assert lines[2] == "| MNIST | TNLPAD | 10 | 1 of 1 | 0.00 | 0 % |"
    assert len(lines) == 5
    assert {line.count("|") for line in lines} == {len(HEADINGS) + 1}


def test_from_records(tmp_path):
    write_run(tmp_path, COLUMN["standard"], 1)
    assert "| MNIST | Standard | 20 | 1 of 1 |" in patience_markdown(finished_records([tmp_path], pytest.fail))
