import errno
import json
import os
import re
import signal
import subprocess
import sys
import types

import pytest
from typer.testing import CliRunner

from tests.cli.trained import asked, own_data, trained
from tnlpad.cli import app
from tnlpad.cli.summary import print_summary
from tnlpad.cli.tensorboard import scalars
from tnlpad.records.store import RunFolder

SMALL = ["--noise", "symmetric:0.4", "--set", "epochs=2", "--set", "batch_size=256"]


def train(*arguments, **options):
    return CliRunner(**options).invoke(app, ["train", *map(str, arguments)])


def only_run(out):
    (path,) = out.iterdir()
    return RunFolder(path)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "runs"


def test_results_to_stdout_progress_to_stderr_records_to_the_folder(out):
    result = train("digits", *SMALL, "--out", out)
    assert result.exit_code == 0, result.output
    folder = only_run(out)
    for wanted in ("chosen on noisy validation", "last epoch", "Run: ", folder.path.name):
        assert wanted in result.stdout
    assert "1/2 loss" in result.stderr
    assert "1/2 loss" not in result.stdout
    assert folder.finished
    files = {path.name for path in folder.path.iterdir()}
    assert files >= {"config.json", "epochs.jsonl", "summary.json", "model.safetensors"}


def test_json_is_exactly_one_document(out):
    result = train("digits", *SMALL, "--out", out, "--json", "--quiet")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == only_run(out).summary()
    assert result.stderr == ""


def test_a_finished_run_is_shown_and_not_repeated(out, monkeypatch):
    first = train("digits", *SMALL, "--out", out)
    monkeypatch.setattr("tnlpad.runs.run.prepare_data", lambda *_: pytest.fail("repeated"))
    second = train("--data", "digits", *SMALL, "--out", out)
    assert (second.exit_code, second.stdout) == (0, first.stdout)


def test_every_word_counts(out):
    words = [
        "--method",
        "standard",
        "--network",
        "resnet18",
        "--seed",
        "3",
        "--protocol",
        "authors",
        "--set",
        "epochs=1",
    ]
    result = train("digits", *words, "--set", "batch_size=1000", "--set", "flip=true", "--out", out, "--json", "-q")
    config = json.loads(result.stdout)["config"]
    wanted = {
        "dataset": "digits",
        "noise": "none",
        "method": "standard",
        "network": "resnet18",
        "seed": 3,
        "protocol": "authors",
        "epochs": 1,
        "flip": True,
    }
    assert wanted.items() <= config.items()


# From a file


def test_from_a_configuration(out, tmp_path):
    train("digits", *SMALL, "--out", out)
    folder = only_run(out)
    again = train("--config", folder.config_file, "--out", tmp_path / "again", "--json", "-q")
    assert again.exit_code == 0
    assert json.loads(again.stdout)["chosen"] == folder.summary()["chosen"]
    changed = train(
        "--config", folder.config_file, "--seed", 2, "--set", "epochs=1", "--out", tmp_path / "new", "--json", "-q"
    )
    config = json.loads(changed.stdout)["config"]
    assert (config["seed"], config["epochs"]) == (2, 1)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"epochs": 3}'])
def test_a_file_that_is_no_configuration(out, tmp_path, content):
    file = tmp_path / "config.json"
    file.write_text(content)
    result = train("--config", file, "--out", out)
    assert result.exit_code == 2
    assert "onfig" in result.stderr
    assert "Traceback" not in result.output


def test_a_configuration_and_other_words(out, tmp_path):
    given = {"data": ["digits"], "noise": ["--noise", "none"], "method": ["--method", "cdr"]}
    file = tmp_path / "config.json"
    for name, words in given.items():
        file.write_text("{}")
        result = train(*words, "--config", file, "--out", out)
        assert result.exit_code == 2
        assert f"sets {name} already" in result.stderr


# Everyday settings


def test_options_that_are_short_for_a_setting(out):
    words = ("--noise", "symmetric:0.4", "--epochs", "2", "--batch-size", "256", "--lr", "0.02")
    result = train("digits", *words, "--out", out, "--json", "-q")
    config = json.loads(result.stdout)["config"]
    assert (config["epochs"], config["batch_size"], config["learning_rate"]) == (2, 256, 0.02)
    settings = ("--set", "epochs=2", "--set", "batch_size=256", "--set", "learning_rate=0.02")
    again = train("digits", "--noise", "symmetric:0.4", *settings, "--out", out, "--json", "-q")
    assert json.loads(again.stdout)["run_id"] == json.loads(result.stdout)["run_id"]


