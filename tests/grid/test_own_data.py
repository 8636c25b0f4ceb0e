import pickle

import pytest

from tnlpad.data.own import open_dataset
from tnlpad.grid import own_data
from tnlpad.grid.grid import Job, run_job
from tnlpad.grid.own_data import Opened, OwnData, keep_open, open_own
from tnlpad.records.store import RunFolder
from tnlpad.runs.config import configure


@pytest.fixture
def source(tmp_path):
    rows = [f"{n % 7},{n % 3},{'ab'[n % 2]},{n}" for n in range(60)]
    (tmp_path / "table.csv").write_text("\n".join(["width,height,kind,number", *rows]) + "\n")
    return OwnData(
        path=str(tmp_path / "table.csv"),
        title="table",
        images=None,
        label="kind",
        text=None,
        group=None,
        id=None,
        ignored=("number",),
        backbone="auto",
        network=None,
        pixels=None,
        weights=None,
        finetune=False,
        cache=str(tmp_path / "cache"),
    )


def test_a_worker_opens_the_data_once_and_runs_on_them(source, tmp_path, monkeypatch):
    own = open_dataset(source.path, label="kind", ignored=["number"])
    config = configure(own.shape, settings={"epochs": 1})
    job = Job(config.named("table"), config.to_json(), str(tmp_path / "runs"), None, "cpu", own=source)
    result = run_job(pickle.loads(pickle.dumps(job)))
    assert (result.state, result.test_accuracy) == ("done", None)  # there is no test part
    folder = RunFolder(tmp_path / "runs" / config.named("table"))
    assert folder.finished
    assert (folder.path / "scores.parquet").exists()  # as `tnlpad train` leaves it
    monkeypatch.setattr(own_data, "open_dataset", lambda *_, **__: pytest.fail("opened again"))
    assert open_own(source).own.shape == own.shape


def test_data_that_are_open_are_used(source):
    opened = Opened(open_dataset(source.path, label="kind", ignored=["number"]), None)
    keep_open(source, opened)
    assert open_own(source) is opened
