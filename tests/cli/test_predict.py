import json

import numpy as np
import pytest
from PIL import Image

from tests.cli.trained import asked, trained_digits


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained_digits(tmp_path_factory.mktemp("runs"))


def test_predictions_on_the_test_part_are_as_good_as_the_record_says(run):
    from tnlpad.data import load

    result = asked("predict", run, "digits", "--json", "-q")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["predictions"]
    right = np.mean([int(each["predicted"]) for each in found] == load("digits", None, "test").labels)
    assert right == pytest.approx(json.loads((run / "summary.json").read_text())["chosen"]["test_accuracy"])


def test_predictions_on_own_images_need_no_labels(run, tmp_path):
    (tmp_path / "photographs").mkdir()
    for number in range(3):
        Image.new("L", (16, 12), number * 100).save(tmp_path / "photographs" / f"{number}.png")
    result = asked("predict", run, tmp_path / "photographs", "--out", tmp_path / "p.csv", "-q")
    assert result.exit_code == 0, result.output
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 4


def test_data_of_another_shape_are_bad_data(run, tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((4, 3, 9, 9), dtype=np.uint8), labels=np.arange(4))
    result = asked("predict", run, tmp_path / "a.npz")
    assert result.exit_code == 3
    assert "takes 1 × 8 × 8" in result.stderr
