import dataclasses
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

import tnlpad
from tests.data.own_files import class_folders, picture, save
from tests.runs.test_run import content
from tnlpad.cli import app
from tnlpad.data.own import open_dataset
from tnlpad.data.prepare_dataset import prepare_own
from tnlpad.data.progress import Silent
from tnlpad.errors import DataError
from tnlpad.records.archive import finished_records
from tnlpad.records.samples import read_data_file
from tnlpad.runs import own_data
from tnlpad.runs.config import command, configure, departures, from_json
from tnlpad.runs.own_data import prepare_own_data, trainable_parts
from tnlpad.runs.run import run
from tnlpad.runs.saved_samples import save_location

LABELS = np.arange(40) % 2
CONTENT = {
    "images": np.random.default_rng(0).integers(0, 255, (40, 8, 8, 3), dtype=np.uint8),
    "features": np.random.default_rng(0).normal(size=(40, 3)),
    "pictures": [picture(row, size=(12 + row % 3, 10)) for row in range(40)],
}


def fitted(data, labels, out, **names):
    """The content of the run's data.json, and of its summary."""
    result = tnlpad.fit(data, labels, settings={"epochs": 1}, device="cpu", out=out, **names)
    return read_data_file(result.folder), result.summary


@pytest.mark.parametrize("kind", list(CONTENT))
def test_data_are_kept_as_they_can_be_opened_again(kind, tmp_path):
    names = {"ids": [f"sample {row}" for row in range(40)], "class_names": ["zebra", "ant"]}
    remembered, _ = fitted(CONTENT[kind], LABELS, tmp_path, **names)
    own = open_dataset(remembered["path"])
    assert own.shape.fingerprint == remembered["fingerprint"]
    assert own.class_names == ("zebra", "ant")
    assert own.ids[7] == "sample 7"


def test_parts_are_kept(tmp_path):
    datasets = pytest.importorskip("datasets", reason="pip install 'tnlpad[integrations]'")
    columns = {"image": CONTENT["pictures"], "label": LABELS.tolist()}
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["no", "yes"])})
    whole = datasets.Dataset.from_dict(columns, features=features)
    parts = datasets.DatasetDict(
        {"test": whole.select(range(30, 40)), "train": whole.select(range(20)), "val": whole.select(range(20, 30))}
    )
    remembered, summary = fitted(parts, None, tmp_path)
    assert summary["samples"] == {"train": 20, "validation": 10, "test": 10}
    assert open_dataset(remembered["path"]).shape.fingerprint == remembered["fingerprint"]


