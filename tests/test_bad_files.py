"""Damaged and hostile files are errors that name the file, whatever the libraries that read them raise."""

import json
import os
import tracemalloc
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.trained import asked, hugging_face
from tests.synthetic_runs import write_run
from tests.time_limit import time_limit
from tnlpad.array_files import ArrayFile, read_array
from tnlpad.data.files import read_bounded
from tnlpad.data.own import open_dataset
from tnlpad.data.own.arrow_tables import _sizes_of_texts, parquet_table
from tnlpad.data.own.tables import read_csv, read_jsonl
from tnlpad.data.own.workbooks import read_workbook
from tnlpad.errors import DataError, LabelFileError, MatrixFileError, NoiseDataError
from tnlpad.json_text import MAX_BYTES, MAX_DEPTH, load_json, parse_json
from tnlpad.noise.files import read_label_file, read_matrix
from tnlpad.paper.cells import Experiment
from tnlpad.records.archive import archive, finished_records, write_archived
from tnlpad.records.checksums import sha256_of
from tnlpad.suspects.prediction_files import read_labels

BRACKETS = "[" * 100_000


def npz(path, members):
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def npy(array):
    """Return the bytes of an .npy file."""
    import io

    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def claiming(shape, dtype="<f8"):
    """Return the header of an array of this shape, and none of its values."""
    return npy(np.zeros(0)).replace(b"(0,)", str(shape).encode())[:128].replace(b"<f8", dtype.encode())


BEYOND = np.array([0x110000, 0xD800], "<u4").view("<U1")
IMAGES = npy(np.zeros((20, 8, 8), np.uint8))
LABELS = npy(np.arange(20) % 2)


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"images.npy": IMAGES, "labels": b"0 1 0 1"}, "labels"),  # a file, no array
        ({"images.npy": IMAGES, "labels.npy": b"0 1 0 1"}, "'labels'"),
        ({"images.npy": b"words", "labels.npy": LABELS}, "'images'"),
        (
            {"images.npy": IMAGES, "labels.npy": npy(np.zeros(20, "m8[s]"))},
            "'labels' holds values of the type timedelta",
        ),
        (
            {"images.npy": npy(np.zeros((20, 3), "M8[D]")), "labels.npy": LABELS},
            "'images' holds values of the type date",
        ),
        ({"images.npy": IMAGES, "labels.npy": npy(np.resize(BEYOND, 20))}, "'labels' .*Unicode"),
        ({"images.npy": IMAGES, "labels.npy": npy(np.resize(BEYOND[1:], 20))}, "'labels' .*Unicode"),
        ({"images.npy": IMAGES, "labels.npy": npy(np.zeros(20, [("a", "i4")]))}, "'labels' holds values of the type"),
        (
            {"images.npy": claiming((10**6, 10**6)), "labels.npy": LABELS},
            r"'images' claims the shape \(1000000, 1000000\)",
        ),
        ({"images.npy": claiming((-1, 3)), "labels.npy": LABELS}, "'images'"),
        ({"images.npy": npy(np.zeros((2, 2))).replace(b"}", b"("), "labels.npy": LABELS}, "'images'"),
        ({"images.npy": b"\x93NUMPY\x07\0v\0", "labels.npy": LABELS}, "'images'"),
        ({"images.npy": IMAGES, "labels.npy": npy(np.zeros(20, "U1")).replace(b"<U1", b"<U0")}, "'labels'"),
    ],
)
def test_arrays_that_cannot_be_used(tmp_path, members, reason):
    path = npz(tmp_path / "x.npz", members)
    with pytest.raises(DataError, match=rf"x\.npz.*{reason}"):
        open_dataset(path)
    assert asked("check", path).exit_code == 3


