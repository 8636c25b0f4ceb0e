"""Labels, probabilities and features in files, of every kind and of none."""

import numpy as np
import pytest

from tnlpad.errors import DataError
from tnlpad.suspects.prediction_files import find_in_files, read_labels, read_numbers

NAMES = ("ant", "bee", "cat")
SAMPLES = 60


def content():
    """Return places of labels, one of them wrong, and probabilities of the right ones."""
    clean = np.arange(SAMPLES) % 3
    given = clean.copy()
    given[7] = (given[7] + 1) % 3
    rows = np.full((SAMPLES, 3), 0.04)
    rows[np.arange(SAMPLES), clean] = 0.92
    return given, rows


def write_table(path, columns):
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


def probabilities_file(folder, kind, rows, shuffled=True):
    path = folder / f"p{kind}"
    if kind == ".npy":
        np.save(path, rows)
    elif kind == ".npz":
        np.savez(path, pred_probs=rows, class_names=np.array(NAMES))
    else:
        # Rows and columns in another order, and the index that pandas writes.
        order = np.random.default_rng(0).permutation(SAMPLES) if shuffled else np.arange(SAMPLES)
        columns = {"": range(SAMPLES), "cat": rows[order, 2], "id": [f"s{row}" for row in order]}
        write_table(path, columns | {"bee": rows[order, 1], "ant": rows[order, 0]})
    return path


def labels_file(folder, kind, given):
    path, words = folder / f"y{kind}", [NAMES[label] for label in given]
    if kind == ".npy":
        np.save(path, given)
    elif kind == ".npz":
        np.savez(path, y=np.array(words), ids=np.array([f"s{row}" for row in range(SAMPLES)]))
    elif kind == ".txt":
        path.write_text("\n".join(words) + "\n\n")
    else:
        write_table(path, {"id": [f"s{row}" for row in range(SAMPLES)], "label": words, "note": ["x"] * SAMPLES})
    return path


@pytest.mark.parametrize("labels", [".csv", ".npy", ".npz", ".txt"])
@pytest.mark.parametrize("probabilities", [".csv", ".npy", ".npz"])
def test_every_kind_of_file_gives_the_same_list(tmp_path, labels, probabilities):
    given, rows = content()
    with_ids = labels in (".csv", ".npz")
    if probabilities == ".csv" and labels == ".npy":
        given = np.array([2, 1, 0])[given]  # numbers are those of the columns
    found = find_in_files(
        probabilities_file(tmp_path, probabilities, rows, shuffled=with_ids), labels_file(tmp_path, labels, given)
    )
    (first,) = found.ranked(1)
    without_names = (probabilities, labels) == (".npy", ".npy")
    assert (first.given_name, first.suggested_name) == (("2", "1") if without_names else ("cat", "bee"))
    assert (first.index, first.id) == (7, "s7" if with_ids else "7")


def test_texts_that_were_saved_as_bytes(tmp_path):
    given, rows = content()
    order = np.random.default_rng(0).permutation(SAMPLES)
    ids, names = np.array([f"é{row}" for row in range(SAMPLES)]), np.array(NAMES)
    np.savez(
        tmp_path / "p.npz",
        pred_probs=rows[order],
        ids=np.char.encode(ids[order], "utf-8"),
        class_names=np.char.encode(names, "utf-8"),
    )
    np.savez(tmp_path / "y.npz", y=names[given], ids=ids)
    (first,) = find_in_files(tmp_path / "p.npz", tmp_path / "y.npz").ranked(1)
    assert (first.id, first.given_name, first.suggested_name) == ("é7", "cat", "bee")
    np.savez(tmp_path / "y.npz", y=names[given], ids=np.array([b"\xff"] * SAMPLES))
    with pytest.raises(DataError, match=r"y\.npz: ids has bytes that are not text"):
        read_labels(tmp_path / "y.npz")


def test_numbers_are_ordered_by_value_and_texts_with_zeros_stay_texts(tmp_path):
    path = tmp_path / "y.txt"
    path.write_text("10\n9\n1\n")
    assert read_labels(path).values == [10, 9, 1]
    path.write_text("007\n10\n")
    assert read_labels(path).values == ["007", "10"]


@pytest.mark.parametrize("digits", [600, 5000])
def test_numbers_of_many_digits_are_labels(tmp_path, digits):
    (tmp_path / "y.txt").write_text(f"{'1' * digits}\n2\n" * 30)
    np.save(tmp_path / "p.npy", np.tile([[0.1, 0.9], [0.8, 0.2]], (30, 1))[:, :: -1 if digits == 5000 else 1])
    found = find_in_files(tmp_path / "p.npy", tmp_path / "y.txt")
    assert {len(name) for name in found.scores.class_names} == {1, digits}
    assert found.ranking.suspects == 0


def test_a_table_with_one_column_needs_no_name_and_another_one_can_be_named(tmp_path):
    path = write_table(tmp_path / "y.csv", {"diagnosis": ["a", "b"]})
    assert read_labels(path).values == ["a", "b"]
    write_table(path, {"diagnosis": ["a", "b"], "age": [1, 2]})
    assert read_labels(path, "diagnosis").values == ["a", "b"]
    with pytest.raises(DataError, match=r"no column `label`.*--label"):
        read_labels(path)


