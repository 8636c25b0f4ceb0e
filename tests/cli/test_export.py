import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from tests.cli.trained import asked, trained, trained_digits
from tnlpad.records.store import RunFolder
from tnlpad.runs.shipped import load_shipped


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained_digits(tmp_path_factory.mktemp("runs"))


def test_onnx_gives_what_torch_gives(run, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'tnlpad[export]'")
    pytest.importorskip("onnxscript", reason="needs onnxscript: pip install 'tnlpad[export]'")
    result = asked("export", run, "--onnx", "--out", tmp_path / "m.onnx", "--json", "-q")
    assert result.exit_code == 0, result.output
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    inputs = torch.rand(7, 1, 8, 8)
    (theirs,) = session.run(None, {"inputs": inputs.numpy()})
    with torch.no_grad():
        ours = load_shipped(RunFolder(run)).network(inputs)
    np.testing.assert_allclose(theirs, ours, atol=1e-5)
    names = session.get_modelmeta().custom_metadata_map["class_names"]
    assert json.loads(names) == [str(digit) for digit in range(10)]


@pytest.mark.parametrize(
    ("columns", "row", "said"),
    [
        ("a,b", "{},{}", "input: N × 2 numbers, as they are in the data: a, b"),
        ("a,b", "{},red {}", "which `tnlpad predict` computes from the columns a, b"),
        ("text", "a scarlet rose in the garden number {} of {}", "which `tnlpad predict` computes from the texts"),
    ],
)
def test_the_input_of_an_onnx_file_is_named(tmp_path, columns, row, said):
    onnx = pytest.importorskip("onnx", reason="needs onnx: pip install 'tnlpad[export]'")
    pytest.importorskip("onnxscript", reason="needs onnxscript: pip install 'tnlpad[export]'")
    rows = [f"{row.format(k, k % 2)},{'xy'[k % 2]}" for k in range(30)]
    (tmp_path / "data.csv").write_text("\n".join([f"{columns},label", *rows]))
    run = trained(tmp_path / "data.csv", tmp_path / "runs")
    result = asked("export", run, "--onnx", "--out", tmp_path / "m.onnx")
    assert said in result.stdout
    assert ("Only tnlpad computes" in result.stderr) == ("computes from" in said)
    about = {each.key: each.value for each in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert f"input: {about['input']}\n" in result.stdout


def test_safetensors_is_the_plain_state_dict_of_sigma(run, tmp_path):
    result = asked("export", run, "--safetensors", "--out", tmp_path / "m.safetensors", "-q")
    assert result.exit_code == 0, result.output
    theirs, ours = load_file(tmp_path / "m.safetensors"), load_file(run / "model.safetensors")
    assert theirs.keys() == ours.keys()
    assert all(torch.equal(theirs[name], ours[name]) for name in ours)
    with safe_open(tmp_path / "m.safetensors", "pt") as file:
        assert json.loads(file.metadata()["network"]) == "small_cnn"


@pytest.mark.parametrize("words", [[], ["--onnx", "--safetensors"], ["--safetensors", "--out", "."]])
def test_wrong_options_are_usage_errors(run, words):
    assert asked("export", run, *words).exit_code == 2


def test_damaged_weights_are_bad_data(run, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("config.json", "summary.json"):
        (copy / name).write_bytes((run / name).read_bytes())
    (copy / "model.safetensors").write_bytes(b"rubbish")
    result = asked("export", copy, "--safetensors", "--out", tmp_path / "m.safetensors")
    assert result.exit_code == 3
    assert "model.safetensors is damaged" in result.stderr
    assert not (tmp_path / "m.safetensors").exists()


@pytest.mark.parametrize("words", [["export", "nowhere", "--onnx"], ["predict", "nowhere", "photos"]])
def test_an_unknown_run_is_reported_before_torch_is_loaded(tmp_path, words):
    code = f"""if True:
    import sys
    from tnlpad.cli import app
    try:
        app({words})
    except SystemExit as end:
        sys.exit(end.code if "torch" not in sys.modules else 99)"""
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (result.returncode, "there is no run nowhere" in result.stderr) == (3, True)
