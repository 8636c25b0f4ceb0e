import pytest

from tnlpad.cli.run_words import print_summary


@pytest.mark.parametrize(("validation", "other"), [("noisy", "clean"), ("clean", "noisy")])
def test_the_labels_that_chose_the_epoch_are_named(capsys, tmp_path, validation, other):
    epoch = {"epoch": 7, "validation_accuracy": 0.5, "test_accuracy": 0.25}
    ends = {"chosen": epoch, "last": {**epoch, "epoch": 9}, "epochs_run": 9}
    print_summary({"run_id": "some_run", "config": {"validation": validation, "epochs": 9}, **ends}, tmp_path)
    said = capsys.readouterr().out
    assert f"chosen on {validation} validation" in said
    assert f"{validation} validation, %" in said
    assert other not in said
    assert "50.00" in said
    assert "25.00" in said
    assert "Ended" not in said
    sooner = {"config": {"validation": validation, "epochs": 20}, "stopped": "by patience"}
    print_summary({"run_id": "some_run", **ends, **sooner}, tmp_path)
    assert "Ended by patience, after 9 of 20 epochs." in capsys.readouterr().out


def test_own_data_have_labels_as_given_and_perhaps_no_test_part(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "120")
    epoch = {"epoch": 7, "validation_accuracy": 0.5, "test_accuracy": None}
    config = {"validation": "noisy", "data": {}, "epochs": 7}
    print_summary({"run_id": "some_run", "config": config, "chosen": epoch, "last": epoch, "epochs_run": 7}, tmp_path)
    said = capsys.readouterr().out
    assert "test part, labels as given, %" in said
    assert said.count("no test part") == 2