def test_only_the_arrays_that_are_used_are_loaded(tmp_path):
    unused = {"notes.txt": b"words", "damaged.npy": b"\x93NUMPY", "huge.npy": claiming((10**9, 10**9))}
    path = npz(tmp_path / "x.npz", {"images.npy": IMAGES, "labels.npy": LABELS, **unused})
    assert len(open_dataset(path).ids) == 20
    arrays = ArrayFile(path)
    assert {*arrays} == {"images", "labels", "damaged", "huge"}
    assert arrays["labels"] is arrays["labels"]
    with pytest.raises(KeyError):
        arrays["absent"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (claiming((10**6, 10**6)), "claims the shape"),
        (npy(np.zeros((2, 2))).replace(b"}", b"("), r"x\.npy"),
        (npy(np.zeros((2, 2), "m8[s]")), "holds values of the type timedelta"),
        (npy(np.zeros((2, 2), "U3")), "holds values of the type"),
        (npy(np.zeros((2, 2)))[:-1], "claims the shape"),
        (b"", r"x\.npy"),
    ],
)
def test_matrices_that_cannot_be_used(tmp_path, content, reason):
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(MatrixFileError, match=reason):
        read_matrix(tmp_path / "x.npy", 2)
    with pytest.raises(DataError, match=r"x\.npy"):
        read_array(tmp_path / "x.npy", "iuf", mapped=True)


@pytest.mark.parametrize("name", ["format", "seed"])
@pytest.mark.parametrize("value", [np.inf, np.nan, "words"])
def test_label_files_with_endless_numbers(tmp_path, name, value):
    from tnlpad.noise import files

    arrays = {
        "format": 1,
        "seed": 1,
        "dataset": "d",
        "noise": "n",
        "protocol": "paper",
        "inputs": "",
        "legacy_stream": False,
        "labels": [0, 1],
        "clean_labels": [0, 1],
        "transition": np.eye(2),
    }
    arrays = {key: np.asarray(each) for key, each in (arrays | {name: value}).items()}
    np.savez(tmp_path / "x.npz", checksum=files._checksum(arrays), **arrays)
    with pytest.raises(LabelFileError, match=r"x\.npz"):
        read_label_file(tmp_path / "x.npz")


def test_what_does_not_fit_into_memory_is_refused_with_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr("tnlpad.memory.memory_limits", lambda: [10_000_000])
    np.savez_compressed(tmp_path / "x.npz", images=np.zeros((100_000, 8, 8), np.uint8), labels=np.zeros(100_000, int))
    assert (tmp_path / "x.npz").stat().st_size < 20_000
    with pytest.raises(DataError, match=r"x\.npz takes at least 12\.8 MB of memory.* has 10\.0 MB"):
        open_dataset(tmp_path / "x.npz")
    np.save(tmp_path / "x.npy", np.zeros((1000, 1000)))
    with pytest.raises(MatrixFileError, match=r"takes at least 16\.0 MB"):
        read_matrix(tmp_path / "x.npy", 1000)
    assert read_array(tmp_path / "x.npy", mapped=True).shape == (1000, 1000)


# JSON


def test_nested_texts():
    for depth, text in ((MAX_DEPTH, "[]"), (MAX_DEPTH, '{"a":[]}')):
        brackets = text.count("[") + text.count("{")
        nested = text
        for _ in range(depth - brackets):
            nested = f"[{nested}]"
        assert parse_json(nested) is not None
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_json(f"[{nested}]")
    texts = json.dumps(["[{" * 1000, '"[\\"{', *[[k] for k in range(1000)]])  # brackets in texts are none
    assert len(parse_json(texts)) == 1002
    assert parse_json(json.dumps({"σ": [1]}).encode("utf-16")) == {"σ": [1]}
    assert np.isnan(parse_json("NaN"))
    with pytest.raises(ValueError, match="NaN is not a JSON number"):
        parse_json("[NaN]", finite=True)


@pytest.mark.parametrize(
    "content", [BRACKETS, '{"a":' * 100_000, BRACKETS + "]" * 100_000, '"' + BRACKETS, "\ufeff", "\ud800"]
)
def test_json_that_cannot_be_parsed(content):
    with pytest.raises(ValueError):  # noqa: PT011
        parse_json(content.encode(errors="surrogatepass"))


