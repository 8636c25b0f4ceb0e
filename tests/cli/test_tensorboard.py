import sys
import types

import pytest

from tests.cli.test_train import SMALL, only_run, train
from tnlpad.cli.tensorboard import scalars


@pytest.fixture
def out(tmp_path):
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


def test_tensorboard_gets_every_number(out, monkeypatch):
    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    monkeypatch.setattr(Writer, "made", [])
    assert train("digits", *SMALL, "--out", out, "--tensorboard").exit_code == 0
    (writer,) = Writer.made
    folder = only_run(out)
    assert (writer.folder, writer.purge_step, writer.closed) == (str(folder.path / "tensorboard"), 1, True)
    for record in folder.epochs():
        assert writer.scalars["train_loss", record["epoch"]] == record["train_loss"]
        assert writer.scalars["judged/sigma/memorised", record["epoch"]] == record["judged"]["sigma"]["memorised"]
    assert len(writer.scalars) == sum(len(list(scalars(record))) for record in folder.epochs())
    assert train("digits", *SMALL, "--out", out, "--tensorboard").exit_code == 0
    assert len(Writer.made) == 1  # a finished run is left as it is


def test_tensorboard_itself_reads_them(out):
    pytest.importorskip("tensorboard", reason="needs tensorboard: pip install 'tnlpad[tracking]'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert train("digits", *SMALL, "--out", out, "--tensorboard").exit_code == 0
    folder = only_run(out)
    events = EventAccumulator(str(folder.path / "tensorboard")).Reload()
    losses = {event.step: event.value for event in events.Scalars("train_loss")}
    assert losses == {record["epoch"]: pytest.approx(record["train_loss"]) for record in folder.epochs()}
    assert "judged/sigma/memorised" in events.Tags()["scalars"]


def test_tensorboard_that_is_not_installed(out, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    result = train("digits", *SMALL, "--out", out, "--tensorboard")
    assert result.exit_code == 1
    assert "tnlpad[tracking]" in result.stderr
    assert not out.exists()
