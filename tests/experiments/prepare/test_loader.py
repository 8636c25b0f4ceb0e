import torch

from tests.experiments.prepare.file_trees import CPU, small
from tests.experiments.test_run import content
from tnlpad.experiments.prepare import prepare_data, prepare_loader
from tnlpad.experiments.run import run


def test_the_number_of_threads_changes_nothing(root, tmp_path, monkeypatch):
    folders = []
    for threads in (1, 3):
        for module in ("images", "loader"):
            monkeypatch.setattr(f"tnlpad.experiments.prepare.{module}.available_cores", lambda threads=threads: threads)
        folders.append(run(small(), tmp_path / str(threads), root=root))
    assert content(folders[0]) == content(folders[1])


def test_epochs_of_so_many_batches(root):
    config = small(batches_per_epoch=2, batch_size=3)
    data = prepare_data(config, root, CPU)
    loader, _ = prepare_loader(config, data, CPU)
    assert [torch.cat([b.labels for b in loader]).bincount().tolist() for _ in range(2)] == [[2, 2, 2]] * 2
