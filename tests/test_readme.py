"""The README's Python runs as it stands, and every local link leads somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_python_blocks_run(block, tmp_path, monkeypatch):
    for package in re.findall(r"from tnlpad\.integrations\.(\w+)", block):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install 'tnlpad[integrations]'")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})


def test_there_is_something_to_run():
    assert BLOCKS


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_local_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text()):
        assert target.startswith("http") or (ROOT / target).exists(), target
