"""Whatever happens to the files of a finished run, loading it gives the trained numbers or an error with the file."""

import json
import os
import re
import shutil
import warnings
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

import tnlpad
from tests.cli.trained import asked
from tests.edited_runs import edit, without_checksums
from tests.time_limit import time_limit
from tnlpad.records import checksums, store
from tnlpad.records.archive import finished_records
from tnlpad.records.store import RecordError, RunFolder

ROWS = [[f"{k % 7}.5", "red" if k % 3 else "blue", "xy"[k % 2]] for k in range(40)]
SETTINGS = {"epochs": 1, "repeats": 1}


def train(out):
    table = out / "data.csv"
    out.mkdir()
    table.write_text("\n".join(",".join(row) for row in [["width", "colour", "label"], *ROWS]))
    return tnlpad.fit(table, settings=SETTINGS, out=out / "runs")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    result = train(tmp_path_factory.mktemp("trained") / "a")
    return result.folder, result.predict_proba(result.folder.parents[1] / "data.csv")


@pytest.fixture
def run(trained, tmp_path):
    """A copy of the run, for each test to damage."""
    return shutil.copytree(trained[0], tmp_path / trained[0].name)


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place // 8 % len(content)] ^= 1 << place % 8
    path.write_bytes(content)


FILES = (
    *("config.json", "epochs.jsonl", "model.safetensors", "scores.parquet", "pred_probs.npy", "data.json"),
    *("samples.parquet", "encoder/encoder.json", "encoder/encoder.npz"),
)


