from pathlib import Path
from types import SimpleNamespace

from tnlpad.cli.grid_words import what_is_left
from tnlpad.experiments.reproduce import Seen


def left(*seconds, jobs=2, on_gpu=False):
    planned = SimpleNamespace(config=SimpleNamespace(patience=None))
    runs = [
        Seen(planned=planned, state="missing", seconds_left=each, known_from=None if each is None else "like runs")
        for each in seconds
    ]
    return what_is_left(runs, SimpleNamespace(on_gpu=on_gpu, on_ray=False, jobs=jobs, out=Path("runs")))


def test_runs_at_once_take_as_long_as_the_longest_of_them():
    assert left(7200.0).startswith("1 run is left, about 2.0 CPU hours, 2.0 h with --jobs 2.")
    assert "3.0 h with --jobs 2" in left(3600.0, 10800.0)
    assert "2.0 h with --jobs 2" in left(3600.0, 3600.0, 3600.0, 3600.0)


def test_what_nobody_knows_is_said_to_be_unknown():
    assert left(None, None) == "2 runs are left; how long that takes is not known."
    assert left(None, 60.0).endswith("Estimated: 1 by like runs in runs, 1 unknown.")
