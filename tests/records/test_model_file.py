"""Model files are the same bytes for the same content."""

import torch
from safetensors import safe_open
from safetensors.torch import load, save

from tnlpad.records.model_file import ordered


def test_the_same_content_gives_the_same_bytes(tmp_path):
    state = {"weight": torch.arange(6.0).view(2, 3), "bias": torch.tensor([1.0])}
    about = {"weights": "sigma", "epoch": "3", "classes": '["ä", "b"]', "mean": "0.5"}
    files = [save(state, about) for _ in range(30)]
    assert len(set(files)) > 1  # why this is needed
    (content,) = {ordered(file) for file in files}
    assert all(torch.equal(tensor, state[name]) for name, tensor in load(content).items())
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with safe_open(path, "pt") as file:
        assert file.metadata() == about


def test_a_file_without_metadata_stays_as_it_is():
    content = save({"weight": torch.zeros(3)})
    assert ordered(content) == content
