import json
import re
import shutil

import pytest

from tests.edited_runs import edit, without_checksums
from tests.synthetic_runs import write_run
from tnlpad.paper.cells import Experiment
from tnlpad.records.archive import Problem, archive, finished_records, read_extras, write_archived
from tnlpad.records.store import RecordError, RunFolder

TNLPAD = Experiment(dataset="digits", noise="symmetric:0.4", method="tnlpad")
STANDARD = Experiment(dataset="digits", noise="symmetric:0.4", method="standard")


@pytest.fixture
def runs(tmp_path):
    """Three run folders."""
    for experiment, seed in ((TNLPAD, 1), (TNLPAD, 2), (STANDARD, 1)):
        write_run(tmp_path / "runs", experiment, seed, accuracy=0.9 + seed / 100)
    return tmp_path / "runs"


@pytest.fixture
def results(tmp_path, runs):
    """The archived records of these runs."""
    folder = tmp_path / "results"
    folder.mkdir()
    for path in runs.iterdir():
        assert write_archived(archive(RunFolder(path)), folder) is True
    return folder


def read(*paths):
    problems: list[Problem] = []
    return finished_records(paths, problems.append), problems


def test_a_run_folder_and_its_archived_file_read_the_same(runs, results):
    (from_folders, none), (from_files, nothing) = read(runs), read(results)
    assert none == nothing == []
    assert len(from_folders) == 3
    for folder, file in zip(from_folders, from_files, strict=True):
        assert (folder.run_id, folder.config, folder.settings) == (file.run_id, file.config, file.settings)
        assert folder.summary == file.summary
        assert folder.curves == file.curves
        assert folder.source.is_dir()
        assert file.source.is_file()


def test_paths_may_be_single_records_or_folders(runs, results):
    one, two, three = sorted(runs.iterdir())
    records, problems = read(one, results / f"{two.name}.json")
    assert [record.run_id for record in records] == [one.name, two.name]
    records, problems = read(one, results)
    assert [record.run_id for record in records] == [one.name, two.name, three.name]
    assert [problem.kind for problem in problems] == ["repeated"]


def test_epochs_are_counted_and_parsed_only_for_curves(runs):
    first, *others = sorted(runs.iterdir())
    for path in others:
        without_checksums(path)
    (first / "epochs.jsonl").unlink()
    for path in others:
        (path / "epochs.jsonl").write_text("no JSON\n" * 6)
    records, problems = read(runs)
    assert len(records) == 2
    assert [(problem.kind, problem.path) for problem in problems] == [("damaged", first)]
    assert "has 0 of 6 epochs" in problems[0].reason
    with pytest.raises(RecordError, match=r"epochs\.jsonl is damaged \(line 1"):
        _ = records[0].curves


def test_other_files_are_skipped(runs):
    (runs / "notes.txt").write_text("x")
    (runs / "tsne.json").write_text('{"kind": "tsne"}')
    (runs / "list.json").write_text("[]")
    (runs / ".hidden.json").write_text("{")
    (runs / "empty").mkdir()
    records, problems = read(runs)
    assert len(records) == 3
    assert problems == []


def test_an_unfinished_run_is_reported_as_such(runs):
    folder = RunFolder(runs / "begun")
    folder.begin({"a": 1})
    records, problems = read(runs)
    assert len(records) == 3
    assert [(problem.kind, problem.path) for problem in problems] == [("unfinished", folder.path)]


def test_problems_are_warnings_by_default(runs):
    RunFolder(runs / "begun").begin({"a": 1})
    with pytest.warns(UserWarning, match="begun: not finished yet"):
        finished_records([runs])