def test_the_names_of_columns_are_kept(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pip install pandas")
    table = pandas.DataFrame(CONTENT["features"]).add_prefix("column of ")
    remembered, _ = fitted(table, LABELS, tmp_path)
    assert open_dataset(remembered["path"]).columns == tuple(remembered["columns"]) == tuple(table.columns)


CPU = torch.device("cpu")
SHORT = {"epochs": 2}


def train(*arguments):
    return CliRunner().invoke(app, ["train", *map(str, arguments)])


def blobs(path, samples=60, classes=3, **more):
    """Rows that are easily told apart, in units of their own."""
    generator = np.random.default_rng(0)
    labels = np.arange(samples) % classes
    rows = generator.normal(size=(samples, 4)) + 5 * np.eye(classes, 4)[labels]
    np.savez(path, features=rows * [1, 1000, 1e-3, 1] + 7, labels=labels, **more)
    return path


def test_a_run_on_a_folder_from_end_to_end(tmp_path):
    data = class_folders(tmp_path / "data", count=10)
    own = open_dataset(data)
    config = configure(own.shape, settings=SHORT)
    folder = run(config, tmp_path / "runs", own=own)
    summary = folder.summary()
    assert config.run_id.startswith(own.shape.name)
    assert summary["chosen"]["test_accuracy"] is None
    assert summary["samples"] == {"train": 18, "validation": 2, "test": 0}
    assert summary["wrong_labels"] is None
    assert str(tmp_path) not in json.dumps(summary)
    assert from_json(folder.config()) == config
    table = pq.read_table(folder.path / "samples.parquet").to_pydict()
    assert table["id"] == list(own.ids)
    assert table["path"] == list(own.paths)
    assert table["label"] == own.labels.tolist()
    assert table["label_name"] == ["cat"] * 10 + ["dog"] * 10
    assert (table["part"].count("train"), table["part"].count("validation")) == (18, 2)
    remembered = read_data_file(folder.path)
    assert remembered["path"] == str(data)
    assert remembered["fingerprint"] == own.shape.fingerprint
    assert remembered["class_names"] == ["cat", "dog"]


def test_how_far_the_decoding_has_come_is_told(tmp_path):
    own, told = open_dataset(class_folders(tmp_path / "data", count=10)), []

    class Heard(Silent):
        def progress(self, task, done, total):
            told.append((done, total))

    run(configure(own.shape, settings={"epochs": 1}), tmp_path / "runs", own=own, reporter=Heard())
    assert told[-1] == (20, 20)


def test_parts_of_the_data_are_used_as_such(tmp_path):
    for number, part in enumerate(("train", "val", "test")):
        class_folders(tmp_path / part, start=1000 * number)
    own = open_dataset(tmp_path)
    folder = run(configure(own.shape, settings=SHORT), tmp_path / "runs", own=own)
    assert folder.summary()["samples"] == {"train": 6, "validation": 6, "test": 6}
    assert 0 <= folder.summary()["chosen"]["test_accuracy"] <= 1
    table = pq.read_table(folder.path / "samples.parquet").to_pydict()
    for name, part in zip(table["id"], table["part"], strict=True):
        assert name.split("/")[0] == {"train": "train", "validation": "val", "test": "test"}[part]


def test_features_are_standardised_by_the_training_part(tmp_path):
    own = open_dataset(blobs(tmp_path / "x.npz", split=["train"] * 40 + ["test"] * 20))
    data = prepare_own_data(configure(own.shape), own, CPU)
    trained = data.train[torch.from_numpy(data.parts.train)].double()
    torch.testing.assert_close(trained.mean(0), torch.zeros(4, dtype=torch.float64), atol=1e-5, rtol=0)
    torch.testing.assert_close(trained.std(0, correction=0), torch.ones(4, dtype=torch.float64), atol=1e-5, rtol=0)
    np.testing.assert_allclose(
        data.test.numpy() * data.normalisation.std + data.normalisation.mean, own.features[40:], rtol=1e-4, atol=1e-6
    )


def test_rows_of_numbers_are_learnt(tmp_path):
    own = open_dataset(blobs(tmp_path / "x.npz", samples=300, split=["train"] * 200 + ["test"] * 100))
    folder = run(configure(own.shape, settings={"epochs": 10}), tmp_path / "runs", own=own)
    assert folder.config()["network"] == "head"
    assert folder.summary()["last"]["test_accuracy"] > 0.95


def test_a_constant_column_says_nothing(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.ones((20, 2)), y=np.arange(20) % 2)
    own = open_dataset(tmp_path / "x.npz")
    assert prepare_own_data(configure(own.shape), own, CPU).train.abs().max() == 0


def test_simulated_noise_is_known_to_be_wrong(tmp_path):
    own = open_dataset(blobs(tmp_path / "x.npz"))
    folder = run(configure(own.shape, noise="symmetric:0.5", settings=SHORT), tmp_path / "runs", own=own)
    assert 0.2 < folder.summary()["wrong_labels"] < 0.8
    table = pq.read_table(folder.path / "samples.parquet").to_pydict()
    assert table["label"] != own.labels.tolist()


def test_images_may_be_streamed(tmp_path):
    own = open_dataset(class_folders(tmp_path / "data", count=5))
    config = configure(own.shape, network="small_resnet", settings=SHORT | {"resize": 10, "crop": 8})
    assert config.crop_padding == 0  # what is cut out of them takes its place
    assert run(config, tmp_path / "runs", own=own).finished


def test_streamed_images_may_be_prepared_and_then_give_the_same_run(tmp_path, monkeypatch):
    data = class_folders(tmp_path / "data", count=5)
    own = open_dataset(data)
    config = configure(own.shape, network="small_resnet", settings=SHORT | {"resize": 10, "crop": 8})
    expected = content(run(config, tmp_path / "runs", own=own))
    prepared = prepare_own(data, None, resize=10)
    assert prepared.folder == tmp_path / "data.prepared-10"
    with monkeypatch.context() as patched:
        patched.setattr("tnlpad.data.stream.open_resized", lambda *_: pytest.fail("decoded again"))
        assert content(run(config, tmp_path / "again", own=own)) == expected
    name = next(iter(own.ids))
    save(data / name, picture(99))
    changed = open_dataset(data)
    with pytest.raises(DataError, match=rf"data\.prepared-10 was written before '{name}' was added"):
        prepare_own_data(configure(changed.shape, settings=SHORT | {"resize": 10, "crop": 8}), changed, CPU)


def test_images_in_a_table_may_be_streamed(tmp_path):
    datasets = pytest.importorskip("datasets", reason="pip install 'tnlpad[integrations]'")
    columns = {"image": CONTENT["pictures"], "label": LABELS.tolist()}
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["no", "yes"])})
    datasets.Dataset.from_dict(columns, features=features).save_to_disk(tmp_path / "data")
    own = open_dataset(tmp_path / "data")
    assert own.paths[0] is None
    config = configure(own.shape, network="small_resnet", settings=SHORT | {"resize": 10, "crop": 8})
    assert run(config, tmp_path / "runs", own=own).finished


