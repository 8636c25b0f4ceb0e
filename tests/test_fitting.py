import csv
import dataclasses
import json
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.datasets import load_digits
from torch.utils.data import Dataset, TensorDataset

import tnlpad
from tests.cli.trained import asked
from tests.data.own_files import class_folders, picture
from tnlpad.progress import is_watched
from tnlpad.records.samples import read_data_file
from tnlpad.suspects.listing import Suspect

SHORT = {"epochs": 2}


def blobs(samples=80, classes=4, seed=0):
    """Rows that are easily told apart, in units of their own."""
    generator = np.random.default_rng(seed)
    labels = np.arange(samples) % classes
    rows = generator.normal(size=(samples, 4)) + 6 * np.eye(classes, 4)[labels]
    return rows * [1, 1000, 1e-3, 1] + 7, labels


def patterns(samples=60, side=8):
    """Gray images of two classes."""
    labels = np.arange(samples) % 2
    images = np.random.default_rng(0).integers(0, 60, (samples, side, side), dtype=np.uint8)
    images[labels == 1, :, : side // 2] += 150
    return images, labels


@pytest.fixture(scope="module")
def flipped():
    """The bundled digits, three labels in ten another one, and what becomes of them."""
    images, clean = load_digits(return_X_y=True)
    images = (images.reshape(-1, 8, 8) * (255 / 16)).round().astype(np.uint8)
    generator = np.random.default_rng(3)
    wrong = generator.random(len(clean)) < 0.3
    given = np.where(wrong, (clean + generator.integers(1, 10, len(clean))) % 10, clean)
    return images, clean, given, wrong, tnlpad.fit(images, given, settings={"epochs": 20, "milestones": "15"})


def test_wrong_digits_are_found(flipped):
    _, clean, _, wrong, result = flipped
    first = result.suspects[: int(wrong.sum())]
    assert np.mean([wrong[int(each.id)] for each in first]) > 0.85
    assert np.mean([clean[int(each.id)] == each.suggested for each in first]) > 0.8
    assert [each.rank for each in first] == list(range(1, len(first) + 1))
    assert {each.part for each in result.ranked()} == {"train", "validation"}
    assert len(result.ranked()) == len(clean)
    assert result.ranked(5) == result.ranked()[:5]


def test_the_share_of_wrong_digits_is_estimated(flipped):
    *_, wrong, result = flipped
    assert abs(result.noise_rate - wrong.mean()) < 0.08
    low, high = result.noise_rate_interval
    assert low <= result.noise_rate <= high
    assert result.transition.shape == (10, 10)
    np.testing.assert_allclose(result.transition.sum(1), 1, atol=1e-6)


def test_the_model_is_sigma_and_takes_raw_images(flipped):
    images, clean, _, _, result = flipped
    assert not result.model.training
    tensor = torch.from_numpy(images)[:, None]
    with torch.no_grad():
        logits = result.model(tensor)
        torch.testing.assert_close(logits, result.model(tensor / 255))
    assert (logits.argmax(1).numpy() == clean).mean() > 0.85
    state = {name.removeprefix("network."): value for name, value in result.model.network.state_dict().items()}
    for name, value in load_file(result.folder / "model.safetensors").items():
        torch.testing.assert_close(state[name], value, rtol=0, atol=0)


def test_predictions_are_the_model_s(flipped):
    images, _, given, _, result = flipped
    tensor = torch.from_numpy(images)[:, None]
    with torch.no_grad():
        expected = result.model(tensor).softmax(1).numpy()
    for same in (images, images[..., None], tensor, tensor / 255, list(images)):
        np.testing.assert_allclose(result.predict_proba(same), expected, atol=1e-5)
    assert result.classes.tolist() == list(range(10))
    np.testing.assert_array_equal(result.predict(images), expected.argmax(1))
    np.testing.assert_array_equal(result.predict(TensorDataset(tensor, torch.from_numpy(given))), expected.argmax(1))


def test_a_table_of_the_suspects(flipped):
    pytest.importorskip("pandas")
    *_, result = flipped
    table = result.to_pandas(top=7)
    assert table["id"].tolist() == [each.id for each in result.ranked(7)]
    assert len(result.to_pandas()) == len(result.suspects)


def test_without_pandas_the_table_says_so(flipped, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        flipped[-1].to_pandas()


def test_it_is_the_run_of_the_command_line(tmp_path):
    rows, labels = blobs()
    result = tnlpad.fit(rows, labels, seed=2, settings=SHORT, out=tmp_path / "ours")
    np.savez(tmp_path / "rows.npz", x=rows, y=labels)
    words = ("train", tmp_path / "rows.npz", "--seed", 2, "--set", "epochs=2", "--out", tmp_path / "theirs", "-q")
    assert asked(*words, "--json").exit_code == 0
    (theirs,) = (tmp_path / "theirs").iterdir()
    assert theirs.name == result.folder.name.replace("data_", "rows_")
    for name in ("config.json", "pred_probs.npy", "scores.parquet", "samples.parquet"):
        assert (theirs / name).read_bytes() == (result.folder / name).read_bytes(), name


def test_commands_take_the_run(tmp_path):
    images, labels = patterns()
    result = tnlpad.fit(images, labels, ids=[f"s{row}" for row in range(60)], settings=SHORT, out=tmp_path)
    listed = asked("suspects", result.folder, "--top", 3, "--out", tmp_path / "list", "--format", "csv,html", "--json")
    assert listed.exit_code == 0, listed.output
    assert [each["id"] for each in json.loads(listed.stdout)["listed"]] == [each.id for each in result.ranked(3)]
    assert {each.id for each in result.ranked()} == {f"s{row}" for row in range(60)}
    assert (tmp_path / "list" / "index.html").read_text().count("data:image/jpeg") == 3


def test_a_finished_run_is_not_repeated(tmp_path):
    seen = []
    first = tnlpad.fit(*blobs(), settings=SHORT, out=tmp_path, on_epoch=seen.append)
    again = tnlpad.fit(*blobs(), settings=SHORT, out=tmp_path, on_epoch=seen.append)
    assert len(seen) == 2
    assert again.folder == first.folder
    assert again.ranked() == first.ranked()


def test_progress_is_shown_where_someone_sees_it_or_asks_for_it(capsys):
    tnlpad.fit(*blobs(), settings=SHORT)
    assert capsys.readouterr() == ("", "")
    tnlpad.fit(*blobs(), settings=SHORT, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split()[0] for line in err.splitlines()] == ["1/2", "2/2"]


def test_a_notebook_is_watched(monkeypatch):
    assert not is_watched()
    kernel = SimpleNamespace(kernel=None)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: kernel))
    assert is_watched()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not is_watched()


