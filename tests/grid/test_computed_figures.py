import errno
import functools
import json
import os

import pytest

from tnlpad.grid.computed_figures import COMPUTED, Variation, compute_figure, variation
from tnlpad.grid.grid import DiskFull
from tnlpad.paper_figures import parameter_space

HERE = {"root": None, "device": "cpu", "tell": lambda words: None}


def asked(name, seeds=None, protocol="paper", **settings):
    return variation(name, seeds=seeds, protocol=protocol, settings=settings, device="cpu")


def failing(monkeypatch, error):
    def compute(out, **options):
        raise error

    monkeypatch.setitem(COMPUTED, "tsne", COMPUTED["tsne"]._replace(compute=compute))


# What may be asked for


def test_what_makes_sense_is_taken():
    assert asked("tsne") == asked("parameter_space") == Variation()
    wanted = asked("tsne", seeds=[3], protocol="authors", epochs="60")
    assert wanted == Variation(seed=3, protocol="authors", settings={"epochs": "60"})
    assert asked("parameter_space", seeds=[2], epochs="20") == Variation(seed=2, settings={"epochs": "20"})


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("tsne", {"seeds": [1, 2]}, "Give one seed"),
        ("parameter_space", {"seeds": [1, 2]}, "Give one seed"),
        ("tsne", {"patience": "3"}, "--patience: tsne"),
        ("parameter_space", {"patience": "3"}, "--patience: parameter_space"),
        ("tsne", {"epochs": "20"}, "from 1 to 20"),  # it shows epoch 45
        ("tsne", {"epoch": "60"}, "did you mean epochs?"),
        ("parameter_space", {"protocol": "authors"}, "--protocol authors"),
        ("parameter_space", {"epoch": "60"}, "did you mean epochs?"),
        ("parameter_space", {"c2": "0.5"}, "'c2' is not a setting"),  # not of all its runs
    ],
)
def test_what_has_no_meaning_is_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        asked(name, **options)


@pytest.mark.parametrize("smoke", [True, False])
def test_tsne_is_asked_for_the_right_thing(tmp_path, monkeypatch, smoke):
    given = {}
    monkeypatch.setattr(
        "tnlpad.paper_figures.tsne.compute", lambda out, shown, **options: given.update(options, out=out, shown=shown)
    )
    wanted = Variation(seed=2, protocol="authors", settings={"batch_size": "32"})
    assert compute_figure("tsne", tmp_path, wanted, smoke=smoke, **HERE) is None
    assert (given["out"], given["root"], given["device"]) == (tmp_path, None, "cpu")
    shown = given["shown"]
    assert (shown.seed, shown.protocol, shown.dataset) == (2, "authors", "digits" if smoke else "cifar10")
    assert shown.settings == {**({"epochs": 40, "milestones": [30]} if smoke else {}), "batch_size": "32"}


def test_parameter_space_is_asked_for_the_right_thing(tmp_path, monkeypatch):
    given = {}
    monkeypatch.setattr("tnlpad.paper_figures.parameter_space.compute", lambda out, **options: given.update(options))
    compute_figure("parameter_space", tmp_path, Variation(seed=2, settings={"epochs": "3"}), smoke=False, **HERE)
    assert (given["seed"], given["settings"]) == (2, {"epochs": "3"})


# What goes wrong


def test_what_a_person_can_mend_is_told_in_words(tmp_path, monkeypatch):
    failing(monkeypatch, PermissionError("the folder is not yours"))
    failure = compute_figure("tsne", tmp_path, Variation(), smoke=False, **HERE)
    assert str(failure) == "the folder is not yours"
    assert list(tmp_path.iterdir()) == []


def test_a_bug_leaves_its_traceback_until_it_is_mended(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        failing(patch, ZeroDivisionError("a bug"))
        failure = compute_figure("tsne", tmp_path, Variation(), smoke=False, **HERE)
    file = tmp_path / "tsne-error.txt"
    assert str(failure) == f"ZeroDivisionError: a bug (traceback: {file})"
    assert "in compute" in file.read_text()
    monkeypatch.setattr("tnlpad.paper_figures.tsne.compute", lambda *_, **__: None)
    assert compute_figure("tsne", tmp_path, Variation(), smoke=False, **HERE) is None
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_stops_everything(tmp_path, monkeypatch):
    failing(monkeypatch, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(DiskFull, match="Finished runs are kept"):
        compute_figure("tsne", tmp_path, Variation(), smoke=False, **HERE)


def test_parameter_space_is_computed_once_for_each_variation(tmp_path, monkeypatch):
    few = Variation(settings={"epochs": 1, "batch_size": 256})
    two_weights = functools.cache(parameter_space.two_weights)  # takes seconds, and is the same for all variations
    monkeypatch.setattr(parameter_space, "two_weights", two_weights)

    def content(wanted):
        assert compute_figure("parameter_space", tmp_path, wanted, smoke=True, **HERE) is None
        return json.loads((tmp_path / "parameter_space.json").read_bytes())

    first = content(few)
    assert (first["real_run"]["seed"], first["real_run"]["settings"]) == (1, {"epochs": 1, "batch_size": 256})
    with monkeypatch.context() as patch:
        patch.setattr("tnlpad.paper_figures.parameter_space.two_weights", lambda problem: pytest.fail("computed again"))
        assert content(few) == first
    assert content(Variation(seed=2, settings=few.settings))["real_run"]["seed"] == 2
    (tmp_path / "parameter_space.json").write_text("{")
    assert content(few) == first


def test_two_processes_compute_it_once_and_the_second_waits(tmp_path, monkeypatch):
    """The second finds the files of the first, which it would otherwise fail to write or write again."""
    monkeypatch.setattr("tnlpad.grid.computed_figures.POLL_SECONDS", 0.01)
    ready, begun = os.pipe()
    waits, waited = os.pipe()
    child = os.fork()
    if not child:
        try:

            def compute(out, **_):
                os.write(begun, b".")
                os.read(waits, 1)
                (out / "tsne.json").write_text("computed")

            monkeypatch.setitem(COMPUTED, "tsne", COMPUTED["tsne"]._replace(compute=compute))
            os._exit(compute_figure("tsne", tmp_path, Variation(), smoke=True, **HERE) is not None)
        finally:
            os._exit(1)
    os.read(ready, 1)
    seen = []
    monkeypatch.setitem(
        COMPUTED, "tsne", COMPUTED["tsne"]._replace(compute=lambda out, **_: seen.append((out / "tsne.json").exists()))
    )
    tell = {"tell": lambda line: seen.append(line) or os.write(waited, b".")}
    assert compute_figure("tsne", tmp_path, Variation(), smoke=True, **HERE | tell) is None
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert seen[-1] is True
    assert "waiting for another process" in seen[0]
    assert [each.name for each in tmp_path.iterdir()] == ["tsne.json"]
