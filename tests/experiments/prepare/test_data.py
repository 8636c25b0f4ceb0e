import numpy as np
import pytest

from tests.experiments.prepare.file_trees import CPU, small
from tnlpad.data import load
from tnlpad.data.errors import DataError
from tnlpad.experiments.prepare import prepare_data
from tnlpad.experiments.run import run
from tnlpad.noise.label_file import LabelFile, write_label_file
from tnlpad.types import NoisyLabels


def test_a_part_of_the_data_is_another_run(root, tmp_path):
    for settings, message in (
        ({"subset": None}, "has 36 training images here, and this run is one on 75,750, all .* --set subset=36"),
        ({"subset": 35}, "this run is one on 35, as subset says"),
    ):
        with pytest.raises(DataError, match=message):
            run(small(**settings), tmp_path / "runs", root=root)
    assert not (tmp_path / "runs").exists()


def test_clothing1m_is_validated_on_noisy_labels_held_out(clothing, tmp_path):
    config = small(dataset="clothing1m")
    data = prepare_data(config, clothing, CPU)
    assert data.sizes == {"train": 36, "validation": 4, "test": 1}
    assert data.num_classes == 14
    assert run(config, tmp_path / "runs", root=clothing).finished


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ("asymmetric:0.4", "asymmetric noise needs to know which classes are similar"),
        ("human:worse", "have labels given by people"),
    ],
)
def test_noise_that_the_dataset_cannot_have(root, tmp_path, noise, message):
    with pytest.raises(ValueError, match=message):
        run(small(noise=noise), tmp_path, root=root)


def test_labels_from_a_file(root, tmp_path):
    clean = load("food101", root).labels
    given = (clean + 1) % 3
    noisy = NoisyLabels(given=given, clean=clean, transition=np.roll(np.eye(3), 1, axis=1))
    path = tmp_path / "labels.npz"
    write_label_file(path, LabelFile(noisy=noisy, dataset="food101", noise="matrix", seed=1, protocol="paper"))
    data = prepare_data(small(noise=str(path)), root, CPU)
    assert data.given.tolist() == given.tolist()
    assert data.correct is None