def test_an_option_and_a_setting_that_contradict_each_other(out):
    result = train("digits", "--lr", "0.02", "--set", "learning_rate=0.1", "--out", out)
    assert result.exit_code == 2
    assert "--lr 0.02 and --set learning_rate=0.1" in result.stderr
    assert train("digits", "--epochs", "0", "--out", out).exit_code == 2


def test_milestones_that_are_never_reached_are_pointed_out(out):
    assert "milestones=1" in train("digits", "--epochs", "2", "--out", out).stderr
    words = ("--epochs", "2", "--set", "milestones=2")
    assert "never decays" not in train("digits", *words, "--out", out).stderr


def test_all_settings_are_listed_with_their_defaults(out):
    listed = json.loads(train("cifar10", "--settings", "--json", "-q", "--out", out).stdout)
    rows = {row["name"]: row for row in listed}
    assert rows["epochs"]["default"] == "100"
    assert rows["c2"]["default"] == "0.6"
    assert all(row["meaning"] for row in listed)
    without_data = train("--settings", "--method", "jocor", "-q", "--out", out)
    assert without_data.exit_code == 0
    assert "co_lambda" in without_data.stdout
    assert not out.exists()


# Wrong usage


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "DATA is missing"),
        (["digitz"], "Did you mean digits?"),
        (["photoz"], "There is no file or folder photoz"),
        (["digits", "--method", "tnlpat"], "did you mean tnlpad?"),
        (["digits", "--network", "lenett"], "did you mean lenet?"),
        (["digits", "--network", "lenet"], "image_size=8"),
        (["digits", "--noise", "symetric:0.4"], "Did you mean symmetric:0.4?"),
        (["digits", "--set", "epoch=3"], "did you mean epochs?"),
        (["digits", "--set", "epochs"], "write NAME=VALUE"),
        (["digits", "--set", "epochs=0"], "must be at least 1"),
        (["digits", "--set", "epochs=few"], "must be a whole number"),
        (["digits", "--set", "seed=2"], "--seed"),
        (["digits", "--seed", "-1"], "--seed"),
        (["digits", "--device", "gpu"], "choose cpu, cuda or auto"),
        (["digits", "--data", "mnist"], "name one dataset"),
        (["digits", "--method", "coteaching"], "needs to know the share of wrong labels"),
        (["digits", "--noise", "symmetric:0.4", "--method", "jocor", "--set", "co_lambda=2"], "co_lambda=2.0"),
        (["digits", "--noise", "human:worse"], "human labels exist for"),
        (["--config", "nowhere.json"], "cannot be read"),
    ],
)
def test_wrong_usage_is_2_and_leaves_no_run(out, arguments, said):
    result = train(*arguments, "--out", out)
    assert result.exit_code == 2, result.output
    assert said in re.sub(r"\s+", " ", result.stderr)
    assert result.stdout == ""
    assert "Traceback" not in result.output
    assert list(out.iterdir()) == [] if out.exists() else True


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("kept")
    result = train("digits", *SMALL, "--out", tmp_path / "file")
    assert result.exit_code == 2
    assert (tmp_path / "file").read_text() == "kept"


# Bad data


def test_data_that_is_not_there_is_3(out, tmp_path):
    result = train("mnist", "--root", tmp_path / "nothing", "--out", out)
    assert result.exit_code == 3
    assert "Traceback" not in result.output
    assert not out.exists()


def test_a_file_of_noise_that_is_not_there_is_3(out, tmp_path):
    for noise in (tmp_path / "none.npz", f"matrix:{tmp_path / 'none.npy'}"):
        result = train("digits", "--noise", noise, "--out", out)
        assert result.exit_code == 3, result.output
        assert "cannot be read" in result.stderr


def test_a_damaged_record_is_3(out):
    train("digits", *SMALL, "--out", out)
    folder = only_run(out)
    folder.summary_file.write_text("{")
    result = train("digits", *SMALL, "--out", out)
    assert result.exit_code == 3
    assert "summary.json is damaged" in result.stderr
    assert result.stdout == ""


