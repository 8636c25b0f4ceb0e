"""Imports point one way: the table below says which folder may import which."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tnlpad

SOURCE = Path(tnlpad.__file__).parent

# Small and without torch, for everyone.
SHARED = {
    "types",
    "errors",
    "suggestions",
    "atomic_files",
    "spreadsheets",
    "json_text",
    "regular_files",
    "array_files",
    "memory",
    "schema",
}
FOUNDATION = SHARED | {"rng", "core", "networks", "records", "paper", "ranks"}
PARTS = FOUNDATION | {"noise", "data", "features", "methods", "training"}
ALLOWED: dict[str, set[str]] = {
    **{name: set() for name in FOUNDATION},
    "memory": {"errors"},
    "array_files": {"errors", "memory", "regular_files"},
    "json_text": {"regular_files"},
    "ranks": {"regular_files"},
    "networks": {"suggestions", "json_text", "schema"},
    "records": {"atomic_files", "errors", "json_text", "regular_files", "array_files", "memory", "schema"},
    "noise": {"rng"} | SHARED,
    "data": {"rng", "ranks"} | SHARED,
    "features": SHARED | {"data", "networks", "ranks"},
    "methods": {"types", "core", "ranks"},
    "training": {"types", "atomic_files", "memory", "methods", "core", "ranks"},
    "runs": PARTS,
    "paper_figures": PARTS | {"runs"},
    "grid": PARTS | {"runs", "paper_figures"},
    "progress": {"data"},
    "suspects": SHARED | {"records", "data"},
    "review": SHARED | {"records", "data", "features", "suspects"},
    "report": {"records", "paper", "atomic_files", "spreadsheets"},
    "integrations": {"core", "records", "training", "runs", "suspects"},
    "result": SHARED | {"records", "data", "runs", "suspects"},
    "fitting": SHARED | {"progress", "data", "features", "runs", "suspects", "result"},
    "cli": PARTS
    | {"progress", "runs", "grid", "paper_figures", "suspects", "review", "report", "integrations", "interrupts"},
    "interrupts": set(),
    "__main__": {"cli", "interrupts"},
}
# Names that the package itself exports, by the folder that defines them.
OFFERED = {name: home.split(".")[1] for name, home in tnlpad._HOME.items()}
WITHOUT_TORCH = {"report", "records", "paper", "suspects", "review"}
# Modules of another layer that a layer may import although it may not import the rest: formulas without torch.
SINGLE_MODULES = {"report": "tnlpad.core.penalties."}


def layer(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def imported(path: Path) -> list[str]:
    """Return the dotted names that a module imports, also inside functions, with relative imports made absolute."""
    package = ("tnlpad", *path.relative_to(SOURCE).parent.parts)
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            base = ".".join(part for part in (start, node.module) if part)
            names += [f"{base}.{alias.name}" for alias in node.names]
    return names


def layers_of_ours(names: list[str]) -> set[str]:
    ours = {name.split(".")[1] for name in names if name.startswith("tnlpad.")}
    return {OFFERED.get(name, name) for name in ours} - {"__version__"}


def violations(path: Path) -> set[str]:
    single = SINGLE_MODULES.get(layer(path), ())
    names = [name for name in imported(path) if not name.startswith(single)]
    return layers_of_ours(names) - ALLOWED[layer(path)] - {layer(path)}


def test_imports_point_one_way():
    paths = modules()
    assert len(paths) > 100  # a check over no files passes as well
    assert {layer(path) for path in paths} == set(ALLOWED), "decide what a new folder may import"
    assert {str(path.relative_to(SOURCE)): found for path in paths if (found := violations(path))} == {}


def test_reports_and_records_do_not_import_torch():
    paths = [path for path in modules() if layer(path) in WITHOUT_TORCH]
    assert [path for path in paths if "torch" in {name.split(".")[0] for name in imported(path)}] == []


@pytest.mark.parametrize(
    ("module", "line", "found"),
    [
        ("core/x.py", "from tnlpad.noise.corrupt import corrupt", {"noise"}),
        ("core/x.py", "from tnlpad.core.parts import Parts", set()),
        ("core/x.py", "from ..types import Split", {"types"}),
        ("noise/x.py", "from .transition import checked", set()),
        ("noise/x.py", "import tnlpad.core.split", {"core"}),
        ("noise/x.py", "def f():\n    from tnlpad import Decomposition", {"core"}),
        ("report/x.py", "from tnlpad import runs", {"runs"}),
        ("report/x.py", "from tnlpad import __version__", set()),
        ("report/x.py", "from tnlpad.core.penalties import PowerDecay", set()),
        ("report/x.py", "from tnlpad.core.parts import Parts", {"core"}),
        ("types.py", "from tnlpad.rng import numpy_stream", {"rng"}),
        ("runs/x.py", "from tnlpad import Decomposition", set()),
    ],
)
def test_the_check_notices(tmp_path, monkeypatch, module, line, found):
    monkeypatch.setattr(f"{__name__}.SOURCE", tmp_path)
    path = tmp_path / module
    path.parent.mkdir(exist_ok=True)
    path.write_text(line)
    assert violations(path) == found


@pytest.mark.parametrize(
    "code",
    [
        "import tnlpad",
        "import tnlpad.cli",
        "import sys; sys.argv = ['tnlpad', '--help']; from tnlpad.cli import app; app(standalone_mode=False)",
    ],
)
def test_nothing_heavy_before_it_is_needed(code):
    heavy = "torch numpy sklearn matplotlib jinja2"
    check = f"{code}\nimport sys; sys.exit(' '.join(set('{heavy}'.split()) & set(sys.modules)) or None)"
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_check_reads_data_before_it_loads_torch(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    check = (
        "import sys\nfrom tnlpad.cli import app\n"
        f"try: app(['check', {str(tmp_path / 'x.csv')!r}])\n"
        "except SystemExit as end: sys.exit(100 if 'torch' in sys.modules else end.code)"
    )
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert (result.returncode, "no column `label`" in result.stderr) == (3, True)


def test_reports_and_records_load_neither_torch_nor_pyplot():
    paths = [path.relative_to(SOURCE) for path in modules() if layer(path) in ("report", "records", "paper")]
    names = sorted(f"tnlpad.{'.'.join(path.with_suffix('').parts)}".removesuffix(".__init__") for path in paths)
    assert len(names) > 20
    check = (
        f"import importlib, sys\nfor name in {names}: importlib.import_module(name)\n"
        "sys.exit(' '.join({'torch', 'sklearn', 'matplotlib.pyplot'} & set(sys.modules)) or None)"
    )
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
