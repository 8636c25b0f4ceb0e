"""Docstrings say what a thing is or does, in its first word."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
UNCLEAR = re.compile(r"(Of|What|How|Whoever|The same)\b")


def docstrings(source: str) -> list[tuple[int, str]]:
    tree = ast.parse(source)
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [(node, ast.get_docstring(node)) for node in ast.walk(tree) if isinstance(node, kinds)]
    return [(getattr(node, "lineno", 1), text) for node, text in found if text]


def unclear(source: str) -> list[tuple[int, str]]:
    return [(line, text.splitlines()[0]) for line, text in docstrings(source) if UNCLEAR.match(text)]


def test_no_docstring_begins_with_a_word_that_has_to_be_decoded():
    files = [path for folder in ("src", "benchmarks", "examples", "docs") for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 100
    found = [f"{path.relative_to(ROOT)}:{line}: {text}" for path in files for line, text in unclear(path.read_text())]
    assert found == []


def test_the_check_notices():
    source = '"""What is here."""\ndef f():\n    """Often right."""\nclass C:\n    """The same, but faster."""\n'
    assert [line for line, _ in unclear(source)] == [1, 4]
