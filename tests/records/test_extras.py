import json

from tnlpad.records.extras import read_extras


def read(*paths):
    problems = []
    return read_extras(paths, ["tsne", "beta"], problems.append), problems


def test_the_first_that_is_found(tmp_path):
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "tsne.json").write_text(json.dumps({"kind": "tsne", "number": number}))
    assert read(tmp_path / "1", tmp_path / "2") == ({"tsne": {"kind": "tsne", "number": 1}}, [])
    assert read(tmp_path / "nowhere") == ({}, [])


def test_what_is_damaged_is_reported_and_what_is_something_else_is_not(tmp_path):
    (tmp_path / "tsne.json").write_text("{")
    (tmp_path / "beta.json").write_text('{"kind": "other"}')
    found, (problem,) = read(tmp_path)
    assert found == {}
    assert problem.kind == "damaged"
    assert problem.path == tmp_path / "tsne.json"