def test_json_files_that_are_too_large(tmp_path):
    with open(tmp_path / "x.json", "wb") as file:
        file.truncate(MAX_BYTES + 1)  # takes no space on disk
    with pytest.raises(ValueError, match="268,435,457 bytes"):
        load_json(tmp_path / "x.json")
    result = asked("train", "digits", "--config", tmp_path / "x.json")
    assert (result.exit_code, "more than 268,435,456 bytes" in result.stderr) == (2, True)


@pytest.mark.parametrize("special", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
def test_files_without_an_end_are_refused_at_once(tmp_path, special):
    path = tmp_path / "x.json"
    special(path)
    for read in (load_json, sha256_of):
        with time_limit(5), pytest.raises(OSError, match="not a regular file"):
            read(path)
    problems = []
    with time_limit(5):
        assert finished_records([tmp_path], problems.append) == []
    assert ["not a regular file" in str(problem) for problem in problems] == [True]


@pytest.mark.parametrize("special", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("x.csv", read_csv),
        ("x.csv", read_labels),
        ("x.csv", lambda path: read_matrix(path, 2)),
        ("x.npy", lambda path: read_matrix(path, 2)),
        ("x.npy", read_array),
        ("x.npz", ArrayFile),
        ("x.npz", read_label_file),
        ("x.txt", read_labels),
        ("x.jsonl", read_jsonl),
        ("x.xlsx", read_workbook),
        ("x.parquet", parquet_table),
        ("x.json", lambda path: read_bounded(path, 1000)),
        ("x.gz", lambda path: read_bounded(path, 1000)),
    ],
)
def test_pipes_and_devices_that_a_user_names_are_refused_with_a_way_out(tmp_path, special, name, read):
    special(tmp_path / name)
    with (
        time_limit(10),
        pytest.raises((DataError, NoiseDataError), match=rf"{name}.* not a regular file\. Save its content as a file"),
    ):
        read(tmp_path / name)


def test_pipes_as_arguments(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "t.csv").write_text("text,label\na,x\nb,y\n")
    with time_limit(60):
        config = asked("train", "digits", "--config", tmp_path / "pipe.csv")
        listed = asked("suspects", "--probabilities", tmp_path / "pipe.csv", "--labels", tmp_path / "t.csv")
    assert (config.exit_code, "not a regular file" in config.stderr) == (2, True)
    assert (listed.exit_code, "not a regular file" in listed.stderr) == (3, True)


def test_brackets_as_a_configuration(tmp_path):
    (tmp_path / "config.json").write_text(BRACKETS)
    result = asked("train", "digits", "--config", tmp_path / "config.json")
    assert (result.exit_code, "nested too deeply" in result.stderr) == (2, True)


def test_brackets_as_a_hugging_face_dataset(tmp_path):
    (tmp_path / "state.json").write_text(BRACKETS)
    (tmp_path / "dataset_info.json").write_text("{}")
    with pytest.raises(DataError, match=r"state\.json.*nested too deeply"):
        open_dataset(tmp_path)


def test_halves_of_surrogate_pairs_in_class_names(tmp_path):
    folder = hugging_face(tmp_path / "data", [0, 1] * 10)
    info = {"features": {"label": {"names": ["ant", "\ud800"], "_type": "ClassLabel"}}}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    assert open_dataset(folder).class_names == ("ant", "?")


def test_a_limit_takes_no_memory(tmp_path):
    (tmp_path / "x").write_bytes(b"12345")
    assert read_bounded(tmp_path / "x", 1 << 50) == b"12345"
    assert read_bounded(tmp_path / "x", 5) == b"12345"
    with pytest.raises(DataError, match="more than 4 bytes"):
        read_bounded(tmp_path / "x", 4)


def test_a_record_of_brackets_does_not_stop_a_report(tmp_path):
    for seed in (1, 2):
        folder = write_run(
            tmp_path / "runs", Experiment(dataset="digits", noise="symmetric:0.4", method="tnlpad"), seed
        )
        (tmp_path / "results").mkdir(exist_ok=True)
        write_archived(archive(folder), tmp_path / "results")
    first, second = sorted((tmp_path / "results").iterdir())
    first.write_text(BRACKETS)
    deep = json.loads(second.read_text())
    problems = []
    assert [record.source for record in finished_records([tmp_path / "results"], problems.append)] == [second]
    assert ["nested too deeply" in problem.reason for problem in problems] == [True]
    for curve in ("x", {"a": 1}, [None], [1e999], [True]):
        deep["curves"]["train_loss"] = curve
        second.write_text(json.dumps(deep).replace("Infinity", "1e999"))
        (record,) = finished_records([second], problems.append)
        with pytest.raises(Exception, match=r"is damaged \(.*train_loss is not a list"):
            _ = record.curves


