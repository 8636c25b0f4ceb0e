"""What users install: the wheel, built from this tree and run from a place where the source is not."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command: str, **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling", reason="needs hatchling, which builds the wheel: the extra [dev]")
    folder = tmp_path_factory.mktemp("wheel")
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
        str(ROOT),
    )
    (built,) = folder.glob("tnlpad-*.whl")
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {
        "tnlpad",
        wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info",
    }
    assert "tnlpad/py.typed" in names
    assert "tnlpad/data/catalogue.toml" in names
    assert any(name.endswith(".j2") for name in names)
    assert "tnlpad/review/static/index.html" in names
    assert not [name for name in names if name.endswith((".pyc", ".ipynb"))]


def test_the_installed_demo_runs_where_the_source_is_not(wheel, tmp_path):
    site = tmp_path / "site"
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
        "--target",
        str(site),
        str(wheel),
    )
    environment = {**os.environ, "PYTHONPATH": str(site)}
    where = run(sys.executable, "-c", "import tnlpad; print(tnlpad.__file__)", cwd=tmp_path, env=environment)
    assert Path(where.strip()).is_relative_to(site)
    command = [str(site / "bin" / "tnlpad"), "demo", "--out", str(tmp_path / "out"), "--seeds", "1", "--json"]
    result = json.loads(run(*command, cwd=tmp_path, env=environment))
    assert result
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<svg") >= 2
    assert str(ROOT) not in page