def test_a_run_in_use_is_3(out):
    train("digits", *SMALL, "--out", out)
    folder = only_run(out)
    folder.summary_file.unlink()
    with folder.lock():
        result = train("digits", *SMALL, "--out", out)
    assert result.exit_code == 3
    assert "another process" in result.stderr


# Failed at run time


def test_divergence_is_1(out):
    result = train("digits", *SMALL, "--set", "learning_rate=1e12", "--out", out)
    assert result.exit_code == 1
    assert re.search(r"step \d+ of epoch \d", result.stderr)
    assert "learning rate" in result.stderr
    assert "Traceback" not in result.output


def test_a_full_disk_is_1_and_the_command_goes_on_later(out, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("tnlpad.training.loop.save_checkpoint", full)
        result = train("digits", *SMALL, "--out", out)
    assert result.exit_code == 1
    assert "No space left" in result.stderr
    assert "run the command again" in result.stderr
    assert train("digits", *SMALL, "--out", out).exit_code == 0


# Interrupted and resumed


def test_resume_needs_something_to_resume(out):
    nothing = train("digits", *SMALL, "--out", out, "--resume")
    assert nothing.exit_code == 3
    assert "nothing to resume" in nothing.stderr
    assert not out.exists()
    train("digits", *SMALL, "--out", out)
    assert train("digits", *SMALL, "--out", out, "--resume").exit_code == 0


def test_an_interrupt_is_130_and_the_same_command_goes_on(out, tmp_path):
    words = ["digits", "--noise", "symmetric:0.4", "--set", "epochs=30", "--set", "batch_size=256"]
    command = [sys.executable, "-m", "tnlpad", "train", *words, "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stderr:
            if line.startswith("1/30"):
                process.send_signal(signal.SIGINT)
                break
        rest = process.stderr.read()
    assert process.returncode == 130
    assert "Interrupted" in rest
    assert "Traceback" not in rest
    done = len(only_run(out).epochs())
    assert 1 <= done < 30
    result = train(*words, "--out", out, "--resume")
    assert result.exit_code == 0
    assert f"{done + 1}/30" in result.stderr
    assert f"\n{done}/30" not in result.stderr
    train(*words, "--out", tmp_path / "whole", "-q")
    numbers = [
        [(each["train_loss"], each["test_accuracy"]) for each in only_run(folder).epochs()]
        for folder in (out, tmp_path / "whole")
    ]
    assert numbers[0] == numbers[1]


# What people see


def test_the_help_fits_80_columns():
    result = train("--help", env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    text = re.sub(r"[\s│]+", " ", result.stdout)
    for option in ("--noise", "--method", "--set", "--config", "--resume", "--tensorboard", "--json"):
        assert option in text
    for panel in ("─ Data ─", "─ Training ─", "─ Output ─"):
        assert panel in text


@pytest.mark.parametrize("verb", ["train", "tune"])
def test_a_mistyped_word_leaves_no_folder_behind(verb, out):
    extra = ["--values", "1,2"] if verb == "tune" else []
    result = CliRunner().invoke(app, [verb, "digits", "--set", "epoch=3", "--out", str(out), *extra])
    assert result.exit_code == 2
    assert not out.exists()


def test_what_is_told_of_own_data_before_they_are_trained_on(out, tmp_path):
    rows = [f"{n % 7},{n % 3},{'ab'[n % 2]},{n % 2}" for n in range(60)]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["width,height,label,target", *rows]) + "\n")
    result = train(table, "--set", "epochs=1", "--out", out)
    assert result.exit_code == 0, result.output
    assert "not trained on" in result.stderr
    assert "'target'" in result.stderr
    assert "Note:" not in train(table, "--set", "epochs=1", "--seed", "2", "--quiet", "--out", out).stderr


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--network", "small_resnet"], "network='small_resnet': takes images"),
        (["--network", "lenet"], "network='lenet': takes images"),
        (["--engine", "graph"], "engine='graph': needs a GPU"),
        (["--noise", "human:worse"], "human labels exist for cifar10 and cifar100 only"),
    ],
)
def test_a_run_on_a_table_that_cannot_start_leaves_no_folder(out, tmp_path, words, rule):
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["width,height,label", *(f"{n % 7},{n % 3},{'ab'[n % 2]}" for n in range(60))]) + "\n")
    result = train(table, *words, "--epochs", "1", "--out", out)
    assert result.exit_code == 2
    assert rule in result.stderr
    assert not out.exists()


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
    assert "test part" not in capsys.readouterr().out
    tested = {**epoch, "test_accuracy": 0.25}
    print_summary({"run_id": "some_run", "config": config, "chosen": tested, "last": tested, "epochs_run": 7}, tmp_path)
    said = capsys.readouterr().out
    assert "test part, labels as given, %" in said
    assert said.count("25.00") == 2