# Parquet


def test_rows_that_do_not_fit_into_memory_are_refused_with_numbers(tmp_path, monkeypatch):
    rows = 2_000_000
    table = pa.table(
        {
            "x": pa.array(np.zeros(rows, np.float32)),
            "label": pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), ["a"]).cast(pa.string()),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet", compression="zstd")
    assert (tmp_path / "x.parquet").stat().st_size < 100_000
    monkeypatch.setattr("tnlpad.memory.memory_limits", lambda: [100_000_000])
    with pytest.raises(DataError, match=r"x\.parquet has 2,000,000 rows.*of memory.* has 100\.0 MB"):
        open_dataset(tmp_path / "x.parquet")


LIMIT = 20_000_000


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr("tnlpad.memory.memory_limits", lambda: [LIMIT])
    monkeypatch.setattr("tnlpad.data.own.arrow_tables.memory_limits", lambda: [LIMIT])


def stored_once(texts, rows):
    """Return a column with the first text in the first row and the last one in the others."""
    places = np.minimum(np.arange(rows), len(texts) - 1).astype(np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(places), texts).cast(pa.string())


def picture_bytes(column):
    return pa.StructArray.from_arrays([column.cast(pa.binary()), column], ["bytes", "path"])


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("encoding", [None, "DELTA_BYTE_ARRAY"])
@pytest.mark.parametrize(("name", "form"), [("text", pa.array), ("image", picture_bytes)])
def test_values_that_are_stored_once_are_counted_as_often_as_they_occur(tmp_path, encoding, name, form):
    options = {"use_dictionary": encoding is None, "store_schema": False}
    if encoding is not None:
        leaves = [name] if form is pa.array else [f"{name}.bytes", f"{name}.path"]
        options["column_encoding"] = dict.fromkeys(leaves, encoding)
    rows, label = 5000, pa.array(np.arange(5000) % 2)
    often, once = stored_once(["x" * 10_000], rows), stored_once(["x" * 10_000, "y"], rows)
    pq.write_table(pa.table({name: form(often), "label": label}), tmp_path / "often.parquet", **options)
    pq.write_table(pa.table({name: form(once), "label": label}), tmp_path / "once.parquet", **options)
    assert (tmp_path / "often.parquet").stat().st_size < 200_000
    with pytest.raises(DataError, match=r"often\.parquet has 5,000 rows.*of memory.* has 20\.0 MB"):
        parquet_table(tmp_path / "often.parquet")
    assert parquet_table(tmp_path / "once.parquet").num_rows == rows
    with pytest.raises(DataError, match=r" has 10,000 rows.*of memory"):
        open_dataset(tmp_path)


def test_different_texts_are_measured_many_rows_at_once(tmp_path):
    texts = [f"a text of its own {row} " * 5 for row in range(5000)]
    columns = {f"column {number}": texts for number in range(4)}
    nested = {
        "pictures": picture_bytes(pa.array(texts)),
        "lists": pa.array([[text, None, text[:9]] for text in texts]),
        "gaps": pa.array([text if row % 2 else None for row, text in enumerate(texts)]),
        "same": pa.array(texts).cast(pa.large_string()).dictionary_encode(),
    }
    pq.write_table(pa.table(columns | nested), tmp_path / "x.parquet")
    sizes = list(_sizes_of_texts(tmp_path / "x.parquet", 1 << 20))
    assert len(sizes) < 10
    lengths = sum(map(len, texts))
    content = (4 + 2 + 1 + 1) * lengths + sum(len(text[:9]) for text in texts) + sum(map(len, texts[1::2]))
    assert sum(sizes) == content + 4 * (4 + 2 + 3 + 1 + 1) * len(texts)


