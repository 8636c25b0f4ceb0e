import json

import pytest
import typer

from tnlpad.cli.output import ending_early, exit_codes, print_json, printable, used_folder, write_text
from tnlpad.errors import DataError, NoiseDataError
from tnlpad.records.store import RecordError
from tnlpad.training.loop import Diverged


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    write_text(path, "neu: σ")
    assert path.read_text(encoding="utf-8") == "neu: σ"
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, capsys):
    path = tmp_path / "page.html"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(typer.Exit) as caught:
        write_text(path, "new")
    assert caught.value.exit_code == 1
    assert "No space left on device" in capsys.readouterr().err
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("name", "said"),
    [("x" * 252 + ".csv", "Choose a shorter name."), ("none/x.csv", "Name another folder.")],
)
def test_space_is_not_said_to_be_missing_where_it_is_not(tmp_path, capsys, name, said):
    with pytest.raises(typer.Exit):
        write_text(tmp_path / name, "")
    error = capsys.readouterr().err
    assert said in error
    assert "Free some" not in error


def test_json_round_trips_and_refuses_what_json_does_not_know(capsys):
    print_json({"σ": 1})
    assert json.loads(capsys.readouterr().out) == {"σ": 1}
    with pytest.raises(ValueError, match="not JSON compliant"):
        print_json({"x": float("nan")})


def test_names_are_printed_without_what_a_terminal_obeys():
    assert printable("кот [b] é") == "кот [b] é"
    assert printable("a\nb\x1b[2J\u202ec") == r"a\nb\x1b[2J\u202ec"


def test_a_folder_goes_again_if_nothing_came_into_it(tmp_path):
    out = tmp_path / "new" / "runs"

    def fail(*names):
        with used_folder(out, "--out") as folder:
            for name in names:
                (folder / name).write_text("x")
            assert folder.is_dir()
            raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        fail()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="bad"):
        fail("kept")
    assert (out / "kept").exists()


def test_a_folder_that_was_there_stays(tmp_path):
    (tmp_path / "runs").mkdir()
    with pytest.raises(ValueError, match="bad"), used_folder(tmp_path / "runs" / "new", "--out"):
        raise ValueError("bad")
    assert list((tmp_path / "runs").iterdir()) == []
    with used_folder(tmp_path / "runs" / "new", "--out"):
        pass
    assert (tmp_path / "runs" / "new").is_dir()


KEPT = {"kept": "Finished runs are", "kept_of_interrupted": "Checkpoints are"}


def ended(block, error, capsys):
    """Exit code and message of a block in which this is raised."""
    with pytest.raises(typer.Exit) as caught, block:
        raise error
    return caught.value.exit_code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"), [(DataError, 3), (RecordError, 3), (NoiseDataError, 3), (ValueError, 2)], ids=lambda each: each
)
def test_what_a_person_can_do_something_about(capsys, error, code):
    assert ended(exit_codes(), error("the reason."), capsys) == (code, "Error: the reason.\n")


def test_a_bug_is_none_of_these():
    with pytest.raises(ZeroDivisionError), exit_codes(), ending_early(**KEPT):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (Diverged("It grew."), 1, "Error: It grew. Leave it out.\n"),
        (OSError("no space"), 1, "Error: no space. Finished runs are kept"),
        (KeyboardInterrupt(), 130, "Interrupted. Checkpoints are kept"),
    ],
)
def test_what_is_kept_is_said(capsys, error, code, said):
    found, message = ended(ending_early(**KEPT, if_diverged=" Leave it out."), error, capsys)
    assert (found, message[: len(said)]) == (code, said)


def test_when_interrupted_the_same_is_kept_unless_more_is(capsys):
    _, message = ended(ending_early(kept="All of it is"), KeyboardInterrupt(), capsys)
    assert message.startswith("Interrupted. All of it is kept")
