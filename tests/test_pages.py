"""Every HTML page that is written or served has a strict policy."""

import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "tnlpad"
PAGES = sorted(path for path in SOURCE.rglob("*.html*") if "<!doctype" in path.read_text().lower())
POLICY = re.compile(r'<meta charset="utf-8">\s*<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_policy_allows_no_other_host_and_no_other_script(path):
    if path.parent.name == "static":  # served, with its policy in a header
        from tnlpad.review.server import HEADERS

        policy = HEADERS["Content-Security-Policy"]
    else:
        policy = POLICY.search(path.read_text()).group(1)  # before everything that it is about
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert {rules[name] for name in ("default-src", "base-uri", "form-action")} == {"'none'"}
    allowed = {"'none'", "'self'", "data:", "'{{ script | digest }}'"}
    assert {rule for name, rule in rules.items() if name != "style-src"} <= allowed
    assert rules["style-src"] in ("'self'", "'unsafe-inline'")


def test_all_pages_are_known():
    names = {"demo.html.j2", "results.html.j2", "suspects.html.j2", "audit.html.j2", "index.html"}
    assert {path.name for path in PAGES} == names