@pytest.mark.usefixtures("little_memory")
def test_the_values_of_lists_are_counted(tmp_path):
    column = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(5_000_000, np.float32)), 50_000)
    pq.write_table(pa.table({"x": column.cast(pa.list_(pa.float32())), "label": [0, 1] * 50}), tmp_path / "x.parquet")
    assert (tmp_path / "x.parquet").stat().st_size < 100_000
    with pytest.raises(DataError, match=r"x\.parquet has 100 rows.*of memory"):
        open_dataset(tmp_path / "x.parquet")


# Arrow


def saved_to_disk(folder, batches, compression):
    folder.mkdir()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(str(folder / "x.arrow"), batches[0].schema, options=options) as stream:
        for batch in batches:
            stream.write(batch)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "x.arrow"}]}))
    return folder


def test_arrow_files_are_unpacked_only_into_memory_that_there_is(tmp_path, monkeypatch):
    texts = [pa.record_batch({"text": [f"{k} {'x' * 100_000}"] * 10, "label": [0, 1] * 5}) for k in range(20)]
    numbers = [pa.record_batch({"x": np.zeros(10_000), "label": np.zeros(10_000, int)})] * 20
    limit = pa.total_allocated_bytes() + LIMIT
    monkeypatch.setattr("tnlpad.memory.memory_limits", lambda: [limit])
    for name, batches, rows in (("texts", texts, r"\d+0"), ("numbers", numbers, r"\d+,000")):
        packed = saved_to_disk(tmp_path / name, batches, "zstd")
        with pytest.raises(DataError, match=rf"{name} has {rows} rows or more\. It takes at least .* of memory"):
            open_dataset(packed)
    assert len(open_dataset(saved_to_disk(tmp_path / "mapped", texts, None)).ids) == 200


# Lines and sheets whose tables are mostly empty


@pytest.mark.usefixtures("little_memory")
def test_records_without_fields_in_common(tmp_path):
    lines = [json.dumps({"label": row % 2, f"field {row}": 1}) for row in range(1200)]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"x\.jsonl has 1,\d+ lines with 1,\d+ different fields.*of memory"):
        open_dataset(tmp_path / "x.jsonl")


def workbook(path, rows, far=None):
    """Write rows to an .xlsx file, the first sheet of which may claim to reach to a far cell."""
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed: pip install 'tnlpad[tables]'")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    for row in rows:
        sheet.append(row)
    book.save(path)
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    if far is not None:
        name = "xl/worksheets/sheet1.xml"
        members[name] = members[name].replace(b"<sheetData>", f'<dimension ref="A1:{far}"/><sheetData>'.encode(), 1)
    return npz(path, members)


def test_the_size_that_a_sheet_claims_takes_no_memory(tmp_path):
    path = workbook(tmp_path / "x.xlsx", [["x", "label"], *([row / 2, row % 2] for row in range(300))], "XFD1048576")
    tracemalloc.start()
    try:
        assert len(open_dataset(path).ids) == 300
        assert tracemalloc.get_traced_memory()[1] < LIMIT
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("little_memory")
def test_sheets_with_few_values_in_many_columns(tmp_path):
    far = [*[None] * 16_382, 1]
    with pytest.raises(DataError, match=r"x\.xlsx has [\d,]+ cells in \d+ rows.*of memory"):
        open_dataset(workbook(tmp_path / "x.xlsx", [["label"], *([row % 2, *far] for row in range(100))]))
    names = ["label", *(f"field {number}" for number in range(2000))]
    with pytest.raises(DataError, match=r"y\.xlsx has 700 rows and 2,001 columns.*of memory"):
        open_dataset(workbook(tmp_path / "y.xlsx", [names, *([row % 2] for row in range(700))]))