@pytest.mark.parametrize("lacking", [{}, {"test_accuracy": None}])
def test_a_summary_of_an_earlier_version_is_printed_without_what_it_lacks(capsys, tmp_path, lacking):
    epoch = {"epoch": 3, "validation_accuracy": 0.5}
    summary = {"run_id": "some_run", "config": {"data": {}}, "chosen": epoch | lacking, "epochs_run": 4}
    print_summary({**summary, "last": epoch | lacking}, tmp_path)
    said = capsys.readouterr().out
    assert "chosen on validation" in said
    assert "test" not in said.partition("Run: ")[0]
    for tested in ("chosen", "last"):
        print_summary({**summary, "last": epoch | lacking, tested: {**epoch, "test_accuracy": 0.25}}, tmp_path)
        assert capsys.readouterr().out.count("25.00") == 1
    print_summary({**summary, "last": epoch, "config": {"epochs": 9}}, tmp_path)
    assert "Ended early, after 4 of 9 epochs." in capsys.readouterr().out


@pytest.fixture
def tensorboard_out(tmp_path):
    return tmp_path / "runs"


class Writer:
    """What we use of TensorBoard's."""

    made: "list[Writer]" = []  # noqa: RUF012

    def __init__(self, folder, purge_step):
        self.folder, self.purge_step, self.scalars, self.closed = folder, purge_step, {}, False
        Writer.made.append(self)

    def add_scalar(self, name, value, epoch):
        self.scalars[name, epoch] = value

    def close(self):
        self.closed = True


def test_tensorboard_gets_every_number(tensorboard_out, monkeypatch):
    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    monkeypatch.setattr(Writer, "made", [])
    assert train("digits", *SMALL, "--out", tensorboard_out, "--tensorboard").exit_code == 0
    (writer,) = Writer.made
    folder = only_run(tensorboard_out)
    assert (writer.folder, writer.purge_step, writer.closed) == (str(folder.path / "tensorboard"), 1, True)
    for record in folder.epochs():
        assert writer.scalars["train_loss", record["epoch"]] == record["train_loss"]
        assert writer.scalars["judged/sigma/memorised", record["epoch"]] == record["judged"]["sigma"]["memorised"]
    assert len(writer.scalars) == sum(len(list(scalars(record))) for record in folder.epochs())
    assert train("digits", *SMALL, "--out", tensorboard_out, "--tensorboard").exit_code == 0
    assert len(Writer.made) == 1  # a finished run is left as it is


