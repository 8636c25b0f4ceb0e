import builtins
import json
import sys
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tnlpad.cli import app
from tnlpad.cli.doctor import _dependency


def invoke(*arguments):
    return CliRunner().invoke(app, ["doctor", *arguments])


def test_a_healthy_installation():
    result = invoke()
    assert result.exit_code == 0, result.output
    for wanted in ("torch", "scikit-learn", "typer", "CPU:", "triton", "Everything required is installed"):
        assert wanted in result.stdout


def test_json_is_one_document_with_every_dependency():
    document = json.loads(invoke("--json").stdout)
    needed = {each["name"].lower() for each in document["dependencies"] if each["extra"] is None}
    assert needed >= {"torch", "numpy", "scikit-learn", "matplotlib", "jinja2", "typer", "rich"}
    assert all(each["ok"] for each in document["dependencies"] if each["extra"] is None)
    assert document["problems"] == []
    assert document["torch"]["cpu_threads"] >= 1


def test_what_is_missing_is_named_with_the_way_to_get_it(monkeypatch):
    module = sys.modules["tnlpad.cli.doctor"]  # the package has a function of this name
    real = module.version

    def version(name):
        if name.lower() == "jinja2":
            raise PackageNotFoundError(name)
        return "1.0" if name == "torch" else real(name)

    monkeypatch.setattr(module, "version", version)
    result = invoke()
    assert result.exit_code == 1
    assert "inja2 is missing. Run: python -m pip install" in result.stdout
    assert "torch is 1.0, which is too old" in result.stdout


def test_a_package_that_is_not_installed_is_a_problem(monkeypatch):
    def unknown(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(sys.modules["tnlpad.cli.doctor"], "requires", unknown)
    result = invoke()
    assert result.exit_code == 1
    assert "tnlpad is not installed" in result.stdout
    assert "Everything required is installed" not in result.stdout


def test_what_several_extras_want_is_named_once(monkeypatch):
    module = sys.modules["tnlpad.cli.doctor"]
    wanted = ["typer>=0.19", "nowhere>=2; extra == 'dev'", "nowhere>=2; extra == 'ray'", "older>=1; extra == 'ray'"]
    monkeypatch.setattr(module, "requires", lambda name: wanted)
    lines = invoke().stdout.splitlines()
    (line,) = [line for line in lines if "nowhere" in line]
    assert [cell.strip() for cell in line.split("│")[1:-1]] == ["nowhere", "– missing", ">=2", "[dev], [ray]"]
    assert [line for line in lines if "Optional" in line] == ["Optional: python -m pip install 'tnlpad[dev,ray]'"]


def test_a_torch_that_cannot_be_imported_is_reported(monkeypatch):
    real = builtins.__import__

    def broken(name, *rest):
        if name == "torch":
            raise OSError("libtorch.so is damaged")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", broken)
    result = invoke("--json")
    assert result.exit_code == 1
    assert "libtorch.so is damaged" in json.loads(result.stdout)["problems"][0]


def test_a_gpu_that_cannot_be_used_is_reported(monkeypatch):
    def properties(index):
        if index == 0:
            raise RuntimeError("CUDA-capable device(s) is/are busy or unavailable")
        return SimpleNamespace(name="Second", total_memory=2**34)

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.get_device_properties", properties)
    result = invoke()
    assert result.exit_code == 0
    assert "GPU 0, cannot be used (RuntimeError: CUDA-capable device(s) is/are busy or unavailable)" in result.stdout
    assert "Second, 16.0 GiB" in result.stdout


@pytest.mark.parametrize(
    ("requirement", "name", "wanted", "extra"),
    [
        ("torch>=2.6", "torch", ">=2.6", None),
        ("numpy", "numpy", "", None),
        ('pytest>=8; extra == "dev"', "pytest", ">=8", "dev"),
        ("ray[default]>=2,<3 ; extra == 'ray'", "ray", "<3,>=2", "ray"),
        ('numpy<3,>=1.26; python_version < "3.14"', "numpy", "<3,>=1.26", None),
    ],
)
def test_requirements_are_read(requirement, name, wanted, extra):
    result = _dependency(requirement)
    assert (result["name"], result["wanted"], result["extra"]) == (name, wanted, extra)


@pytest.mark.parametrize(
    ("installed", "ok"), [("2.13.0+cpu", True), ("2.6.0", True), ("2.10rc1", True), ("2.5.9", False)]
)
def test_versions_compare_by_number(monkeypatch, installed, ok):
    module = sys.modules["tnlpad.cli.doctor"]  # the package has a function of this name
    monkeypatch.setattr(module, "version", lambda name: installed)
    assert _dependency("torch>=2.6")["ok"] is ok