def test_a_result_prints_as_a_short_table(flipped):
    *_, result = flipped
    text = repr(result)
    low, high = (f"{100 * share:.1f}" for share in result.noise_rate_interval)
    first = result.suspects[0]
    for wanted in (
        "samples       1,797",
        "classes       10",
        f"({low} to {high} %)",
        f"suspects      {len(result.suspects)}",
    ):
        assert wanted in text
    row = next(line for line in text.splitlines() if line.startswith(f"{first.id} "))
    assert row.split() == [first.id, first.given_name, first.suggested_name, f"{100 * first.confidence:.0f}"]
    assert len(text.splitlines()) == 12
    assert result._repr_html_().count("<tr>") == 11


def test_what_is_printed_of_weak_results_and_hostile_names():
    images, labels = patterns(40)
    names = np.array(["<b>x</b>", "two\nlines"])[np.random.default_rng(0).permutation(labels)]
    result = tnlpad.fit(images, names, settings={"epochs": 1})
    page = result._repr_html_()
    assert result.caution is not None
    assert result.caution in repr(result)
    assert "<b>" not in page
    assert "\n" not in repr(result).splitlines()[-1]


def test_the_most_probable_classes(flipped):
    images, _, _, _, result = flipped
    classes, shares = result.predict_top(images[:20], 3)
    every = result.predict_proba(images[:20])
    np.testing.assert_array_equal(classes[:, 0], result.predict(images[:20]))
    np.testing.assert_allclose(shares, -np.sort(-every, axis=1)[:, :3])
    for wrong in (0, 11):
        with pytest.raises(ValueError, match=f"top={wrong}: the run has 10 classes"):
            result.predict_top(images[:2], wrong)


def test_a_temporary_folder_goes_away_with_the_result():
    result = tnlpad.fit(*blobs(), settings=SHORT)
    folder = result.folder
    assert (folder / "summary.json").exists()
    assert list(folder.parent.iterdir()) == [folder]  # of the samples no copy is made that nobody would open
    assert repr(result).startswith(f"Result in {folder}\n")
    del result
    assert not folder.exists()