def test_every_artefact_has_a_checksum(trained):
    listed = json.loads((trained[0] / "summary.json").read_text())["sha256"]["files"]
    left_out = {"summary.json", "lock"}
    written = {path.relative_to(trained[0]).as_posix() for path in trained[0].rglob("*") if path.is_file()}
    assert listed.keys() == written - left_out


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["flipped", "missing"])
def test_a_damaged_artefact_is_refused_by_name(run, name, damage):
    flip(run / name, 8 * ((run / name).stat().st_size // 2) + 3) if damage == "flipped" else (run / name).unlink()
    found = r"is damaged.*SHA-256 must be [0-9a-f]{64}" if damage == "flipped" else "is missing"
    with pytest.raises((tnlpad.DataError, RecordError), match=rf"{name} {found}.*[Rr]estore"):
        RunFolder(run).epochs() if name == "epochs.jsonl" else tnlpad.load(run)


@pytest.mark.parametrize("name", ["summary.json", *FILES])
@pytest.mark.parametrize("special", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
@pytest.mark.parametrize("checked", [True, False], ids=["checksums", "no checksums"])
@pytest.mark.filterwarnings("ignore:.*no checksums")
def test_a_file_without_an_end_is_refused_at_once(run, name, special, checked):
    if not checked:
        without_checksums(run)
    (run / name).unlink()
    special(run / name)
    with time_limit(10), pytest.raises((tnlpad.DataError, RecordError), match=rf"{name} .*not a regular file.*Restore"):
        RunFolder(run).epochs() if name == "epochs.jsonl" else tnlpad.load(run)
    with time_limit(10):
        assert isinstance(RunFolder(run).finished, bool)
        finished_records([run], [].append)


def test_no_bit_of_the_summary_changes_unnoticed(run):
    before, content = RunFolder(run).summary(), (run / "summary.json").read_bytes()
    places = np.random.default_rng(0).choice(8 * len(content), 200, replace=False).tolist()
    keys = [8 * content.index(key) + 9 for key in (b'"format"', b'"sha256"', b'"summary"', b'"files"')]
    refused = 0
    for place in [*places, *keys]:
        (run / "summary.json").write_bytes(content)
        flip(run / "summary.json", place)
        try:
            found = RunFolder(run).summary()
        except RecordError:
            refused += 1
        else:
            assert found == before  # white space
    assert refused > 150


def test_a_report_skips_a_run_whose_epochs_are_damaged(run):
    flip(run / "epochs.jsonl", 8 * 40 + 1)
    (run / "data.json").unlink()  # own data are skipped anyway
    problems = []
    assert finished_records([run], problems.append) == []
    assert ["epochs.jsonl is damaged" in str(problem) for problem in problems] == [True]


@pytest.mark.parametrize(("files", "said"), [(None, "files is None, not an object"), ({"a": 1}, "files is an object")])
def test_checksums_of_another_type_are_refused(run, files, said):
    content = json.loads((run / "summary.json").read_text())
    content["sha256"] = {"files": files}
    content["sha256"]["summary"] = checksums._digest(content)
    (run / "summary.json").write_text(json.dumps(content))
    with pytest.raises(tnlpad.DataError, match=rf"summary\.json is damaged \(sha256\.{said}"):
        tnlpad.load(run)


def test_a_foreign_artefact_is_refused(run):
    (run / "decided.csv").write_text("id,label\n0,x\n")
    with pytest.raises(tnlpad.DataError, match=r"decided\.csv is not of this run.*Remove it"):
        tnlpad.load(run)


def test_a_file_is_hashed_once_per_process(run, monkeypatch):
    hashed = []
    sha256_of = checksums.sha256_of
    monkeypatch.setattr(checksums, "sha256_of", lambda path: hashed.append(path.name) or sha256_of(path))
    for _ in range(2):
        tnlpad.load(run)
    assert sorted(hashed) == sorted({*hashed})
    assert {"model.safetensors", "pred_probs.npy"} <= {*hashed}
    flip(run / "model.safetensors", 8001)
    with pytest.raises(tnlpad.DataError, match=r"model\.safetensors is damaged"):
        tnlpad.load(run)


def test_the_same_run_has_the_same_bytes(trained, tmp_path):
    again = train(tmp_path / "b").folder
    ours, theirs = (json.loads((each / "summary.json").read_text())["sha256"]["files"] for each in (trained[0], again))
    different = {name for name in ours if ours[name] != theirs[name]}
    assert ours.keys() == theirs.keys()
    assert different == {"epochs.jsonl", "data.json"}  # the time that they took, and the path of the data


def test_a_run_of_an_earlier_version_loads_with_one_warning(run, trained):
    without_checksums(run)
    with pytest.warns(UserWarning, match=rf"{run.name} is a run of an earlier version.*no checksums") as issued:
        result = tnlpad.load(run)
    assert len(issued) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tnlpad.load(run)
    np.testing.assert_array_equal(result.predict_proba(trained[0].parents[1] / "data.csv"), trained[1])


def drop(file, column):
    return lambda run: pq.write_table(pq.read_table(run / file).drop_columns([column]), run / file)


def replace(file, column, values):
    def change(run):
        table = pq.read_table(run / file)
        place = table.column_names.index(column)
        pq.write_table(table.set_column(place, column, pa.array(values(table.num_rows))), run / file)

    return change


def probabilities(change):
    def changed(run):
        values = np.load(run / "pred_probs.npy")
        np.save(run / "pred_probs.npy", change(values))

    return changed


def at(values, value):
    values[3, 0] = value
    return values


def in_json(file, change):
    return lambda run: edit(run / file, change)


def arrays(file, **values):
    """Replace arrays of an .npz file, or remove those that are None."""

    def change(run):
        found = {**np.load(run / file), **values}
        np.savez(run / file, **{name: array for name, array in found.items() if array is not None})

    return change


def metadata(content):
    def change(run):
        table = pq.read_table(run / "scores.parquet")
        pq.write_table(table.replace_schema_metadata({b"tnlpad": content}), run / "scores.parquet")

    return change


MANGLED = {
    **{
        f"data without {name}": (in_json("data.json", lambda about, name=name: about.pop(name)), f"{name} is missing")
        for name in ("path", "kind", "fingerprint", "class_names", "normalisation")
    },
    "a kind": (in_json("data.json", lambda about: about.update(kind="sounds")), r"data\.json.*kind is 'sounds'"),
    "a class that is no text": (
        in_json("data.json", lambda about: about.update(class_names=["x", "\ud800"])),
        "class_names is a list",
    ),
    "a path with a null character": (
        in_json("data.json", lambda about: about.update(path="a\0b")),
        r"data\.json.*path has a null character",
    ),
    "a folder of images with a null character": (
        in_json("data.json", lambda about: about.update(images="\0")),
        r"data\.json.*images has a null character",
    ),
    "class names": (in_json("data.json", lambda about: about.update(class_names=[1, 2])), "class_names is a list"),
    "columns": (in_json("data.json", lambda about: about.update(columns="abc")), "columns is 'abc'"),
    "no deviation": (in_json("data.json", lambda about: about["normalisation"].update(std=[0.0])), "normalisation"),
    "an endless mean": (
        in_json("data.json", lambda about: about["normalisation"].update(mean=[10**400])),
        r"normalisation\.mean is a list",
    ),
    "no data.json": (lambda run: (run / "data.json").unlink(), r"data\.json is missing"),
    "no samples.parquet": (lambda run: (run / "samples.parquet").unlink(), r"samples\.parquet is missing.*own data"),
    **{
        f"scores without {name}": (drop("scores.parquet", name), rf"scores\.parquet.*{name} is missing")
        for name in ("index", "part", "given", "margin_w_to_end")
    },
    **{
        f"samples without {name}": (drop("samples.parquet", name), rf"samples\.parquet.*{name} is missing")
        for name in ("id", "path")
    },
    "a label that is no class": (replace("scores.parquet", "given", lambda n: [7] * n), "given has 7 to 7"),
    "labels in words": (replace("scores.parquet", "given", lambda n: ["x"] * n), "given has values of the type string"),
    "a place below zero": (replace("scores.parquet", "index", lambda n: [-1] * n), "index has -1"),
    "a place too far": (replace("scores.parquet", "index", lambda n: [*range(10**6, 10**6 + n)]), "lacks some samples"),
    "a sample twice": (replace("scores.parquet", "index", lambda n: [0, *range(n - 1)]), "index has a sample twice"),
    "an unknown part": (replace("scores.parquet", "part", lambda n: ["all"] * n), "part has 'all'"),
    "a path of a sample with a null character": (
        replace("samples.parquet", "path", lambda n: ["a\0b"] * n),
        r"samples\.parquet.*column path has a null character",
    ),
    "ids that are numbers": (replace("samples.parquet", "id", range), "id has values of the type int64"),
    "ids with gaps": (replace("samples.parquet", "id", lambda n: [None, *map(str, range(1, n))]), "id has gaps"),
    "a margin that is no number": (replace("scores.parquet", "margin_w_to_end", lambda n: [np.nan] * n), "not numbers"),
    "no metadata": (metadata(b""), r"scores\.parquet"),
    "brackets as metadata": (metadata(b"[" * 100_000), r"scores\.parquet.*nested too deeply"),
    "metadata of something": (metadata(b'{"class_names": 3}'), "class_names is 3"),
    "scores of other classes": (
        in_json("data.json", lambda about: about["class_names"].reverse()),
        r"scores\.parquet and data\.json belong to different runs \(their class_names differ\)",
    ),
    "scores of another run": (
        in_json("summary.json", lambda summary: summary.update(run_id="data_none_tnlpad_head_seed1_0123456789")),
        r"scores\.parquet and summary\.json belong to different runs \(run_id is .*0123456789' and '.*Restore them",
    ),
    "NaN": (probabilities(lambda values: at(values, np.nan)), r"pred_probs\.npy.*row 3"),
    "a probability below zero": (probabilities(lambda values: at(values, -0.5)), "row 3"),
    "a probability of millions": (probabilities(lambda values: at(values, 1e6)), "row 3"),
    "probabilities in words": (probabilities(lambda values: values.astype("U")), r"pred_probs\.npy"),
    "too few probabilities": (probabilities(lambda values: values[:-1]), "different runs"),
    "times": (probabilities(lambda values: values.astype("m8[s]")), r"pred_probs\.npy"),
    "a configuration without a network": (in_json("config.json", lambda config: config.pop("network")), "network"),
    "an unknown method": (in_json("config.json", lambda config: config.update(method="magic")), "magic"),
    "a method that is a list": (in_json("config.json", lambda config: config.update(method=["tnlpad"])), "method is"),
    "networks without end": (in_json("config.json", lambda config: config.update(folds=10**12)), "networks, and the"),
    "options that are a list": (in_json("config.json", lambda config: config.update(options=[])), "options is"),
    "data of another kind": (in_json("config.json", lambda config: config.update(data=3)), r"config\.json.*data"),
    "a summary without an epoch": (in_json("summary.json", lambda summary: summary.pop("chosen")), "chosen is missing"),
    "accuracy in words": (
        in_json("summary.json", lambda summary: summary["chosen"].update(validation_accuracy="high")),
        "validation_accuracy is 'high'",
    ),
    "weights of another shape": (lambda run: (run / "model.safetensors").write_bytes(b"\0" * 64), "cannot be used"),
    "an encoder without terms": (in_json("encoder/encoder.json", lambda about: about.pop("values")), "encoder"),
    "an encoder with texts for truth values": (
        in_json("encoder/encoder.json", lambda about: about.update(pooled=["x"])),
        r"encoder.*pooled is a list",
    ),
    "an encoder with numbers for categories": (
        in_json("encoder/encoder.json", lambda about: about.update(values=[[[]]])),
        r"encoder.*values is a list",
    ),
    "an encoder of other columns": (
        in_json("encoder/encoder.json", lambda about: about.update(number_columns=["width", "height"])),
        "encoder.*do not fit together",
    ),
    "an encoder without a spread": (arrays("encoder/encoder.npz", scale=np.zeros(1)), "encoder.*do not fit together"),
    "an encoder without an array": (arrays("encoder/encoder.npz", scale=None), "encoder.*scale is missing"),
    "an encoder with NaN": (arrays("encoder/encoder.npz", mean=np.full(1, np.nan)), "encoder.*'mean' holds values"),
    "an encoder that marks another column": (
        arrays("encoder/encoder.npz", marked=np.array([7]), mean=np.ones(2), scale=np.ones(2)),
        "encoder.*do not fit together",
    ),
    "an encoder of brackets": (
        lambda run: (run / "encoder" / "encoder.json").write_text("[" * 100_000),
        "encoder.*nested too deeply",
    ),
    "a configuration of brackets": (lambda run: (run / "config.json").write_text("[" * 100_000), r"config\.json is"),
    "an encoder that is a list": (lambda run: (run / "encoder" / "encoder.json").write_text("[]"), "encoder"),
}


@pytest.mark.parametrize(("mangle", "message"), MANGLED.values(), ids=MANGLED)
@pytest.mark.filterwarnings("ignore:.*no checksums")
def test_content_is_checked_where_it_is_read(run, mangle, message):
    """The run is one of an earlier version, so that checksums do not notice first."""
    without_checksums(run)
    mangle(run)
    with pytest.raises(tnlpad.DataError, match=message) as raised:
        tnlpad.load(run)
    assert str(run) in str(raised.value)


@pytest.mark.filterwarnings("ignore:.*no checksums")
def test_weights_of_another_network_are_refused_in_a_line(run):
    without_checksums(run)
    save_file({f"tensor {number}": np.zeros(1) for number in range(1000)}, run / "model.safetensors")
    with pytest.raises(tnlpad.DataError, match=r"model\.safetensors cannot be used \(.* …\)\. Restore it") as raised:
        tnlpad.load(run)
    assert len(str(raised.value)) < 300 + len(str(run))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("verb", ["suspects", "clean", "predict"])
def test_commands_exit_with_the_code_of_bad_data(run, verb, tmp_path):
    edit(run / "data.json", lambda about: about.pop("path"))
    words = ["--out", tmp_path / "out.csv"] if verb != "suspects" else []
    result = asked(verb, run, *(["data.csv"] if verb == "predict" else []), *words)
    assert result.exit_code == 3
    assert "data.json is damaged (path is missing)" in result.stderr


@pytest.mark.filterwarnings("ignore:.*no checksums")
def test_columns_that_only_cleaning_reads_are_checked(run, tmp_path):
    without_checksums(run)
    drop("samples.parquet", "part")(run)
    said = "samples.parquet is damaged (column part is missing)"
    result = asked("clean", run, "--top", 3, "--out", tmp_path / "out.csv")
    assert (result.exit_code, said in result.stderr) == (3, True)
    with pytest.raises(tnlpad.DataError, match=re.escape(said)):
        tnlpad.load(run).clean(top=3)


@pytest.mark.filterwarnings("ignore:.*no checksums")
def test_ids_that_the_data_lack_are_named(run, tmp_path):
    without_checksums(run)
    replace("samples.parquet", "id", lambda rows: [f"other {row}" for row in range(rows)])(run)
    said = r"data\.csv has no sample 'other 0', which .*samples\.parquet names"
    result = asked("audit", run, "--sample", 5)
    assert result.exit_code == 0
    assert re.search(f"The page does not show the samples: .*{said}", result.stderr)
    result = asked("clean", run, "--top", 3, "--out", tmp_path / "out.csv")
    assert result.exit_code == 3
    assert re.search(said, result.stderr)


def more(content):
    content["of_a_later_version"] = {"a": [1]}


OTHER_VERSIONS = {
    "a further field of the configuration": ("config.json", more),
    "a further option": ("config.json", lambda config: more(config["options"])),
    "a further fact about the data": ("config.json", lambda config: more(config["data"])),
    "a field less": ("config.json", lambda config: config.pop("momentum")),
    "an option less": ("config.json", lambda config: config["options"].pop("c1")),
    "more in the summary": ("summary.json", more),
    "less in the summary": ("summary.json", lambda summary: summary.pop("samples")),
    "more about the data": ("data.json", more),
    "less about the data": ("data.json", lambda about: [about.pop(name) for name in ("id_column", "left_out")]),
    "no folder of images": ("data.json", lambda about: about.pop("images")),
}


@pytest.mark.parametrize(("file", "change"), OTHER_VERSIONS.values(), ids=OTHER_VERSIONS)
def test_runs_of_other_versions_load(run, trained, file, change):
    edit(run / file, change)
    result = tnlpad.load(run)
    np.testing.assert_array_equal(result.predict_proba(trained[0].parents[1] / "data.csv"), trained[1])
    assert result.suspects is not None


@pytest.mark.filterwarnings("ignore:.*no checksums")
def test_scores_of_another_version_may_have_further_columns(run):
    without_checksums(run)
    scores = pq.read_table(run / "scores.parquet")
    further = {"of_a_later_version": pa.array([None] * len(scores)), "another": pa.array([float("nan")] * len(scores))}
    for name, column in further.items():
        scores = scores.append_column(name, column)
    pq.write_table(scores, run / "scores.parquet")
    assert tnlpad.load(run).suspects is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("validation_accuracy", value) for value in ("high", None, [1], 1e400)),
        *(("judged", value) for value in ([], {"sigma": 1}, {"sigma": {"memorised": "x"}})),
        ("selection", {"first": {"precision": 1e400, "picked": 1e400}}),
        ("norms", {"sigma": [1]}),
        ("train_loss", True),
    ],
)
def test_epochs_of_wrong_types(run, name, value):
    without_checksums(run)
    (run / "data.json").unlink()  # as a run on a published dataset, with a test accuracy
    edit(run / "config.json", lambda config: config.pop("data"))
    edit(run / "summary.json", lambda summary: summary["config"].pop("data"))
    for key in ("chosen", "last"):
        edit(run / "summary.json", lambda summary, key=key: summary[key].update(test_accuracy=0.5))
    lines = [json.loads(line) for line in (run / "epochs.jsonl").read_text().splitlines()]
    text = "".join(json.dumps({**line, "test_accuracy": 0.5, name: value}) + "\n" for line in lines)
    (run / "epochs.jsonl").write_text(text.replace("Infinity", "1e400"))
    (record,) = finished_records([run])
    with pytest.raises(RecordError, match=r"epochs\.jsonl is damaged"):
        _ = record.curves


