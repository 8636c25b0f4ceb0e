"""Image files that memory would not hold, from `check` to `clean`, compared with the same files in memory."""

import re
import shutil
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.cli.trained import asked, document, hugging_face, own_data
from tests.data.small_data import shared_file
from tnlpad.data.own import open_dataset
from tnlpad.errors import DataError
from tnlpad.records.scores import read_scores
from tnlpad.records.store import RunFolder
from tnlpad.review.samples import Samples
from tnlpad.runs.config import configure
from tnlpad.runs.run import run
from tnlpad.suspects.listing import rank_run

SHORT = ("--backbone", "none", "--set", "resize=12", "--epochs", "2", "--set", "milestones=1")
SMALL = ("--memory", "1KB")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Photographs of three classes, of which some are in the folder of another class."""
    folder = tmp_path_factory.mktemp("streamed")
    with zipfile.ZipFile(shared_file("photos20.zip")) as archive:
        names = sorted(name for name in archive.namelist() if name.split("/")[2] < "cannoli")
        archive.extractall(folder, [name for name in names if "/train/" in name][::6])
        archive.extractall(folder, [name for name in names if "/test/" in name][::20])
    classes = sorted((folder / "photos" / "train").iterdir())
    assert len(classes) == 3
    for place, other in pairwise(classes):
        for file in sorted(place.iterdir())[:8]:
            shutil.move(file, other / f"moved_{file.name}")
    return folder / "photos"


@pytest.fixture(scope="module")
def both(photos):
    """The runs in memory and streamed."""
    out = photos.parent / "runs"
    return [out / document("train", photos, *SHORT, *limit, "--out", out)["run_id"] for limit in ((), SMALL)]


def test_the_configuration_says_what_was_done(photos, both):
    kept, streamed = (RunFolder(run).config() for run in both)
    assert [kept[name] for name in ("resize", "crop", "crop_padding")] == [12, None, 8]
    assert [streamed[name] for name in ("resize", "crop", "crop_padding")] == [12, 10, 0]
    result = asked("train", photos, *SHORT, *SMALL, "--out", both[0].parent)  # finds the finished run
    assert "125 images of 10 × 10 pixels would take 0.0 MB when decoded" in result.stderr
    assert both[1].name in result.stdout


def test_scores_are_of_the_same_samples_in_the_same_order(both):
    kept, streamed = (pq.read_table(run / "samples.parquet").to_pydict() for run in both)
    assert len(kept["id"]) == 140
    assert kept == streamed
    of_kept, of_streamed = map(read_scores, both)
    for name in ("index", "part", "given"):
        np.testing.assert_array_equal(of_kept.columns[name], of_streamed.columns[name])
    assert of_kept.columns.keys() == of_streamed.columns.keys()
    assert of_kept.probabilities.shape == of_streamed.probabilities.shape == (125, 3)
    np.testing.assert_allclose(of_streamed.probabilities.sum(1), 1, rtol=1e-5)


def test_suspects_review_clean_and_predict_work_as_for_small_folders(photos, both, tmp_path):
    _, run = both
    listed = rank_run(RunFolder(run)).suspects(5)
    document_of_list = document("suspects", run, "--top", "5", "--out", tmp_path / "list")
    assert [each["id"] for each in document_of_list["listed"]] == [each.id for each in listed]
    page = (tmp_path / "list" / "index.html").read_text()
    assert page.count("data:image/jpeg;base64,") >= 5
    samples = Samples(rank_run(RunFolder(run)), None, pytest.fail)
    assert samples.picture(0).startswith(b"\xff\xd8")
    assert document("clean", run, "--top", "5", "--out", tmp_path / "cleaned")["corrected"] == 5
    first = listed[0]
    assert (tmp_path / "cleaned" / "train" / first.suggested_name / first.path.rsplit("/", 1)[1]).is_file()
    predicted = document("predict", run, photos / "test", "--out", tmp_path / "predicted.csv")
    assert len(predicted["predictions"]) == 15


def test_check_says_what_train_would_do(tmp_path):
    result = asked("check", own_data(tmp_path, "folder"), *SMALL)  # too small for a backbone
    assert result.exit_code == 0, result.output
    assert "streamed from files" in result.stdout
    assert "20 images of 10 × 10 pixels" in result.stdout


def test_a_limit_without_a_unit_is_refused_before_anything_is_read(tmp_path):
    for verb, more in (("check", ()), ("train", ()), ("tune", ("--values", "1"))):
        result = asked(verb, tmp_path / "absent", *more, "--memory", "8")
        assert (result.exit_code, "--memory 8" in result.stderr) == (2, True), result.output


def test_methods_that_need_images_in_memory_say_so(tmp_path):
    data = own_data(tmp_path, "folder")
    result = asked("train", data, *SHORT, *SMALL, "--method", "self", "--out", tmp_path / "runs")
    assert result.exit_code == 2
    assert "self" in result.stderr
    assert "--set crop=none" in result.stderr
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_pictures_in_a_table_are_streamed_from_their_bytes(tmp_path):
    data = hugging_face(tmp_path / "data", [0, 1] * 10)
    summary = document("train", data, *SHORT, *SMALL, "--out", tmp_path / "runs")
    assert summary["config"]["crop"] == 10
    assert len(read_scores(tmp_path / "runs" / summary["run_id"])) == 20


def test_an_image_that_vanishes_is_named_and_the_run_resumes(tmp_path):
    data = own_data(tmp_path, "folder")
    own = open_dataset(data)
    config = configure(own.shape, settings={"resize": 12, "crop": 10, "epochs": 1, "milestones": (1,)})
    lost = own.files[3]
    content = Path(lost).read_bytes()
    Path(lost).unlink()
    with pytest.raises(DataError, match=re.escape(lost)) as raised:
        run(config, tmp_path / "runs", own=own, scoring_interval=1)
    assert "resumes the run" in str(raised.value)
    Path(lost).write_bytes(content)
    assert run(config, tmp_path / "runs", own=open_dataset(data), scoring_interval=1).finished