def test_an_interrupted_fit_leaves_no_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def interrupt(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tnlpad.fit(*blobs(), settings=SHORT, on_epoch=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_an_error_takes_nothing_out_of_a_folder_that_is_given(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(ValueError, match="learning_rate"):
        tnlpad.fit(*blobs(), settings={"learning_rate": -1}, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_every_word_reaches_the_run():
    names = ["north", "east", "south", "west"]
    rows, labels = blobs()
    result = tnlpad.fit(rows, labels, class_names=names, method="cdr", settings={**SHORT, "noise_rate": 0.1})
    assert result.summary["config"]["method"] == "cdr"
    assert result.classes.tolist() == names
    images, labels = patterns()
    assert tnlpad.fit(images, labels, network="mlp", settings=SHORT).summary["config"]["network"] == "mlp"


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        (["-1", "0", "12"], [-1, 0, 12]),
        (["1", "none"], ["1", "none"]),
        (["007", "7"], ["007", "7"]),  # as numbers they would be the same
        (["-0", "0"], ["-0", "0"]),
        (["2", "²"], ["2", "²"]),
        (["-", "--1"], ["-", "--1"]),
        (["1", "2" * 5000], ["1", "2" * 5000]),
    ],
)
def test_classes_are_whole_numbers_only_if_nothing_is_lost_by_it(flipped, names, classes):
    result = dataclasses.replace(flipped[-1], shipped=dataclasses.replace(flipped[-1].shipped, class_names=names))
    assert result.classes.tolist() == classes


def test_without_suspects_the_table_has_its_columns(flipped):
    pytest.importorskip("pandas")
    columns = [each.name for each in dataclasses.fields(Suspect)]
    empty = flipped[-1].to_pandas(top=0)
    assert (len(empty), list(empty.columns)) == (0, columns)
    assert flipped[-1].ranked(0) == []


def test_the_accuracy_is_that_of_the_chosen_epoch(flipped):
    ends = {"chosen": {"validation_accuracy": 0.75}, "last": {"validation_accuracy": 0.5}}
    assert dataclasses.replace(flipped[-1], summary=ends).validation_accuracy == 0.75


def test_features(tmp_path):
    rows, labels = blobs(240)
    result = tnlpad.fit(rows, np.array(["north", "east", "south", "west"])[labels], settings={"epochs": 10})
    assert result.classes.tolist() == ["east", "north", "south", "west"]
    assert (result.predict(rows) == np.array(["north", "east", "south", "west"])[labels]).mean() > 0.95
    with torch.no_grad():
        logits = result.model(torch.from_numpy(rows))
    np.testing.assert_allclose(logits.softmax(1), result.predict_proba(torch.from_numpy(rows)), atol=1e-5)


class Pairs(Dataset):
    """As torchvision's are: images of Pillow and numbers, with the names of the classes."""

    classes = ["cat", "dog"]  # noqa: RUF012

    def __init__(self, samples=24, sizes=((12, 10),)):
        self.samples, self.sizes = samples, sizes

    def __len__(self):
        return self.samples

    def __getitem__(self, row):
        return picture(row, self.sizes[row % len(self.sizes)]), row % 2


def test_a_torch_dataset_of_pictures(tmp_path):
    data = Pairs(sizes=((12, 10), (20, 20)))
    result = tnlpad.fit(data, settings=SHORT, out=tmp_path)
    assert {each.given_name for each in result.ranked()} == {"cat", "dog"}
    assert result.predict(data).tolist() == result.predict([data[row][0] for row in range(24)]).tolist()
    assert set(result.predict(data)) <= {"cat", "dog"}
    listed = asked("suspects", result.folder, "--top", 2, "--out", tmp_path / "list")
    assert listed.exit_code == 0, listed.output
    assert (tmp_path / "list" / "index.html").read_text().count("data:image/jpeg") == 2


def test_a_torch_dataset_of_tensors():
    rows, labels = blobs()
    result = tnlpad.fit(TensorDataset(torch.from_numpy(rows), torch.from_numpy(labels)), settings=SHORT)
    assert len(result.ranked()) == 80


def test_a_path(tmp_path):
    folder = class_folders(tmp_path / "data", count=10)
    result = tnlpad.fit(folder, settings=SHORT)
    assert {each.path for each in result.ranked()} == {str(each) for each in folder.rglob("*.png")}
    assert result.predict(str(folder)).shape == (20,)


def test_a_network_for_images_takes_no_backbone_wherever_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("tnlpad.runs.choose_backbone.resolve_backbone", lambda *_, **__: pytest.fail("took a backbone"))
    folder = class_folders(tmp_path / "data", count=10)
    settings = {"epochs": 1, "resize": 32}
    for words in ({"network": "lenet", "settings": settings}, {"settings": settings | {"network": "lenet"}}):
        assert tnlpad.fit(folder, **words).shipped.config.network == "lenet"


def test_a_hugging_face_dataset(tmp_path):
    datasets = pytest.importorskip("datasets", reason="pip install 'tnlpad[integrations]'")
    names = ["cat", "dog"]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=names)})
    columns = {"image": [picture(row) for row in range(30)], "label": [row % 2 for row in range(30)]}
    data = datasets.Dataset.from_dict(columns, features=features)
    result = tnlpad.fit(data.select(range(5, 25)), settings=SHORT, out=tmp_path)
    assert len(result.ranked()) == 20
    assert result.classes.tolist() == names
    assert {each.given_name for each in result.ranked()} == {"cat", "dog"}
    assert len(result.predict(data)) == 30
    parts = datasets.DatasetDict({"train": data.select(range(20)), "test": data.select(range(20, 30))})
    result = tnlpad.fit(parts, settings=SHORT, out=tmp_path)
    assert json.loads((result.folder / "summary.json").read_text())["samples"]["test"] == 10
    assert asked("suspects", result.folder, "--out", tmp_path / "list").exit_code == 0


def test_pictures_of_a_hugging_face_dataset_may_lie_in_files(tmp_path):
    datasets = pytest.importorskip("datasets", reason="pip install 'tnlpad[integrations]'")
    folder = class_folders(tmp_path / "data", count=10)
    paths = sorted(str(each) for each in folder.rglob("*.png"))
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("string")})
    columns = {"image": paths, "label": [path.split("/")[-2] for path in paths]}
    result = tnlpad.fit(datasets.Dataset.from_dict(columns, features=features), settings=SHORT)
    assert {each.path for each in result.ranked()} == set(paths)


IMAGES, LABELS = patterns(20)
ROWS = np.ones((20, 3))


