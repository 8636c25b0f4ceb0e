"""Writes src/tnlpad/experiments/step_times.json, from which `tnlpad reproduce` estimates how long runs take.

Steps come from `steps-DEVICE.json` in the records. A device without one has its single measured step, that of ResNet-18
in `optimizer_step-DEVICE.json`, scaled by the multiply-adds of the other networks, but to no less than a tenth: small
networks are limited by other things. What a method costs comes from `methods-DEVICE.json`, else from the number of its
networks.

    python -m benchmarks.step_times
"""

import json
from pathlib import Path
from typing import Any

from benchmarks.methods import floor
from benchmarks.steps import multiply_adds, recipes
from tnlpad.methods import METHODS

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "benchmarks" / "records"
TARGET = ROOT / "src" / "tnlpad" / "experiments" / "step_times.json"


def record(benchmark: str, device: str) -> dict[str, Any] | None:
    path = RECORDS / f"{benchmark}-{device}.json"
    return json.loads(path.read_text()) if path.exists() else None


def scaled(reference: dict[str, Any]) -> list[dict[str, Any]]:
    """Every recipe's step from that of ResNet-18 on CIFAR images."""
    known = {"network": reference["network"], "channels": 3, "side": 32, "classes": 10, "batch": reference["batch"]}
    step_ms, work = reference["step_ms"]["standard"], multiply_adds(known) * known["batch"]
    return [each | {"step_ms": step_ms * max(0.1, multiply_adds(each) * each["batch"] / work)} for each in recipes()]


def times(device: str) -> dict[str, Any]:
    measured, single, methods = (record(name, device) for name in ("steps", "optimizer_step", "methods"))
    source = measured or single
    if source is None:
        raise FileNotFoundError(f"{RECORDS} has neither steps-{device}.json nor optimizer_step-{device}.json.")
    basis = "measured" if measured else f"{source['network']} measured, others scaled by their multiply-adds"
    costs = {name: methods["over_standard"][name]["median"] if methods else floor(name) for name in METHODS}
    return {
        "machine": source["machine"],
        "engine": source["engine"],
        "basis": basis + ("" if methods else "; methods by their number of networks"),
        "steps": measured["steps"] if measured else scaled(source),
        "methods": costs,
    }


def content() -> str:
    document = {"written_by": "python -m benchmarks.step_times", **{name: times(name) for name in ("cpu", "cuda")}}
    return json.dumps(document, indent=1) + "\n"


if __name__ == "__main__":
    TARGET.write_text(content())
