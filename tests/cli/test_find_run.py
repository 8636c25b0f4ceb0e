import json
import os

import pytest
import typer

from tnlpad.cli.find_run import find_run

NAMES = (
    "photos_none_tnlpad_head_seed1_4a134a2f71",
    "photos_none_tnlpad_head_seed2_4a99999999",
    "own-bb8ac40a7b_none_tnlpad_head_seed1_0123456789",
    "texts_none_tnlpad_head_seed1_face123456",
)


@pytest.fixture
def runs(tmp_path):
    """Finished runs, each changed a minute before the one after it."""
    for age, name in enumerate(reversed(NAMES)):
        (tmp_path / name).mkdir()
        for file, content in {"config.json": {"dataset": "own-1111111111"}, "summary.json": {}}.items():
            (tmp_path / name / file).write_text(json.dumps(content))
            os.utime(tmp_path / name / file, (1e9 - 60 * age,) * 2)
    (tmp_path / NAMES[3] / "config.json").write_text('{"dataset": "own-2222222222"}')
    os.utime(tmp_path / NAMES[3] / "config.json", (1e9, 1e9))
    return tmp_path


@pytest.mark.parametrize(
    ("word", "place"),
    [
        (NAMES[0], 0),
        ("photos_none_tnlpad_head_seed2", 1),
        ("texts", 3),
        ("4a134", 0),
        ("face123456", 3),
        ("own-bb8ac40a7b", 2),
        ("own-2222222222_none_tnlpad_head_seed1_face123456", 3),  # as earlier versions named it
        ("own-2222222222", 3),
        ("latest", 3),
    ],
)
def test_a_run_is_found(runs, word, place):
    assert find_run(word, runs).path.name == NAMES[place]


def test_the_latest_is_the_one_that_changed_last(runs):
    (runs / NAMES[1] / "epochs.jsonl").write_text("")
    assert find_run("latest", runs).path.name == NAMES[1]
    (runs / "latest").mkdir()
    (runs / "latest" / "config.json").write_text("{}")
    (runs / "latest" / "summary.json").write_text("{}")
    assert find_run("latest", runs).path.name == "latest"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("photos", "photos matches 2 runs"),
        ("photos", "or `latest`; `tnlpad runs "),
        ("4a13x", "there is no run 4a13x"),
        ("4a1", "there is no run 4a1"),  # too little of a hash
        ("", "there is no run"),
        ("own-1111111111", "matches 3 runs"),
    ],
)
def test_a_word_that_means_no_run_or_several(runs, word, said, capsys):
    with pytest.raises(typer.Exit) as exit:
        find_run(word, runs)
    assert exit.value.exit_code == 3
    assert said in capsys.readouterr().err


def test_no_run_is_the_latest(tmp_path, capsys):
    with pytest.raises(typer.Exit):
        find_run("latest", tmp_path)
    assert "there is no run latest" in capsys.readouterr().err