@pytest.mark.parametrize(
    ("data", "labels", "said"),
    [
        (IMAGES, LABELS[:7], "there are 20 samples and 7 labels"),
        (IMAGES, np.zeros(20, int), "one class, '0'"),
        (np.full((20, 3), np.nan), LABELS, "none of the 20 samples"),
        (np.empty((0, 8, 8), np.uint8), [], "data holds no sample"),
    ],
)
def test_bad_input_leaves_nothing_behind(data, labels, said, tmp_path):
    with pytest.raises(tnlpad.DataError, match=said):
        tnlpad.fit(data, labels, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"settings": {"epoch": 3}}, "did you mean epochs?"),
        ({"settings": {"epochs": 0}}, "epochs=0: must be at least 1"),
        ({"settings": {"resize": "many"}}, "resize='many': must be a whole number or none"),
        ({"settings": {"resize": "²"}}, "resize='²': must be a whole number or none"),
        ({"method": "tnlpat"}, "did you mean tnlpad?"),
        ({"network": "resnet"}, "network='resnet' is unknown"),
        ({"device": "cuda:x"}, "choose cpu, cuda or auto"),
    ],
)
def test_bad_arguments_are_told(arguments, said, tmp_path):
    with pytest.raises(ValueError, match=said.replace("?", r"\?")):
        tnlpad.fit(IMAGES, LABELS, out=tmp_path / "runs", **arguments)
    assert not (tmp_path / "runs").exists()


def test_a_module_is_not_the_name_of_a_network():
    with pytest.raises(TypeError, match=r"network=Linear\(\.\.\.\).*small_cnn.*tnlpad\.Decomposition"):
        tnlpad.fit(IMAGES, LABELS, network=torch.nn.Linear(3, 2))