@pytest.mark.parametrize(
    ("formats", "message"),
    [
        (1_000_000, r"x\.xlsx has 1,000,\d+ formats and other elements .* more than 500,000.*CSV"),
        (4_000_000, r"x\.xlsx: its part 'xl/styles\.xml' unpacks to 20,0\d\d,\d+ .*16,777,216.*CSV"),
    ],
)
def test_parts_of_a_workbook_that_unpack_to_much_are_refused_unread(tmp_path, formats, message):
    with zipfile.ZipFile(workbook(tmp_path / "x.xlsx", [["x", "label"], [1, 2]])) as file:
        members = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(tmp_path / "x.xlsx", "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content.replace(b"</cellXfs>", b"<xf/>" * formats + b"</cellXfs>"))
    with pytest.raises(DataError, match=message):
        read_workbook(tmp_path / "x.xlsx")


def test_large_pictures_in_a_workbook_do_not_matter(tmp_path):
    workbook(tmp_path / "x.xlsx", [["x", "label"], [1, 2]])
    with zipfile.ZipFile(tmp_path / "x.xlsx", "a") as file:
        file.writestr("xl/media/image1.png", b"<" * 17_000_000)
    assert list(read_workbook(tmp_path / "x.xlsx")[0]) == ["x", "label"]


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("text", [b"<si/>", b"<x:si >", b"<si><t>a</t></si>"])
def test_texts_of_a_workbook_that_do_not_fit_into_memory(tmp_path, text):
    with zipfile.ZipFile(workbook(tmp_path / "x.xlsx", [["x", "label"], [1, "a"]])) as file:
        members = {name: file.read(name) for name in file.namelist()}
    members["xl/sharedStrings.xml"] = b"<sst>" + text * 400_000 + b"</sst>"
    with pytest.raises(DataError, match=r"x\.xlsx has [34]\d\d,\d+ texts or more in [\d,]+ bytes.*of memory"):
        read_workbook(npz(tmp_path / "x.xlsx", members))


def test_tables_that_are_almost_empty_are_refused_whatever_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("tnlpad.data.own.tables.MAX_CELLS_IF_SPARSE", 1_000_000)
    lines = [json.dumps({f"field {row}": 1}) for row in range(1500)]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    workbook(tmp_path / "far.xlsx", [["label"], *([*[None] * 4000, 1] for _ in range(400))])
    workbook(tmp_path / "wide.xlsx", [["label", *range(4000)], *([1] for _ in range(400))])
    for name, reason in (
        ("x.jsonl", r"1,\d+ lines with 1,\d+ different fields in all"),
        ("far.xlsx", r"1,\d+,\d+ cells in \d+ rows"),
    ):
        with pytest.raises(DataError, match=rf"{name} has {reason}, and a value in fewer than one of 1,000 cells"):
            open_dataset(tmp_path / name)
    monkeypatch.setattr("tnlpad.data.own.tables.MAX_CELLS_PER_VALUE", 300)
    with pytest.raises(DataError, match=r"wide\.xlsx has 400 rows and 4,001 columns, and a value in fewer"):
        open_dataset(tmp_path / "wide.xlsx")


def test_whole_numbers_that_are_too_large_are_gaps(tmp_path):
    huge, labels = "9" * 400, ["a", "b"] * 10
    records = [f'{{"x": {row or huge}, "label": "{label}"}}' for row, label in enumerate(labels)]
    (tmp_path / "x.jsonl").write_text("\n".join(records))
    rows = [[row or 12345, label] for row, label in enumerate(labels)]
    with zipfile.ZipFile(workbook(tmp_path / "x.xlsx", [["x", "label"], *rows])) as file:
        members = {name: file.read(name).replace(b"12345", huge.encode()) for name in file.namelist()}
    for path in (tmp_path / "x.jsonl", npz(tmp_path / "x.xlsx", members)):
        numbers = open_dataset(path).table.numbers[:, 0]
        assert np.isnan(numbers).tolist() == [True, *[False] * 19]


def test_rows_that_the_format_does_not_have(tmp_path, monkeypatch):
    monkeypatch.setattr("tnlpad.data.own.workbooks.MAX_SHEET_ROWS", 100)
    with pytest.raises(DataError, match=r"x\.xlsx has more than 100 rows in a sheet\. Save it as CSV"):
        open_dataset(workbook(tmp_path / "x.xlsx", [["x", "label"], *([row, row % 2] for row in range(100))]))
