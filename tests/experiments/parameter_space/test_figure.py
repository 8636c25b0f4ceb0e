import json

import numpy as np

from tnlpad.experiments.parameter_space import compute
from tnlpad.experiments.parameter_space.problem import Problem

SHORT = Problem(epochs=12, other_c2=(0.5, 2.0), stages=(2, 5, 12), contour_points=9)


def test_the_file_is_whole_plain_and_always_the_same(tmp_path):
    files = [
        compute(tmp_path / name, problem=SHORT, settings={"epochs": 2, "milestones": "2"}) for name in ("one", "two")
    ]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["parameter_space.json"]
    real = json.loads(files[0].read_bytes())["real_run"]
    assert real["weights"] > 20000
    for name in ("plain", "w", "sigma"):
        assert np.shape(real["paths"][name]) == (3, 2)
        assert len(real["distance_to_clean"][name]) == 3
        assert real["test_accuracy"][name][0] is None  # nothing is measured before training
        assert real["chosen_epoch"][name] in (1, 2)
    starts = [real["paths"][name][0] for name in ("plain", "w", "sigma")]
    assert starts[0] == starts[1] == starts[2]
    assert real["gamma_norm"][0] == 0
    assert 0 < sum(real["explained"]) <= 1
    assert real["commands"]["tnlpad"].startswith("tnlpad train digits --noise symmetric:0.4 --method tnlpad --seed 1")