def test_the_command_names_no_place(tmp_path):
    own = open_dataset(class_folders(tmp_path))
    config = configure(own.shape, settings={"epochs": 7})
    assert departures(config) == {"epochs": 7}
    assert command(config) == "tnlpad train DATA --noise none --method tnlpad --seed 1 --set epochs=7"


@pytest.mark.parametrize("settings", [{"validation": "clean"}, {"resize": "none"}, {"crop": 50}])
def test_settings_without_a_meaning_are_refused(tmp_path, settings):
    shape = open_dataset(class_folders(tmp_path)).shape
    with pytest.raises(ValueError, match=next(iter(settings))):
        configure(shape, settings=settings)


def test_a_configuration_describes_its_data_completely(tmp_path):
    plain = configure(open_dataset(class_folders(tmp_path)).shape).to_json()
    del plain["data"]["kind"]
    with pytest.raises(ValueError, match=r"data=.*fingerprint, kind"):
        from_json(plain)
    assert "data" not in configure("digits").to_json()


def test_other_data_are_refused(tmp_path):
    own = open_dataset(class_folders(tmp_path / "data"))
    config = configure(own.shape)
    save(tmp_path / "data" / "cat" / "9.png", picture(9))
    with pytest.raises(DataError, match="samples 6 then, 7 now"):
        run(config, tmp_path / "runs", own=open_dataset(tmp_path / "data"))
    with pytest.raises(DataError, match="is a run on your own data"):
        run(config, tmp_path / "runs")
    with pytest.raises(DataError, match="is a run on digits"):
        run(configure("digits"), tmp_path / "runs", own=own)
    assert not (tmp_path / "runs").exists()


def test_a_class_is_not_enough(tmp_path):
    own = open_dataset(class_folders(tmp_path / "one", ("cat",)))
    with pytest.raises(DataError, match="one class, 'cat'"):
        trainable_parts(own)
    class_folders(tmp_path / "two" / "train", ("cat",))
    class_folders(tmp_path / "two" / "test")
    with pytest.raises(DataError, match="one class, 'cat', in its 3 training samples"):
        trainable_parts(open_dataset(tmp_path / "two"))


def test_too_few_samples_are_refused_unless_some_are_held_out_already(tmp_path):
    with pytest.raises(DataError, match="2 samples to train on, and at least 10 are needed"):
        trainable_parts(open_dataset(class_folders(tmp_path / "two", count=1)))
    trainable_parts(open_dataset(class_folders(tmp_path / "ten", count=5)))
    class_folders(tmp_path / "parts" / "train", count=1)
    class_folders(tmp_path / "parts" / "val", count=1)
    assert len(trainable_parts(open_dataset(tmp_path / "parts"))[0]) == 4


def test_the_command_line_trains_without_a_test_part(tmp_path, monkeypatch):
    data, out = class_folders(tmp_path / "data", count=10), tmp_path / "runs"
    (data / "cat" / "empty.png").write_bytes(b"")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    before = sorted(tmp_path.rglob("*"))
    result = train(data, "--set", "epochs=1", "--out", out)
    assert result.exit_code == 0, result.output
    assert [path for path in sorted(tmp_path.rglob("*")) if out not in (path, *path.parents)] == before
    assert "Left out: 1 of " in result.stderr
    assert "test part" not in result.stdout
    assert "test" not in result.stderr.replace(str(tmp_path), "").replace("tmp", "")


