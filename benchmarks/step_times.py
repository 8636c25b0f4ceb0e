"""Write src/tnlpad/grid/step_times.json, from which `tnlpad reproduce` estimates how long runs take.

Steps come from the records `steps-DEVICE.json` or `networks-DEVICE.json`. For what they lack, the single step in
`optimizer_step-DEVICE.json`, that of ResNet-18, is scaled by the multiply-adds of the other networks, but to no less
than a tenth: other costs limit small networks. The step time on a shared GPU comes from the packed runs in
`networks-DEVICE.json` and `training*-DEVICE.json`: the images per second of all of them together. The cost of a method
comes from `methods-DEVICE.json`, or else from its number of networks. The cost of a semi-supervised method follows from
its passes. The speed of decoding photographs comes from `loader-cpu.json`.

    python -m benchmarks.step_times
"""

import json
from pathlib import Path
from typing import Any

from benchmarks.methods import NAMES, floor
from benchmarks.steps import multiply_adds, recipes
from tnlpad.paper.cells import cells
from tnlpad.runs.config import configure
from tnlpad.runs.recipes import DIVIDEMIX, SELF

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "benchmarks" / "records"
TARGET = ROOT / "src" / "tnlpad" / "grid" / "step_times.json"

# In steps of plain training on the loader's batch, of which a third is forward. SELF: a step on twice the batch, and a
# forward pass of the teacher on as much. DivideMix, for each of two networks: a step on twice the batch, a forward pass
# on twice and one on once the batch.
PASSES = {**dict.fromkeys(SELF, 2 + 2 / 3), **dict.fromkeys(DIVIDEMIX, 2 * (2 + 2 / 3 + 1 / 3))}


def record(benchmark: str, device: str) -> dict[str, Any] | None:
    path = RECORDS / f"{benchmark}-{device}.json"
    return json.loads(path.read_text()) if path.exists() else None


def scaled(reference: dict[str, Any]) -> list[dict[str, Any]]:
    """Every recipe's step from that of ResNet-18 on CIFAR images."""
    known = {"network": reference["network"], "channels": 3, "side": 32, "classes": 10, "batch": reference["batch"]}
    step_ms, work = reference["step_ms"]["standard"], multiply_adds(known) * known["batch"]
    return [each | {"step_ms": step_ms * max(0.1, multiply_adds(each) * each["batch"] / work)} for each in recipes()]


def shared(device: str, costs: dict[str, float]) -> list[dict[str, Any]]:
    """By how many run at once, the time of the GPU that a step of each takes, as of plain training."""
    sharing = []
    for path in sorted(RECORDS.glob(f"training*-{device}.json")):
        found = json.loads(path.read_text())
        words = found["command"].split()
        method = words[words.index("--method") + 1] if "--method" in words else "tnlpad"
        for task, ways in found.get("packed", {}).items():
            config = configure(task, noise="symmetric:0.4")
            step = next(
                each for each in recipes() if each["network"] == config.network and each["batch"] == config.batch_size
            )
            for measured in sorted(ways, key=lambda each: each["images_per_second"]):
                step_ms = 1000 * config.batch_size / measured["images_per_second"] / costs[method]
                sharing.append(step | {"at_once": measured["runs"], "step_ms": step_ms})
    return of_networks(device) + sharing  # of two times for one step, the later one is used


def of_networks(device: str) -> list[dict[str, Any]]:
    """Return the measured steps of networks as of plain training, alone and packed."""
    found, steps = record("networks", device), []
    for measured in (found or {"networks": {}})["networks"].values():
        step = {name: measured[name] for name in ("network", "channels", "side", "batch", "classes")}
        steps.append(step | {"at_once": 1, "step_ms": measured["step_ms"]["standard"]})
        for packed in sorted(measured["packed"], key=lambda each: each["images_per_second"]):  # the fastest comes last
            tnlpad_ms = 1000 * step["batch"] / packed["images_per_second"]
            of_standard = tnlpad_ms / measured["tnlpad_over_standard"]["median"]
            steps.append(step | {"at_once": packed["runs"], "step_ms": of_standard})
    return steps


def times(device: str) -> dict[str, Any]:
    measured, single, methods = (record(name, device) for name in ("steps", "optimizer_step", "methods"))
    source = measured or single
    if source is None:
        raise FileNotFoundError(f"{RECORDS} has neither steps-{device}.json nor optimizer_step-{device}.json.")
    costs = {name: methods["over_standard"][name]["median"] if methods else floor(name) for name in NAMES}
    sharing = shared(device, costs)
    if measured:
        words = ["measured step times"]
    else:
        known = {source["network"], *(step["network"] for step in sharing)}
        others = {each["network"] for each in recipes()} - known
        words = [f"measured, {' and '.join(sorted(others))} scaled by multiply-adds" if others else "measured"]
    words += [] if methods else ["other methods by their number of networks"]
    words.append("SELF and DivideMix by their passes, larger batches in proportion")
    alone = with_larger_batches(measured["steps"] if measured else scaled(source))
    return {
        "machine": source["machine"],
        "engine": source["engine"],
        "basis": "; ".join(words),
        "steps": list({shape(step): step for step in ([each | {"at_once": 1} for each in alone] + sharing)}.values()),
        "methods": costs | PASSES,
    }


def shape(step: dict[str, Any]) -> tuple[Any, ...]:
    """Return the key of a step; of two times for one key, the later one, which is measured, wins."""
    return tuple(step[name] for name in ("network", "channels", "side", "batch", "classes", "at_once"))


def with_larger_batches(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With those steps that a semi-supervised method takes and plain training does not."""
    added: list[dict[str, Any]] = []
    for cell in cells("semi_supervised"):
        config = configure(cell.dataset, noise=cell.noise, method=cell.method, network=cell.network)
        like = [each for each in steps if each["network"] == config.network and each["side"] == 32]
        if all(each["batch"] != config.batch_size for each in (*like, *added)):
            more = config.batch_size / like[0]["batch"]
            added.append(like[0] | {"batch": config.batch_size, "step_ms": more * like[0]["step_ms"]})
    return steps + added


def decoding() -> dict[str, Any]:
    """Photographs that a core decodes per second: half of what two threads of the streaming loader do together."""
    measured = json.loads((RECORDS / "loader-cpu.json").read_text())
    rate = measured["images_per_second"]["stream_loader"] / 2
    return {"machine": measured["machine"], "images_per_second_and_core": rate}


def content() -> str:
    devices = {name: times(name) for name in ("cpu", "cuda")}
    document = {"written_by": "python -m benchmarks.step_times", "decoding": decoding(), **devices}
    return json.dumps(document, indent=1) + "\n"


if __name__ == "__main__":
    TARGET.write_text(content())