def test_what_is_left_out_is_warned_of():
    rows, labels = blobs()
    given = [None if row == 3 else label for row, label in enumerate(labels.tolist())]
    with pytest.warns(UserWarning, match="Left out: 1 of .* samples. Sample 3: the label is missing"):
        result = tnlpad.fit(rows, given, settings=SHORT)
    assert "3" not in {each.id for each in result.ranked()}
    rows[3, 2] = np.inf
    with pytest.raises(tnlpad.DataError, match="1 sample cannot be predicted"):
        result.predict(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result.predict(rows[4:])


def test_another_shape_cannot_be_predicted(flipped):
    with pytest.raises(tnlpad.DataError, match=r"1 × 9 × 9, .* takes 1 × 8 × 8"):
        flipped[-1].predict(np.ones((2, 9, 9), np.uint8))
    with pytest.raises(tnlpad.DataError, match="data holds no sample"):
        flipped[-1].predict([])


def test_columns_of_a_table_are_known_by_name():
    pandas = pytest.importorskip("pandas")
    rows, labels = blobs()
    table = pandas.DataFrame(rows, columns=["a", "b", "c", "d"])
    result = tnlpad.fit(table, pandas.Series(labels), settings=SHORT)
    np.testing.assert_array_equal(result.predict_proba(table[["d", "c", "b", "a"]]), result.predict_proba(table))
    with pytest.raises(tnlpad.DataError, match="data has no column 'a'"):
        result.predict(table.rename(columns={"a": "x"}))


def test_a_table_may_hold_its_labels_under_any_name(tmp_path):
    pandas = pytest.importorskip("pandas")
    rows, labels = blobs()
    table = pandas.DataFrame(rows, columns=["a", "b", "c", "d"]).assign(kind=[f"class {label}" for label in labels])
    for out in (None, tmp_path / "runs"):
        result = tnlpad.fit(table, label="kind", settings=SHORT, out=out)
        assert result.classes.tolist() == [f"class {label}" for label in range(4)]
        assert (result.predict(table) == result.predict(table[["a", "b", "c", "d"]])).all()
    assert asked("suspects", result.folder, "--out", tmp_path / "suspects").exit_code == 0
    table.to_csv(tmp_path / "x.csv", index=False)
    same = tnlpad.fit(tmp_path / "x.csv", label="kind", settings=SHORT)
    assert (same.predict(tmp_path / "x.csv") == result.predict(table)).all()


def test_columns_of_a_table_may_be_ignored(tmp_path):
    pandas = pytest.importorskip("pandas")
    rows, labels = blobs()
    table = pandas.DataFrame(rows, columns=["a", "b", "c", "d"]).assign(
        label=labels, ticket=["A/5", 7, 8, 9] * (len(rows) // 4)
    )
    with pytest.raises(tnlpad.DataError, match=r"--ignore ticket \(ignore= in Python\)"):
        tnlpad.fit(table, settings=SHORT)
    held = tnlpad.fit(table, ignore="ticket", settings=SHORT, out=tmp_path / "runs")
    assert asked("clean", held.folder, "--out", tmp_path / "clean.csv", "--confidence", 1).exit_code == 0
    table.to_csv(tmp_path / "x.csv", index=False)
    read = tnlpad.fit(tmp_path / "x.csv", ignore=["Ticket"], settings=SHORT)
    assert held.shipped.columns == read.shipped.columns == ("a", "b", "c", "d")
    assert (held.predict(table) == read.predict(tmp_path / "x.csv")).all()
    with pytest.raises(tnlpad.DataError, match="data has no column 'fare' to ignore; it has a, b"):
        tnlpad.fit(table, ignore=["fare"])
    with pytest.raises(tnlpad.DataError, match=r"ignore='a': .* ndarray"):
        tnlpad.fit(rows, labels, ignore="a")


def test_columns_may_have_names_that_are_no_texts():
    pandas = pytest.importorskip("pandas")
    rows, labels = blobs(samples=40)
    table = pandas.DataFrame(rows)
    table[4], table[5], table[6] = labels, np.arange(40) // 2, [f"k{row}" for row in range(40)]
    result = tnlpad.fit(table, label=4, group=5, id=6, ignore=[0, np.int64(1)], settings=SHORT)
    assert result.shipped.columns == ("2", "3")
    assert {each.id for each in result.ranked()} == set(table[6])
    assert (result.predict(table) == result.predict(table.drop(columns=4))).all()
    assert result.clean(top=1).columns.tolist() == [0, 1, 2, 3, 4, "original_label", 5, 6]
    nested = pandas.DataFrame(rows, columns=pandas.MultiIndex.from_product([["a", "b"], ["c", "d"]]))
    nested["e", "f"] = labels
    assert len(tnlpad.fit(nested, label=("e", "f"), settings=SHORT).shipped.columns) == 4


def test_a_finished_run_is_loaded_without_its_data(tmp_path):
    data = class_folders(tmp_path / "photos", count=10)
    assert asked("train", data, "--set", "epochs=1", "--out", tmp_path / "runs").exit_code == 0
    (run,) = (tmp_path / "runs").iterdir()
    fitted = tnlpad.fit(data, settings={"epochs": 1}, out=tmp_path / "runs")
    pictures = [picture(number) for number in range(3)]
    (tmp_path / "photos").rename(tmp_path / "gone")
    loaded = tnlpad.load(str(run))
    assert loaded.folder == fitted.folder == run
    np.testing.assert_array_equal(loaded.predict_proba(pictures), fitted.predict_proba(pictures))
    assert loaded.ranked() == fitted.ranked()
    assert loaded.noise_rate == fitted.noise_rate


def test_a_loaded_run_knows_which_column_had_the_labels(tmp_path):
    rows = [f"{k % 2},{k % 3},c{k % 2}" for k in range(20)]
    (tmp_path / "x.csv").write_text("\n".join(["a,b,text", *rows]))
    fitted = tnlpad.fit(tmp_path / "x.csv", label="text", settings=SHORT, out=tmp_path / "runs")
    assert tnlpad.load(fitted.folder).label == "text"


def test_what_is_no_finished_run_is_not_loaded(tmp_path):
    images, labels = patterns()
    run = tnlpad.fit(images, labels, settings={"epochs": 1}, out=tmp_path / "runs").folder
    with pytest.raises(tnlpad.DataError, match="runs is not a run folder"):
        tnlpad.load(tmp_path / "runs")
    (run / "model.safetensors").write_bytes(b"x")
    with pytest.raises(tnlpad.DataError, match=r"model\.safetensors is damaged.*SHA-256"):
        tnlpad.load(run)
    (run / "summary.json").unlink()
    with pytest.raises(tnlpad.DataError, match="is not finished"):
        tnlpad.load(run)


def test_tables_of_yes_and_no_and_numbers():
    pd = pytest.importorskip("pandas", reason="pip install pandas")
    table = pd.DataFrame({"wide": np.arange(30.0), "red": np.arange(30) % 2 == 1, "few": np.arange(30)})
    labels = pd.DataFrame({"label": ["b" if wide > 15 else "a" for wide in table["wide"]]})
    result = tnlpad.fit(table, labels, settings=SHORT)
    assert list(result.classes) == ["a", "b"]
    assert result.shipped.columns == ("wide", "red", "few")
    with pytest.warns(UserWarning, match="not trained on: 'name'"):
        named = tnlpad.fit(table.assign(name="x"), labels, settings=SHORT)
    assert named.shipped.columns == ("wide", "red", "few")
    np.testing.assert_array_equal(named.predict_proba(table.assign(other="y")), result.predict_proba(table))


def test_right_labels_of_a_rare_class_are_no_suspects():
    generator = np.random.default_rng(0)
    labels = (generator.random(600) < 0.1).astype(int)
    rows = generator.normal(size=(600, 4)) + 6 * labels[:, None]
    result = tnlpad.fit(rows, labels, settings={"epochs": 20, "repeats": 1})
    assert result.caution is None
    assert result.noise_rate < 0.03
    assert len(result.suspects) < 6


def test_numbers_without_meaning_are_cautioned_of_however_frequent_a_label_is():
    generator = np.random.default_rng(0)
    labels = (generator.random(400) < 0.15).astype(int)
    result = tnlpad.fit(generator.normal(size=(400, 4)), labels, settings=SHORT)
    assert result.validation_accuracy > 0.7
    assert "know too little" in result.caution
    assert (result.noise_rate, result.noise_rate_interval) == (None, None)


def test_a_weak_network_is_cautioned_of():
    labels = np.random.default_rng(0).integers(0, 8, 200)
    result = tnlpad.fit(np.random.default_rng(1).normal(size=(200, 3)), labels, settings=SHORT)
    assert result.validation_accuracy < 0.5
    assert "know too little" in result.caution


def test_weights_to_begin_with(flipped, tmp_path):
    images, _, given, _, first = flipped
    weights = first.folder / "model.safetensors"
    result = tnlpad.fit(images, given, settings={"epochs": 1}, weights=weights, out=tmp_path)
    assert result.summary["settings"]["pretrained"].startswith("model-")
    assert result.validation_accuracy > 0.5
    assert first.caution is None
    with pytest.raises(tnlpad.DataError, match=r"none\.pth': cannot be read"):
        tnlpad.fit(images, given, weights=tmp_path / "none.pth")


def test_nothing_is_left_behind_after_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ValueError, match="learning_rate"):
        tnlpad.fit(IMAGES, LABELS, settings={"learning_rate": -1})
    assert list(tmp_path.iterdir()) == []


def test_a_suspect_is_plain_data(flipped):
    first = flipped[-1].suspects[0]
    assert isinstance(first, Suspect)
    assert set(json.loads(json.dumps(first.to_json()))) >= {"id", "given_name", "suggested_name", "confidence", "why"}


def test_importing_the_package_stays_light():
    code = "import sys, tnlpad; tnlpad.DataError; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_moved_data_are_found_at_their_new_path(tmp_path):
    rows, labels = blobs()
    np.savez(tmp_path / "x.npz", features=rows, labels=labels)
    first = tnlpad.fit(tmp_path / "x.npz", settings=SHORT, out=tmp_path / "runs")
    (tmp_path / "x.npz").rename(tmp_path / "y.npz")
    assert tnlpad.fit(tmp_path / "y.npz", settings=SHORT, out=tmp_path / "runs").folder == first.folder
    assert read_data_file(first.folder)["path"] == str(tmp_path / "y.npz")


def test_the_page_has_the_pictures_of_arrays_in_memory(flipped, tmp_path):
    *_, result = flipped
    page = result.save_page(tmp_path / "new" / "page", top=3)
    assert page == tmp_path / "new" / "page" / "index.html"
    assert page.read_text().count("data:image/jpeg") == 3
    with open(page.with_name("suspects.csv"), newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == [each.id for each in result.ranked(3)]


def test_the_page_shows_rows_of_numbers(tmp_path):
    rows, labels = blobs()
    labels[:3] = (labels[:3] + 1) % 4
    result = tnlpad.fit(rows, labels, settings={"epochs": 10}, out=tmp_path / "runs")
    for same in (result, tnlpad.load(result.folder)):
        assert same.save_page(tmp_path / "page", top=2).read_text().count('<table class="numbers"') == 2


def test_a_page_without_its_data_warns(tmp_path):
    images, labels = patterns()
    np.savez(tmp_path / "x.npz", images=images, labels=labels)
    result = tnlpad.fit(tmp_path / "x.npz", settings=SHORT, out=tmp_path / "runs")
    (tmp_path / "x.npz").unlink()
    assert "data:image" in result.save_page(tmp_path / "page", top=2).read_text()  # they are still in memory
    with pytest.warns(UserWarning, match=r"x\.npz is gone"):
        assert "data:image" not in tnlpad.load(result.folder).save_page(tmp_path / "page", top=2).read_text()


def test_arrays_are_cleaned(flipped):
    images, clean, given, wrong, result = flipped
    kept, labels = result.clean()
    assert (kept == np.arange(len(images))).all()
    assert labels.dtype == given.dtype
    assert (labels == clean).mean() > (given == clean).mean() + 0.1
    kept, labels = result.clean(action="drop")
    assert len(kept) == len(labels) < len(images)
    assert (labels == given[kept]).all()
    assert wrong[kept].mean() < wrong.mean() / 2
    assert (result.clean(confidence=1.0)[1] == given).all()
    stricter, looser = ((result.clean(confidence=each)[1] != given).sum() for each in (0.99, 0.5))
    assert stricter < looser


def test_the_command_line_cleans_the_same(tmp_path):
    rows, labels = blobs(240)
    labels[:20] = (labels[:20] + 1) % 4
    result = tnlpad.fit(rows, labels, settings={"epochs": 10}, out=tmp_path / "runs")
    assert asked("clean", result.folder, "--out", tmp_path / "c.csv").exit_code == 0
    with open(tmp_path / "c.csv", newline="") as file:
        written = [int(row["label"]) for row in csv.DictReader(file)]
    kept, cleaned = result.clean()
    assert cleaned.tolist() == written != labels.tolist()
    kept, loaded = tnlpad.load(result.folder).clean()
    assert (kept.tolist(), loaded.tolist()) == (list(range(240)), written)


def test_samples_keep_their_places_and_labels_their_values():
    """With ids, left-out samples, and labels that stand for class names."""
    rows, labels = blobs()
    given = [None if row == 3 else label for row, label in enumerate(labels.tolist())]
    names = [f"s{row}" for row in range(80)]
    with pytest.warns(UserWarning, match="Left out"):
        result = tnlpad.fit(rows, given, ids=names, class_names=list("nesw"), settings=SHORT)
    review = {"s0": None, "s1": "s", "s2": "new"}
    kept, cleaned = result.clean(confidence=1.0, review=review)
    assert kept.tolist() == [1, 2, *range(4, 80)]
    assert cleaned.tolist() == ["2", "new", *map(str, labels[4:])]
    kept, cleaned = result.clean(confidence=1.0, review={"s1": "s"})
    assert cleaned.tolist() == [0, 2, 2, *labels[4:]]
    with pytest.raises(tnlpad.DataError, match="'s99'"):
        result.clean(review={"s99": "n"})


def test_a_saved_review_is_taken(flipped, tmp_path):
    *_, result = flipped
    (tmp_path / "review.csv").write_text("id,label\n0,7\n1,\n")
    kept, labels = result.clean(confidence=1.0, review=tmp_path / "review.csv")
    assert (kept[:2].tolist(), labels[0]) == ([0, 2], 7)
    with pytest.raises(tnlpad.DataError, match="cannot be read"):
        result.clean(review=tmp_path / "none.csv")


def test_reviews_of_several_people_and_of_the_run_are_used(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (24, 8, 8), dtype=np.uint8)
    result = tnlpad.fit(images, ["x", "y"] * 12, out=tmp_path, settings=SHORT)
    with pytest.warns(UserWarning, match=r"no majority about 1 samples, such as '1'"):
        _, labels = result.clean(confidence=1.0, review=[{"0": "y", "1": "x"}, {"0": "y", "1": "y"}, {"0": "x"}])
    assert labels[:2].tolist() == ["y", "y"]
    (result.folder / "review").mkdir()
    (result.folder / "review" / "review.csv").write_text("id,label,choice\n0,z,other\n1,,unsure\n")
    with pytest.warns(UserWarning, match=r"review\.csv are used"):
        assert result.clean(confidence=1.0)[1][:2].tolist() == ["z", "y"]
    assert result.clean(confidence=1.0, review=False)[1][:2].tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [({"confidence": 0.2}, "confidence=0.2"), ({"action": "keep"}, "'keep'"), ({"top": 0}, "top=0")],
)
def test_wrong_arguments_of_clean(flipped, arguments, said):
    with pytest.raises(ValueError, match=said):
        flipped[-1].clean(**arguments)


def test_a_weak_network_gives_no_rate_and_cleans_nothing_unless_asked():
    labels = np.random.default_rng(0).integers(0, 8, 200)
    result = tnlpad.fit(np.random.default_rng(1).normal(size=(200, 3)), labels, settings=SHORT)
    with pytest.warns(UserWarning, match="No label is changed"):
        kept, cleaned = result.clean()
    assert (len(kept), cleaned.tolist()) == (200, labels.tolist())
    with pytest.warns(UserWarning, match="No label is changed"):
        assert result.clean(review={"0": "7"})[1].tolist() == [7, *labels[1:]]
    assert (result.clean(top=20)[1] != labels).sum() == 20
    assert (result.noise_rate, result.noise_rate_interval, result.transition) == (None, None, None)


@pytest.mark.parametrize("dtype", [object, "category"])
def test_a_table_is_cleaned(dtype):
    """In the order of its rows, with those that could not be used, and a test part that stays as it is."""
    pandas = pytest.importorskip("pandas")
    rows, labels = blobs(80)
    table = pandas.DataFrame(rows, columns=["a", "b", "c", "d"], index=[f"row {k % 40}" for k in range(80)])
    table["Kind"] = pandas.Series(np.array(["n", "e", "s", "w"])[labels], index=table.index).astype(dtype)
    table["split"] = ["test", *["train"] * 79]
    table.iloc[5, 0] = np.nan
    before = table.copy()
    with pytest.warns(UserWarning, match="left out"):
        result = tnlpad.fit(table, label="kind", settings=SHORT)
    cleaned = result.clean(confidence=1.0, review={"1": "w", "2": None})
    pandas.testing.assert_frame_equal(table, before)
    assert list(cleaned.columns) == ["a", "b", "c", "d", "Kind", "original_label", "split"]
    assert len(cleaned) == 79
    assert cleaned["Kind"].dtype == table["Kind"].dtype
    expected = table["Kind"].tolist()
    assert cleaned["original_label"].tolist() == expected[:2] + expected[3:]
    assert cleaned["Kind"].tolist() == [expected[0], "w", *expected[3:]]
    with_new = result.clean(confidence=1.0, review={"1": "new"})
    assert with_new["Kind"].tolist() == [expected[0], "new", *expected[2:]]
    again = tnlpad.fit(with_new.dropna(), label="Kind", settings=SHORT).clean(confidence=1.0)
    assert again["original_label"].tolist() == with_new.dropna()["original_label"].tolist()


def test_a_table_that_the_program_changes_after_training_is_cleaned_as_it_was():
    pandas = pytest.importorskip("pandas")
    rows, labels = blobs(40)
    table = pandas.DataFrame(rows, columns=["a", "b", "c", "d"]).assign(label=labels)
    result = tnlpad.fit(table, settings=SHORT)
    before = result.clean(confidence=1.0, review={"1": 3})
    table.sort_values("a", inplace=True)
    table.drop(index=[1, 2], inplace=True)
    table.loc[0, "label"] = 9
    table["label"] = 7
    pandas.testing.assert_frame_equal(result.clean(confidence=1.0, review={"1": 3}), before)


def test_labels_beside_a_table_are_cleaned_as_those_of_arrays():
    pandas = pytest.importorskip("pandas")
    rows, labels = blobs()
    table = pandas.DataFrame(rows, columns=["a", "b", "c", "d"]).assign(id=[f"s{row}" for row in range(80)])
    result = tnlpad.fit(table, pandas.DataFrame({"label": labels}), settings=SHORT)
    kept, cleaned = result.clean(confidence=1.0, review={"s1": None})
    assert kept.tolist() == [0, *range(2, 80)]
    assert cleaned.tolist() == labels[kept].tolist()


def test_a_new_class_of_numbers_is_a_number():
    pandas = pytest.importorskip("pandas")
    rows, labels = blobs(samples=40)
    _, cleaned = tnlpad.fit(rows, labels, settings=SHORT).clean(confidence=1.0, review={0: 7})
    assert (cleaned.dtype, cleaned.tolist()) == (labels.dtype, [7, *labels[1:]])
    table = pandas.DataFrame(rows).assign(label=labels)
    frame = tnlpad.fit(table, settings=SHORT).clean(confidence=1.0, review={0: 7})
    assert (frame["label"].dtype, frame["label"].tolist()) == (labels.dtype, [7, *labels[1:]])


def test_datasets_are_cleaned_by_place():
    result = tnlpad.fit(Pairs(), settings=SHORT)
    kept, cleaned = result.clean(confidence=1.0, review={"2": None})
    assert kept.tolist() == [0, 1, *range(3, 24)]
    assert cleaned.tolist() == [["cat", "dog"][row % 2] for row in kept]


def test_files_are_cleaned_by_id(tmp_path):
    folder = class_folders(tmp_path / "data", count=10)
    kept, cleaned = tnlpad.fit(folder, settings=SHORT).clean(confidence=1.0)
    assert [name.split("/")[0] for name in kept] == cleaned.tolist()
    assert set(cleaned) == {"cat", "dog"}


def test_checked_labels_give_the_share_of_wrong_ones(flipped):
    _, clean, _, wrong, result = flipped
    checked = range(100)
    found = result.audit({str(row): str(clean[row]) for row in checked})
    assert found.rate.share.estimate == pytest.approx(wrong[checked].mean())
    assert found.rate.share.low < 0.3 < found.rate.share.high
    as_given = result.audit({row: clean[row] for row in checked})  # numbers, as `fit` took them
    assert (as_given.review, as_given.rate) == (found.review, found.rate)


@pytest.mark.parametrize(
    ("names", "decisions"),
    [
        (None, {np.int64(2): "2", 2.0: "2", " 2 ": "2", True: "1", 7: "7", float("nan"): None, "": None}),
        (("n", "s", "w"), {2: "w", "2": "2", " w": "w", 3: "3", -1: "-1"}),
        (("n", "1", "w"), {0: "0", 1: "1"}),
    ],
)
def test_decisions_in_python_are_those_of_a_file(names, decisions):
    numbers = np.random.default_rng(0).normal(size=(60, 2))
    result = tnlpad.fit(numbers, [0, 1, 2] * 20, class_names=names, settings={"epochs": 1})
    assert result.audit(dict(enumerate(decisions))).review == {
        str(k): label for k, label in enumerate(decisions.values())
    }
    kept, _ = result.clean(confidence=1.0, review=dict(enumerate(decisions)))
    assert set(range(60)) - {*kept.tolist()} == {k for k, label in enumerate(decisions.values()) if label is None}


@pytest.mark.parametrize(("decision", "said"), [(1.5, "1.5 is a number with a fraction"), ([1], "a label is a list")])
def test_decisions_that_are_no_labels(flipped, decision, said):
    *_, result = flipped
    for use in (result.audit, lambda review: result.clean(review=review)):
        with pytest.raises(tnlpad.DataError, match=said):
            use({0: decision})


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"labels": ["a", "b\udcff"] * 40}, tnlpad.DataError, r"the label 'b\\udcff' is not UTF-8.* Rename it"),
        ({"ids": [f"{row}\udcff" for row in range(80)]}, tnlpad.DataError, r"the id '0\\udcff' is not UTF-8"),
        ({"out": "o\udcff"}, ValueError, r"out '.*o\\udcff' is not UTF-8"),
    ],
)
def test_names_that_are_not_utf_8(tmp_path, monkeypatch, change, error, said):
    monkeypatch.chdir(tmp_path)
    rows, labels = blobs()
    with pytest.raises(error, match=said):
        tnlpad.fit(**{"data": rows, "labels": labels, "settings": SHORT, "out": "runs", **change})
    assert not list(tmp_path.iterdir())
