"""The code and the commands of docs/extending.md work as printed, and its links exist."""

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.cli.trained import asked
from tests.synthetic_runs import write_run
from tnlpad.methods import METHODS, Setup
from tnlpad.paper.cells import cells
from tnlpad.types import Batch, Clock

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
METHOD, NETWORK, LABELS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
WITH_METHOD, WITH_NOISE = (block.splitlines() for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(line):
    """Run a command of the page: `tnlpad` in this process, a Python file in its own."""
    program, *words = shlex.split(line)
    if program == "tnlpad":
        result = asked(*words)
        assert result.exit_code == 0, f"{line}: {result.output}"
        return result.stdout
    assert program == "python"
    # One thread: tests run side by side.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}: {done.stderr}"
    return done.stdout


def summaries(folder):
    return [json.loads(path.read_text()) for path in sorted(folder.glob("runs/*/summary.json"))]


def test_a_method_in_a_file_goes_through_the_commands(folder):
    (folder / "gce.py").write_text(METHOD)
    tune, train, *others = WITH_METHOD
    assert "* chosen: --set q=0.3" in start(tune)
    before = summaries(folder)
    start(train)
    assert summaries(folder) == before, "it is one of the runs of the search, and not trained again"
    for line in others:
        start(line)
    assert {each["config"]["method"] for each in summaries(folder)} == {"gce", "standard"}
    table = (folder / "report" / "tables" / "other.md").read_text()
    assert "## Digits, small CNN, epochs 4\n" in table
    assert re.findall(r"^\| ([\w., ]+) \| [\d.]+ .*\| (\d) \|$", table, re.MULTILINE) == [
        ("Standard", "1"),
        ("gce", "2"),
        ("gce, q 0.3", "2"),
    ]


@pytest.fixture
def gce(monkeypatch):
    """The page's method, registered until the end of the test."""
    monkeypatch.setitem(METHODS, "gce", None)  # removed again at the end
    exec(compile(METHOD, "gce.py", "exec"), {"__name__": "gce"})


def test_it_goes_through_the_grid_of_the_paper_and_has_a_row_in_its_table(folder, gce):
    words = ["reproduce", "simulated", "--only", "mnist", "--methods", "gce,tnlpad", "--device", "cpu"]
    result = asked(*words, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "80 runs are left" in result.stdout
    assert "40 as if they took as long as standard training" in " ".join(result.stdout.split())
    names = {entry["cells"][0] for entry in json.loads(asked(*words, "--dry-run", "--json").stdout)}
    assert "simulated/mnist/symmetric-0.4/gce" in names
    column = {cell.row: cell for cell in cells("simulated") if cell.group == "mnist/symmetric-0.4"}
    for seed in (1, 2, 3):
        write_run(folder / "runs", column["tnlpad"], seed, accuracy=0.98)
        own = replace(column["standard"], method="gce")
        write_run(folder / "runs", own, seed, accuracy=0.97 + seed / 10_000)
        write_run(folder / "runs", own, seed, accuracy=0.96, settings={"q": 0.3})
    start("tnlpad report runs --out report")
    table = (folder / "report" / "tables" / "simulated.md").read_text()
    assert "| gce | · | 97.02 ± 0.01 (3) | · |" in table
    assert "| gce, q 0.3 | · | 96.00 ± 0.00 (3) | · |" in table
    assert "1 of 288 cells have runs" in table  # of the paper's
    assert not (folder / "report" / "tables" / "other.md").exists()
    assert "<small>n 3 of 5<" in (folder / "report" / "index.html").read_text()  # no empty line above it
    paired = (folder / "report" / "tables" / "paired.md").read_text()
    assert "| TNLPAD − gce | MNIST, symmetric 40\xa0% | +0.98 ± 0.01 (3) |" in paired


def test_plain_tnlpad_says_where_a_method_of_ones_own_is_known(folder):
    result = asked("reproduce", "simulated", "--methods", "gce", "--dry-run")
    assert result.exit_code == 2
    assert "run that file in place of tnlpad" in " ".join(result.stderr.split())


def test_its_loss_by_hand(monkeypatch):
    monkeypatch.setitem(METHODS, "gce", None)  # removed again at the end
    names = {"__name__": "gce"}
    exec(compile(METHOD, "gce.py", "exec"), names)

    def uniform(_):
        """Return a network that predicts its four classes with equal probability at first."""
        network = torch.nn.Linear(3, 4)
        for parameter in network.parameters():
            torch.nn.init.zeros_(parameter)
        return network

    setup = Setup(
        network=uniform,
        sgd={"lr": 0.1},
        labels=torch.zeros(2, dtype=torch.int64),
        num_classes=4,
        epochs=1,
        noise_rate=None,
        generator=torch.Generator(),
    )
    method = METHODS["gce"].build(names["GceConfig"](q=0.5), setup)
    batch = Batch(index=torch.arange(2), images=torch.ones(2, 3), labels=setup.labels)
    clock = Clock(epoch=1, epochs=1)
    method.begin_epoch(clock)
    losses = [float(method.step(batch, clock)) for _ in range(2)]
    assert losses[0] == pytest.approx(1.0)  # (1 − √¼) / ½
    assert losses[1] < losses[0]


def test_a_custom_network(folder):
    (folder / "tiny.py").write_text(NETWORK)
    (line,) = re.findall(r"`(python tiny\.py .*?)`", PAGE.read_text())
    start(line)
    (summary,) = summaries(folder)
    assert summary["config"]["network"] == "tiny"


def test_custom_noise(folder):
    exec(compile(LABELS, "extending.md", "exec"), {})
    for line in WITH_NOISE:
        start(line)
    drawn, mine = sorted(each["wrong_labels"] for each in summaries(folder))[::-1]
    assert drawn == pytest.approx(0.3, abs=0.05)
    assert mine == pytest.approx(0.25, abs=0.03)
    assert (folder / "transition.png").exists()


def test_links_exist():
    links = re.findall(r"\]\(([^)#]+)", PAGE.read_text())
    assert len(links) > 3
    for target in links:
        assert (PAGE.parent / target).exists(), target