def test_a_run_is_named_after_its_data_and_found_after_they_were_renamed(tmp_path):
    data, out = class_folders(tmp_path / "My photos, 2024", count=10), tmp_path / "runs"
    words = ("--set", "epochs=1", "--out", out, "--json", "-q")
    first = json.loads(train(data, *words).stdout)
    assert first["run_id"].startswith("My-photos-2024_none_tnlpad_small_resnet_seed1_")
    (run,) = out.iterdir()
    assert run.name == first["run_id"]
    again = json.loads(train(data.rename(tmp_path / "other"), *words).stdout)
    assert again == first
    assert list(out.iterdir()) == [run]
    assert json.loads((run / "data.json").read_text())["path"] == str(tmp_path / "other")


def test_a_run_of_an_earlier_version_is_found_and_resumed(tmp_path):
    own = open_dataset(blobs(tmp_path / "x.npz"))
    config, out = configure(own.shape, settings=SHORT), tmp_path / "runs"
    folder = run(config, out, own=own)
    old = folder.path.rename(out / config.run_id)
    assert config.run_id.startswith(f"own-{own.shape.fingerprint[:10]}_")
    (old / "summary.json").unlink()  # interrupted
    assert run(config, out, own=own).path == old
    assert run(config, out, own=own).summary()["run_id"] == config.run_id
    assert [path.name for path in out.iterdir()] == [old.name]


def test_images_have_their_channels_last_and_a_run_begun_without_stays_so(tmp_path):
    data, out = class_folders(tmp_path / "data", count=10), tmp_path / "runs"
    words = (data, "--epochs", 1, "--out", out, "--json", "-q", "--no-scores")
    earlier = json.loads(train(*words, "--set", "channels_last=none").stdout)
    assert "channels_last" not in earlier["config"]
    assert json.loads(train(*words).stdout) == earlier
    now = json.loads(train(*words, "--set", "channels_last=true").stdout)
    assert now["config"] == earlier["config"] | {"channels_last": True}
    assert now["settings"] == {"epochs": 1}
    assert json.loads(train(*words).stdout) == now


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("photos", "photos"),
        ("../Bilder \u00fc/", "Bilder-\u00fc"),
        ("table.v2.csv", "table.v2"),
        ("--rm -rf;.csv", "rm--rf"),
        ("\u2603.csv", "data"),
        ("x" * 90 + ".csv", "x" * 40),
    ],
)
def test_titles_are_fit_for_file_names(tmp_path, source, title):
    own = open_dataset(blobs(tmp_path / "x.npz"))
    assert dataclasses.replace(own, source=Path(source)).title == title
    assert dataclasses.replace(own, source=Path(f"runs/{own.shape.name}.npz")).title == "data"


def test_going_on_with_changed_data_is_refused(tmp_path):
    data, out = class_folders(tmp_path / "data", count=10), tmp_path / "runs"
    assert train(data, "--set", "epochs=1", "--out", out).exit_code == 0
    (run_folder,) = out.iterdir()
    save(data / "cat" / "new.png", picture(77))
    again = train(data, "--set", "epochs=1", "--out", out, "--resume")
    assert again.exit_code == 3
    assert f"has changed since {run_folder.name} was " in again.stderr
    by_file = train(data, "--config", run_folder / "config.json", "--out", out)
    assert by_file.exit_code == 3
    assert "samples 20 then, 21 now" in by_file.stderr
    new = train(data, "--set", "epochs=1", "--out", out)
    assert new.exit_code == 0
    assert "this is a new run" in new.stderr
    assert len(list(out.iterdir())) == 2


def test_the_report_of_published_numbers_leaves_own_data_out(tmp_path):
    own = open_dataset(blobs(tmp_path / "x.npz"))
    run(configure(own.shape, settings=SHORT), tmp_path / "runs", own=own)
    problems = []
    assert finished_records([tmp_path / "runs"], problems.append) == []
    assert [problem.kind for problem in problems] == ["own"]


def test_bad_data_end_with_three_and_leave_nothing(tmp_path):
    out = tmp_path / "runs"
    for data in (class_folders(tmp_path / "one", ("cat",)), tmp_path / "nowhere.csv", tmp_path / "no" / "where"):
        result = train(data, "--out", out)
        assert result.exit_code == 3, result.output
        assert isinstance(result.exception, SystemExit)
    assert not out.exists()
    assert train("digits", "--images", tmp_path).exit_code == 2


