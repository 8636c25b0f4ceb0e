"""The row of a suspect is that of the data as they were given, whatever could not be used before it."""

import json
import warnings

import numpy as np
import pytest
from torch.utils.data import Dataset

import tnlpad
from tests.data.own_files import picture, save
from tests.edited_runs import reseal
from tnlpad.data.own import open_dataset
from tnlpad.data.own.objects import open_samples
from tnlpad.errors import DataError

pd = pytest.importorskip("pandas", reason="needs pandas, which the extra [integrations] brings")

COUNT = 30
MISSING = (3, 11, 12)
CLASSES = ("ant", "bee")
KINDS = ["ant", "bee"]
CODES = np.random.default_rng(5).integers(2, size=COUNT)
LABELS = [None if row in MISSING else CLASSES[code] for row, code in enumerate(CODES)]
NUMBERS = np.random.default_rng(6).normal(size=(COUNT, 2)).round(6)
WORDS = np.random.default_rng(7).choice(["red", "green", "blue", "sky", "sea", "sun"], size=(COUNT, 5))
TEXTS = [" ".join(words) for words in WORDS]
IMAGES = np.random.default_rng(8).integers(0, 256, (COUNT, 8, 8), dtype=np.uint8)


def frame():
    columns = {"key": [f"k{row}" for row in range(COUNT)], "a": NUMBERS[:, 0], "b": NUMBERS[:, 1], "label": LABELS}
    return pd.DataFrame(columns, index=np.arange(COUNT)[::-1] + 100)


def folder(place):
    for row, label in enumerate(LABELS):
        save(place / "data" / CLASSES[CODES[row]] / f"{row:02}.png", picture(row))
        if label is None:
            (place / "data" / CLASSES[CODES[row]] / f"{row:02}.png").write_bytes(b"damaged")
    paths = sorted((place / "data").glob("*/*.png"))
    return place / "data", [None if LABELS[int(path.stem)] is None else path.parent.name for path in paths]


def csv(place):
    lines = frame().to_csv(index=False).splitlines()
    lines[5:5] = ["", ",,,"]  # a line that pandas skips, and a row without values, which it counts
    (place / "x.csv").write_text("\n".join(lines))
    return place / "x.csv", pd.read_csv(place / "x.csv")["label"]


def parquet(place):
    frame().reset_index(drop=True).to_parquet(place / "x.parquet")
    return place / "x.parquet", pd.read_parquet(place / "x.parquet")["label"]


def jsonl(place):
    lines = frame().to_json(orient="records", lines=True).splitlines()
    lines.insert(4, "")
    (place / "x.jsonl").write_text("\n".join(lines))
    return place / "x.jsonl", pd.read_json(place / "x.jsonl", lines=True)["label"]


def workbook(place):
    table = frame().reset_index(drop=True)
    table.loc[COUNT] = None
    table = table.iloc[[*range(5), COUNT, *range(5, COUNT)]]  # an empty row in between
    pytest.importorskip("openpyxl", reason="needs openpyxl, the extra [tables]")
    table.to_excel(place / "x.xlsx", index=False)
    return place / "x.xlsx", pd.read_excel(place / "x.xlsx")["label"]


def _codes():
    return np.array([np.nan if label is None else code for label, code in zip(LABELS, CODES, strict=True)])


def npz_images(place):
    np.savez(place / "x.npz", images=IMAGES, labels=_codes(), class_names=np.array(CLASSES))
    return place / "x.npz", LABELS


def npz_features(place):
    np.savez(place / "x.npz", x_train=NUMBERS, y_train=_codes(), x_test=NUMBERS[:4], y_test=CODES[:4].astype(float))
    return place / "x.npz", [None if label is None else str(CLASSES.index(label)) for label in LABELS]


def hugging_face():
    import datasets

    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=KINDS)})
    codes = [-1 if label is None else KINDS.index(label) for label in LABELS]
    train = datasets.Dataset.from_dict({"text": TEXTS, "label": codes}, features=features)
    return datasets.DatasetDict({"test": train.select(range(4)), "train": train})


def hugging_face_folder(place):
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    hugging_face().save_to_disk(place / "data")
    return place / "data", LABELS


def hugging_face_in_memory(place):
    pytest.importorskip("datasets")
    return hugging_face(), LABELS


class Pairs(Dataset):
    """Images with their labels, as a torch dataset."""

    def __len__(self):
        return COUNT

    def __getitem__(self, row):
        return IMAGES[row], LABELS[row]


PATHS = [folder, csv, parquet, jsonl, workbook, npz_images, npz_features, hugging_face_folder]
OBJECTS = {
    "dataset": hugging_face_in_memory,
    "frame": lambda place: (frame(), LABELS),
    "arrays": lambda place: ((NUMBERS, LABELS), LABELS),
    "texts": lambda place: ((TEXTS, LABELS), LABELS),
    "torch": lambda place: (Pairs(), LABELS),
}


