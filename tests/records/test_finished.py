"""What counts as a whole finished run, and that everyone means the same by it."""

import json

import pytest

from tests.synthetic_runs import write_run
from tnlpad.experiments.grid import standing
from tnlpad.paper.cells import Experiment
from tnlpad.records.archive import finished_records
from tnlpad.records.finished import finished_summary
from tnlpad.records.store import RecordError

DIGITS = Experiment(dataset="digits", noise="symmetric:0.4", method="tnlpad")


@pytest.fixture
def folder(tmp_path):
    return write_run(tmp_path / "runs", DIGITS, 1)


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


DAMAGE = {
    "summary cut off": (lambda run: run.summary_file.write_text("{"), r"summary\.json is damaged"),
    "summary of something": (lambda run: run.summary_file.write_text("{}"), "run_id is missing"),
    "no accuracy": (lambda run: edit(run.summary_file, lambda s: s["last"].pop("test_accuracy")), "is no share"),
    "another summary": (lambda run: edit(run.summary_file, lambda s: s.update(run_id="x")), "of another run"),
    "another recipe": (lambda run: edit(run.config_file, lambda c: c.update(momentum=0.5)), "of another run"),
    "no configuration": (lambda run: run.config_file.unlink(), r"config\.json does not exist"),
    "an epoch lost": (
        lambda run: run.epochs_file.write_bytes(b"".join(run.epochs_file.read_bytes().splitlines(True)[:-1])),
        r"epochs\.jsonl has 5 of 6 epochs",
    ),
    "an epoch cut off": (lambda run: run.epochs_file.write_bytes(run.epochs_file.read_bytes()[:-9]), "has 5 of 6"),
    "no epochs": (lambda run: run.epochs_file.unlink(), "has 0 of 6 epochs"),
    "an epoch too many": (
        lambda run: run.epochs_file.write_bytes(run.epochs_file.read_bytes() + b"{}\n"),
        r"epochs\.jsonl has 7 of 6 epochs",
    ),
    "no weights": (lambda run: run.model_file.unlink(), r"there is no model\.safetensors"),
}


def test_a_whole_run(folder):
    assert finished_summary(folder) == folder.summary()
    assert standing(folder.path.name, folder.path.parent).state == "done"


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_one_is_damaged_for_everyone(folder, damage, message):
    damage(folder)
    with pytest.raises(RecordError, match=message) as raised:
        finished_summary(folder)
    now = standing(folder.path.name, folder.path.parent)
    assert (now.state, now.problem) == ("damaged", str(raised.value))
    problems = []
    assert finished_records([folder.path], problems.append) == []
    assert [(problem.kind, problem.path) for problem in problems] == [("damaged", folder.path)]
    assert str(raised.value).endswith(problems[0].reason)


def test_own_data_need_no_test_part(folder):
    def without_test_part(content):
        content["config"]["data"] = {}
        for end in ("chosen", "last"):
            content[end]["test_accuracy"] = None

    edit(folder.summary_file, without_test_part)
    edit(folder.config_file, lambda config: config.update(data={}))
    assert finished_summary(folder)["last"]["test_accuracy"] is None


def test_own_data_are_validated_on_all_the_same(folder):
    edit(folder.summary_file, lambda content: content["chosen"].update(validation_accuracy=None))
    edit(folder.summary_file, lambda content: content["config"].update(data={}))
    edit(folder.config_file, lambda config: config.update(data={}))
    with pytest.raises(RecordError, match=r"chosen\.validation_accuracy is None, which is no share"):
        finished_summary(folder)
