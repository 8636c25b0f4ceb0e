"""Overhead of a grid: planning over finished records, and the driver's share of each run.

- plan: a plan of 10,000 runs, all finished but one, so that the time left is estimated from all records as well
- driver: 1,000 runs through the local executor, in processes, with a stub instead of training that writes a summary

    python -m benchmarks.grid [--records 10000] [--runs 1000] [--jobs 2] [--save record.json]
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from benchmarks.machine import leave, machine, versions
from tnlpad.grid.executors import Outcome, execute
from tnlpad.grid.grid import Job, Result, job_folder, run_grid
from tnlpad.grid.reproduce import experiments, plan, plan_status
from tnlpad.runs.config import RunConfig, configure

SIMULATED_CELLS = 288


def finish(run_id: str, config: dict[str, object], out: Path) -> None:
    """A finished run's files, as large as real ones."""
    folder = out / run_id
    folder.mkdir(parents=True)
    epochs = int(str(config["epochs"]))
    judged = {name: {"test_accuracy": 0.9, "test_loss": 0.3, "memorised": 0.1} for name in ("sigma", "w")}
    epoch = {"epoch": 1, "validation_accuracy": 0.8, "test_accuracy": 0.9, "judged": judged}
    summary = {
        "run_id": run_id,
        "config": config,
        "settings": {},
        "chosen": epoch,
        "last": epoch,
        "selection": "first epoch of the highest noisy validation accuracy",
        "epochs_run": epochs,
        "seconds": {"this_process": 100.0, "epochs": 100.0},
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    lines = (json.dumps({**epoch, "epoch": number}) + "\n" for number in range(1, epochs + 1))
    (folder / "epochs.jsonl").write_text("".join(lines))
    (folder / "model.safetensors").write_bytes(b"")
    (folder / "summary.json").write_text(json.dumps(summary, indent=1))


def stub(job: Job) -> Result:
    """In place of training."""
    finish(job.run_id, job.config, job_folder(job).parent)
    return Result("done", test_accuracy=0.9, seconds=0.0)


def planning_seconds(records: int) -> dict[str, float]:
    every = experiments("simulated")
    seeds = range(1, records // SIMULATED_CELLS + 2)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        planned = plan(every, seeds=seeds)[:records]
        for each in planned:
            finish(each.config.run_id, each.config.to_json(), out)
        shutil.rmtree(out / planned[-1].config.run_id)
        os.sync()
        began = time.perf_counter()
        planned = plan(every, seeds=seeds)[:records]
        configured = time.perf_counter()
        seen = plan_status(planned, out, "cpu")
        ended = time.perf_counter()
        assert [each.state for each in seen].count("done") == records - 1
        assert seen[-1].known_from == "like runs"
    return {"configure": configured - began, "look": ended - configured}


def driver_milliseconds(runs: int, jobs: int) -> float:
    def with_stub(
        function: Callable[[Job], Result], given: Sequence[Job]
    ) -> Generator[Outcome[Job, Result], None, None]:
        return execute(stub, given, workers=jobs)

    configs: list[RunConfig] = [configure("digits", noise="symmetric:0.4", seed=seed) for seed in range(runs)]
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        ended = sum(each.failure is None for each in run_grid(configs, Path(folder), execute=with_stub))
        spent = time.process_time() - began
    assert ended == runs
    return 1000 * spent / runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--save", type=Path, help="write the record as JSON to this file")
    arguments = parser.parse_args()
    began = time.perf_counter()
    spent = driver_milliseconds(arguments.runs, arguments.jobs)
    wall = time.perf_counter() - began
    planning = planning_seconds(arguments.records)
    print(f"{arguments.runs:,} runs, {arguments.jobs} at once: {spent:.2f} ms of the driver each; {wall:.1f} s in all")
    print(
        f"{arguments.records:,} finished records: {sum(planning.values()):.2f} s "
        f"({planning['configure']:.2f} to configure, {planning['look']:.2f} to look)"
    )
    record: dict[str, object] = {
        "benchmark": "grid",
        "device": "cpu",
        "machine": machine("cpu"),
        "versions": versions(),
        "runs": arguments.runs,
        "records": arguments.records,
        "driver_ms_per_run": spent,
        "wall_ms_per_run": 1000 * wall / arguments.runs,
        "planning_seconds": planning,
        "command": f"python -m benchmarks.grid --records {arguments.records} --runs {arguments.runs} "
        f"--jobs {arguments.jobs}",
    }
    leave(record, arguments.save)


if __name__ == "__main__":
    main()