def test_features_of_a_table_are_put_in_the_order_of_the_labels(tmp_path):
    given, rows = content()
    features = write_table(
        tmp_path / "f.csv", {"id": [f"s{row}" for row in reversed(range(SAMPLES))], "x": range(SAMPLES)}
    )
    found = find_in_files(
        probabilities_file(tmp_path, ".npy", rows), labels_file(tmp_path, ".csv", given), features=features
    )
    assert found.neighbours is not None
    assert read_numbers(features, ()).values.tolist() == [[row] for row in range(SAMPLES)]


class Hostile:
    def __reduce__(self):
        return print, ("unpickled",)


def hostile(path):
    np.save(path, np.array([[Hostile(), 1]], dtype=object), allow_pickle=True)


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("p.npy", hostile, r"p\.npy cannot be read.*objects are not read"),
        ("p.npy", lambda path: path.write_bytes(b""), r"p\.npy is empty"),
        ("p.csv", lambda path: path.write_bytes(b""), r"p\.csv is empty"),
        ("p.npy", lambda path: path.write_bytes(b"words"), "cannot be read"),
        ("p.npy", lambda path: np.save(path, np.zeros((60, 3), "m8[s]")), "holds values of the type timedelta64"),
        (
            "p.npz",
            lambda path: np.savez(path, probabilities=np.zeros((60, 3), "m8[s]")),
            "'probabilities' holds values",
        ),
        ("p.npy", lambda path: None, "No such file"),
        ("p.csv", lambda path: None, "No such file"),
        ("p.json", lambda path: path.write_text("[]"), r"ends in '\.json'.*\.npy, \.npz, \.csv"),
        ("p", lambda path: path.mkdir(), r"ends in 'nothing'"),
        ("p.npy", lambda path: np.save(path, 1.0), "single value"),
        ("p.npz", lambda path: np.savez(path, a=[1], b=[2]), "holds a, b. Name the array 'probabilities'"),
        ("p.csv", lambda path: path.write_text("ant,bee\n"), "no rows"),
        ("p.csv", lambda path: path.write_text("0.1,0.9\n0.2,0.8\n"), r"columns 0\.1, 0\.9.*must name"),
        ("p.csv", lambda path: path.write_text("ant,bee\n0.1,maybe\n"), "'maybe' is not a number"),
        ("p.csv", lambda path: path.write_text(f"ant,bee\n{'9' * 400},0\n"), r"p\.csv: '9999.* is not a number"),
        ("p.csv", lambda path: path.write_text("ant,bee\n0.1\n"), "line 2: 1 fields, but 2 columns"),
        ("p.csv", lambda path: path.write_text("id\n1\n"), "must name columns of numbers"),
        ("p.csv", lambda path: path.write_text("id,ant,bee\nx,0.1,0.9\nx,0.5,0.5\n"), "'x' occurs twice"),
    ],
)
def test_files_that_cannot_be_used_are_refused(tmp_path, capsys, name, write, message):
    write(tmp_path / name)
    labels = labels_file(tmp_path, ".csv", content()[0])
    with pytest.raises(DataError, match=message):
        find_in_files(tmp_path / name, labels)
    assert "unpickled" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("y.txt", "\n \n", "holds no labels"),
        ("y.txt", "a\n\nb\n", "3 labels, but 60 rows"),
        ("y.csv", "label\n", "holds no labels"),
        ("y.xls", "a", r"ends in '\.xls'"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        find_in_files(probabilities_file(tmp_path, ".npz", content()[1]), tmp_path / name)


def test_ids_that_differ_are_refused(tmp_path):
    given, rows = content()
    labels = write_table(tmp_path / "y.csv", {"id": range(SAMPLES), "label": [NAMES[label] for label in given]})
    with pytest.raises(DataError, match="no row with the id '0'"):
        find_in_files(probabilities_file(tmp_path, ".csv", rows), labels)


def test_a_label_that_is_no_class_is_named(tmp_path):
    given, rows = content()
    labels = tmp_path / "y.txt"
    labels.write_text("\n".join(["dog", *(NAMES[label] for label in given[1:])]))
    with pytest.raises(DataError, match=r"label 'dog' of sample 0 .* 3 classes ant, bee, cat"):
        find_in_files(probabilities_file(tmp_path, ".npz", rows), labels)


def test_ids_that_match_nothing_are_told_of(tmp_path):
    given, rows = content()
    probabilities = probabilities_file(tmp_path, ".csv", rows, shuffled=False)
    without, with_ids = (labels_file(tmp_path, kind, given) for kind in (".txt", ".csv"))
    note = f"{probabilities} has ids and {without} has none, so rows are matched by their order."
    assert note in find_in_files(probabilities, without).notes
    assert not any("order" in each for each in find_in_files(probabilities, with_ids).notes)
