"""The tree in CONTRIBUTING.md lists the folders that exist."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def listed() -> set[str]:
    """Folders of the tree, each with its parents by indentation."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    tree = text[text.index("```\nsrc/tnlpad/") :].split("```")[1]
    found, parents = set(), {}
    for line in tree.strip().splitlines():
        indent, name = re.match(r"( *)(\S+)", line).groups()
        parents[len(indent)] = name
        path = "".join(
            parents[depth] for depth in sorted(parents) if depth <= len(indent) and parents[depth].endswith("/")
        )
        if name.endswith("/"):
            found.add(path)
        parents = {depth: parent for depth, parent in parents.items() if depth <= len(indent)}
    return found


def test_the_tree_lists_every_folder_and_no_other():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    if not tracked:
        pytest.skip("not a git checkout")
    folders = {f"{parent}/" for name in tracked.splitlines() for parent in Path(name).parents if str(parent) != "."}
    kept = {name for name in folders if not name.startswith(("tests/", ".ci/")) and "/templates/" not in name}
    assert listed() - {"tests/"} == kept - {"src/"}


@pytest.mark.long
def test_the_files_of_a_command_are_counted():
    words = [sys.executable, "-m", "benchmarks.files_per_command"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    assert counts["a TNLPAD step"] < counts["suspects RUN"] < counts["suspects RUN --out FOLDER"]
    assert counts["suspects RUN --out FOLDER"] < counts["train FOLDER"]
