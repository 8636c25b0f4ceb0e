import io
from pathlib import Path

import pytest
from rich.console import Console

import tnlpad.cli.progress as progress
from tnlpad.cli.grid_progress import Tally, ended_line, grid_progress
from tnlpad.cli.progress import duration, machine_time, run_progress, status_line
from tnlpad.grid.grid import Ended, Failure
from tnlpad.progress import epoch_line
from tnlpad.records.store import RunFolder
from tnlpad.runs.config import configure


def test_the_line_of_an_epoch_leaves_room_for_the_bar():
    judged = {"sigma": {"validation_loss": 12.3456}}
    record = {"epoch": 100, "train_loss": 12.3456, "validation_accuracy": 1.0, "test_accuracy": 1.0, "judged": judged}
    assert epoch_line(record, 100) == "100/100 loss 12.346 val_loss 12.346 val 100.0 % test 100.0 %"
    assert len(epoch_line(record, 100)) <= 80 - 11 - 8  # the bar, and the time left


RECORD = {
    "epoch": 1,
    "train_loss": 1.0,
    "validation_accuracy": 0.5,
    "test_accuracy": None,
    "judged": {"sigma": {"validation_loss": 2.0}},
}


def test_lines_of_a_run_say_how_fast_features_come_and_how_long_it_takes(clock, capsys):
    with run_progress(20, quiet=False) as shown:
        shown.reporter.progress("Computing features", 100, 1000)
        assert capsys.readouterr().err == ""
        clock[0] += 12
        shown.reporter.progress("Computing features", 340, 1000)
        assert capsys.readouterr().err == "Computing features: 340 of 1,000 (20/s, 33 s left)\n"
        shown.reporter.progress("Computing features", 1000, 1000)
        shown.on_step(1, 1, 4)
        clock[0] += 5
        shown.on_epoch(RECORD)
        assert capsys.readouterr().err.endswith("(about 2 min left)\n")  # 5 s for three quarters of an epoch
        shown.on_epoch(RECORD | {"epoch": 2})
        assert capsys.readouterr().err == ""  # nothing new within half a minute
        clock[0] += 36
        shown.on_epoch(RECORD | {"epoch": 3})
        assert capsys.readouterr().err.endswith("(about 5 min left)\n")  # 18 s for each of 17
        shown.on_epoch(RECORD | {"epoch": 20})
        assert capsys.readouterr().err == epoch_line(RECORD | {"epoch": 20}, 20) + "\n"


def test_steps_of_a_long_first_epoch_tell_the_time(clock, capsys):
    with run_progress(10, quiet=False) as shown:
        for step in range(1, 5):
            shown.on_step(1, step, 100)
            clock[0] += 12
    said = capsys.readouterr().err
    assert said == "1/10 step 4 of 100 (about 3.3 h left, and more for measuring after each epoch)\n"


def test_epochs_of_one_step_tell_the_time_from_the_second_on(clock, capsys):
    with run_progress(4, quiet=False) as shown:
        for epoch in (1, 2, 3):
            shown.on_step(epoch, 1, 1)
            clock[0] += 2
            shown.on_epoch(RECORD | {"epoch": epoch})
    first, second = capsys.readouterr().err.splitlines()
    assert "left" not in first
    assert second.endswith("(about 4 s left)")


def test_bars_of_a_run(terminal):
    with run_progress(20, quiet=False) as shown:
        shown.reporter.progress("Computing features", 100, 1000)
        shown.reporter.say("Training 15 heads")
        shown.reporter.progress("Computing features", 1000, 1000)
        shown.on_step(1, 1, 4)
        shown.on_epoch(RECORD)
    sent = terminal.getvalue()
    for said in ("Computing features", "Training 15 heads", "1/20 loss 1.000"):
        assert said in sent


def test_a_quiet_run_shows_nothing(capsys):
    with run_progress(20, quiet=True) as shown:
        shown.reporter.say("Training 15 heads")
        shown.reporter.progress("Computing features", 100, 1000)
        shown.on_epoch(RECORD)
    assert capsys.readouterr().err == ""


CONFIGS = [configure("digits", seed=seed) for seed in (1, 2, 3)]


def ended(config, **how):
    return Ended(run_id=config.run_id, config=config, **how)


def done(config, seconds=3.0):
    return ended(config, test_accuracy=0.875, seconds=seconds, attempts=1)


def failed(config, error="too bad", traceback=None):
    return ended(config, failure=Failure(error=error, traceback=traceback))


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def terminal(monkeypatch):
    """A terminal in place of stderr; returns what it was sent."""
    sent = io.StringIO()
    monkeypatch.setattr(
        "rich.console.Console", lambda stderr: Console(file=sent, force_terminal=True, width=120, height=40)
    )
    return sent


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (99, "99 s"), (130, "2 min"), (7000, "1.9 h"), (4e6, "1,111 h")]
)
def test_duration(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "1 GPU second"),
        (99, "99 GPU seconds"),
        (100, "2 GPU minutes"),
        (1800, "30 GPU minutes"),
        (4680, "1.3 GPU hours"),
        (4e7, "11,111 GPU hours"),
    ],
)
def test_machine_time(seconds, words):
    assert machine_time(seconds, "GPU") == words