@pytest.mark.parametrize("make", [*PATHS, *(pytest.param(make, id=name) for name, make in OBJECTS.items())])
def test_suspects_are_at_the_rows_of_the_data_as_given(make, tmp_path):
    data, labels = make(tmp_path)
    given = data if isinstance(data, tuple) else (data,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = tnlpad.fit(*given, settings={"epochs": 1})
    usable = {row: str(label) for row, label in enumerate(labels) if isinstance(label, str)}
    assert 0 < len(usable) < len(labels)
    assert {each.index: each.given_name for each in result.ranked()} == usable
    first = result.ranked(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cleaned = result.clean(top=3)
    if isinstance(data, pd.DataFrame):
        changed = np.flatnonzero((cleaned["label"] != data["label"]) & data["label"].notna())
        assert sorted(changed) == sorted(each.index for each in first)
    elif result.given is not None:
        rows, values = cleaned
        changed = {row: value for row, value in zip(rows, values, strict=True) if value != labels[row]}
        assert changed == {each.index: each.suggested_name for each in first}


def test_rows_reach_the_lists_and_old_records_without_them_have_places(tmp_path):
    data, labels = csv(tmp_path)
    with pytest.warns(UserWarning, match="Left out"):
        result = tnlpad.fit(data, out=tmp_path / "runs", settings={"epochs": 1})
    result.save_page(tmp_path / "page", top=len(labels))
    listed = pd.read_csv(tmp_path / "page" / "suspects.csv")
    assert dict(zip(listed["index"], listed["given_name"], strict=True)) == {
        row: label for row, label in enumerate(labels) if isinstance(label, str)
    }
    samples = pd.read_parquet(result.folder / "samples.parquet")
    samples.drop(columns="row").to_parquet(result.folder / "samples.parquet")
    reseal(result.folder)
    assert sorted(each.index for each in tnlpad.load(result.folder).ranked()) == list(range(len(samples)))


def test_an_index_of_a_frame_names_its_samples():
    plain = frame().reset_index(drop=True)
    named = frame().dropna()
    assert open_samples(named).ids == tuple(str(each) for each in named.index)
    assert open_samples(plain.dropna()).ids != open_samples(plain.dropna().reset_index(drop=True)).ids
    assert open_samples(plain).ids == tuple(str(row) for row in range(COUNT) if row not in MISSING)
    repeated = named.set_axis([1] * len(named))
    assert open_samples(repeated).ids == tuple(str(row) for row in range(len(named)))
    assert open_samples(named.rename(columns={"key": "id"})).ids == tuple(named["key"])
    texts = pd.Series(TEXTS, index=[f"t{row}" for row in range(COUNT)])
    assert open_samples(texts, ["x", "y"] * (COUNT // 2)).ids == tuple(texts.index)


def test_a_column_of_ids_can_be_named(tmp_path):
    table = frame().dropna()
    table.insert(0, "id", range(len(table)))
    table.to_csv(tmp_path / "x.csv", index=False)
    named = open_dataset(tmp_path / "x.csv", id="KEY")
    assert named.ids == tuple(table["key"])
    assert named.columns == ("a", "b")  # the usual column of ids names samples as well
    assert open_samples(table, id="key").ids == named.ids
    assert open_dataset(tmp_path / "x.csv").ids == tuple(map(str, range(len(table))))
    with pytest.raises(DataError, match="'kee', named by --id"):
        open_dataset(tmp_path / "x.csv", id="kee")
    with pytest.raises(DataError, match="ids are given, and so is id='key'"):
        open_samples(table, id="key", ids=range(len(table)))
    with pytest.raises(DataError, match="id='key'"):
        open_samples(NUMBERS, CODES, id="key")
    np.savez(tmp_path / "x.npz", x_train=NUMBERS, y_train=CODES, key=[f"k{row}" for row in range(COUNT)])
    assert open_dataset(tmp_path / "x.npz", id="key").ids[:2] == ("k0", "k1")
    folder(tmp_path)
    with pytest.raises(DataError, match="--id key names a column"):
        open_dataset(tmp_path / "data", id="key")


def test_a_named_column_of_ids_is_found_again(tmp_path):
    from tests.cli.trained import document, trained

    frame().to_csv(tmp_path / "x.csv", index=False)
    run = trained(tmp_path / "x.csv", tmp_path / "runs", 1, "--id", "key")
    assert json.loads((run / "data.json").read_text())["id_column"] == "key"
    listed = document("suspects", run, "--top", 3, "--out", tmp_path / "s")["listed"]
    assert all(each["id"] == f"k{each['index']}" for each in listed)
    written = document("clean", run, "--top", 1, "--out", tmp_path / "clean.csv")
    assert written["next"].endswith("clean.csv --id key")
    assert open_dataset(tmp_path / "clean.csv", id="key").ids == open_dataset(tmp_path / "x.csv", id="key").ids