def test_tensorboard_itself_reads_them(tensorboard_out):
    pytest.importorskip("tensorboard", reason="needs tensorboard: pip install 'tnlpad[tracking]'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert train("digits", *SMALL, "--out", tensorboard_out, "--tensorboard").exit_code == 0
    folder = only_run(tensorboard_out)
    events = EventAccumulator(str(folder.path / "tensorboard")).Reload()
    losses = {event.step: event.value for event in events.Scalars("train_loss")}
    assert losses == {record["epoch"]: pytest.approx(record["train_loss"]) for record in folder.epochs()}
    assert "judged/sigma/memorised" in events.Tags()["scalars"]


def test_tensorboard_that_is_not_installed(tensorboard_out, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    result = train("digits", *SMALL, "--out", tensorboard_out, "--tensorboard")
    assert result.exit_code == 1
    assert "tnlpad[tracking]" in result.stderr
    assert not tensorboard_out.exists()


@pytest.fixture
def read_only(monkeypatch):
    """Return a function after which nothing can be written any more."""

    def refused(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def begin():
        for name in ("atomic_files._temporary", "cli.output.make_writable", "records.store.RunFolder.lock"):
            monkeypatch.setattr(f"tnlpad.{name}", refused)
        monkeypatch.setattr("filelock.FileLock.acquire", refused)
        monkeypatch.setattr("pathlib.Path.unlink", refused)  # also of a file that does not exist

    return begin


def test_a_finished_run_is_shown_where_nothing_can_be_written(tmp_path, read_only):
    data = own_data(tmp_path, "features")
    run = trained(data, tmp_path / "runs")
    read_only()
    words = ("train", data, "--set", "epochs=1", "--out", tmp_path / "runs")
    first = asked(*words)
    assert (first.exit_code, "Suspect labels: " in first.stdout, "again" in first.stderr) == (0, True, False), (
        first.stderr
    )
    os.remove(run / "suspects" / "suspects.csv")
    result = asked(*words)
    assert (result.exit_code, result.stdout) == (0, first.stdout)
    assert "not written again (Read-only file system)" in result.stderr
    new = asked(*words, "--seed", 2)
    assert (new.exit_code, "cannot write there (Read-only file system)" in new.stderr) == (1, True)


def test_a_reader_of_the_results_that_has_seen_enough_is_no_error_of_the_disk(tmp_path, monkeypatch):
    data = own_data(tmp_path, "features")
    trained(data, tmp_path / "runs", 1)

    def closed(*_, **__):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    monkeypatch.setattr("tnlpad.suspects.listing.verdict", closed)
    result = train(data, "--set", "epochs=1", "--out", tmp_path / "runs", "-q")
    assert (result.exit_code, result.stderr) == (1, "")


def test_a_run_is_not_taken_for_one_with_other_groups(tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    def table(*groups):
        rows = [f"{k},{k % 2},{groups[k % len(groups)]}" for k in range(40)]
        (tmp_path / "x.csv").write_text("\n".join(["a,label,place", *rows]))
        return tmp_path / "x.csv"

    words = (table(*range(20)), "--epochs", 1, "--folds", 2, "--repeats", 1, "--no-scores")
    grouped, plain = [*words, "--group", "place"], [*words, "--ignore", "place"]
    assert train(*plain, "--out", tmp_path / "plain").exit_code == 0
    other = train(*grouped, "--out", tmp_path / "plain")
    assert (other.exit_code, "started with no --group" in other.stderr) == (3, True), other.stderr
    with monkeypatch.context() as patch:
        patch.setattr("tnlpad.runs.run._write_model", stop)
        assert train(*grouped, "--out", tmp_path / "grouped").exit_code == 130
    other = train(*plain, "--out", tmp_path / "grouped")
    assert (other.exit_code, "started with --group place" in other.stderr) == (3, True), other.stderr
    table(*range(10))
    assert train(*grouped, "--out", tmp_path / "grouped").exit_code == 3
    table(*range(20))
    for _ in range(2):
        assert train(*grouped, "--out", tmp_path / "grouped").exit_code == 0
    (run,) = (tmp_path / "plain").iterdir()
    assert json.loads((run / "data.json").read_text())["group_column"] is None
    assert train(*plain, "--out", tmp_path / "plain").exit_code == 0


def test_a_review_that_cannot_be_written_names_a_way_out(tmp_path, read_only):
    run = trained(own_data(tmp_path, "features"), tmp_path / "runs")
    read_only()
    result = asked("review", run, "--no-browser")
    assert result.exit_code == 1
    assert "(Read-only file system). Free some space there, or copy the run's folder" in result.stderr


def test_names_that_are_not_utf_8(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t\udcff.csv").write_text("text,label\n" + "good word,a\nbad word,b\n" * 10)
    data = train("t\udcff.csv")
    assert (data.exit_code, "t\\udcff.csv' is not UTF-8" in data.stderr) == (3, True)
    for words in (("train", "digits"), ("tune", "digits", "--values", "1,2"), ("reproduce", "smoke")):
        result = asked(*words, "--out", "o\udcff")
        assert (result.exit_code, "--out 'o\\udcff' is not UTF-8" in result.stderr) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["t\udcff.csv"]