def test_artefacts_are_replaced_without_a_moment_in_which_the_run_does_not_load(run, monkeypatch):
    """A kill at any rename leaves the old files or the new ones."""
    name, folder = "decided.csv", RunFolder(run)
    contents = [f"id,label\n0,{label}\n".encode() for label in "abc"]
    folder.replace_artefacts({name: lambda file: file.write(contents[0])})
    rename = checksums.os.replace
    for stop, (before, after) in zip((1, 2), pairwise(contents), strict=True):
        calls = []

        def stopping(*paths, stop=stop, calls=calls):
            calls.append(paths)
            if len(calls) > stop:
                raise KeyboardInterrupt
            rename(*paths)

        monkeypatch.setattr("os.replace", stopping)
        with pytest.raises(KeyboardInterrupt):
            folder.replace_artefacts({name: lambda file, after=after: file.write(after)})
        monkeypatch.setattr("os.replace", rename)
        assert folder.artefact(name).read_bytes() == (before if stop == 1 else after)
        tnlpad.load(run)
        folder.replace_artefacts({name: lambda file, after=after: file.write(after)})
        assert folder.artefact(name).read_bytes() == after


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_replacing_other_artefacts_keeps_those_of_a_killed_process(run, monkeypatch, stop):
    folder, names = RunFolder(run), ("data.json", "samples.parquet")
    contents = {name: (run / name).read_bytes() for name in names}
    rename, calls = os.replace, []

    def stopping(*paths):
        calls.append(paths)
        if len(calls) > stop:
            raise KeyboardInterrupt
        rename(*paths)

    monkeypatch.setattr("os.replace", stopping)
    with pytest.raises(KeyboardInterrupt):
        folder.replace_artefacts({name: lambda file, name=name: file.write(contents[name] + b" ") for name in names})
    monkeypatch.setattr("os.replace", rename)
    folder.replace_artefacts({"decided.csv": lambda file: file.write(b"id,label\n")})
    again = RunFolder(run)
    written = [again.artefact(name).read_bytes() != contents[name] for name in names]
    assert sum(written) == stop - 1
    assert "replaced_by" not in json.loads((run / "summary.json").read_text())["sha256"]


def test_a_file_that_is_replaced_while_it_is_checked_is_not_damaged(run, monkeypatch):
    folder, compare = RunFolder(run), store.is_intact

    def replaced_meanwhile(path, expected):
        monkeypatch.setattr(store, "is_intact", compare)
        content = path.read_bytes()
        RunFolder(run).replace_artefacts({path.name: lambda file: file.write(content + b"\n")})
        return compare(path, expected)

    monkeypatch.setattr(store, "is_intact", replaced_meanwhile)
    assert folder.artefact("data.json") == run / "data.json"
    flip(run / "data.json", 80)
    with pytest.raises(RecordError, match=r"data\.json is damaged"):
        folder.artefact("data.json")