def test_time_left_is_expected_and_then_measured(clock):
    expected = {CONFIGS[0].run_id: 10.0, CONFIGS[1].run_id: 30.0, CONFIGS[2].run_id: 30.0}
    tally = Tally(CONFIGS, expected, places=2)
    assert tally.seconds_left == 40  # the third begins after ten seconds
    clock[0] += 5
    assert tally.seconds_left == 35
    tally.on_end(done(CONFIGS[0], seconds=5.0))  # twice as fast as expected, so that the others take 15 each
    assert tally.seconds_left == 15
    assert str(tally) == "1 of 3 runs, 15 s left"
    tally.on_end(failed(CONFIGS[1]))  # says nothing about the pace
    clock[0] += 1
    assert str(tally) == "2 of 3 runs, 1 failed, 14 s left"
    clock[0] += 30
    assert str(tally) == "2 of 3 runs, 1 failed"  # late, and nobody knows for how long
    tally.on_end(done(CONFIGS[2], seconds=31.0))
    assert str(tally) == "3 of 3 runs, 1 failed"


def test_runs_at_work_are_as_old_as_the_first_that_ended(clock):
    """Forty runs, twenty at once: when the first ends, its nineteen companions are about to, and as many follow."""
    configs = [configure("digits", seed=seed) for seed in range(40)]
    tally = Tally(configs, {}, places=20)
    assert str(tally) == "0 of 40 runs"
    clock[0] += 160
    tally.on_end(done(configs[0], seconds=160.0))
    assert tally.seconds_left == 160
    for config in configs[1:20]:
        tally.on_end(done(config, seconds=160.0))
    clock[0] += 100
    assert str(tally) == "20 of 40 runs, 60 s left"


def test_runs_that_were_there_already_take_no_place(clock):
    tally = Tally(CONFIGS, {config.run_id: 10.0 for config in CONFIGS}, places=1)
    tally.on_end(ended(CONFIGS[2]))  # finished by another process
    assert tally.seconds_left == 20
    clock[0] += 10
    tally.on_end(done(CONFIGS[0], seconds=10.0))
    assert tally.seconds_left == 10


def test_without_a_number_of_places_the_pace_is_that_of_all(clock):
    expected = {CONFIGS[0].run_id: 10.0, CONFIGS[1].run_id: 30.0, CONFIGS[2].run_id: 20.0}
    tally = Tally(CONFIGS, expected, places=None)
    assert str(tally) == "0 of 3 runs"
    clock[0] += 5
    tally.on_end(done(CONFIGS[0], seconds=4.0))  # 10 seconds of work in 5
    assert tally.seconds_left == 25


def test_nothing_is_said_about_time_that_nobody_knows(clock):
    tally = Tally(CONFIGS, {}, places=2)
    assert str(tally) == "0 of 3 runs"
    clock[0] += 8
    tally.on_end(done(CONFIGS[0], seconds=8.0))
    assert str(tally) == "1 of 3 runs, 8 s left"


def test_runs_ended_line():
    name = CONFIGS[0].run_id
    assert ended_line(done(CONFIGS[0])) == f"{name} test 87.5 % in 3 s"
    assert ended_line(ended(CONFIGS[0], test_accuracy=0.875, seconds=3.0, attempts=2)).endswith("in 3 s, attempt 2")
    assert ended_line(ended(CONFIGS[0])) == f"{name} was finished by another process"
    assert ended_line(failed(CONFIGS[0], "too bad\nand more")) == f"{name} failed: too bad"
    bug = failed(CONFIGS[0], "ZeroDivisionError: a bug", Path("runs/x/error.txt"))
    assert ended_line(bug) == f"{name} failed: ZeroDivisionError: a bug (traceback: runs/x/error.txt)"


def test_lines_where_no_one_is_looking(tmp_path, capsys):
    with grid_progress(CONFIGS, {}, tmp_path, 2, False) as shown:
        shown.on_end(done(CONFIGS[0]))
        for _ in range(2):
            shown.on_wait(2)
    out, err = capsys.readouterr()
    assert out == ""
    first, second = err.splitlines()
    assert first.startswith(f"{CONFIGS[0].run_id} test 87.5 % in 3 s (1 of 3 runs")
    assert second.endswith("waiting for 2 runs of another process")


def test_quiet(tmp_path, capsys):
    with grid_progress(CONFIGS, {}, tmp_path, 2, True) as shown, status_line(True) as tell:
        shown.on_end(done(CONFIGS[0]))
        shown.on_wait(1)
        tell("something")
    assert capsys.readouterr() == ("", "")


def test_the_live_display_shows_runs_at_work_and_the_last_failure(tmp_path, terminal):
    folder = RunFolder(tmp_path / CONFIGS[1].run_id)
    folder.begin(CONFIGS[1].to_json())
    for epoch in (1, 2):
        folder.append_epoch({"epoch": epoch, "validation_accuracy": 0.5, "test_accuracy": None})
    damaged = RunFolder(tmp_path / CONFIGS[2].run_id)
    damaged.begin(CONFIGS[2].to_json())
    damaged.epochs_file.write_text("no JSON\n")
    with grid_progress(CONFIGS, {}, tmp_path, 2, False) as shown:
        shown.on_end(failed(CONFIGS[0]))
        shown.on_wait(1)
        Console(file=terminal, width=120).print(shown.render())
    text = terminal.getvalue()
    assert f"epoch   2/60  {CONFIGS[1].run_id}" in text
    assert f"{CONFIGS[0].run_id} failed: too bad" in text
    assert "1 of 3 runs, 1 failed, waiting for 1 run of another process" in text
    assert f"/60  {CONFIGS[2].run_id}" not in text


def test_status_line_now_and_then(clock, capsys):
    with status_line(False) as tell:
        tell("one")
        tell("two")
        clock[0] += progress.SECONDS_BETWEEN_LINES
        tell("three")
    assert capsys.readouterr().err == "one\nthree\n"


def test_status_line_on_a_terminal(terminal):
    with status_line(False) as tell:
        tell("epoch 1 of 5")
    assert "\x1b[" in terminal.getvalue()
