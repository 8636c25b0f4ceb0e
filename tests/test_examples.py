"""Every example is short, runs as it stands, and ends with a good share of right answers."""

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from tests.ranks.launcher import tried

EXAMPLES = Path(__file__).parents[1] / "examples"
NEEDS = {"lightning_module": ["lightning"], "text": ["transformers", "accelerate"]}
LAUNCHED = {"sharded": ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]}
LINES = 60


def test_all_are_here():
    assert {path.stem for path in EXAMPLES.glob("*.py")} >= {
        *("tabular", "text", "own_loop", "lightning_module", "image_folder", "sharded"),
    }


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_runs(path, tmp_path):
    for package in NEEDS.get(path.stem, []):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install 'tnlpad[integrations]'")
    if path.stem in LAUNCHED and not hasattr(torch.cpu.Stream, "record_event"):
        pytest.skip("fully_shard() of this torch does not run on CPUs")
    assert len(path.read_text().splitlines()) < LINES
    # One thread: tests run side by side. Nothing may be fetched, and nothing written beside the example.
    settings = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TMPDIR": str(tmp_path)}
    run = partial(
        subprocess.run,
        [sys.executable, *LAUNCHED.get(path.stem, []), path],
        cwd=tmp_path,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    result = tried(run) if path.stem in LAUNCHED else run()
    assert result.returncode == 0, result.stderr
    shares = [float(share) for share in re.findall(r"([\d.]+)%", result.stdout)]
    assert shares, result.stdout
    assert shares[-1] > 80, result.stdout
