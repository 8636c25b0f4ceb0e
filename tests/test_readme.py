"""The Python on README.md and docs/optimizer.md runs as it is, and every local link leads somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# The two short excerpts of README.md use names of a loop that docs/optimizer.md has in full.
CONTEXT = """
import torch

model, epochs = torch.nn.Linear(4, 2), 1


def evaluate(model):
    return 1.0

"""


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def run(code: str, where: str, names: dict[str, object]) -> None:
    for package in re.findall(r"from tnlpad\.integrations\.(\w+)", code):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install 'tnlpad[integrations]'")
    exec(compile(code, where, "exec"), names)


def test_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    code = [CONTEXT, *blocks("README.md")]
    assert len(code) == 4
    for block in code:
        run(block, "README.md", names)
    assert (tmp_path / "model.pt").exists()


@pytest.mark.parametrize("number", range(4))
def test_the_page_of_the_optimizer_runs(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = blocks("docs/optimizer.md")
    assert len(found) == 4
    run(found[number], "docs/optimizer.md", {})


PAGES = [path for folder in (".", "docs", "results") for path in (ROOT / folder).glob("*.md")]


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings, as GitHub derives them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_local_links_lead_somewhere():
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", page.read_text()):
            if not target.startswith("http"):
                path = page.parent / target if target else page
                assert path.exists(), (page, target)
                assert not anchor or anchor in anchors(path), (page, target, anchor)