def test_weights_may_come_from_any_file(tmp_path):
    data, out = class_folders(tmp_path / "data", count=10), tmp_path / "runs"
    first = train(data, "--set", "epochs=1", "--out", out)
    assert first.exit_code == 0, first.output
    (run_folder,) = out.iterdir()
    weights = tmp_path / "mine.safetensors"
    weights.write_bytes((run_folder / "model.safetensors").read_bytes())
    second = train(data, "--set", "epochs=1", "--out", tmp_path / "more", "--weights", weights, "--json", "--quiet")
    assert second.exit_code == 0, second.output
    config = json.loads(second.stdout)["config"]
    assert config["pretrained"].startswith("mine-")
    assert config["options"]["init"] == "zero"
    other = train(data, "--set", "epochs=1", "--out", out, "--weights", weights, "--network", "resnet18")
    assert other.exit_code == 3
    assert "resnet18 cannot start from" in other.stderr
    assert train(data, "--out", out, "--weights", tmp_path / "none.pth").exit_code == 3


def test_ten_thousand_classes_are_trained_on(tmp_path):
    rows = np.random.default_rng(0).random((10_000, 2))
    np.savez(tmp_path / "x.npz", x=rows, y=np.arange(10_000))
    own = open_dataset(tmp_path / "x.npz")
    folder = run(configure(own.shape, settings={"epochs": 1, "batch_size": 3000}), tmp_path / "runs", own=own)
    assert folder.summary()["samples"] == {"train": 9000, "validation": 1000, "test": 0}


def test_where_data_lie_now_is_remembered(tmp_path):
    own = open_dataset(blobs(tmp_path / "x.npz", columns=list("abcd")))
    folder = run(configure(own.shape, settings=SHORT), tmp_path / "runs", own=own).path
    before = (folder / "data.json").read_bytes()
    save_location(folder, own)
    assert (folder / "data.json").read_bytes() == before
    elsewhere = open_dataset(blobs(tmp_path / "y.npz", columns=list("pqrs")))
    save_location(folder, elsewhere)
    now = read_data_file(folder)
    assert (now["path"], now["columns"]) == (str(tmp_path / "y.npz"), list("pqrs"))
    assert now["normalisation"] == json.loads(before)["normalisation"]


@pytest.mark.parametrize("width", [1, 2, 3, 33])
def test_a_few_columns_at_once_are_standardised_as_all(monkeypatch, width):
    features = np.random.default_rng(width).normal(3, 2, (1009, width)).astype(np.float32)
    features[:, -1] = 5 if width == 33 else features[:, -1]  # a constant column
    train = np.arange(0, 1009, 2)
    columns = features.astype(np.float64)
    mean, deviation = columns[train].mean(0), columns[train].std(0)
    deviation[deviation == 0] = 1
    for numbers in (own_data.NUMBERS_AT_ONCE, 5 * len(features), 1):
        monkeypatch.setattr(own_data, "NUMBERS_AT_ONCE", numbers)
        standard, normalisation = own_data._standardised(features, train)
        assert (normalisation.mean, normalisation.std) == (tuple(mean), tuple(deviation))
        np.testing.assert_array_equal(standard, ((columns - mean) / deviation).astype(np.float32))


def test_statistics_of_pixels_do_not_depend_on_how_many_are_read_at_once(monkeypatch):
    images = np.random.default_rng(2).integers(0, 200, (50, 3, 6, 5), dtype=np.uint8)
    rows = np.arange(1, 50, 3)
    expected = own_data._pixel_statistics(images, rows)
    np.testing.assert_allclose(expected.mean, (images[rows] / 255).mean((0, 2, 3)))
    np.testing.assert_allclose(expected.std, (images[rows] / 255).std((0, 2, 3)))
    monkeypatch.setattr(own_data, "ROWS_AT_ONCE", 4)
    assert own_data._pixel_statistics(images, rows) == expected


def test_a_projection_of_many_samples_is_fitted_to_some(monkeypatch):
    stream = np.random.default_rng(4)
    features = (stream.normal(size=(400, 20)) @ stream.normal(size=(20, 300))).astype(np.float32)
    train = np.arange(0, 400, 2)
    whole, of_all, _ = own_data._reduced(features, train, one_scale=False)
    monkeypatch.setattr(own_data, "MAX_PROJECTED_FROM", 90)
    found, projection, _ = own_data._reduced(features, train, one_scale=False)
    assert of_all.dimensions > projection.dimensions == 90
    np.testing.assert_allclose(found, projection.transform(features), rtol=1e-4, atol=1e-4)
    assert whole.shape[0] == found.shape[0] == 400