DAMAGE = [
    (lambda text: text[: len(text) // 2], "damaged"),
    (lambda text: "", "damaged"),
    (lambda text: text.replace('"run_id"', '"name"'), "run_id is missing"),
    (lambda text: text.replace('"dataset"', '"data"'), "config.dataset is missing"),
    (lambda text: text.replace('"test_accuracy"', '"accuracy"'), "chosen.test_accuracy is None"),
    (lambda text: text.replace('"settings"', '"set"'), "settings is missing"),
    (lambda text: text.replace('"seed"', '"grain"'), "config.seed is missing"),
    (lambda text: text.replace('"options"', '"choices"'), "config.options is missing"),
    (lambda text: text.replace('"milestones"', '"stones"'), "config.milestones is missing"),
    (lambda text: text.replace('"epoch"', '"year"'), "chosen.epoch is missing"),
    (lambda text: re.sub(r'"epoch": ?4', '"epoch": 7', text), "chosen.epoch is 7, and the run has 6"),
    (lambda text: re.sub(r'"train": ?\d+', '"train": "all"', text), "samples.train is 'all', not a whole number"),
    (lambda text: re.sub(r'"test_accuracy": ?0\.9\d*', '"test_accuracy": 0.95', text, count=1), "epoch 4 has 0.9"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGE)
@pytest.mark.parametrize("archived", [False, True], ids=["folder", "file"])
def test_a_damaged_record_is_reported_and_the_others_are_read(runs, results, damage, reason, archived):
    first = sorted(runs.iterdir())[0]
    file = results / f"{first.name}.json" if archived else first / "summary.json"
    without_checksums(first)
    file.write_text(damage(file.read_text()))
    records, problems = read(results if archived else runs)
    assert len(records) == 2
    (problem,) = problems
    assert problem.kind == "damaged"
    assert reason in problem.reason
    assert str(problem).startswith(str(results if archived else runs))


@pytest.mark.parametrize("share", [-0.1, 1.5, "0.5", None])
def test_an_accuracy_out_of_range(runs, share):
    path = sorted(runs.iterdir())[0] / "summary.json"
    edit(path, lambda summary: summary["last"].update(test_accuracy=share))
    _, problems = read(runs)
    assert "last.test_accuracy is" in problems[0].reason


def test_damaged_curves_of_an_archived_file(results):
    path = sorted(results.iterdir())[0]
    edit(path, lambda content: content["curves"].pop("test_accuracy"))
    records, problems = read(results)
    assert problems == []
    with pytest.raises(RecordError, match=r"damaged .*test_accuracy.*in its curves"):
        _ = records[0].curves


def test_damaged_epochs_of_a_folder(runs):
    path = sorted(runs.iterdir())[0] / "epochs.jsonl"
    without_checksums(path.parent)
    path.write_text(
        "".join(json.dumps({"epoch": k, "validation_accuracy": 1, "test_accuracy": 1}) + "\n" for k in range(1, 7))
    )
    records, _ = read(runs)
    with pytest.raises(RecordError, match=r"epochs\.jsonl is damaged.*judged"):
        _ = records[0].curves


def test_an_archived_file_under_another_name(results):
    path = sorted(results.iterdir())[0]
    path.rename(results / "other.json")
    records, problems = read(results)
    assert len(records) == 2
    assert f"holds the run {path.stem}" in problems[0].reason


def test_a_missing_folder(tmp_path):
    records, problems = read(tmp_path / "nowhere")
    assert records == []
    assert str(problems[0]) == f"{tmp_path / 'nowhere'}: does not exist"


def test_a_repeated_result(runs, results):
    records, problems = read(runs, results)
    assert len(records) == 3
    assert all(record.source.parent == runs for record in records)
    assert [problem.kind for problem in problems] == ["repeated"] * 3


def test_machine_and_duration_do_not_make_a_conflict(runs, results):
    for path in results.iterdir():
        edit(path, lambda content: content["summary"].update(machine="another", seconds={}, versions={}))
    _, problems = read(runs, results)
    assert [problem.kind for problem in problems] == ["repeated"] * 3


def another_last_epoch(content):
    content["summary"]["last"]["test_accuracy"] = 0.123
    content["curves"]["test_accuracy"][-1] = 1230


def test_a_different_result_is_a_conflict_and_the_first_is_used(runs, results):
    path = sorted(results.iterdir())[0]
    edit(path, another_last_epoch)
    records, problems = read(runs, results)
    conflict = next(problem for problem in problems if problem.kind == "conflicting")
    assert "last.test_accuracy is 0.8 and 0.123" in conflict.reason
    assert next(r for r in records if r.run_id == path.stem).summary["last"]["test_accuracy"] == 0.8


def test_a_key_of_the_second_result_alone_is_a_conflict(runs, results):
    path = sorted(results.iterdir())[0]
    edit(path, lambda content: content["summary"]["last"].update(more=1))
    _, problems = read(runs, results)
    conflict = next(problem for problem in problems if problem.kind == "conflicting")
    assert "last.more is None and 1" in conflict.reason


def test_runs_on_own_data_are_skipped_and_reported(runs):
    path = sorted(runs.iterdir())[0]
    (path / "data.json").write_text("{}")
    records, problems = read(runs)
    assert [(problem.kind, problem.path) for problem in problems] == [("own", path)]
    assert path.name not in [record.run_id for record in records]
    assert len(records) == 2


def test_archived_files_are_small(tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    for method in ("standard", "tnlpad", "coteaching"):
        experiment = Experiment(dataset="cifar10", noise="symmetric:0.4", method=method)
        run = write_run(tmp_path, experiment, 1, accuracy=0.9123, last=0.8765, memorised=0.4321, epochs=100)
        write_archived(archive(run), folder)
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert len(sizes) == 3
    assert max(sizes.values()) < 9_000, sizes


def test_archiving_again_changes_nothing(runs, results):
    before = {path.name: path.stat().st_mtime_ns for path in results.iterdir()}
    for path in runs.iterdir():
        assert write_archived(archive(RunFolder(path)), results) is False
    assert {path.name: path.stat().st_mtime_ns for path in results.iterdir()} == before


def test_a_different_result_is_not_overwritten(runs, results):
    path = sorted(results.iterdir())[0]
    edit(path, another_last_epoch)
    before = path.read_bytes()
    with pytest.raises(RecordError, match=r"another result of this run: last\.test_accuracy is 0\.123 and 0\.8"):
        write_archived(archive(RunFolder(runs / path.stem)), results)
    assert path.read_bytes() == before


def test_different_curves_are_a_different_result(runs, results):
    path = sorted(results.iterdir())[0]
    edit(path, lambda content: content["curves"]["train_loss"].reverse())
    with pytest.raises(RecordError, match="curves differ"):
        write_archived(archive(RunFolder(runs / path.stem)), results)


def test_an_archived_file_that_cannot_be_read_is_not_overwritten(runs, results):
    path = sorted(results.iterdir())[0]
    path.write_text("{")
    with pytest.raises(RecordError, match="damaged"):
        write_archived(archive(RunFolder(runs / path.stem)), results)
    assert path.read_text() == "{"


def test_unfinished_runs_and_runs_on_a_noise_file_are_not_archived(tmp_path, runs):
    unfinished = RunFolder(tmp_path / "unfinished")
    unfinished.begin({"a": 1})
    with pytest.raises(RecordError, match=r"summary\.json does not exist"):
        archive(unfinished)
    first = RunFolder(sorted(runs.iterdir())[0])
    from_a_file = {"noise_file_sha256": "ab", "noise": "/home/me/l.npz"}
    edit(first.summary_file, lambda summary: summary["config"].update(from_a_file))
    edit(first.config_file, lambda config: config.update(from_a_file))
    with pytest.raises(RecordError, match=r"/home/me/l\.npz"):
        archive(first)


def test_no_path_of_this_machine_is_archived(tmp_path, results):
    for path in results.iterdir():
        assert str(tmp_path) not in path.read_text()


def test_nothing_half_written_is_left(runs, tmp_path, monkeypatch):
    folder = tmp_path / "full"
    folder.mkdir()
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        write_archived(archive(RunFolder(sorted(runs.iterdir())[0])), folder)
    assert list(folder.iterdir()) == []


def test_thousands_of_records(tmp_path):
    """Epochs are never parsed; `docs/performance.md` has the time."""
    run = write_run(tmp_path, TNLPAD, 1)
    run.epochs_file.write_text("no JSON\n" * 6)
    without_checksums(run.path)
    many = tmp_path / "many"
    for k in range(300):
        copy = RunFolder(shutil.copytree(run.path, many / f"run{k:04}"))
        copy.summary_file.write_text(run.summary_file.read_text().replace(run.path.name, copy.path.name))
    records, problems = read(many)
    assert (len(records), problems) == (300, [])


def extras(*paths):
    problems = []
    return read_extras(paths, ["tsne", "beta"], problems.append), problems


def test_the_first_extra_of_a_name_is_used(tmp_path):
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "tsne.json").write_text(json.dumps({"kind": "tsne", "number": number}))
    assert extras(tmp_path / "1", tmp_path / "2") == ({"tsne": {"kind": "tsne", "number": 1}}, [])
    assert extras(tmp_path / "nowhere") == ({}, [])


def test_a_damaged_extra_is_reported_and_another_kind_is_not(tmp_path):
    (tmp_path / "tsne.json").write_text("{")
    (tmp_path / "beta.json").write_text('{"kind": "other"}')
    found, (problem,) = extras(tmp_path)
    assert found == {}
    assert problem.kind == "damaged"
    assert problem.path == tmp_path / "tsne.json"
