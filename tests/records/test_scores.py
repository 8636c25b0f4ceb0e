import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.suspects.made import made
from tnlpad.records import samples as samples_module
from tnlpad.records.samples import has_columns, read_data_file, read_names, read_samples, write_samples
from tnlpad.records.scores import read_scores, write_array, write_scores
from tnlpad.records.store import RecordError


def test_scores_are_read_back(tmp_path):
    scores, _, _ = made()
    write_scores(tmp_path, scores)
    back = read_scores(tmp_path)
    assert isinstance(back.probabilities, np.memmap)
    np.testing.assert_array_equal(back.probabilities, scores.probabilities)
    assert back.columns.keys() == scores.columns.keys()
    for name, column in scores.columns.items():
        np.testing.assert_array_equal(back.columns[name], column)
    assert (back.class_names, back.views, back.facts) == (scores.class_names, scores.views, scores.facts)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pred_probs.npy", "scores.parquet"]


def test_missing_scores_name_the_command_that_keeps_them(tmp_path):
    run = tmp_path / "runs" / "digits-1"
    run.mkdir(parents=True)
    with pytest.raises(RecordError, match=r"digits-1 has no per-sample scores.*--scores and another --out\.$"):
        read_scores(run)
    (run / "config.json").touch()
    with pytest.raises(RecordError, match=r"tnlpad train --config .*config\.json --scores --out .*runs2\.$"):
        read_scores(run)
    (run / "data.json").touch()  # own data: the config does not say where they are
    with pytest.raises(RecordError, match=r"another --out\.$"):
        read_scores(run)


@pytest.mark.parametrize("name", ["scores.parquet", "pred_probs.npy"])
@pytest.mark.parametrize("damage", [b"", b"rubbish", None])
def test_damaged_scores_are_reported(tmp_path, name, damage):
    write_scores(tmp_path, made()[0])
    (tmp_path / name).unlink() if damage is None else (tmp_path / name).write_bytes(damage)
    with pytest.raises(RecordError, match=r"damaged|no per-sample scores"):
        read_scores(tmp_path)


def test_files_of_two_runs_are_not_mixed(tmp_path):
    write_scores(tmp_path, made(samples=600)[0])
    write_scores(tmp_path / "..", made(samples=500)[0])
    (tmp_path / ".." / "pred_probs.npy").replace(tmp_path / "pred_probs.npy")
    with pytest.raises(RecordError, match="belong to different runs"):
        read_scores(tmp_path)


def test_scores_of_other_classes_are_not_mixed(tmp_path):
    write_scores(tmp_path, made()[0])
    probabilities = np.load(tmp_path / "pred_probs.npy")
    np.save(tmp_path / "pred_probs.npy", probabilities[:, :-1])
    with pytest.raises(RecordError, match="belong to different runs"):
        read_scores(tmp_path)


def test_places_are_ids_without_a_list_of_samples(tmp_path):
    names = read_names(tmp_path, np.array([3, 5]))
    assert (list(names.ids), list(names.paths)) == (["3", "5"], [None, None])


def test_names_are_found_by_the_place_in_the_dataset(tmp_path):
    pq.write_table(pa.table({"id": ["a", "b", "c"], "path": ["a.png", None, "c.png"]}), tmp_path / "samples.parquet")
    names = read_names(tmp_path, np.array([2, 1]))
    assert (list(names.ids), list(names.paths)) == (["c", "b"], ["c.png", None])


def test_a_list_that_lacks_samples_is_reported(tmp_path):
    pq.write_table(pa.table({"id": ["a"], "path": ["a.png"]}), tmp_path / "samples.parquet")
    with pytest.raises(RecordError, match="lacks some samples"):
        read_names(tmp_path, np.array([4]))


@pytest.mark.parametrize("array", [np.arange(5), np.zeros((40_000, 2), dtype=np.float32), np.zeros((0, 3))])
def test_arrays_are_numpy_files(array):
    file = io.BytesIO()
    write_array(file, array)
    file.seek(0)
    np.testing.assert_array_equal(np.load(file), array)


COLUMNS = {
    "id": ["a", "b"],
    "path": ["/x/a.png", None],
    "label": [1, 0],
    "label_name": ["кот", "dog"],
    "part": ["train", "test"],
}

ABOUT = {
    "path": "/x",
    "fingerprint": "0",
    "kind": "files",
    "class_names": ["dog", "кот"],
    "normalisation": {"mean": [0.5], "std": [0.2]},
}


def test_samples_are_read_back(tmp_path):
    write_samples(tmp_path, COLUMNS, ABOUT)
    assert read_samples(tmp_path) == COLUMNS
    assert read_data_file(tmp_path) == ABOUT


def test_runs_on_published_data_have_none(tmp_path):
    assert read_samples(tmp_path) == {}
    assert read_data_file(tmp_path) is None


def test_damaged_samples_are_reported(tmp_path):
    (tmp_path / "samples.parquet").write_bytes(b"PAR1")
    with pytest.raises(RecordError, match="is damaged"):
        read_samples(tmp_path)


def test_long_lists_are_written_and_compared_in_parts(tmp_path, monkeypatch):
    columns = {name: [*values, *values, *values] for name, values in COLUMNS.items()} | {"row": np.arange(6)}
    for rows in (100, 4, 1):
        monkeypatch.setattr(samples_module, "SAMPLES_AT_ONCE", rows)
        write_samples(tmp_path, columns, {})
        assert read_samples(tmp_path) == columns | {"row": list(range(6))}
        assert has_columns(tmp_path, columns)
    for name, place, value in (("path", 3, "/y"), ("row", 5, 7), ("path", 0, None)):
        other = list(columns[name])
        other[place] = value
        assert not has_columns(tmp_path, {name: other})
    assert not has_columns(tmp_path, {"id": columns["id"][:4]})
    assert not has_columns(tmp_path, {"id": [*columns["id"], "more"]})
    assert not has_columns(tmp_path, {"colour": ["red"] * 6})
    (tmp_path / "samples.parquet").write_bytes(b"PAR1")
    assert not has_columns(tmp_path, columns)
    assert not has_columns(tmp_path / "absent", columns)
