"""`tnlpad doctor`: print versions and devices, for bug reports, and name what is missing."""

import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import Any

import typer

from tnlpad import __version__
from tnlpad.cli.options import AsJson
from tnlpad.cli.output import print_json, say

NOT_INSTALLED = (
    "tnlpad is not installed, so its requirements are unknown. Run: python -m pip install -e . in the folder of its "
    "pyproject.toml"
)


def doctor(as_json: AsJson = False) -> None:
    """Print versions and devices. Exits with 1 if a required package is missing."""
    say("Loading torch.")
    wanted = _requirements()
    dependencies = [_dependency(text) for text in wanted or []]
    torch = _torch()
    report = {
        "tnlpad": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "dependencies": dependencies,
        "torch": torch,
        "problems": [*([] if wanted else [NOT_INSTALLED]), *_problems(dependencies, torch)],
    }
    if as_json:
        print_json(report)
    else:
        _print_report(report)
    if report["problems"]:
        raise typer.Exit(1)


def _requirements() -> list[str] | None:
    """Return what the package requires; None if it is used without being installed."""
    try:
        return requires("tnlpad")
    except PackageNotFoundError:
        return None


def _dependency(text: str) -> dict[str, Any]:
    """Compare a requirement of the package, such as 'pytest>=8; extra == "dev"', with what is installed."""
    from packaging.requirements import Requirement

    requirement = Requirement(text)
    try:
        installed: str | None = version(requirement.name)
    except PackageNotFoundError:
        installed = None
    return {
        "name": requirement.name,
        "wanted": str(requirement.specifier),
        "extra": _extra(str(requirement.marker or "")),
        "installed": installed,
        "ok": installed is not None and requirement.specifier.contains(installed, prereleases=True),
    }


def _extra(marker: str) -> str | None:
    found = re.search(r"extra == \"([\w.-]+)\"", marker)
    return found[1] if found else None


def _torch() -> dict[str, Any]:
    """Return the devices that torch finds, or the error if it cannot be imported."""
    try:
        import torch
    except Exception as error:  # a broken installation of torch can raise anything
        return {"error": f"{type(error).__name__}: {error}"}
    devices: list[dict[str, Any]] = []
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        try:
            properties = torch.cuda.get_device_properties(index)
        except Exception as error:  # such as a GPU that is busy, or whose driver does not fit
            devices.append({"name": f"GPU {index}", "error": f"{type(error).__name__}: {error}"})
        else:
            devices.append({"name": properties.name, "memory_gib": round(properties.total_memory / 2**30, 1)})
    return {
        "cpu_threads": torch.get_num_threads(),
        "cuda_build": torch.version.cuda,
        "cuda_devices": devices,
        "triton": find_spec("triton") is not None,
    }


def _problems(dependencies: list[dict[str, Any]], torch: dict[str, Any]) -> list[str]:
    """List what keeps tnlpad from working, each with a remedy. Missing extras are no problem."""
    problems = []
    for each in dependencies:
        if not each["ok"] and each["extra"] is None:
            state = "is missing" if each["installed"] is None else f"is {each['installed']}, which is too old"
            problems.append(f'{each["name"]} {state}. Run: python -m pip install "{each["name"]}{each["wanted"]}"')
    if "error" in torch:
        problems.append(f"torch cannot be imported ({torch['error']}). Install it again; see https://pytorch.org")
    return problems


def _print_report(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"tnlpad {report['tnlpad']}, python {report['python']}, {report['platform']}", soft_wrap=True)
    table = Table("package", "installed", "wanted", "for")
    for (name, wanted), each in _by_package(report["dependencies"]).items():
        uses = ", ".join("tnlpad" if one["extra"] is None else f"[{one['extra']}]" for one in each)
        installed = each[0]["installed"] or "–"
        mark = "" if each[0]["ok"] else (" missing" if each[0]["installed"] is None else " too old")
        table.add_row(name, f"{installed}{mark}", wanted or "any", uses.replace("[", r"\["))
    console.print(table)
    for line in (*_device_lines(report["torch"]), *report["problems"]):
        console.print(line, soft_wrap=True, markup=False)
    absent = sorted({each["extra"] for each in report["dependencies"] if each["extra"] and not each["ok"]})
    if absent:
        console.print(f"Optional: python -m pip install 'tnlpad[{','.join(absent)}]'", soft_wrap=True, markup=False)
    if not report["problems"]:
        console.print("Everything required is installed.")


def _by_package(dependencies: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Group equal requirements: the extra `dev` repeats those of the others."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for each in dependencies:
        found.setdefault((each["name"], each["wanted"]), []).append(each)
    return found


def _device_lines(torch: dict[str, Any]) -> list[str]:
    if "error" in torch:
        return []
    lines = [f"CPU: {torch['cpu_threads']} {'thread' if torch['cpu_threads'] == 1 else 'threads'}"]
    for each in torch["cuda_devices"]:
        what = f"cannot be used ({each['error']})" if "error" in each else f"{each['memory_gib']} GiB"
        lines.append(f"CUDA: {each['name']}, {what}")
    if not torch["cuda_devices"]:
        build = (
            f"built for CUDA {torch['cuda_build']}" if torch["cuda_build"] else "a CPU build; see https://pytorch.org"
        )
        lines.append(f"CUDA: no device (this torch is {build})")
    fused = "present" if torch["triton"] else "absent; only the fused CUDA update needs it (it comes with CUDA builds)"
    lines.append(f"triton: {fused}")
    return lines
